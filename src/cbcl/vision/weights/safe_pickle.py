"""Pickles that others wrote, read without obeying them: a pickle may name any function of any module.

The readers know a dozen names, for which they have stand-ins of their own, and refuse every other.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from cbcl.errors import WeightsError

MAX_STEPS = (
    1_000_000  # of a pickle: each makes an object of a few dozen bytes, besides what it reads
)


class Refused(Exception):
    """What is wrong with a file, in words that follow its name."""


@contextmanager
def naming(source: object, way_out: str) -> Iterator[None]:
    """Whatever goes wrong inside is a `WeightsError` that names the source and the way out."""
    try:
        yield
    except WeightsError:
        raise
    except Refused as error:
        raise WeightsError(f"{source} {error}: {way_out}.") from None
    except OSError as error:
        raise WeightsError(
            f"{source} cannot be read ({error.strerror or error}): {way_out}."
        ) from error
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        raise WeightsError(
            f"{source} is damaged or of another kind ({type(error).__name__}: {error}): {way_out}."
        ) from error


def are_counts(numbers: object) -> bool:
    return isinstance(numbers, tuple) and all(
        type(number) is int and number >= 0 for number in numbers
    )


def known_name(known: Mapping[str, object], module: str, name: str, purpose: str) -> object:
    try:
        return known[f"{module}.{name}"]
    except KeyError:
        raise Refused(
            f"asks for {module}.{name}, which a file of {purpose} does not need and which may do harm"
        ) from None


class PickleStream(Protocol):
    def read(self, n: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def seek(self, position: int, /) -> object: ...
    def tell(self) -> int: ...


def next_pickle(stream: PickleStream) -> bytes:
    """The pickle at this place of the stream, none of whose steps asks for much more memory than it has bytes."""
    start = stream.tell()
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
        # The unpickler makes room up to the highest number of its memo, and writers number objects one by one.
        number = int(argument or 0) if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") else 0
        if number > step or step > MAX_STEPS or opcode.name.startswith("EXT"):
            raise Refused(
                f"is no plain collection of tensors: its pickle has {opcode.name} as step {step}"
            )
    end = stream.tell()
    stream.seek(start)
    return stream.read(end - start)
