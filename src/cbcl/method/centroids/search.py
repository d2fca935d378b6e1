"""Exact nearest-centroid search: matrix products in tiles, distances where products cannot decide.

m centroids of all classes, t classes, n voters, d features, b vectors of a block. No more than a
tile of products is in memory at a time, and neither the size of a block nor the number of threads
changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from threading import local
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_float32, not_finite, read_only
from cbcl.method.blocks import BLOCK_ROWS, Result, map_blocks, multiply
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.distances import Bounds, norms_squared
from cbcl.method.centroids.kernel import KERNEL, NUMPY, SearchState

TILE_CENTROIDS = 1536  # at least; 6 MB of products; a power of two would cause cache collisions
MAX_COMPILED_VOTERS = 64  # for more, the numpy kernel is faster: it sorts, the other inserts
WAITING = 32  # candidates that may wait to be measured, beyond two for each voter
MAX_BLOCK_VOTERS = 1 << 19  # of all vectors of a block
KEY_FEATURES = 32  # by which equal centroids are found, before all are compared
MAX_SAMPLED_CENTROIDS = 128  # to estimate the distance between classes


class Index:
    """The concepts of all classes in one array, for searches."""

    def __init__(self, concepts: Sequence[Concepts]) -> None:
        if not concepts:
            raise ValueError("there is nothing to vote: give the concepts of at least one class.")
        widths = {centroids.shape[1] for centroids, _ in concepts}
        if len(widths) > 1:
            raise ValueError(
                f"the classes have centroids of {sorted(widths)} features: all must have as many."
            )
        self.concepts = tuple(concepts)

    @cached_property
    def centroids(self) -> Float32s:  # (m, d)
        return read_only(np.concatenate([centroids for centroids, _ in self.concepts]))

    @cached_property
    def counts(self) -> Int64s:  # (m,)
        return read_only(np.concatenate([counts for _, counts in self.concepts]))

    @cached_property
    def owners(self) -> Int64s:  # (m,), the number of each centroid's class
        n_centroids = [len(counts) for _, counts in self.concepts]
        return np.repeat(np.arange(len(n_centroids)), n_centroids)

    @cached_property
    def starts(self) -> Int64s:  # (t,), the first centroid of each class
        return np.flatnonzero(np.diff(self.owners, prepend=-1))

    @cached_property
    def places(self) -> Int64s:  # (m,), the number of each centroid among those of its class
        return np.arange(len(self.owners)) - self.starts[self.owners]

    @cached_property
    def sizes(self) -> Int64s:  # (t,), N_y
        return np.add.reduceat(self.counts, self.starts)

    @cached_property
    def duplicates(self) -> dict[bytes, Int64s]:
        """Groups of identical centroids, those of the smallest classes first, by their digest."""
        groups: dict[bytes, list[int]] = {}
        keys = _feature_keys(self.centroids)
        _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        for number in np.flatnonzero(counts[inverse] > 1).tolist():
            groups.setdefault(_digest(self.centroids[number]), []).append(number)
        sizes = self.sizes[self.owners]
        return {
            digest: np.array(sorted(numbers, key=lambda number: (sizes[number], number)))
            for digest, numbers in groups.items()
        }

    def prefer_small_classes(self, block: Float32s, voters: Voters) -> Voters:
        """Return the voters; where all coincide with their vector, those of the smallest classes.

        They are taken from all centroids that coincide with it, those with the largest 1 / N_y.
        """
        indices, distances = voters
        all_coincide = np.flatnonzero(distances[:, -1] == 0.0)
        if len(all_coincide):
            indices = indices.copy()
        for row in all_coincide:
            coincident = self.duplicates.get(_digest(block[row]))
            if coincident is not None:
                indices[row] = coincident[: indices.shape[1]]
        return Voters(indices, distances)

    @cached_property
    def half_class_distance(self) -> float:
        """Half the mean relative distance from a centroid to the nearest of another class.

        That of a sample, less those with none of another class among the nearest 64.
        """
        m = len(self.owners)
        sample = np.arange(0, m, max(1, m // MAX_SAMPLED_CENTROIDS))
        vectors = self.centroids[sample]
        n = int(np.bincount(self.owners).max()) + 1  # of which one is of another class
        near, distances = nearest(vectors, self, min(n, MAX_COMPILED_VOTERS))
        is_other = self.owners[near] != self.owners[sample, np.newaxis]
        to_other = distances[np.arange(len(sample)), is_other.argmax(axis=1)]
        lengths = np.sqrt(norms_squared(vectors))
        usable = is_other.any(axis=1) & (lengths > 0.0)
        return float(0.5 * np.mean(to_other[usable] / lengths[usable])) if usable.any() else 0.0

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds.of(norms_squared(self.centroids), self.centroids.shape[1])


class Voters(NamedTuple):
    """The n nearest centroids of each vector, the nearest first, then in the order of the index."""

    indices: Int64s  # (b, n), rows of the index
    distances: Float64s  # (b, n)

    def first(self, n: int) -> Voters:
        """Return the n nearest of these."""
        return Voters(self.indices[:, :n], self.distances[:, :n])


class Search:
    """Search for the n nearest centroids of block after block, in the same scratch memory."""

    def __init__(self, index: Index, n: int) -> None:
        self.index = index
        self.n = min(n, len(index.centroids))
        self.scratch: Float32s = np.empty(0, dtype=np.float32)

    def voters(self, block: Float32s) -> Voters:
        """Return the n nearest, small classes first where more than n coincide with a vector."""
        return self.index.prefer_small_classes(block, self.nearest(block))

    def nearest(self, block: Float32s) -> Voters:
        """Return the n nearest centroids of each vector."""
        n = self.n
        kernel = NUMPY if n > MAX_COMPILED_VOTERS else KERNEL
        centroids = self.index.centroids
        m, d = centroids.shape
        b = len(block)
        room = 0 if kernel is NUMPY else 2 * n + WAITING
        state = SearchState.empty(b, n, room)
        step = min(m, max(1, BLOCK_ROWS // b) * TILE_CENTROIDS)  # large tiles for few vectors
        if self.scratch.size < b * step:
            self.scratch = np.empty(b * step, dtype=np.float32)
        for first in range(0, m, step):
            last = min(first + step, m)
            products = self.scratch[: b * (last - first)].reshape(b, last - first)
            multiply(block, centroids[first:last], products)
            arrays = (block, products, centroids, *self.index.bounds.tile(first, last), state)
            sizes = (b, d, m, first, last - first, n, room)
            if not kernel.search(*arrays, *sizes, last == m):
                raise not_finite("vectors")
        return Voters(state.indices, state.distances)


def nearest(matrix: Matrix, index: Index, n: int) -> Voters:
    """Return the n nearest centroids of each row of a matrix."""
    return search_rows(matrix, index, n, Search.nearest)


def search_rows(
    matrix: Matrix, index: Index, n: int, work: Callable[[Search, Float32s], Result]
) -> Result:
    """Return the results of `work` on blocks of a matrix, joined: a row for each of its rows.

    Each thread has a search of its own. No result depends on the division.
    """
    searches = local()

    def work_on(rows: slice) -> Result:
        if not hasattr(searches, "own"):
            searches.own = Search(index, n)
        return work(searches.own, as_float32(matrix[rows]))

    block_rows = max(1, min(BLOCK_ROWS, MAX_BLOCK_VOTERS // n))
    return map_blocks(work_on, len(matrix), block_rows)


def _feature_keys(vectors: Float32s) -> NDArray[np.uint64]:
    """Return a number for each vector that equal ones share, and few others do: (m,)."""
    step = -(-vectors.shape[1] // KEY_FEATURES)
    some = vectors[:, ::step] + np.float32(0.0)  # -0 and 0 are the same number
    factors = np.random.default_rng(0).integers(0, 1 << 63, some.shape[1], dtype=np.uint64)
    keys: NDArray[np.uint64] = (some.view(np.uint32) * (2 * factors + 1)).sum(axis=1)
    return keys


def _digest(vector: Float32s) -> bytes:
    with_positive_zeros = vector + np.float32(0.0)  # -0 and 0 are the same number
    return blake2b(with_positive_zeros.tobytes(), digest_size=16).digest()
