"""Changes of classes that answer by the vote, and the examples that are kept of them.

A class keeps the first examples, and those nearest to each centroid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from cbcl.heads.base import (
    FIRST,
    ClassRecord,
    Picture,
    Settings,
    StoredExample,
    as_example,
)
from cbcl.method.centroids.budget import keep_to_limit
from cbcl.method.centroids.concepts import Concepts, cluster, join
from cbcl.method.centroids.confidence import NO_SPREAD, Spread, spread_of
from cbcl.method.centroids.search import Index, nearest

PER_CENTROID = 3  # of the nearest are always kept


class CentroidClass(NamedTuple):
    """A class: its centroids, and how far its pictures were from them when they were learned."""

    concepts: Concepts
    spread: Spread


CentroidRecord: TypeAlias = ClassRecord[CentroidClass]


def as_record(known: CentroidClass, candidates: Sequence[Picture]) -> CentroidRecord:
    """Return a class with the examples to keep of it."""
    return ClassRecord.of(known, _select(candidates, known.concepts))


def join_classes(these: CentroidClass, those: CentroidClass, radius: float) -> CentroidClass:
    concepts = join(these.concepts, those.concepts, radius)
    return CentroidClass(concepts, these.spread + those.spread)


def learn_examples(
    examples: Sequence[StoredExample], before: CentroidClass | None, settings: Settings
) -> CentroidClass:
    """Learn the vectors of examples with a class, or as a new one."""
    vectors = np.stack([example.vector for example in examples])
    concepts = None if before is None else before.concepts
    old_spread = NO_SPREAD if before is None else before.spread
    spread = spread_of(vectors, settings.radius, concepts, old_spread)
    return CentroidClass(cluster(vectors, None, settings.radius, concepts), spread)


def unlearn(
    example: StoredExample,
    label: str,
    classes: dict[str, CentroidClass],
    kept: dict[str, list[StoredExample]],
    settings: Settings,
) -> None:
    """Take an example out of its class; with its only one, the class goes.

    Where all its examples are kept, it is learned again from the others, in order: as if this one
    had never been shown. Else, or if that takes more centroids where their number is limited, it is
    taken out of the mean nearest to it, where it went unless centroids have moved since.
    """
    stored = classes[label]
    examples = kept[label]
    if stored.concepts.size == 1:
        del classes[label]
        del kept[label]
        return
    own = next(one for one in examples if one.number == example.number)
    rest = [other for other in examples if other is not own]
    concepts = _take_out(stored.concepts, own)
    spread = stored.spread
    if len(examples) == stored.concepts.size:
        vectors = np.stack([other.vector for other in rest])
        again = cluster(vectors, None, settings.radius)
        if settings.max_centroids is None or len(again.counts) <= len(stored.concepts.counts):
            concepts = again
            spread = spread_of(vectors, settings.radius)
    classes[label] = CentroidClass(concepts, spread)
    kept[label] = _select(rest, concepts)


def _take_out(concepts: Concepts, example: StoredExample) -> Concepts:
    """Take an example out of the mean of its centroid."""
    row = example.place
    centroids = concepts.centroids.copy()
    counts = concepts.counts.copy()
    counts[row] -= 1
    if not counts[row]:
        return Concepts(np.delete(centroids, row, axis=0), np.delete(counts, row))
    mean = centroids[row].astype(np.float64)
    centroids[row] = mean + (mean - example.vector) / int(counts[row])
    return Concepts(centroids, counts)


def _select(candidates: Sequence[Picture], concepts: Concepts) -> list[StoredExample]:
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
        candidate = candidates[i]
        example = as_example(candidate, centroid, candidate.vector, int(ranks[centroid]))
        if example is not None:
            kept[i] = example
            ranks[centroid] += 1
    return [kept[i] for i in sorted(kept)]


def find_changed(
    before: Mapping[str, CentroidClass],
    after: Mapping[str, CentroidClass],
    new: Collection[str],
    settings: Settings,
) -> dict[str, CentroidClass]:
    """Return the classes that are not as before, within the budget: those of `new` shrink last."""
    every = {label: known.concepts for label, known in after.items()}
    return {
        label: CentroidClass(concepts, after[label].spread)
        for label, concepts in keep_to_limit(every, settings.max_centroids, new).items()
        if label not in before or concepts is not before[label].concepts
    }
