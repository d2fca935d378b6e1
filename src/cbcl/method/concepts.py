"""Agg-Var clustering: the vectors of one class become concepts (Algorithm 1, equation 1 of the paper).

n vectors, m centroids, d features, b vectors of a block. A vector is float32 from the moment it enters; how a distance
is computed, and why a matrix product may decide in its place, is told at the top of `_kernel.c`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import (
    Float32s,
    Float64s,
    Int64s,
    Matrix,
    Number,
    as_float32,
    as_matrix,
    as_radius,
    not_finite,
    read_only,
)
from cbcl.method.distances import distances_between, norms_squared
from cbcl.method.kernel import KERNEL, Kernel

CHUNK_BYTES = 1 << 21  # what is converted to float32 at a time


class ClusteringPlan(NamedTuple):
    """How the work is done, which changes nothing about the result."""

    kernel: Kernel = KERNEL
    blas_from: int = 1 << 17  # numbers in a class's centroids from which a BLAS makes the products
    blas_rows: int = 256  # vectors of a block then


DEFAULT_PLAN = ClusteringPlan()


class Concepts(NamedTuple):
    """What one class looks like: its centroids, and how many vectors stand behind each."""

    centroids: Float32s  # (m, d)
    counts: Int64s  # (m,), the paper's w

    @property
    def size(self) -> int:
        """The number of vectors learned, N_y in the paper."""
        return int(self.counts.sum())


def agg_var(vectors: ArrayLike, radius: float, known: Concepts | None = None) -> Concepts:
    """Cluster the vectors of one class, in their order (Algorithm 1).

    A vector closer than `radius` (the paper's D) to its nearest centroid moves that centroid to the mean of all vectors
    behind it (equation 1); any other vector becomes a centroid. With `known`, learning goes on where it stopped: two
    calls give what one call with all the vectors would, bit for bit.

    >>> concepts = agg_var([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]], radius=2.0)
    >>> concepts.centroids.tolist(), concepts.counts.tolist()
    ([[0.5, 0.0], [9.0, 0.0]], [2, 1])
    >>> agg_var([[10.0, 0.0]], radius=2.0, known=concepts).centroids.tolist()
    [[0.5, 0.0], [9.5, 0.0]]
    """
    matrix = as_matrix(vectors)
    known = None if known is None else checked(known)
    if known is not None and known.centroids.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"vectors have {matrix.shape[1]} features, but the known centroids have {known.centroids.shape[1]}: "
            "both must come from the same extractor."
        )
    return cluster(matrix, None, as_radius(radius), known)


def join(these: Concepts, those: Concepts, radius: float) -> Concepts:
    """Two classes that turn out to be one: those centroids learned on top of these, each with its weight.

    >>> cups = agg_var([[0.0], [1.0]], radius=np.inf)
    >>> mugs = agg_var([[5.0]], radius=np.inf)
    >>> joined = join(cups, mugs, radius=np.inf)
    >>> joined.centroids.tolist(), joined.counts.tolist()
    ([[2.0]], [3])
    """
    centroids, counts = [*these.centroids], these.counts.tolist()
    for centroid, count in zip(those.centroids, those.counts.tolist(), strict=True):
        distances = distances_between(centroid, np.array(centroids))
        nearest = int(distances.argmin())
        if distances[nearest] < radius:
            total = counts[nearest] + count
            mean = (
                centroids[nearest].astype(np.float64) * counts[nearest]
                + centroid.astype(np.float64) * count
            ) / total
            centroids[nearest], counts[nearest] = mean.astype(np.float32), total
        else:
            centroids.append(centroid)
            counts.append(count)
    return Concepts(read_only(np.array(centroids)), read_only(np.array(counts, dtype=np.int64)))


def checked(concepts: Concepts) -> Concepts:
    """Concepts that somebody else may have made, as ours are: float32 and int64, whole and finite."""
    centroids = as_float32(as_matrix(concepts.centroids, "centroids"))
    counts = np.asarray(concepts.counts, dtype=np.int64)
    if counts.shape != centroids.shape[:1] or counts.min() < 1:
        raise ValueError(
            f"there must be a count of at least 1 for each of {len(centroids)} centroids: got {counts}."
        )
    if not np.isfinite(centroids).all():
        raise not_finite("centroids")
    same = centroids is concepts.centroids and counts is concepts.counts
    return concepts if same else Concepts(centroids, counts)


def cluster(
    matrix: Matrix,
    rows: Int64s | None,
    radius: float,
    known: Concepts | None = None,
    plan: ClusteringPlan = DEFAULT_PLAN,
) -> Concepts:
    """`agg_var` on some rows (None: all) of a checked matrix, which is never copied whole."""
    growing = _Growing(matrix.shape[1], known, radius, plan)
    step = max(plan.blas_rows, CHUNK_BYTES // (4 * matrix.shape[1]))
    for start in range(0, len(matrix) if rows is None else len(rows), step):
        some = slice(start, start + step)
        growing.learn(as_float32(matrix[some if rows is None else rows[some]]))
    return growing.concepts()


class _Growing:
    """The concepts of a class while it is learned, with room to grow."""

    def __init__(self, d: int, known: Concepts | None, radius: float, plan: ClusteringPlan) -> None:
        self.radius, self.plan = radius, plan
        self.few = max(1, plan.blas_from // d)  # centroids for which no BLAS is needed
        self.m = 0 if known is None else len(known.counts)
        self.centroids: Float32s = np.empty((self.m, d), dtype=np.float32)
        self.counts: Int64s = np.empty(self.m, dtype=np.int64)
        self.squares: Float64s = np.empty(self.m, dtype=np.float64)  # |c|^2
        self.scratch: Float32s = np.empty(0, dtype=np.float32)
        if known is not None:
            self.centroids[:] = known.centroids
            self.counts[:] = known.counts
            self.squares[:] = norms_squared(known.centroids)

    def learn(self, vectors: Float32s) -> None:
        done = 0
        while done < len(vectors):
            rest = vectors[done:]
            learned = (
                self._learn_few(rest)
                if self.m < self.few
                else self._absorb(rest[: self.plan.blas_rows])
            )
            if self.m < 0:
                raise not_finite("vectors")
            done += learned

    def _learn_few(self, vectors: Float32s) -> int:
        self._make_room(min(len(vectors), self.few))
        b, d = vectors.shape
        state = (self.centroids, self.counts, self.squares)
        learned, self.m = self.plan.kernel.learn(
            vectors, *state, b, d, self.m, len(self.counts), self.few, self.radius
        )
        return learned

    def _absorb(self, block: Float32s) -> int:
        b, d = len(block), block.shape[1]
        self._make_room(b)
        wide = self.m + b
        if self.scratch.size < b * wide:
            self.scratch = np.empty(b * wide * 5 // 4, dtype=np.float32)
        products = self.scratch[: b * wide].reshape(b, wide)
        with np.errstate(all="ignore"):  # overflown products are never believed
            np.matmul(block, self.centroids[: self.m].T, out=products[:, : self.m])
            gram = block @ block.T  # (b, b)
        state = (self.centroids, self.counts, self.squares)
        self.m = self.plan.kernel.absorb(
            block, products, gram, *state, b, d, self.m, len(self.counts), self.radius
        )
        return b

    def _make_room(self, more: int) -> None:
        capacity = self.m + more
        if capacity > len(self.counts):
            capacity = max(capacity, 3 * self.m // 2)
            self.centroids = _grown(self.centroids, self.m, capacity)
            self.counts = _grown(self.counts, self.m, capacity)
            self.squares = _grown(self.squares, self.m, capacity)

    def concepts(self) -> Concepts:
        return Concepts(
            read_only(self.centroids[: self.m].copy()), read_only(self.counts[: self.m].copy())
        )


def _grown(array: NDArray[Number], used: int, capacity: int) -> NDArray[Number]:
    grown = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
    grown[:used] = array[:used]
    return grown
