"""Pickles of unknown origin, read without running them: a pickle may call any function.

The readers resolve a dozen globals to stand-ins of their own, and refuse every other.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from cbcl.errors import Subject, WeightsError, first_line, reason

MAX_OPCODES = 1_000_000  # of a pickle: each makes an object of a few dozen bytes


class FileFormatError(Exception):
    """A file's content is invalid or unsafe. The text follows the file's name in a sentence."""


@contextmanager
def convert_errors(subject: Subject, advice: str) -> Iterator[None]:
    """Raise every error inside as a `WeightsError` about the subject, with this advice."""
    try:
        yield
    except WeightsError:
        raise
    except FileFormatError as error:
        raise WeightsError(subject, str(error), advice) from None
    except OSError as error:
        raise WeightsError(subject, f"cannot be read ({reason(error)})", advice) from error
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        problem = f"is damaged or of another kind ({type(error).__name__}: {first_line(error)})"
        raise WeightsError(subject, problem, advice) from error


def are_non_negative_ints(values: object) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and value >= 0 for value in values)


def resolve_global(known: Mapping[str, object], module: str, name: str, purpose: str) -> object:
    """Return the stand-in for a global that a pickle names."""
    try:
        return known[f"{module}.{name}"]
    except KeyError:
        raise FileFormatError(
            f"asks for {module}.{name}, which a file of {purpose} does not need "
            "and which may do harm"
        ) from None


class PickleStream(Protocol):
    def read(self, n: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def seek(self, position: int, /) -> object: ...
    def tell(self) -> int: ...


def read_pickle_bytes(stream: PickleStream) -> bytes:
    """Return the pickle that begins here, none of whose opcodes needs much more memory than it."""
    start = stream.tell()
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
        # The unpickler allocates its memo up to the highest index; writers count objects by one.
        index = int(argument or 0) if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") else 0
        if index > step or step > MAX_OPCODES or opcode.name.startswith("EXT"):
            raise FileFormatError(
                f"is not a plain collection of tensors: its pickle has {opcode.name} as step {step}"
            )
    end = stream.tell()
    stream.seek(start)
    return stream.read(end - start)
