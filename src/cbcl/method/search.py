"""Which centroids are nearest: matrix products in tiles, and exact distances where those leave a doubt.

m centroids of all classes, t classes, n voters, d features, b vectors of a block. No more than a tile of products is in
memory at a time, and neither the size of a block nor the number of threads changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import blake2b
from threading import local
from typing import NamedTuple, TypeVar

import numpy as np

from cbcl.machine import blas_threads, one_thread
from cbcl.method import _numpy_kernel
from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_float32, not_finite, read_only
from cbcl.method.concepts import Concepts
from cbcl.method.kernel import KERNEL, NUMPY, Kernel, SearchState

Result = TypeVar("Result")

ROWS = 1024  # vectors of a block
TILE = 1536  # centroids of a tile, at least: with ROWS, 6 MB of products; a power of two would collide in the cache
MANY_VOTERS = 64  # above that, sorting beats inserting
MANY_ANSWERS = 1 << 19  # voters of a block, at most


class Index:
    """The concepts of all classes side by side, ready to be searched."""

    def __init__(self, concepts: Sequence[Concepts]) -> None:
        if not concepts:
            raise ValueError("there is nothing to vote: give the concepts of at least one class.")
        widths = {known.centroids.shape[1] for known in concepts}
        if len(widths) > 1:
            raise ValueError(
                f"the classes have centroids of {sorted(widths)} features: all must have as many."
            )
        self.concepts = tuple(concepts)

    def __reduce__(self) -> tuple[type[Index], tuple[tuple[Concepts, ...]]]:
        return Index, (self.concepts,)

    @cached_property
    def centroids(self) -> Float32s:  # (m, d)
        return read_only(np.concatenate([known.centroids for known in self.concepts]))

    @cached_property
    def counts(self) -> Int64s:  # (m,)
        return read_only(np.concatenate([known.counts for known in self.concepts]))

    @cached_property
    def owners(self) -> Int64s:  # (m,), the number of each centroid's class
        return np.repeat(
            np.arange(len(self.concepts)), [len(known.counts) for known in self.concepts]
        )

    @cached_property
    def sizes(self) -> Int64s:  # (t,), N_y
        firsts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        return np.add.reduceat(self.counts, firsts)

    @cached_property
    def twins(self) -> dict[bytes, Int64s]:
        """The centroids that are identical to others, those of the smallest classes first."""
        alike: dict[bytes, list[int]] = {}
        for number, centroid in enumerate(self.centroids):
            alike.setdefault(_digest(centroid), []).append(number)
        sizes = self.sizes[self.owners]
        return {
            key: np.array(sorted(numbers, key=lambda number: (sizes[number], number)))
            for key, numbers in alike.items()
            if len(numbers) > 1
        }

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds.of(_numpy_kernel.norms_squared(self.centroids), self.centroids.shape[1])


class Bounds(NamedTuple):
    """What is known of |c|^2 / 2 - x.c in float32: its first part, and by how much it may be wrong."""

    halves: Float32s  # (m,) |c|^2 / 2
    doubts: Float32s  # (spans,) for each unit of |x|, the same for SPAN centroids in a row
    blurs: Float32s  # (spans,) besides; infinite where no bound holds

    @classmethod
    def of(cls, squares: Float64s, d: int) -> Bounds:
        starts = np.arange(0, len(squares), _numpy_kernel.SPAN)
        most = np.maximum.reduceat(squares, starts)
        safe = np.logical_and.reduceat(_numpy_kernel.is_safe(squares), starts)
        with np.errstate(over="ignore"):  # only where it is not safe
            halves = (0.5 * squares).astype(np.float32)
        doubts = np.where(safe, (d + 32) * _numpy_kernel.UNIT * 1.0001 * np.sqrt(most), 0.0)
        blurs = np.where(safe, 8.0 * _numpy_kernel.UNIT * most, np.inf)
        return cls(halves, doubts.astype(np.float32), blurs.astype(np.float32))

    def tile(self, first: int, last: int) -> Bounds:
        spans = slice(first // _numpy_kernel.SPAN, -(-last // _numpy_kernel.SPAN))
        return Bounds(self.halves[first:last], self.doubts[spans], self.blurs[spans])


class Voters(NamedTuple):
    """The n nearest centroids of each vector, the nearest first, then in the order of the index."""

    indices: Int64s  # (b, n), rows of the index
    distances: Float64s  # (b, n)


class Search:
    """Finds the voters of block after block, with one piece of scratch memory for all."""

    def __init__(self, index: Index, n: int, kernel: Kernel = KERNEL) -> None:
        self.index = index
        self.m, self.d = index.centroids.shape
        self.n = min(n, self.m)
        self.kernel = kernel
        self.scratch: Float32s = np.empty(0, dtype=np.float32)

    def voters(self, block: Float32s) -> Voters:
        """The n nearest; where more coincide with a vector, those of the classes with the largest 1 / N_y."""
        voters = self.nearest(block, self.n)
        for row in np.flatnonzero(voters.distances[:, -1] == 0.0):
            coincident = self.index.twins.get(_digest(block[row]))
            if coincident is not None:
                voters.indices[row] = coincident[: self.n]
        return voters

    def nearest(self, block: Float32s, n: int) -> Voters:
        """The n nearest centroids of each vector."""
        kernel = NUMPY if n > MANY_VOTERS else self.kernel
        b, room = len(block), 0 if kernel is NUMPY else 2 * n + 32
        found = SearchState.nothing(b, n, room)
        for first, products, bounds in self._tiles(block):
            m = products.shape[1]
            sizes = (b, self.d, self.m, first, m, n, room)
            if not kernel.search(
                block, products, self.index.centroids, *bounds, found, *sizes, first + m == self.m
            ):
                raise not_finite("vectors")
        return Voters(found.indices, found.distances)

    def _tiles(self, block: Float32s) -> Iterator[tuple[int, Float32s, Bounds]]:
        """Tile after tile: the number of its first centroid, the products (b, tile) and their bounds."""
        b = len(block)
        step = min(self.m, max(1, ROWS // b) * TILE)  # few vectors, large tiles
        if self.scratch.size < b * step:
            self.scratch = np.empty(b * step, dtype=np.float32)
        for first in range(0, self.m, step):
            tile = self.index.centroids[first : first + step]
            products = self.scratch[: b * len(tile)].reshape(b, len(tile))
            with np.errstate(all="ignore"):  # overflown products are never believed
                np.matmul(block, tile.T, out=products)
            yield first, products, self.index.bounds.tile(first, first + len(tile))


def nearest(search: Search, block: Float32s) -> Voters:
    """The nearest centroids of each vector of a block, for `in_blocks`."""
    return search.nearest(block, search.n)


def _digest(vector: Float32s) -> bytes:
    return blake2b(
        (vector + np.float32(0.0)).tobytes(), digest_size=16
    ).digest()  # -0 and 0 are the same number


def in_blocks(
    matrix: Matrix, index: Index, n: int, work: Callable[[Search, Float32s], Result]
) -> Iterator[tuple[slice, Result]]:
    """`work` on a matrix, block after block, each with its rows: on as many threads as the BLAS would use.

    One thread a block, each with its own search and the BLAS to itself, keeps what is next to each other in time next
    to each other in the cache. Which thread does what changes no result.
    """
    most = max(1, min(ROWS, MANY_ANSWERS // n))
    if len(matrix) <= most:
        yield slice(None), work(Search(index, n), as_float32(matrix))
        return
    threads = blas_threads()
    rounds = -(-len(matrix) // (threads * most))
    step = -(-len(matrix) // (threads * rounds))  # so that all threads have as much to do
    parts = [slice(start, start + step) for start in range(0, len(matrix), step)]
    searches = local()

    def do(rows: slice) -> Result:
        if not hasattr(searches, "own"):
            searches.own = Search(index, n)
        return work(searches.own, as_float32(matrix[rows]))

    executor = ThreadPoolExecutor(threads)
    try:
        with one_thread():
            yield from zip(parts, executor.map(do, parts), strict=True)
    finally:
        executor.shutdown(cancel_futures=True)
