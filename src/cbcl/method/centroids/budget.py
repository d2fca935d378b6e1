"""Centroid reduction: at most K centroids over all classes (Algorithm 3, equation 4 of the paper).

t classes, m centroids of a class, d features, n groups of a weighted k-means.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from cbcl.errors import BudgetError
from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s, as_count, read_only
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.kernel import KERNEL, NUMPY

ShrinkFunction: TypeAlias = Callable[[Concepts, int, int], Concepts]  # concepts, max number, seed

MAX_POINTS = 2048  # whose inner products are in memory: 16 MB
MAX_ITERATIONS = 100  # after which the groups are taken as they are


def merge(concepts: Concepts, n: int, seed: int) -> Concepts:
    """Merge into at most n concepts, by k-means on the centroids, weighted by their counts.

    A centroid remains the mean of all vectors behind it (equation 1), however often centroids are
    merged; the mean of the class does not change, and counts add up. Identical centroids may leave
    fewer than n.

    >>> concepts = Concepts(np.float32([[0.0], [1.0], [9.0]]), np.array([3, 1, 2]))
    >>> merged = merge(concepts, 2, seed=0)
    >>> merged.centroids.tolist(), merged.counts.tolist()
    ([[0.25], [9.0]], [4, 2])
    """
    if as_count(n, "n") >= len(concepts.counts):
        return concepts
    with one_thread():  # the order of the sums, so their last bits, depends on the threads
        groups = k_means(concepts.centroids, concepts.counts, n, seed)
    return merge_groups(concepts, concepts.counts, groups)


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
    check_room(len(concepts), max_centroids)
    sizes = [len(counts) for _, counts in concepts]
    if sum(sizes) <= max_centroids:
        return concepts
    limits = _limits(sizes, max_centroids, new)
    return [
        old if sizes[y] <= limits[y] else shrink(old, limits[y], seed)
        for y, old in enumerate(concepts)
    ]


def check_room(n_classes: int, max_centroids: int) -> None:
    """Raise BudgetError for more classes than centroids."""
    if max_centroids < n_classes:
        problem = f"cannot hold {n_classes} classes"
        advice = "every class needs at least one centroid"
        raise BudgetError(f"max_centroids={max_centroids}", problem, advice)


def keep_to_limit(
    concepts: Mapping[Any, Concepts],
    max_centroids: int | None,
    new: Container[Any] = (),
    *,
    seed: int = 0,
    shrink: ShrinkFunction = merge,
) -> dict[Any, Concepts]:
    """Return the concepts of labels, sorted, reduced as `reduce` does; None: there is no limit."""
    ordered = dict(sorted(concepts.items()))
    if max_centroids is None:
        return ordered
    numbers = {number for number, label in enumerate(ordered) if label in new}
    reduced = reduce([*ordered.values()], max_centroids, new=numbers, seed=seed, shrink=shrink)
    return dict(zip(ordered, reduced, strict=True))


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


def k_means(points: Float32s, weights: Int64s, n: int, seed: int) -> Int64s:
    """Return the group of each point, a number below n: (m,).

    Lloyd's algorithm from greedy k-means++ seeds. A budget makes many small problems of this kind,
    one a class and call, in which m is less than d. All of it can be computed from the inner
    products of the points, so the d features are read once: for small m, several times as fast as
    scikit-learn, which does the rest. Identical points may leave groups empty.

    >>> points = np.float32([[0.0], [1.0], [9.0], [9.5]])
    >>> groups = k_means(points, np.array([1, 1, 1, 1]), 2, seed=0)
    >>> bool(groups[0] == groups[1] != groups[2] == groups[3])
    True
    """
    if len(points) > MAX_POINTS:
        return _sklearn_k_means(points, weights, n, seed)
    # Divided by the largest number, so that no square overflows; centred, to round less.
    shares: Float64s = weights / weights.sum()
    centred = points / np.float32(float(np.abs(points).max()) or 1.0)
    centred -= (shares @ centred).astype(np.float32)
    products = centred @ centred.T  # (m, m)
    squares = np.diag(products).copy()
    distances = np.maximum(squares[:, np.newaxis] - 2.0 * products + squares, 0.0)  # squared
    seeds = _draw_seeds(distances, shares, n, np.random.default_rng(seed))
    groups: Int64s = distances[:, seeds].argmin(axis=1)
    for _ in range(MAX_ITERATIONS):
        before = groups
        groups = _assign(products, shares, before, n)
        if (groups == before).all():
            break
    n_groups = len(np.unique(groups))
    if n_groups < n and n_groups < len(np.unique(points, axis=0)):
        # Beside a very far point, float32 takes some distinct points for one.
        return _sklearn_k_means(points, weights, n, seed)
    return groups


def _draw_seeds(distances: Float32s, shares: Float64s, n: int, rng: np.random.Generator) -> Int64s:
    """Draw points by their squared distance to those before, the best of a few draws each: (n,)."""
    draws = 2 + int(math.log(n))
    m = len(distances)
    seeds = np.empty(n, dtype=np.int64)
    seeds[0] = rng.choice(m, p=shares)
    arrays = (distances, shares, rng.random((n - 1, draws)), distances[seeds[0]].copy(), seeds)
    drawn = 1
    while drawn < n:
        drawn = KERNEL.draw(*arrays, m, draws, drawn, n)
        if drawn < n:  # the order of numpy's sums decides
            drawn = NUMPY.draw(*arrays, m, draws, drawn, drawn + 1)
    return seeds


def _assign(products: Float32s, shares: Float64s, groups: Int64s, n: int) -> Int64s:
    """Return the group with the nearest mean for each point.

    |x - c|^2 / 2 is |c|^2 / 2 - x.c plus |x|^2 / 2, which is the same for all groups.
    """
    mixture = np.zeros((len(groups), n), dtype=np.float32)  # of the points, a column for each mean
    mixture[np.arange(len(groups)), groups] = shares
    totals = mixture.sum(axis=0)
    mixture /= np.where(totals > 0.0, totals, 1.0)
    with_means = products @ mixture  # (m, n): x.c
    halves = 0.5 * np.einsum("ij,ij->j", mixture, with_means)
    halves[totals == 0.0] = np.inf  # an empty group stays empty
    nearest: Int64s = (halves - with_means).argmin(axis=1)
    return nearest


def _sklearn_k_means(points: Float32s, weights: Int64s, n: int, seed: int) -> Int64s:
    from sklearn.cluster import KMeans  # here, since loading it takes most of a second
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than n
        groups: Int64s = KMeans(n, n_init=1, random_state=seed).fit_predict(
            points.astype(np.float64), sample_weight=weights
        )
    return groups
