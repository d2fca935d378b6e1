"""Exact nearest-centroid search: matrix products in tiles, distances where products cannot decide.

m centroids of all classes, t classes, n voters, d features, b vectors of a block. No more than a
tile of products is in memory at a time, and neither the size of a block nor the number of threads
changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from threading import local
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_float32, not_finite, read_only
from cbcl.method.blocks import BLOCK_ROWS, map_blocks, multiply
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.distances import Bounds, norms_squared
from cbcl.method.centroids.kernel import KERNEL, NUMPY, Kernel, SearchState

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
        keys, inverse = np.unique(feature_keys(self.centroids), return_inverse=True)
        alike = np.bincount(inverse, minlength=len(keys))[inverse] > 1
        for number in np.flatnonzero(alike).tolist():
            groups.setdefault(_digest(self.centroids[number]), []).append(number)
        sizes = self.sizes[self.owners]
        return {
            digest: np.array(sorted(numbers, key=lambda number: (sizes[number], number)))
            for digest, numbers in groups.items()
            if len(numbers) > 1
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
        """Half the mean relative distance from a centroid to the nearest of another class."""
        m = len(self.owners)
        sample = np.arange(0, m, max(1, m // MAX_SAMPLED_CENTROIDS))
        vectors, own = self.centroids[sample], self.owners[sample]
        distances = np.full(len(sample), np.nan)
        for n in (4, MAX_COMPILED_VOTERS):  # mostly, one of the nearest few is of another class
            left = np.flatnonzero(np.isnan(distances))
            if len(left):
                search = Search(self, n)
                voters = search.nearest(vectors[left], search.n)
                near = self.owners[voters.indices]
                distances[left] = _distances_to_others(own[left], near, voters.distances)
        return _half_relative(distances, vectors)

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


SearchResult = TypeVar("SearchResult", Float64s, Int64s, Voters)


class Search:
    """Search for the n nearest centroids of block after block, in the same scratch memory."""

    def __init__(self, index: Index, n: int, kernel: Kernel = KERNEL) -> None:
        self.index = index
        self.m, self.d = index.centroids.shape
        self.n = min(n, self.m)
        self.kernel = kernel
        self.scratch: Float32s = np.empty(0, dtype=np.float32)

    def voters(self, block: Float32s) -> Voters:
        """Return the n nearest, small classes first where more than n coincide with a vector."""
        return self.index.prefer_small_classes(block, self.nearest(block, self.n))

    def nearest(self, block: Float32s, n: int) -> Voters:
        """Return the n nearest centroids of each vector."""
        kernel = NUMPY if n > MAX_COMPILED_VOTERS else self.kernel
        b, room = len(block), 0 if kernel is NUMPY else 2 * n + WAITING
        state = SearchState.empty(b, n, room)
        for first, products, bounds in self._tiles(block):
            m = products.shape[1]
            arrays = (block, products, self.index.centroids, *bounds, state)
            sizes = (b, self.d, self.m, first, m, n, room)
            if not kernel.search(*arrays, *sizes, first + m == self.m):
                raise not_finite("vectors")
        return Voters(state.indices, state.distances)

    def _tiles(self, block: Float32s) -> Iterator[tuple[int, Float32s, Bounds]]:
        """Yield the first centroid of each tile, the products (b, tile), and their bounds."""
        b = len(block)
        step = min(self.m, max(1, BLOCK_ROWS // b) * TILE_CENTROIDS)  # large tiles for few vectors
        if self.scratch.size < b * step:
            self.scratch = np.empty(b * step, dtype=np.float32)
        for first in range(0, self.m, step):
            last = min(first + step, self.m)
            products = self.scratch[: b * (last - first)].reshape(b, last - first)
            self.products(block, slice(first, last), products)
            yield first, products, self.index.bounds.tile(first, last)

    def products(self, block: Float32s, tile: slice, out: Float32s) -> None:
        """Write the inner products with these centroids to `out`: (b, tile)."""
        multiply(block, self.index.centroids[tile], out)


def nearest(matrix: Matrix, index: Index, n: int) -> Voters:
    """Return the n nearest centroids of each row of a matrix."""
    return search_rows(matrix, index, n, lambda search, block: search.nearest(block, search.n))


def search_rows(
    matrix: Matrix, index: Index, n: int, work: Callable[[Search, Float32s], SearchResult]
) -> SearchResult:
    """Return the results of `work` on blocks of a matrix, joined: a row for each of its rows.

    Each thread has a search of its own. No result depends on the division.
    """
    searches = local()

    def work_on(rows: slice) -> SearchResult:
        if not hasattr(searches, "own"):
            searches.own = Search(index, n)
        return work(searches.own, as_float32(matrix[rows]))

    block_rows = max(1, min(BLOCK_ROWS, MAX_BLOCK_VOTERS // n))
    joined: SearchResult = _join(map_blocks(work_on, len(matrix), block_rows), len(matrix))
    return joined


def _distances_to_others(own: Int64s, owners: Int64s, distances: Float64s) -> Float64s:
    """Return the distance to the nearest centroid of another class; NaN: none is near: (b,).

    `own` is the class of each vector, (b,), `owners` and `distances` are of the centroids nearest
    to it, (b, n).
    """
    is_other = owners != own[:, np.newaxis]
    first_other = distances[np.arange(len(own)), is_other.argmax(axis=1)]
    return np.where(is_other.any(axis=1), first_other, np.nan)


def _half_relative(distances: Float64s, vectors: Float32s) -> float:
    """Return half the mean of distances, but for NaN, each over the length of its vector."""
    lengths = np.sqrt(norms_squared(vectors))
    usable = ~np.isnan(distances) & (lengths > 0.0)
    return float(0.5 * np.mean(distances[usable] / lengths[usable])) if usable.any() else 0.0


def _join(results: Iterable[tuple[slice, Any]], n_rows: int) -> Any:
    outputs: list[Any] = []
    for rows, result in results:
        arrays: list[Any] = [*result] if isinstance(result, Voters) else [result]
        if len(arrays[0]) == n_rows:
            return result
        outputs = outputs or [np.empty((n_rows, *part.shape[1:]), part.dtype) for part in arrays]
        for output, part in zip(outputs, arrays, strict=True):
            output[rows] = part
    return Voters(*outputs) if len(outputs) > 1 else outputs[0]


def feature_keys(vectors: Float32s) -> NDArray[np.uint64]:
    """Return a number for each vector that equal ones share, and few others do: (m,)."""
    step = -(-vectors.shape[1] // KEY_FEATURES)
    some = vectors[:, ::step] + np.float32(0.0)  # -0 and 0 are the same number
    factors = np.random.default_rng(0).integers(0, 1 << 63, some.shape[1], dtype=np.uint64)
    keys: NDArray[np.uint64] = (some.view(np.uint32) * (2 * factors + 1)).sum(axis=1)
    return keys


def _digest(vector: Float32s) -> bytes:
    with_positive_zeros = vector + np.float32(0.0)  # -0 and 0 are the same number
    return blake2b(with_positive_zeros.tobytes(), digest_size=16).digest()
