"""k-means: weighted points into groups, by Lloyd's algorithm from greedy k-means++ seeds.

m points, d features, n groups. A full memory has many small problems of this kind, one a class and call, in which m is
less than d. All of it can be said in inner products of the points, so the d features are gone through once; for small m
that is several times as fast as scikit-learn, which does the rest.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s

MAX_POINTS = 2048  # whose inner products are held: 16 MB
MAX_STEPS = 100


def k_means(points: Float32s, weights: Int64s, n: int, seed: int) -> Int64s:
    """The group of each point, a number below n: (m,). Identical points may leave groups empty.

    >>> points = np.float32([[0.0], [1.0], [9.0], [9.5]])
    >>> groups = k_means(points, np.array([1, 1, 1, 1]), 2, seed=0)
    >>> bool(groups[0] == groups[1] != groups[2] == groups[3])
    True
    """
    if len(points) > MAX_POINTS:
        return _by_library(points, weights, n, seed)
    # Divided by the largest number, so that no square overflows; centred, since rounding goes by length.
    shares: Float64s = weights / weights.sum()
    centred = points / np.float32(float(np.abs(points).max()) or 1.0)
    centred -= (shares @ centred).astype(np.float32)
    products = centred @ centred.T  # (m, m)
    squares = np.diag(products).copy()
    apart = np.maximum(squares[:, np.newaxis] - 2.0 * products + squares, 0.0)  # squared distances
    seeds = _seeds(apart, shares, n, np.random.default_rng(seed))
    groups: Int64s = apart[:, seeds].argmin(axis=1)
    for _ in range(MAX_STEPS):
        before, groups = groups, _step(products, shares, groups, n)
        if (groups == before).all():
            break
    present = len(np.unique(groups))
    if present < n and present < len(
        np.unique(points, axis=0)
    ):  # points that float32 takes for one, beside a far one
        return _by_library(points, weights, n, seed)
    return groups


def _seeds(apart: Float32s, shares: Float64s, n: int, rng: np.random.Generator) -> Int64s:
    """Points far from each other: each drawn by its distance to those before, the best of a few draws (n,)."""
    draws = 2 + int(math.log(n))
    seeds = np.empty(n, dtype=np.int64)
    seeds[0] = rng.choice(len(apart), p=shares)
    closest = apart[seeds[0]]
    for k in range(1, n):
        chances = np.cumsum(shares * closest)
        drawn = np.searchsorted(chances, rng.random(draws) * chances[-1]).clip(max=len(apart) - 1)
        left = np.minimum(closest, apart[drawn])  # (draws, m)
        best = int((left @ shares).argmin())
        seeds[k], closest = drawn[best], left[best]
    return seeds


def _step(products: Float32s, shares: Float64s, groups: Int64s, n: int) -> Int64s:
    """The group with the nearest mean for each point; |x - c|^2 / 2 is |c|^2 / 2 - x.c, less what all have."""
    mixture = np.zeros((len(groups), n), dtype=np.float32)  # each column makes a mean of the points
    mixture[np.arange(len(groups)), groups] = shares
    totals = mixture.sum(axis=0)
    mixture /= np.where(totals > 0.0, totals, 1.0)
    with_means = products @ mixture  # (m, n): x.c
    halves = 0.5 * np.einsum("ij,ij->j", mixture, with_means)
    halves[totals == 0.0] = np.inf  # an empty group stays empty
    nearest: Int64s = (halves - with_means).argmin(axis=1)
    return nearest


def _by_library(points: Float32s, weights: Int64s, n: int, seed: int) -> Int64s:
    from sklearn.cluster import (
        KMeans,
    )  # loading scikit-learn takes most of a second, so only where it is needed
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than n
        groups: Int64s = KMeans(n, n_init=1, random_state=seed).fit_predict(
            points.astype(np.float64), sample_weight=weights
        )
    return groups
