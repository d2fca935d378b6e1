"""Weighted k-means: Lloyd's algorithm from greedy k-means++ seeds.

m points, d features, n groups. A budget makes many small problems of this kind, one a class and
call, in which m is less than d. All of it can be computed from the inner products of the points, so
the d features are read once: for small m, several times as fast as scikit-learn, which does the
rest.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids.kernel import KERNEL, NUMPY

MAX_POINTS = 2048  # whose inner products are in memory: 16 MB
MAX_ITERATIONS = 100  # after which the groups are taken as they are


def k_means(points: Float32s, weights: Int64s, n: int, seed: int) -> Int64s:
    """Return the group of each point, a number below n: (m,).

    Identical points may leave groups empty.

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
