"""Inputs found by coverage: what reaches a line that no other has reached is mutated further."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import cbcl

MAX_KEPT_BYTES = 1000  # of an input that is mutated further
MAX_WATCHED_CALLS = 20  # of a function, for one input: the rest is much the same
SOURCES = str(Path(cbcl.__file__).parent)

Mutation = Callable[[bytes, list[bytes], random.Random], bytes]


class Coverage:
    """Steps from one line of cbcl to the next that any input has taken so far."""

    def __init__(self) -> None:
        self.steps: set[tuple[CodeType, int, int]] = set()
        self._last: dict[FrameType, int] = {}
        self._calls = Counter[CodeType]()  # of one input

    @contextmanager
    def watch(self) -> Iterator[None]:
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            self._last.clear()
            self._calls.clear()

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(SOURCES):
            return None
        self._calls[code] += 1
        return self._step if self._calls[code] <= MAX_WATCHED_CALLS else None

    def _step(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            line = frame.f_lineno
            self.steps.add((frame.f_code, self._last.get(frame, 0), line))
            self._last[frame] = line
        elif event == "exception":
            self.steps.add((frame.f_code, frame.f_lineno, -1))
        return self._step


class Lineage:
    """A corpus that grows by what its inputs reach; it depends on its random numbers alone."""

    def __init__(
        self, corpus: list[bytes], mutate: Mutation, rng: random.Random, watched: int
    ) -> None:
        self.corpus, self._mutate, self._rng = [*corpus], mutate, rng
        self.coverage = Coverage()
        self._left = watched

    def inputs(self, count: int) -> Iterator[bytes]:
        """Yield the corpus, then mutations of it; the first are watched as they are tried."""
        originals = [*self.corpus][:count]
        yield from originals
        for _ in range(count - len(originals)):
            known = len(self.coverage.steps)
            is_late = self._rng.random() < 0.5  # what was reached last leads furthest
            parent = self._rng.choice(self.corpus[-10:] if is_late else self.corpus)
            data = self._mutate(parent, self.corpus, self._rng)
            yield data
            if len(self.coverage.steps) > known and len(data) <= MAX_KEPT_BYTES:
                self.corpus.append(data)

    def watch(self) -> AbstractContextManager[None]:
        """Watch which lines are reached inside, until enough were watched."""
        self._left -= 1
        return self.coverage.watch() if self._left >= 0 else nullcontext()
