"""The functions of `_kernel.c` in numpy, for installations without a C compiler.

They return the same numbers, bit for bit, more slowly; names and comments are those of `_kernel.c`.
b vectors of a block, m centroids, d features. `learn` and `absorb` change the centroids, counts and
squared norms in place, in arrays of `capacity` rows. Vectors that are not finite are reported by
m = -1, or by False.
"""

# ruff: noqa: ARG001 - the signatures are those of the compiled functions

from __future__ import annotations

import math

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids.distances import (
    DISTANCE_DOUBT,
    SPAN,
    UNIT_ROUNDOFF,
    distances_between,
    is_bounded,
    norms_squared,
    product_error,
    rounding_error,
)

LEARN_ROWS = 64  # vectors of a block of `learn`


def learn(
    vectors: Float32s,  # (b, d)
    centroids: Float32s,  # (capacity, d)
    counts: Int64s,  # (capacity,)
    squares: Float64s,  # (capacity,), |c|^2
    b: int,
    d: int,
    m: int,
    capacity: int,
    limit: int,
    radius: float,
) -> tuple[int, int]:
    """Learn vectors until there are `limit` centroids; return the vectors learned, and m."""
    done = 0
    while done < b and 0 <= m < min(limit, capacity):
        block = vectors[done : done + min(LEARN_ROWS, capacity - m)]
        products = np.empty((len(block), m + len(block)), dtype=np.float32)
        with np.errstate(all="ignore"):
            products[:, :m] = block @ centroids[:m].T
            gram = block @ block.T
        m = absorb(
            block, products, gram, centroids, counts, squares, len(block), d, m, capacity, radius
        )
        done += len(block)
    return done, m


def absorb(
    vectors: Float32s,
    products: Float32s,  # (b, m + b), of which m are filled
    gram: Float32s,  # (b, b)
    centroids: Float32s,
    counts: Int64s,
    squares: Float64s,
    b: int,
    d: int,
    m: int,
    capacity: int,
    radius: float,
) -> int:
    """Learn a block, given its inner products with the centroids and itself; return m."""
    lengths = norms_squared(vectors)
    if not np.isfinite(lengths).all():
        return -1
    slack = np.empty(m + b)  # a product with x is off by at most |x| slack; inf: no bound holds
    slack[:m] = _slack(squares[:m], d)
    with np.errstate(all="ignore"):  # overflown products never decide
        for k in range(b):
            x, length = vectors[k], float(lengths[k])
            j, exact = _nearest(x, length, products[k, :m], centroids, squares, slack)
            if j >= 0 and _is_within(
                x, length, products[k, j], centroids[j], squares[j], slack[j], exact, radius
            ):
                w = float(counts[j])
                reach = math.sqrt(max(squares[j], length))
                centroids[j] = (w * centroids[j].astype(np.float64) + x) / (w + 1.0)  # equation 1
                counts[j] += 1
                squares[j] = norms_squared(centroids[j : j + 1])[0]
                moved = max(slack[j], float(_slack(lengths[k], d))) + 16.0 * UNIT_ROUNDOFF * reach
                slack[j] = moved if is_bounded(squares[j]) else math.inf
                share = np.float32(1.0 / (w + 1.0))
                products[k + 1 :, j] += (gram[k, k + 1 :] - products[k + 1 :, j]) * share
            else:
                centroids[m], counts[m], squares[m] = x, 1, length
                slack[m] = _slack(lengths[k], d)
                products[k + 1 :, m] = gram[k, k + 1 :]
                m += 1
    return m


def _slack(squares: Float64s, d: int) -> Float64s:
    return np.where(is_bounded(squares), product_error(squares, d), math.inf)


def _doubt(
    d: int, length: float, squares: Float64s | np.float64, slack: Float64s | np.float64
) -> Float64s:
    """Bound the float32 error of |c|^2 / 2 - x.c."""
    doubt = math.sqrt(length) * slack + 8.0 * UNIT_ROUNDOFF * squares + rounding_error(d, length)
    return np.where(np.isfinite(slack) & is_bounded(np.float64(length)), doubt, math.inf)


def _nearest(
    x: Float32s,
    length: float,
    products: Float32s,
    centroids: Float32s,
    squares: Float64s,
    slack: Float64s,
) -> tuple[int, float]:
    """Return the nearest centroid, the first among equals; and its distance, -1 if not computed."""
    m = len(products)
    if m == 0:
        return -1, -1.0
    halves = 0.5 * squares[:m] - products
    doubt = _doubt(len(x), length, squares[:m], slack[:m])
    least = np.fmin.reduce(halves + doubt)
    candidates = np.flatnonzero(~(halves - doubt > least))
    if len(candidates) == 1:
        return int(candidates[0]), -1.0
    distances = distances_between(x, centroids[candidates])
    best = int(distances.argmin())
    return int(candidates[best]), float(distances[best])


