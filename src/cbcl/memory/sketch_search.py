"""Search for sketches among those of all classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cbcl.method.statistics import NO_SKETCHES, Sketches

TABLE_SIZE = 1 << 16


def find_owners(wanted: Iterable[int], parts: Sequence[Sketches]) -> dict[int, int]:
    """Return the number of the first part that holds each sketch; one in none is left out.

    >>> parts = [np.uint64([7, 8]), np.uint64([8, 9])]
    >>> find_owners([6, 8, 9], parts)
    {8: 0, 9: 1}
    """
    sought = np.array(sorted({int(own) for own in wanted}), dtype=np.uint64)
    everything = np.concatenate([NO_SKETCHES, *parts])
    # Only those with the same low bits as one that is sought are compared in full.
    table = np.zeros(TABLE_SIZE, dtype=bool)
    table[sought % TABLE_SIZE] = True
    places = np.flatnonzero(table[everything.astype(np.uint16)])
    places = places[np.isin(everything[places], sought)]
    ends = np.cumsum([len(part) for part in parts])
    owners = np.searchsorted(ends, places, side="right")
    first: dict[int, int] = {}
    for own, owner in zip(everything[places].tolist(), owners.tolist(), strict=True):
        first.setdefault(own, owner)
    return first
