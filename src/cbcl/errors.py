"""Errors of cbcl: one small tree; a bad argument is a `ValueError`.

CBCLError
├── PictureError      a picture cannot be read: broken, too large, of an unsupported format
├── WeightsError      a network cannot be loaded: weights missing, broken, of another network
├── PluginError       a head or a command of another package cannot be loaded
├── BackboneError     a memory was learned through another backbone than the one given
├── MemoryFileError   a memory cannot be opened, read or written: damaged, newer, locked, disk full
│   ├── ChangedError  another process changed it between two reads
│   └── GoneError     it was moved, deleted or replaced while it was open
├── DataError         a data set cannot be loaded: missing, of another layout, damaged
├── WorkerError       workers that embed pictures are lost, or lack a file
├── AppError          an app cannot be exported: no runtime for it, a folder that is not its own
├── ServerError       a server cannot be reached, is not one of cbcl, or refuses a request
│   └── BusyError     it is too busy for a request at the moment
├── LabelError        a label is unknown, taken or invalid; a ValueError, too
└── BudgetError       more classes than centroids to keep; a ValueError, too

An error knows its subject (a name or a path), the problem and the advice; its text is the sentence
made of them. `public` is that sentence without folders: a server does not show where files are.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import ClassVar, TypeAlias

Subject: TypeAlias = str | PathLike[str]  # a name, or the path of a file


class CBCLError(Exception):
    """Something outside the program is not as it should be.

    >>> error = MemoryFileError(Path("/home/ann/things.cbcl"), "is locked", "try again")
    >>> str(error)
    '/home/ann/things.cbcl is locked: try again.'
    >>> error.public
    'things.cbcl is locked: try again.'
    """

    kind: ClassVar[str] = "memory"  # in the server's answers

    def __init__(self, subject: Subject, problem: str = "", advice: str = "") -> None:
        super().__init__(subject, problem, advice)  # as given, so that copies and pickles are equal
        self.subject = subject
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        return self.about(str(self.subject))

    @property
    def public(self) -> str:
        """The sentence with a file's name in place of its path."""
        subject = self.subject
        return self.about(subject if isinstance(subject, str) else Path(subject).name)

    def about(self, subject: str) -> str:
        """Return the sentence with another name for the subject."""
        sentence = f"{subject} {self.problem}".strip().removesuffix(".")
        text = f"{sentence}: {self.advice}" if self.advice else sentence
        return encodable(text if text.endswith("?") else f"{text}.")


class PictureError(CBCLError):
    """A picture cannot be read."""

    kind = "picture"


class WeightsError(CBCLError):
    """A network cannot be loaded."""

    kind = "backbone"


class PluginError(CBCLError):
    """A head or a command of another package cannot be loaded."""


class BackboneError(CBCLError):
    """A memory was learned through another backbone than the one given."""

    kind = "backbone"


class MemoryFileError(CBCLError):
    """A memory cannot be opened, read or written."""


class ChangedError(MemoryFileError):
    """Another process changed the memory between two reads."""


class GoneError(MemoryFileError):
    """The memory was moved, deleted or replaced while it was open."""


class DataError(CBCLError):
    """A data set cannot be loaded."""


class WorkerError(CBCLError):
    """Workers that embed pictures are lost, or lack a file that this machine has."""


class AppError(CBCLError):
    """An app cannot be exported."""


class ServerError(CBCLError):
    """A server cannot be reached, or is not one of cbcl."""


class BusyError(ServerError):
    """A server is too busy for a request; it may be asked again after `seconds`."""

    def __init__(
        self, subject: Subject, problem: str, advice: str = "", seconds: float = 1.0
    ) -> None:
        super().__init__(subject, problem, advice)
        self.args = (*self.args, seconds)
        self.seconds = seconds


class LabelError(CBCLError, ValueError):
    """A label is unknown, taken or invalid."""

    kind = "label"


class BudgetError(CBCLError, ValueError):
    """There are more classes than centroids to keep."""

    kind = "argument"


def encodable(text: str) -> str:
    r"""Return text that UTF-8 can encode: the name of a file may hold other bytes.

    >>> encodable("caf\udce9.cbcl")
    'caf�.cbcl'
    """
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def first_line(error: BaseException) -> str:
    """Return the first line of another library's message, for use inside a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def reason(error: Exception) -> str:
    """Return the operating system's reason for an error in words, without the path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