def _is_within(
    x: Float32s,
    length: float,
    product: np.float32,
    centroid: Float32s,
    square: float,
    slack: float,
    exact: float,
    radius: float,
) -> bool:
    if exact < 0.0:
        half = 0.5 * (square + length) - float(product)
        doubt = float(_doubt(len(x), length, np.float64(square), np.float64(slack))) + 1e-9 * (
            square + length
        )
        limit = 0.5 * radius * radius
        if half + doubt < limit * (1.0 - 1e-9):
            return True
        if half - doubt > limit * (1.0 + 1e-9):
            return False
        exact = float(distances_between(x, centroid))
    return exact < radius


def search(
    vectors: Float32s,
    products: Float32s,  # (b, m)
    centroids: Float32s,  # (every, d)
    halves: Float32s,  # (m,)
    doubts: Float32s,  # (spans,)
    blurs: Float32s,  # (spans,)
    state: tuple[Float64s, Int64s, *tuple[object, ...]],
    b: int,
    d: int,
    every: int,
    first: int,
    m: int,
    n: int,
    room: int,
    last: bool,
) -> bool:
    """Update the state by a tile: m of `every` centroids, from `first` on.

    After the `last` tile the state holds the n nearest.
    """
    distances, indices = state[0], state[1]
    lengths = norms_squared(vectors)
    if not np.isfinite(lengths).all():
        return False
    near, doubt = scores(products, lengths, d, halves, doubts, blurs)
    with np.errstate(invalid="ignore"):
        column = lengths[:, np.newaxis]
        measured = 0.5 * (distances**2 - column)  # on the scale of `near`
        measured_upper = measured + DISTANCE_DOUBT * (np.abs(measured) + column)
        uppers = np.concatenate([measured_upper, near + doubt], axis=1)
        limits = np.partition(np.where(np.isnan(uppers), math.inf, uppers), n - 1, axis=1)[:, n - 1]
        may_be_near = ~(near - doubt > limits[:, np.newaxis])
    for k in range(b):
        candidates = first + np.flatnonzero(may_be_near[k])
        exact = distances_between(vectors[k], centroids[candidates])
        every_distance = np.concatenate([distances[k], exact])
        every_index = np.concatenate([indices[k], candidates])
        order = np.argsort(every_distance, kind="stable")[:n]
        distances[k], indices[k] = every_distance[order], every_index[order]
    return True


def scores(
    products: Float32s,
    lengths: Float64s,
    d: int,
    halves: Float32s,
    doubts: Float32s,
    blurs: Float32s,
) -> tuple[Float64s, Float64s]:
    """Return |c|^2 / 2 - x.c of vectors and centroids, and bounds on its error: two of (b, m)."""
    spans, rounding = np.arange(len(halves)) // SPAN, rounding_error(d, lengths)
    with np.errstate(all="ignore"):
        by_length = 1.0001 * np.sqrt(lengths)[:, np.newaxis] * doubts[spans]
        doubt = by_length + blurs[spans] + rounding[:, np.newaxis]
        doubt[~is_bounded(lengths)] = math.inf
        return halves.astype(np.float64) - products, doubt


def draw(
    distances: Float32s,  # (m, m), squared
    shares: Float64s,  # (m,)
    places: Float64s,  # (n - 1, draws), from 0 to 1
    closest: Float32s,  # (m,), to the seeds drawn so far
    seeds: Int64s,  # (n,)
    m: int,
    draws: int,
    first: int,
    last: int,
) -> int:
    """Draw seeds of k-means, from the first up to the last; return the first not drawn.

    The compiled function stops at a seed that a rounding decides.
    """
    cumulated = np.empty(m)
    for k in range(first, last):
        np.multiply(shares, closest, out=cumulated)
        np.add.accumulate(cumulated, out=cumulated)
        candidates = np.minimum(cumulated.searchsorted(places[k - 1] * cumulated[-1]), m - 1)
        closest_with = np.minimum(closest, distances.take(candidates, axis=0))  # (draws, m)
        best = int((closest_with @ shares).argmin())
        seeds[k], closest[:] = candidates[best], closest_with[best]
    return last
