"""Examples: pictures that are kept of a class, for people to look at, and to unlearn one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np

from cbcl.errors import PictureError
from cbcl.memory.rows import Settings, StoredClass, StoredExample, StoredStatistics
from cbcl.method.centroids.budget import reduce
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.search import Index, nearest
from cbcl.vision.extraction import EmbeddedPicture

PER_CENTROID = 3  # of the nearest are always kept
FIRST = 100  # of a class are kept, whatever they are near to


def select(
    candidates: Sequence[StoredExample | EmbeddedPicture], concepts: Concepts
) -> list[StoredExample]:
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
            kept[i] = example._replace(centroid=centroid, rank=int(ranks[centroid]))
            ranks[centroid] += 1
    return [kept[i] for i in sorted(kept)]


def most_kept(stored: StoredClass | StoredStatistics) -> int:
    """Return how many examples of a class are ever kept, at most."""
    if isinstance(stored, StoredStatistics):
        return FIRST + len(stored.statistics.views)
    return FIRST + PER_CENTROID * len(stored.concepts.counts)


def of_vote(classes: Mapping[str, StoredClass | StoredStatistics]) -> dict[str, StoredClass]:
    """Return those of some stored classes that were learned by the vote."""
    return {label: stored for label, stored in classes.items() if isinstance(stored, StoredClass)}


def find_changed(
    before: Mapping[str, StoredClass],
    after: Mapping[str, StoredClass],
    new: Collection[str],
    settings: Settings,
) -> dict[str, StoredClass]:
    """Return the classes that are not as before, within the budget: those of `new` shrink last."""
    combined = dict(sorted(after.items()))
    if settings.max_centroids is not None:
        numbers = {number for number, label in enumerate(combined) if label in new}
        every = [stored.concepts for stored in combined.values()]
        fewer = reduce(every, settings.max_centroids, new=numbers)
        combined = {
            label: stored._replace(concepts=concepts)
            for (label, stored), concepts in zip(combined.items(), fewer, strict=True)
        }
    return {
        label: stored
        for label, stored in combined.items()
        if label not in before or stored.concepts is not before[label].concepts
    }


def _as_example(candidate: StoredExample | EmbeddedPicture) -> StoredExample | None:
    if isinstance(candidate, StoredExample):
        return candidate
    with suppress(PictureError):  # a file that is gone by now is learned, but cannot be shown
        return StoredExample(0, candidate.thumbnail(), candidate.vector)
    return None
