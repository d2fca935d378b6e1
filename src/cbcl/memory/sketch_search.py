"""Search for sketches among those of all classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np

from cbcl.method.arrays import Int64s
from cbcl.method.statistics import NO_SKETCHES, Sketches

TABLE_SIZE = 1 << 16
NO_OWNERS: Int64s = np.empty(0, dtype=np.int64)


class SketchIndex:
    """Sketches of all classes, in one array: what a step changes is all that is read again.

    >>> parts = {1: np.uint64([7, 8]), 2: np.uint64([8, 9])}
    >>> index = SketchIndex()
    >>> index.update({1, 2}, parts.__getitem__)
    >>> index.find([6, 8, 9])
    {8: [1, 2], 9: [2]}
    >>> index.update({2}, parts.__getitem__)
    >>> index.find([7, 8])
    {8: [2]}
    """

    def __init__(self) -> None:
        self._rows: Set[int] = set()
        self._sketches, self._owners = NO_SKETCHES, NO_OWNERS

    def update(self, rows: Set[int], read: Callable[[int], Sketches]) -> None:
        """Hold the sketches of these rows and no others; those of new ones are read."""
        new = [*(rows - self._rows)]
        gone = np.array([*(self._rows - rows)], dtype=np.int64)
        parts = [read(row) for row in new]
        is_left = ~np.isin(self._owners, gone)
        owners = np.repeat(np.array(new, dtype=np.int64), [len(part) for part in parts])
        self._sketches = np.concatenate([self._sketches[is_left], *parts])
        self._owners = np.concatenate([self._owners[is_left], owners])
        self._rows = {*rows}

    def find(self, wanted: Iterable[int]) -> dict[int, list[int]]:
        """Return the rows that hold each sketch; one that none holds is left out."""
        sought = np.array(sorted({int(own) for own in wanted}), dtype=np.uint64)
        # Only those with the same low bits as one that is sought are compared in full.
        table = np.zeros(TABLE_SIZE, dtype=bool)
        table[sought % TABLE_SIZE] = True
        places = np.flatnonzero(table[self._sketches.astype(np.uint16)])
        places = places[np.isin(self._sketches[places], sought)]
        found: dict[int, list[int]] = {}
        for own, row in zip(
            self._sketches[places].tolist(), self._owners[places].tolist(), strict=True
        ):
            found.setdefault(own, []).append(row)
        return found
