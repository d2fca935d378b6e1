"""Examples that are kept of classes learned by the vote, and the classes within a budget."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from cbcl.errors import PictureError
from cbcl.heads.base import FIRST, Picture, Settings, StoredExample
from cbcl.method.centroids.budget import reduce
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Spread
from cbcl.method.centroids.search import Index, nearest

PER_CENTROID = 3  # of the nearest are always kept


class CentroidClass(NamedTuple):
    """A class: its centroids, and how far its pictures were from them when they were learned."""

    concepts: Concepts
    spread: Spread


def select(candidates: Sequence[Picture], concepts: Concepts) -> list[StoredExample]:
    """Return the examples to keep of a class, in the order given, which is that of learning.

    These are the first ones, and those nearest to each centroid.
    """
    if not candidates:
        return []
    vectors = np.stack([candidate.vector for candidate in candidates])
    centroids, distances = (column[:, 0] for column in nearest(vectors, Index([concepts]), 1))
    kept: dict[int, StoredExample] = {}
    ranks = np.zeros(len(concepts.counts), dtype=np.int64)  # the next free, for each centroid
    for i in np.argsort(distances, kind="stable").tolist():
        centroid = int(centroids[i])
        if i >= FIRST and ranks[centroid] >= PER_CENTROID:
            continue
        example = _as_example(candidates[i])
        if example is not None:
            kept[i] = example._replace(place=centroid, rank=int(ranks[centroid]))
            ranks[centroid] += 1
    return [kept[i] for i in sorted(kept)]


def find_changed(
    before: Mapping[str, CentroidClass],
    after: Mapping[str, CentroidClass],
    new: Collection[str],
    settings: Settings,
) -> dict[str, CentroidClass]:
    """Return the classes that are not as before, within the budget: those of `new` shrink last."""
    combined = dict(sorted(after.items()))
    if settings.max_centroids is not None:
        numbers = {number for number, label in enumerate(combined) if label in new}
        every = [known.concepts for known in combined.values()]
        fewer = reduce(every, settings.max_centroids, new=numbers)
        combined = {
            label: known._replace(concepts=concepts)
            for (label, known), concepts in zip(combined.items(), fewer, strict=True)
        }
    return {
        label: known
        for label, known in combined.items()
        if label not in before or known.concepts is not before[label].concepts
    }


def _as_example(candidate: Picture) -> StoredExample | None:
    if isinstance(candidate, StoredExample):
        return candidate
    with suppress(PictureError):  # a file that is gone by now is learned, but cannot be shown
        return StoredExample(0, candidate.thumbnail(), candidate.vector)
    return None
