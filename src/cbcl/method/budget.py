"""Centroid reduction: the concepts of all classes, no more than K centroids (Algorithm 3, equation 4 of the paper).

t classes, m centroids of a class, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from cbcl.machine import one_thread
from cbcl.method.arrays import Int64s, as_count, read_only
from cbcl.method.concepts import Concepts, checked
from cbcl.method.kmeans import k_means

Shrink: TypeAlias = Callable[[Concepts, int, int], Concepts]  # concepts, how many at most, seed


def merge(concepts: Concepts, n: int, seed: int) -> Concepts:
    """At most n concepts, by k-means on the centroids, each counting for the vectors behind it.

    So a centroid remains the mean of all vectors behind it, as equation 1 has it, however often room is made; the mean
    of the class stays what it is, and counts are added. Identical centroids may leave fewer than n.

    >>> concepts = Concepts(np.float32([[0.0], [1.0], [9.0]]), np.array([3, 1, 2]))
    >>> merged = merge(concepts, 2, seed=0)
    >>> merged.centroids.tolist(), merged.counts.tolist()
    ([[0.25], [9.0]], [4, 2])
    """
    return merge_weighted(concepts, n, seed, concepts.counts)


def merge_weighted(concepts: Concepts, n: int, seed: int, weights: Int64s) -> Concepts:
    """`merge` with these weights of the centroids in place of their counts."""
    if as_count(n, "n") >= len(concepts.counts):
        return concepts
    with one_thread():  # with more, the order of the sums, and so their last bits, would depend on how many there are
        groups = k_means(concepts.centroids, weights, n, seed)
    firsts, order = np.unique(groups, return_index=True)
    members = [
        np.flatnonzero(groups == group) for group in firsts[np.argsort(order)]
    ]  # by the first centroid of each
    points = concepts.centroids.astype(np.float64)
    centroids = [np.average(points[some], axis=0, weights=weights[some]) for some in members]
    counts = np.array([concepts.counts[some].sum() for some in members])
    return Concepts(read_only(np.array(centroids, dtype=np.float32)), read_only(counts))


def reduce(
    concepts: Sequence[Concepts],
    max_centroids: int,
    *,
    new: Collection[int] = (),
    seed: int = 0,
    shrink: Shrink = merge,
) -> list[Concepts]:
    """The concepts of all classes with at most `max_centroids` (the paper's K) centroids in all.

    The classes whose numbers are in `new` were just learned and shrink only when they alone are too many. The others
    make room in proportion to what they have (equation 4), rounded to whole numbers by largest remainder; every class
    keeps at least one. A class that need not shrink comes back as it is.

    >>> from cbcl import agg_var
    >>> cups = agg_var([[0.0], [1.0], [5.0], [6.0]], radius=0.0)
    >>> keys = agg_var([[20.0], [30.0]], radius=0.0)
    >>> [known.centroids.tolist() for known in reduce([cups, keys], 4, new={1})]
    [[[0.5], [5.5]], [[20.0], [30.0]]]
    """
    as_count(max_centroids, "max_centroids")
    concepts = [checked(known) for known in concepts]
    if max_centroids < len(concepts):
        raise ValueError(
            f"max_centroids={max_centroids} cannot hold {len(concepts)} classes: "
            "every class needs at least one centroid."
        )
    sizes = [len(known.counts) for known in concepts]
    if sum(sizes) <= max_centroids:
        return list(concepts)
    old = [y for y in range(len(concepts)) if y not in new]
    newcomers = [y for y in range(len(concepts)) if y in new]
    left = max_centroids - sum(sizes[y] for y in newcomers)
    limits = dict(enumerate(sizes))
    limits.update(zip(old, shares([sizes[y] for y in old], max(left, len(old))), strict=True))
    if left < len(old):
        limits.update(
            zip(
                newcomers,
                shares([sizes[y] for y in newcomers], max_centroids - len(old)),
                strict=True,
            )
        )
    return [
        known if sizes[y] <= limits[y] else shrink(known, limits[y], seed)
        for y, known in enumerate(concepts)
    ]


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """`limit` divided in proportion to the sizes, at least 1 each, by largest remainder (first among equals).

    >>> shares([60, 30, 1], 10)
    [6, 3, 1]
    """
    parts = [1] * len(sizes)
    rest = list(range(len(sizes)))
    while True:  # a class whose part is below 1 gets 1, and the others divide what remains
        whole, left = sum(sizes[y] for y in rest), limit - (len(sizes) - len(rest))
        tall = [y for y in rest if sizes[y] * left >= whole]
        if len(tall) == len(rest):
            break
        rest = tall
    for y in rest:
        parts[y] = sizes[y] * left // whole
    owed = sorted(rest, key=lambda y: (-(sizes[y] * left % whole), y))
    for y in owed[: limit - sum(parts)]:
        parts[y] += 1
    return parts
