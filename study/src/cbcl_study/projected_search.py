"""Exact search of the nearest centroids within limits, by a few coordinates of each vector first.

q test vectors, m centroids, d features, k coordinates, b vectors of a block. On orthonormal axes,
x.c is the inner product of the coordinates and that of the remainders, which is |x'| |c'| at most.
So with the length of its remainder as one coordinate more, the inner product of the coordinates is
no less than x.c, and no distance is less than it says: only where that is within the limit is the
distance measured. Test vectors of images have most of their length along a fifth of as many axes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, as_float32
from cbcl.method.blocks import BLOCK_ROWS, multiply
from cbcl.method.centroids.distances import (
    UNIT_ROUNDOFF,
    Bounds,
    is_bounded,
    norms_squared,
    rounding_error,
)
from cbcl.method.centroids.kernel import KERNEL, NUMPY, SearchLimits, SearchState
from cbcl.method.centroids.search import TILE_CENTROIDS, Index, Voters, waiting_room

FEATURES_PER_COORDINATE = 5
SAMPLED_VECTORS = 1000  # to find the axes by
MIN_CENTROIDS = 1024  # for fewer, all features are as fast
# Of a vector of this squared length the kernel takes no product for more than a lower bound.
UNBOUNDED = 1e31


class Coordinates(NamedTuple):
    """Vectors on the axes of a projection."""

    values: Float32s  # (n, k + 1), the last the length of the remainder, rounded up
    squares: Float64s  # (n,), |x|^2

    def some(self, rows: Any) -> Coordinates:
        """Return those of some vectors."""
        return Coordinates(self.values[rows], self.squares[rows])


class Projection:
    """The axes along which vectors differ most from zero: orthonormal but for 1e-13."""

    def __init__(self, vectors: Float32s) -> None:
        sample = vectors[:: -(-len(vectors) // SAMPLED_VECTORS)].astype(np.float64)
        k = min(max(1, vectors.shape[1] // FEATURES_PER_COORDINATE), len(sample))
        _, mixtures = np.linalg.eigh(sample @ sample.T)
        self.axes: Float64s = np.linalg.qr(sample.T @ mixtures[:, -k:]).Q  # (d, k)

    def coordinates(self, vectors: Float32s) -> Coordinates:
        """Return the coordinates of vectors: (n, k + 1)."""
        n, k = len(vectors), self.axes.shape[1]
        values, squares = np.empty((n, k + 1), dtype=np.float32), norms_squared(vectors)
        for start in range(0, n, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            exact = vectors[block].astype(np.float64) @ self.axes
            rest = squares[block] - np.einsum("nk,nk->n", exact, exact)
            lengths = np.sqrt(np.maximum(rest, 0.0) + 1e-10 * squares[block])
            values[block, :k], values[block, k] = exact, lengths * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return Coordinates(values, squares)


class QueryVectors:
    """Test vectors, and what is found out about them once for all runs."""

    def __init__(self, given: NDArray[Any]) -> None:
        self.given = given  # (q, d); of pixels they are bytes

    @cached_property
    def vectors(self) -> Float32s:
        return as_float32(self.given)

    @cached_property
    def squares(self) -> Float64s:  # (q,)
        return norms_squared(self.vectors)

    @cached_property
    def projection(self) -> Projection:
        return Projection(self.vectors)

    @cached_property
    def coordinates(self) -> Coordinates:
        return self.projection.coordinates(self.vectors)

    def pay_to_project(self, m: int) -> bool:
        """Tell if coordinates are of use among m centroids."""
        compiled = KERNEL is not NUMPY  # which takes every product for a bound on both sides
        return compiled and m >= MIN_CENTROIDS and bool(is_bounded(self.squares).all())


class ProjectedSearch:
    """Search for centroids within limits, block after block."""

    def __init__(self, index: Index, coordinates: Coordinates) -> None:
        self.index, self.coordinates = index, coordinates
        self.bounds = Bounds.of(coordinates.squares, index.centroids.shape[1])

    def nearest(
        self, block: Float32s, coordinates: Coordinates, n: int, limits: SearchLimits
    ) -> Voters:
        """Return the n nearest centroids of each vector, as `Search.nearest` does with limits."""
        (b, d), m, room = block.shape, len(self.coordinates.values), waiting_room(n)
        state = SearchState.empty(b, n, room)
        state.limit_to(limits)
        state.lengths[:] = UNBOUNDED
        halves, blurs = self.bounds.halves, self._blurs(float(coordinates.squares.max()))
        none = np.zeros(len(blurs), dtype=np.float32)
        scratch = np.empty(b * min(m, TILE_CENTROIDS), dtype=np.float32)
        for first in range(0, m, TILE_CENTROIDS):
            tile = self.coordinates.values[first : first + TILE_CENTROIDS]
            products = scratch[: b * len(tile)].reshape(b, len(tile))
            multiply(coordinates.values, tile, out=products)
            bounds = Bounds(halves, none, blurs).tile(first, first + len(tile))
            arrays = (block, products, self.index.centroids, *bounds, state)
            sizes = (b, d, m, first, len(tile), n, room)
            KERNEL.search(*arrays, *sizes, first + len(tile) == m)
        return Voters(state.indices, state.distances)

    def _blurs(self, square: float) -> Float32s:
        """Bound by how much a product may be too small: for vectors of this squared length."""
        d, k = self.index.centroids.shape[1], self.coordinates.values.shape[1]
        with np.errstate(over="ignore"):  # where no bound holds
            # 8 u |c|^2, of which the root; the coordinates are rounded, and so is their product.
            lengths = np.sqrt(self.bounds.blurs.astype(np.float64) / (8.0 * UNIT_ROUNDOFF))
            rounded = (k + 40) * UNIT_ROUNDOFF * lengths * np.sqrt(square)
            blurs: Float64s = 1.001 * (self.bounds.blurs + rounded + rounding_error(d, square))
        return blurs.astype(np.float32)
