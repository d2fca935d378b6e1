"""Agg-Var clustering: vectors of one class to concepts (Algorithm 1, equation 1 of the paper).

n vectors, m centroids, d features, b vectors of a block. Vectors are converted to float32 first.
How a distance is computed: `distances.py`; why a matrix product may decide in its place:
the top of `_kernel.c`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cbcl.method.arrays import (
    Float32s,
    Float64s,
    Int64s,
    Matrix,
    as_array,
    as_float32,
    as_matrix,
    as_radius,
    not_finite,
    read_only,
)
from cbcl.method.blocks import multiply
from cbcl.method.centroids.distances import distances_between, norms_squared
from cbcl.method.centroids.kernel import KERNEL

CHUNK_BYTES = 1 << 21  # of vectors that are converted to float32 together
BLAS_FROM = 1 << 17  # numbers in a class's centroids from which BLAS is used
BLAS_ROWS = 256  # vectors of a block with BLAS


class Concepts(NamedTuple):
    """Concepts of one class: its centroids, and the number of vectors behind each."""

    centroids: Float32s  # (m, d)
    counts: Int64s  # (m,), the paper's w

    @property
    def size(self) -> int:
        """Number of vectors learned, N_y in the paper."""
        return int(self.counts.sum())


def agg_var(vectors: ArrayLike, radius: float, known: Concepts | None = None) -> Concepts:
    """Cluster the vectors of one class, in their order (Algorithm 1).

    A vector closer than `radius` (the paper's D) to its nearest centroid moves that centroid to the
    mean of all vectors behind it (equation 1); any other vector becomes a centroid. With `known`,
    learning continues from there: two calls give what one call with all the vectors would, bit for
    bit.

    >>> concepts = agg_var([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]], radius=2.0)
    >>> concepts.centroids.tolist(), concepts.counts.tolist()
    ([[0.5, 0.0], [9.0, 0.0]], [2, 1])
    >>> agg_var([[10.0, 0.0]], radius=2.0, known=concepts).centroids.tolist()
    [[0.5, 0.0], [9.5, 0.0]]
    """
    matrix = as_matrix(vectors)
    if known is not None:
        known = check_concepts(known)
        d = matrix.shape[1]
        if d != known.centroids.shape[1]:
            raise ValueError(
                f"vectors have {d} features, but the known centroids have "
                f"{known.centroids.shape[1]}: "
                "both must come from the same extractor."
            )
    return cluster(matrix, None, as_radius(radius), known)


def join(these: Concepts, those: Concepts, radius: float) -> Concepts:
    """Join two classes into one: cluster those centroids, weighted, on top of these.

    >>> cups = agg_var([[0.0], [1.0]], radius=np.inf)
    >>> mugs = agg_var([[5.0]], radius=np.inf)
    >>> joined = join(cups, mugs, radius=np.inf)
    >>> joined.centroids.tolist(), joined.counts.tolist()
    ([[2.0]], [3])
    """
    centroids = [*these.centroids]
    counts = these.counts.tolist()
    for centroid, count in zip(those.centroids, those.counts.tolist(), strict=True):
        distances = distances_between(centroid, np.array(centroids))
        nearest = int(distances.argmin())
        if distances[nearest] < radius:
            total = counts[nearest] + count
            weighted = centroids[nearest].astype(np.float64) * counts[nearest]
            mean = (weighted + centroid.astype(np.float64) * count) / total
            centroids[nearest] = mean.astype(np.float32)
            counts[nearest] = total
        else:
            centroids.append(centroid)
            counts.append(count)
    return Concepts(read_only(np.array(centroids)), read_only(np.array(counts, dtype=np.int64)))


def check_concepts(concepts: Concepts) -> Concepts:
    """Validate concepts from outside, and return them as float32 and int64."""
    centroids = as_float32(as_matrix(concepts.centroids, "centroids"))
    counts = as_array(concepts.counts, "counts").astype(np.int64, copy=False)
    if counts.shape != centroids.shape[:1] or counts.min() < 1:
        raise ValueError(
            f"there must be a count of at least 1 for each of {len(centroids)} centroids: "
            f"got {counts}."
        )
    if not np.isfinite(centroids).all():
        raise not_finite("centroids")
    same = centroids is concepts.centroids and counts is concepts.counts
    return concepts if same else Concepts(centroids, counts)


def cluster(
    matrix: Matrix, rows: Int64s | None, radius: float, known: Concepts | None = None
) -> Concepts:
    """Run `agg_var` on some rows (None: all) of a checked matrix, which is never copied whole."""
    clustering = _Clustering(matrix.shape[1], known, radius)
    step = max(BLAS_ROWS, CHUNK_BYTES // (4 * matrix.shape[1]))
    for start in range(0, len(matrix) if rows is None else len(rows), step):
        chunk = slice(start, start + step)
        clustering.learn(as_float32(matrix[chunk if rows is None else rows[chunk]]))
    return clustering.concepts()


class _Clustering:
    """State of the clustering of one class: arrays with spare capacity, m centroids in use."""

    def __init__(self, d: int, known: Concepts | None, radius: float) -> None:
        self.radius = radius
        self.blas_m = max(1, BLAS_FROM // d)  # centroids from which BLAS is used
        self.m = 0
        self.centroids: Float32s = np.empty((0, d), dtype=np.float32)
        self.counts: Int64s = np.empty(0, dtype=np.int64)
        self.squares: Float64s = np.empty(0, dtype=np.float64)  # |c|^2
        self.scratch: Float32s = np.empty(0, dtype=np.float32)
        if known is not None:
            self.m = len(known.counts)
            self.centroids = known.centroids.copy()
            self.counts = known.counts.copy()
            self.squares = norms_squared(known.centroids)

    def learn(self, vectors: Float32s) -> None:
        done = 0
        while done < len(vectors):
            learn = self._learn_directly if self.m < self.blas_m else self._learn_block
            done += learn(vectors[done:])
            if self.m < 0:
                raise not_finite("vectors")

    def _learn_directly(self, vectors: Float32s) -> int:
        self._reserve(min(len(vectors), self.blas_m))
        learned: int
        state = (self.centroids, self.counts, self.squares)
        learned, self.m = KERNEL.learn(
            vectors, *state, *vectors.shape, self.m, len(self.counts), self.blas_m, self.radius
        )
        return learned

    def _learn_block(self, vectors: Float32s) -> int:
        block = vectors[:BLAS_ROWS]
        b, d = block.shape
        self._reserve(b)
        width = self.m + b
        if self.scratch.size < b * width:
            self.scratch = np.empty(b * width * 5 // 4, dtype=np.float32)
        products = self.scratch[: b * width].reshape(b, width)
        if self.m:
            multiply(block, self.centroids[: self.m], products[:, : self.m])
        gram = multiply(block, block, np.empty((b, b), dtype=np.float32))
        state = (self.centroids, self.counts, self.squares)
        self.m = KERNEL.absorb(
            block, products, gram, *state, b, d, self.m, len(self.counts), self.radius
        )
        return len(block)

    def _reserve(self, more: int) -> None:
        capacity = self.m + more
        if capacity > len(self.counts):
            capacity = max(capacity, 3 * self.m // 2)
            for array in (self.centroids, self.counts, self.squares):
                array.resize((capacity, *array.shape[1:]), refcheck=False)

    def concepts(self) -> Concepts:
        return Concepts(
            read_only(self.centroids[: self.m].copy()), read_only(self.counts[: self.m].copy())
        )
