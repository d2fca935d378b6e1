"""Indexes in RAM that follow the state of a memory: sketches of all classes, labels by spelling.

What a step costs depends on the classes that it changes, and not on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cbcl.memory.state import MemoryState
from cbcl.method.arrays import Int64s
from cbcl.method.discriminant.statistics import NO_SKETCHES, Sketches

MAX_RECENT = 4096  # sketches beside the sorted ones, at least: sorting takes a millisecond
NO_OWNERS: Int64s = np.empty(0, dtype=np.int64)


class SketchIndex:
    """Sketches of all classes, sorted, and beside them those of the latest steps."""

    def __init__(self) -> None:
        self._state: MemoryState | None = None
        self._labels: dict[int, str] = {}  # of the rows that are there
        self._sketches, self._owners = NO_SKETCHES, NO_OWNERS  # sorted; some rows may be gone
        self._recent: dict[int, list[int]] = {}  # rows by sketch, likewise
        self._n_recent = 0

    def follow(self, state: MemoryState, read: Callable[[int, str], Sketches]) -> None:
        """Hold the sketches of a state; those of rows that are new are read."""
        before = {} if self._state is None else self._state.rows
        changes = state.changes_since(self._state)
        gone = [before[label] for label in changes if label in before]
        new = {row: label for label, row in changes.items() if row is not None}
        parts = {row: read(row, label) for row, label in new.items()}
        for row in gone:
            del self._labels[row]
        self._labels |= new
        self._add(parts)
        self._state = state

    def find(self, sketches: Iterable[int]) -> dict[int, set[str]]:
        """Return the labels that hold each sketch; one that none holds is left out."""
        sought = np.array(sorted({int(own) for own in sketches}), dtype=np.uint64)
        starts = np.searchsorted(self._sketches, sought, "left")
        ends = np.searchsorted(self._sketches, sought, "right")
        found: dict[int, set[str]] = {}
        for own, start, end in zip(sought.tolist(), starts, ends, strict=True):
            rows = [*self._owners[start:end].tolist(), *self._recent.get(own, [])]
            if labels := {self._labels[row] for row in rows if row in self._labels}:
                found[own] = labels
        return found

    def _add(self, parts: dict[int, Sketches]) -> None:
        self._n_recent += sum(map(len, parts.values()))
        if self._n_recent > max(MAX_RECENT, len(self._sketches) // 8):
            self._sort(parts)
            return
        for row, sketches in parts.items():
            for own in sketches.tolist():
                self._recent.setdefault(own, []).append(row)

    def _sort(self, parts: dict[int, Sketches]) -> None:
        """Sort all sketches, without those of rows that are gone."""
        recent = [(own, row) for own, rows in self._recent.items() for row in rows]
        numbers = np.repeat([*parts], [len(part) for part in parts.values()])
        recent_sketches = np.array([own for own, _ in recent], dtype=np.uint64)
        recent_owners = np.array([row for _, row in recent], dtype=np.int64)
        sketches = np.concatenate([self._sketches, recent_sketches, *parts.values()])
        owners = np.concatenate([self._owners, recent_owners, numbers])
        is_there = np.isin(owners, [*self._labels])
        order = np.argsort(sketches[is_there], kind="stable")
        self._sketches, self._owners = sketches[is_there][order], owners[is_there][order]
        self._recent, self._n_recent = {}, 0


def spelling(label: str) -> str:
    """Return a label without what people vary: its case, and how many spaces part its words.

    >>> spelling("Tea  Cup")
    'tea cup'
    """
    return " ".join(label.casefold().split())


class SpellingIndex:
    """Labels of a memory by spelling."""

    def __init__(self) -> None:
        self._state: MemoryState | None = None
        self._labels: dict[str, set[str]] = {}

    def follow(self, state: MemoryState) -> None:
        """Hold the labels of a state."""
        for label, row in state.changes_since(self._state).items():
            alike = self._labels.setdefault(spelling(label), set())
            if row is None:
                alike.discard(label)
            else:
                alike.add(label)
        self._state = state

    def find(self, labels: Iterable[str]) -> set[str]:
        """Return all labels that are spelled as one of these."""
        nothing: set[str] = set()
        return nothing.union(*(self._labels.get(spelling(label), nothing) for label in labels))
