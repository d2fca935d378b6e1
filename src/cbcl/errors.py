"""What the world can do to us, one small tree; a bad argument is a `ValueError`.

CBCLError
├── PictureError      a picture that cannot be had: no picture, broken, too large, of a format not read
├── WeightsError      a network that cannot be had: weights missing, broken, of another network
├── MemoryFileError   a memory that cannot be opened, read or written: not one, damaged, newer, locked, no room
├── BackboneError     a memory that was learned through another backbone than the one given
├── DataError         a data set that cannot be had: not there, of another layout, damaged, not to be fetched
└── LabelError        a label that is not known, is taken, or cannot be one; a ValueError, too
"""

from __future__ import annotations


class CBCLError(Exception):
    """Something outside the program is not as it should be; its text says what, and the way out."""


class PictureError(CBCLError):
    """A picture could not be had."""


class WeightsError(CBCLError):
    """A network could not be had."""


class MemoryFileError(CBCLError):
    """A memory could not be opened, read or written."""


class BackboneError(CBCLError):
    """A memory was learned through another backbone than the one given."""


class DataError(CBCLError):
    """A data set could not be had."""


class LabelError(CBCLError, ValueError):
    """A label is not known, is taken, or cannot be one."""


def first_line(error: BaseException) -> str:
    """What another library says, short enough to be part of a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
