"""The groups of scikit-learn's k-means, from the inner products of the points.

p points, d features, m groups. In every iteration scikit-learn reads all features of all points;
their inner products do as well, and are computed once. The seeds are scikit-learn's own: which of
two points is the better one is often decided by rounding. After that, what it decides (the nearest
mean, the end) is decided here where a margin is wider than rounding can be, there or here; where
one is not, nothing is returned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus

from cbcl.method.arrays import Float64s, Int64s

UNIT_ROUNDOFF = 2.0**-53  # of float64
MAX_ITERATIONS = 300  # and this tolerance: scikit-learn's
TOLERANCE = 1e-4  # of a step of the means, relative to the mean variance of a feature


class WeightedPoints(NamedTuple):
    """Points less their mean, by their inner products."""

    products: Float64s  # (p, p)
    weights: Float64s  # (p,)
    doubt: float  # margin below which two squared distances may be in another order there


class GroupMeans(NamedTuple):
    """Means of groups, by their inner products with the points."""

    products: Float64s  # (m, p)
    squares: Float64s  # (m,)


def k_means_groups(points: Float64s, weights: Int64s, m: int, seed: int) -> Int64s | None:
    """Return the group of each point, (p,), as KMeans(m, n_init=1, algorithm="lloyd") does.

    None: a decision is too close, or a group is empty.

    >>> k_means_groups(np.array([[0.0], [1.0], [9.0], [9.5]]), np.ones(4, int), 2, seed=0).tolist()
    [1, 1, 0, 0]
    >>> k_means_groups(np.zeros((4, 1)), np.ones(4, int), 2, seed=0)
    """
    p, d = points.shape
    centred = points - points.mean(axis=0)
    products = centred @ centred.T
    squares = np.diag(products)
    # A sum of d or p products, of x and y, is off by at most (d + p) u |x| |y|; a comparison has a
    # dozen of them.
    doubt = 64.0 * (d + p) * UNIT_ROUNDOFF * float(squares.max())
    data = WeightedPoints(products, weights.astype(np.float64), doubt)
    _, seeds = kmeans_plusplus(centred, m, sample_weight=data.weights, random_state=seed)
    limit = TOLERANCE * float(squares.sum()) / (p * d)
    return _iterate(data, GroupMeans(products[seeds], squares[seeds]), limit)


def _iterate(data: WeightedPoints, means: GroupMeans, limit: float) -> Int64s | None:
    """Move means to their groups until no group changes, or no mean by much."""
    m, before = len(means.squares), None
    for _ in range(MAX_ITERATIONS):
        groups = _nearest(data, means)
        if groups is None or (before is not None and (groups == before).all()):
            return groups
        totals = _sum_groups(data.weights, groups, m)
        if not totals.all():
            return None
        moved = _move(data, groups, totals)
        both = _own_products(data, groups, totals, means.products)
        shift = float(np.sum(means.squares + moved.squares - 2.0 * both))  # squared
        if abs(shift - limit) <= m * data.doubt:
            return None
        before, means = groups, moved
        if shift <= limit:
            break
    return _nearest(data, means)


def _nearest(data: WeightedPoints, means: GroupMeans) -> Int64s | None:
    """Return the group whose mean is nearest to each point; None: two are as near to one."""
    scores = means.squares[:, np.newaxis] - 2.0 * means.products  # squared, less the point's square
    nearest: Int64s = scores.argmin(axis=0)
    own = np.arange(len(nearest))
    least = scores[nearest, own]
    scores[nearest, own] = np.inf
    return None if (scores.min(axis=0) - least <= data.doubt).any() else nearest


def _move(data: WeightedPoints, groups: Int64s, totals: Float64s) -> GroupMeans:
    """Return the mean of each group."""
    shares = np.zeros((len(totals), len(groups)))
    shares[groups, np.arange(len(groups))] = data.weights / totals[groups]
    products = shares @ data.products
    return GroupMeans(products, _own_products(data, groups, totals, products))


def _own_products(
    data: WeightedPoints, groups: Int64s, totals: Float64s, products: Float64s
) -> Float64s:
    """Return the products of vectors with the mean of the group of the same number: (m,)."""
    own = products[groups, np.arange(len(groups))]
    return _sum_groups(data.weights * own, groups, len(totals)) / totals


def _sum_groups(values: Float64s, groups: Int64s, m: int) -> Float64s:
    """Return the sum of each group's values: (m,)."""
    sums = np.zeros(m)
    np.add.at(sums, groups, values)
    return sums
