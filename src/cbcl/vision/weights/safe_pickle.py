"""Pickles of unknown origin, read without running them: a pickle may call any function.

The readers resolve a dozen globals to stand-ins of their own, and refuse all others.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from mmap import mmap
from typing import Any

from cbcl.errors import Subject, WeightsError, reason

MAX_OPCODES = 1_000_000  # of a pickle: each makes an object of a few dozen bytes
MAX_NESTING = 100  # objects within objects; a module of torch, which nests deepest, has about 20
MAX_UNFOLDED = 10_000_000  # objects in others; a shared object counts at each of its places

FRAME_BYTES = 9  # of the opcode FRAME and its argument
PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
GETS = ("GET", "BINGET", "LONG_BINGET")
CHANGES = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")


class FileFormatError(Exception):
    """The content of a file is invalid or unsafe; the text continues a sentence after its name."""


@contextmanager
def convert_errors(subject: Subject, advice: str) -> Iterator[None]:
    """Convert every error inside to a `WeightsError` about the subject, with this advice."""
    try:
        yield
    except WeightsError:
        raise
    except FileFormatError as error:
        raise WeightsError(subject, str(error), advice) from None
    except OSError as error:
        raise WeightsError(subject, f"cannot be read ({reason(error)})", advice) from error
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        raise WeightsError(subject, "is damaged or of another kind", advice) from error


def are_non_negative_ints(values: object) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and value >= 0 for value in values)


def resolve_global(known: Mapping[str, object], module: str, name: str, purpose: str) -> object:
    """Return the stand-in for a global that a pickle names."""
    try:
        return known[f"{module}.{name}"]
    except KeyError:
        wanted = f"{module}.{name}"
        shown = wanted if wanted.isprintable() else repr(wanted)
        raise FileFormatError(
            f"asks for {shown}, which a file of {purpose} does not need and which may do harm"
        ) from None


def read_pickle_bytes(stream: BytesIO | mmap) -> bytes:
    """Return the pickle that begins here, unless it takes much more memory to load than it has.

    No object that it makes is too deep or too large to be hashed, compared or printed. Frames are
    left out: where one ends within an opcode, the unpickler would read opcodes that nobody checked.
    """
    start = stream.tell()
    simulation = _Simulation()
    frames: list[int] = []
    for step, (opcode, argument, place) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
        # The unpickler allocates its memo up to the highest index; writers count up by one.
        index = int(argument or 0) if opcode.name in PUTS else 0
        if index > step or step > MAX_OPCODES or opcode.name.startswith("EXT"):
            raise _not_plain(f"its pickle has {opcode.name} as step {step}")
        simulation.run(opcode, argument)
        if opcode.name == "FRAME" and place is not None:
            frames.append(place - start)
    end = stream.tell()
    stream.seek(start)
    data = stream.read(end - start)
    starts = [0, *(place + FRAME_BYTES for place in frames)]
    ends = [*frames, len(data)]
    return b"".join(data[first:last] for first, last in zip(starts, ends, strict=True))


class _Measure:
    """Depth of an object that a pickle makes, and its size if it shared nothing."""

    __slots__ = ("depth", "is_part", "size")

    def __init__(self) -> None:
        self.depth = 1
        self.size = 1
        self.is_part = False

    def add(self, parts: Sequence[_Measure]) -> None:
        for part in parts:
            part.is_part = True
            self.depth = max(self.depth, part.depth + 1)
            self.size += part.size


class _Simulation:
    """An unpickler that measures objects instead of making them.

    The unpickler itself is safe at any depth. But hashing a tuple recurses in C without a limit,
    and into a shared object at each of its places: a few bytes crash Python, or keep it busy for
    years.
    """

    def __init__(self) -> None:
        self.stack: list[_Measure | None] = []  # None: a mark
        self.memo: dict[int, _Measure] = {}
        self.unfolded = 0

    def run(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        name = opcode.name
        if name in PUTS or name == "MEMOIZE":
            index = len(self.memo) if name == "MEMOIZE" else int(argument)
            (self.memo[index],) = self._top(1)
        elif name in GETS:
            self.stack.append(self.memo[int(argument)])
        elif name == "DUP":
            self.stack += self._top(1)
        elif name == "MARK":
            self.stack.append(None)
        elif name == "POP":
            self.stack.pop()
        else:
            operands = self._pop(opcode.stack_before)
            if opcode.stack_after:
                self.stack.append(self._put_together(name, operands))

    def _top(self, count: int) -> list[_Measure]:
        values = self.stack[len(self.stack) - count :]
        measures = [value for value in values if value is not None]
        if len(measures) != count:
            raise FileFormatError("is damaged: its pickle takes an object that is not there")
        return measures

    def _pop(self, kinds: Sequence[pickletools.StackObject]) -> list[_Measure]:
        """Take the operands of an opcode; the last may be all objects since the mark."""
        since_mark = list[_Measure]()
        if pickletools.markobject in kinds:
            kinds = kinds[: kinds.index(pickletools.markobject)]
            while (value := self.stack.pop()) is not None:
                since_mark.append(value)
        operands = self._top(len(kinds))
        del self.stack[len(self.stack) - len(kinds) :]
        return operands + since_mark

    def _put_together(self, name: str, operands: Sequence[_Measure]) -> _Measure:
        whole = _Measure()
        parts = operands
        if name in CHANGES:
            whole, *parts = operands
        before = whole.size
        whole.add(parts)
        self.unfolded += whole.size - before
        if whole.depth > MAX_NESTING:
            raise _not_plain(f"it nests objects more than {MAX_NESTING} deep")
        if self.unfolded > MAX_UNFOLDED:
            raise _not_plain(f"it unfolds to more than {MAX_UNFOLDED} objects")
        if name in CHANGES and whole.is_part:
            raise _not_plain("it changes an object that is part of another, or of itself")
        return whole


def _not_plain(problem: str) -> FileFormatError:
    return FileFormatError(f"is not a plain collection of tensors: {problem}")
