"""Centroid reduction: at most K centroids over all classes (Algorithm 3, equation 4 of the paper).

t classes, m centroids of a class, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from cbcl.errors import BudgetError
from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s, as_count, read_only
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.kmeans import k_means

ShrinkFunction: TypeAlias = Callable[[Concepts, int, int], Concepts]  # concepts, max number, seed


def merge(concepts: Concepts, n: int, seed: int, weights: Int64s | None = None) -> Concepts:
    """Merge into at most n concepts, by k-means on the centroids, weighted by their counts.

    `weights` take the place of the counts.

    A centroid remains the mean of all vectors behind it (equation 1), however often centroids are
    merged; the mean of the class does not change, and counts add up. Identical centroids may leave
    fewer than n.

    >>> concepts = Concepts(np.float32([[0.0], [1.0], [9.0]]), np.array([3, 1, 2]))
    >>> merged = merge(concepts, 2, seed=0)
    >>> merged.centroids.tolist(), merged.counts.tolist()
    ([[0.25], [9.0]], [4, 2])
    """
    if weights is None:
        weights = concepts.counts
    if as_count(n, "n") >= len(concepts.counts):
        return concepts
    with one_thread():  # the order of the sums, so their last bits, depends on the threads
        groups = k_means(concepts.centroids, weights, n, seed)
    return merge_groups(concepts, weights, groups)


def merge_groups(concepts: Concepts, weights: Int64s, groups: Int64s) -> Concepts:
    """Merge the concepts of each group to their weighted mean, in the order of the first of each.

    >>> three = Concepts(np.float32([[0.0], [9.0], [1.0]]), np.array([3, 2, 1]))
    >>> merged = merge_groups(three, three.counts, np.array([7, 4, 7]))
    >>> merged.centroids.tolist(), merged.counts.tolist()
    ([[0.25], [9.0]], [4, 2])
    """
    _, firsts, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rows = np.argsort(firsts[inverse], kind="stable")  # groups by the first centroid of each
    starts = np.flatnonzero(np.diff(firsts[inverse][rows], prepend=-1))
    counts = np.add.reduceat(concepts.counts[rows], starts)
    centroids = concepts.centroids[rows[starts]]  # of a group of one, its mean
    sizes = np.diff(starts, append=len(rows))
    several = np.flatnonzero(sizes > 1)
    if len(several):
        centroids[several] = _weighted_means(
            concepts.centroids, weights, rows, starts[several], sizes[several]
        )
    return Concepts(read_only(centroids), read_only(counts))


def _weighted_means(
    centroids: Float32s, weights: Int64s, rows: Int64s, starts: Int64s, sizes: Int64s
) -> Float32s:
    """Return the mean of each group, so many of the rows from its start on, added in order."""
    first = rows[starts]
    totals = weights[first]
    sums = centroids[first].astype(np.float64)
    sums *= totals[:, np.newaxis]
    for rank in range(1, sizes.max()):
        longer = np.flatnonzero(sizes > rank)
        more = rows[starts[longer] + rank]
        sums[longer] += centroids[more].astype(np.float64) * weights[more, np.newaxis]
        totals[longer] += weights[more]
    return (sums / totals[:, np.newaxis]).astype(np.float32)


def reduce(
    concepts: Sequence[Concepts],
    max_centroids: int,
    *,
    new: Collection[int] = (),
    seed: int = 0,
    shrink: ShrinkFunction = merge,
) -> list[Concepts]:
    """Reduce the concepts of all classes to `max_centroids` (the paper's K) centroids in all.

    The classes whose numbers are in `new` were just learned and shrink only when they alone are too
    many. The others shrink in proportion to what they have (equation 4), rounded to whole numbers
    by largest remainder; every class keeps at least one. A class that need not shrink is returned
    as it is.

    >>> from cbcl import agg_var
    >>> cups = agg_var([[0.0], [1.0], [5.0], [6.0]], radius=0.0)
    >>> keys = agg_var([[20.0], [30.0]], radius=0.0)
    >>> [centroids.tolist() for centroids, _ in reduce([cups, keys], 4, new={1})]
    [[[0.5], [5.5]], [[20.0], [30.0]]]
    """
    as_count(max_centroids, "max_centroids")
    concepts = [*map(check_concepts, concepts)]
    if max_centroids < len(concepts):
        raise BudgetError(
            f"max_centroids={max_centroids}",
            f"cannot hold {len(concepts)} classes",
            "every class needs at least one centroid",
        )
    sizes = [len(counts) for _, counts in concepts]
    if sum(sizes) <= max_centroids:
        return concepts
    limits = _limits(sizes, max_centroids, new)
    return [
        old if sizes[y] <= limits[y] else shrink(old, limits[y], seed)
        for y, old in enumerate(concepts)
    ]


def _limits(sizes: Sequence[int], max_centroids: int, new: Collection[int]) -> dict[int, int]:
    """Return how many centroids each class may keep."""
    old = [y for y in range(len(sizes)) if y not in new]
    recent = [y for y in range(len(sizes)) if y in new]
    left = max_centroids - sum(sizes[y] for y in recent)
    limits = dict(enumerate(sizes))
    limits.update(zip(old, shares([sizes[y] for y in old], max(left, len(old))), strict=True))
    if left < len(old):
        recent_limit = max_centroids - len(old)
        limits.update(zip(recent, shares([sizes[y] for y in recent], recent_limit), strict=True))
    return limits


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Divide `limit` in proportion to the sizes, at least 1 each, by largest remainder.

    Of equal remainders the first counts.

    >>> shares([60, 30, 1], 10)
    [6, 3, 1]
    """
    parts = [1] * len(sizes)
    rest = list(range(len(sizes)))
    while True:  # a class whose part is below 1 gets 1, and the others divide what remains
        whole = sum(sizes[y] for y in rest)
        left = limit - (len(sizes) - len(rest))
        large = [y for y in rest if sizes[y] * left >= whole]
        if len(large) == len(rest):
            break
        rest = large
    for y in rest:
        parts[y] = sizes[y] * left // whole
    by_remainder = sorted(rest, key=lambda y: (-(sizes[y] * left % whole), y))
    for y in by_remainder[: limit - sum(parts)]:
        parts[y] += 1
    return parts
