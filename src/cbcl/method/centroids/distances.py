"""The distance that decides everywhere, and bounds on the error of a matrix product in its place.

m vectors, d features. The bounds are proved at the top of `_kernel.c`, with the same constants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s

LANES = 8  # running sums of a distance; part of its definition
UNIT_ROUNDOFF = 2.0**-24  # of float32
DISTANCE_DOUBT = 1e-6  # of a measured distance on the scale of |c|^2 / 2 - x.c, in float32
SPAN = 512  # centroids in a row that share a bound in a search


def distances_between(a: Float32s, b: Float32s) -> Float64s:
    """Return |a - b| along the last axis, in the one order of summation that decides everywhere.

    >>> distances_between(np.float32([0.0, 0.0]), np.float32([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [5.0, 1.0]
    """
    squares = (a.astype(np.float64) - b.astype(np.float64)) ** 2
    d = squares.shape[-1]
    padding = [(0, 0)] * (squares.ndim - 1) + [(0, -d % LANES)]
    lanes = np.pad(squares, padding).reshape(*squares.shape[:-1], -(-d // LANES), LANES)
    sums = np.add.accumulate(lanes, axis=-2)[..., -1, :]  # feature i goes to sum i mod 8
    total: Float64s = np.add.accumulate(sums, axis=-1)[..., -1]
    return np.sqrt(total)


def norms_squared(vectors: Float32s) -> Float64s:
    """Return |x|^2 of each vector, (m,): for bounds and lengths, never to compare distances."""
    squares: Float64s = np.einsum("md,md->m", vectors, vectors, dtype=np.float64)
    return squares


def is_bounded(squares: Float64s | np.float64) -> NDArray[np.bool_]:
    """Tell for which squared norms the error of a float32 inner product has a bound.

    Others (but zero) may overflow, or lose bits to underflow.
    """
    bounded: NDArray[np.bool_] = (squares == 0.0) | ((squares >= 1e-20) & (squares <= 1e30))
    return bounded


def product_error(squares: Float64s, d: int) -> Float64s:
    """Bound the error of a float32 inner product x.c, divided by |x|, by the squared norm of c."""
    return (d + 32) * UNIT_ROUNDOFF * 1.0001 * np.sqrt(squares)


def rounding_error(d: int, squares: Any) -> Any:
    """Bound the float64 error of a distance from x, on the scale of |c|^2 / 2 - x.c, twice."""
    return 2.0001 * (d + 32) * 2.0**-52 * squares


class Bounds(NamedTuple):
    """|c|^2 / 2 of each centroid, and bounds on the float32 error of |c|^2 / 2 - x.c.

    A bound is one number for SPAN centroids in a row; the names are those of `_kernel.c`.
    """

    halves: Float32s  # (m,), |c|^2 / 2
    doubts: Float32s  # (spans,), the part of the bound that is proportional to |x|
    blurs: Float32s  # (spans,), the constant part; infinite where no bound holds

    @classmethod
    def of(cls, squares: Float64s, d: int) -> Bounds:
        starts = np.arange(0, len(squares), SPAN)
        largest = np.maximum.reduceat(squares, starts)
        bounded = np.logical_and.reduceat(is_bounded(squares), starts)
        with np.errstate(over="ignore"):  # only where no bound holds
            halves = (0.5 * squares).astype(np.float32)
        doubts = np.where(bounded, product_error(largest, d), 0.0)
        blurs = np.where(bounded, 8.0 * UNIT_ROUNDOFF * largest, np.inf)
        return cls(halves, doubts.astype(np.float32), blurs.astype(np.float32))

    def tile(self, first: int, last: int) -> Bounds:
        spans = slice(first // SPAN, -(-last // SPAN))
        return Bounds(self.halves[first:last], self.doubts[spans], self.blurs[spans])
