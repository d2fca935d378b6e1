"""Kernels: the compiled functions where they were built, else the same in numpy."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids import _numpy_kernel


class SearchState(NamedTuple):
    """Working arrays of a search for a block of vectors, updated tile after tile."""

    distances: Float64s  # (b, n), to the nearest centroids measured so far, ascending
    indices: Int64s  # (b, n), of those centroids; of equal distances, the smaller first
    uppers: Float32s  # (b, n); this and the rest are of the compiled search alone
    waiting: Int64s  # (b, room)
    lowers: Float32s  # (b, room)
    fill: Int64s  # (b,)
    lengths: Float64s  # (b,), |x|^2; NaN: not known yet

    @classmethod
    def empty(cls, b: int, n: int, room: int) -> SearchState:
        return cls(
            np.full((b, n), np.inf),
            np.full((b, n), -1, dtype=np.int64),
            np.full((b, n), np.inf, dtype=np.float32),
            np.empty((b, room), dtype=np.int64),
            np.empty((b, room), dtype=np.float32),
            np.zeros(b, dtype=np.int64),
            np.full(b, np.nan),
        )


class Kernel(Protocol):
    """Functions of the compiled module and of `_numpy_kernel`: b vectors, d features, m centroids.

    `learn` and `absorb` change the centroids, counts and squared norms in place, in arrays of
    `capacity` rows. Vectors that are not finite are reported by m = -1, or by False.
    """

    def learn(
        self,
        vectors: Float32s,  # (b, d)
        centroids: Float32s,  # (capacity, d)
        counts: Int64s,  # (capacity,)
        squares: Float64s,  # (capacity,)
        b: int,
        d: int,
        m: int,
        capacity: int,
        limit: int,
        radius: float,
        /,
    ) -> tuple[int, int]:
        """Learn vectors until there are `limit` centroids; return the vectors learned, and m."""

    def absorb(
        self,
        vectors: Float32s,  # (b, d)
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
        /,
    ) -> int:
        """Learn a block, given its inner products with the centroids and itself; return m."""

    def search(
        self,
        vectors: Float32s,  # (b, d)
        products: Float32s,  # (b, m)
        centroids: Float32s,  # (all, d)
        halves: Float32s,  # (m,)
        doubts: Float32s,  # (spans,)
        blurs: Float32s,  # (spans,)
        state: SearchState,
        b: int,
        d: int,
        every: int,
        first: int,
        m: int,
        n: int,
        room: int,
        last: bool,
        /,
    ) -> bool:
        """Update the state by a tile: m of `every` centroids, from `first` on.

        After the `last` tile the state holds the n nearest.
        """

    def draw(
        self,
        distances: Float32s,  # (m, m), squared
        shares: Float64s,  # (m,)
        places: Float64s,  # (n - 1, draws), from 0 to 1
        closest: Float32s,  # (m,), to the seeds drawn so far
        seeds: Int64s,  # (n,)
        m: int,
        draws: int,
        first: int,
        last: int,
        /,
    ) -> int:
        """Draw seeds of k-means, from the first up to the last; return the first not drawn.

        The compiled one stops at a seed that a rounding decides.
        """


NUMPY = cast(Kernel, _numpy_kernel)

try:
    from cbcl.method.centroids import _kernel  # type: ignore[attr-defined] # no source that mypy could read
except ImportError:  # installed without a C compiler
    KERNEL = NUMPY
else:
    KERNEL = cast(Kernel, _kernel)
