"""Ridge regression on random features (the head of RanPAC; McDonnell and others, 2023).

n vectors, d features, m random features, t classes. No vector is kept: the Gram matrix and the sums
are enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s, as_count
from cbcl_study.rivals.inputs import (
    as_examples,
    as_vectors,
    check_width,
    nothing_learned,
    number_labels,
)
from cbcl_study.rivals.linear import HELD_OUT_SHARE, LinearLayer

RIDGES = 10.0 ** np.arange(-8, 9)
MAX_VALIDATED = 1_000  # vectors of an increment to choose a ridge with
GRAM_ROUNDING = 1e-6  # of its trace: what float32 leaves undecided, and no smaller ridge can mend
BATCH_ROWS = 2_048  # vectors to be projected at a time
MAX_RESIDUAL = 1e-9  # of a solution, as a share of the norm of what is solved for
MAX_CORRECTIONS = 10


class RandomProjectionRidge:
    """Least squares from max(0, x R) to the classes, R being drawn once.

    The ridge is chosen anew in each increment, on the vectors of that increment alone, as RanPAC
    does, there being no others: the one of least squared error on a fifth of them, learned from the
    rest.

    >>> vectors, labels = [[0.0, 1.0], [0.0, 2.0], [5.0, 0.0]], ["cup", "cup", "key"]
    >>> learner = RandomProjectionRidge(200).partial_fit(vectors, labels)
    >>> learner.predict([[1.0, 3.0], [5.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, n_features: int = 2_000, *, seed: int = 0) -> None:
        self.n_features, self.seed = as_count(n_features, "n_features"), seed
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.projection: Float32s = np.empty((0, 0), dtype=np.float32)  # (d, m)
        self.gram: Float32s = np.empty((0, 0), dtype=np.float32)  # (m, m)
        self.sums: Float32s = np.empty((0, 0), dtype=np.float32)  # (m, t)
        self.ridge = 1.0
        self.layer: LinearLayer | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        vectors, labels = as_examples(X, y)
        check_width(vectors, len(self.projection) or None)
        classes, numbers = number_labels(self.classes, labels)
        m, t = self.n_features, len(self.classes)
        sums, gram = np.zeros((m, len(classes)), dtype=np.float32), self.gram
        if t:
            sums[:, :t] = self.sums
        else:
            gram = np.zeros((m, m), dtype=np.float32)
            rng = np.random.default_rng(self.seed)
            self.projection = rng.standard_normal((vectors.shape[1], m), dtype=np.float32)
        with one_thread():
            for rows, features in self._project(vectors):
                product = features.T @ features
                gram = np.add(product, gram, out=product)
                sums += features.T @ one_hot(numbers[rows], len(classes))
            self.ridge = self._choose_ridge(vectors, numbers) or self.ridge
        self.classes, self.gram, self.sums, self.layer = classes, gram, sums, None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        layer, vectors = self._solved_layer(), as_vectors(X)
        check_width(vectors, len(self.projection))
        numbers = [layer.answers(features) for _, features in self._project(vectors)]
        return np.take(self.classes, np.concatenate(numbers))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on; the projection is drawn from the seed."""
        self._solved_layer()
        return {
            "classes": self.classes,
            "gram": self.gram,
            "sums": self.sums,
            "ridge": np.array(self.ridge),
            "drawn": np.array([self.seed, *self.projection.shape]),
        }

    def _project(self, vectors: Float32s) -> Iterator[tuple[slice, Float32s]]:
        for start in range(0, len(vectors), BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
            features = vectors[rows] @ self.projection
            yield rows, np.maximum(features, 0.0, out=features)

    def _choose_ridge(self, vectors: Float32s, numbers: Int64s) -> float | None:
        """Return the ridge of least error on held-out vectors; None: there are too few to say."""
        order = np.random.default_rng(self.seed).permutation(len(vectors))[:MAX_VALIDATED]
        cut = round(HELD_OUT_SHARE * len(order))
        if not cut:
            return None
        projected = [features for _, features in self._project(vectors[order])]
        features = np.concatenate(projected).astype(np.float64)
        truth = one_hot(np.unique(numbers[order], return_inverse=True)[1]).astype(np.float64)
        return best_ridge(features[cut:], truth[cut:], features[:cut], truth[:cut])

    def _solved_layer(self) -> LinearLayer:
        if not len(self.classes):
            raise nothing_learned()
        if self.layer is None:
            ridge = max(self.ridge, GRAM_ROUNDING * float(self.gram.trace(dtype=np.float64)))
            with one_thread():
                weights = solve_ridge(self.gram, ridge, self.sums)
            biases = np.zeros(len(self.classes), dtype=np.float32)
            self.layer = LinearLayer(weights.astype(np.float32), biases)
        return self.layer


def solve_ridge(gram: Float32s, ridge: float, sums: Float32s) -> Float64s:
    """Return the weights W of (G + ridge I) W = S, as exact as float64 makes them: (m, t).

    The matrix is factored in float32, in half the time and memory, and what that leaves over is
    solved for again, until nothing is; where it does not get less, it is factored in float64.

    >>> gram, sums = np.float32([[2.0, 1.0], [1.0, 2.0]]), np.float32([[1.0], [0.0]])
    >>> solve_ridge(gram, 0.0, sums).round(3).tolist()
    [[0.667], [-0.333]]
    """
    goal = MAX_RESIDUAL * float(np.linalg.norm(sums))
    weights, residual, left = np.zeros(sums.shape), sums.astype(np.float64), math.inf
    try:
        factor = _factor(gram, ridge, np.float32)
        for _ in range(MAX_CORRECTIONS):
            weights += cho_solve(factor, residual.astype(np.float32), check_finite=False)
            residual = _residual(gram, ridge, sums, weights)
            before, left = left, float(np.linalg.norm(residual))
            if left <= goal:
                return weights
            if left > 0.5 * before:
                break
    except LinAlgError:  # in float32 it is not positive definite
        pass
    factor = _factor(gram, ridge, np.float64)
    solved: Float64s = cho_solve(factor, sums.astype(np.float64), check_finite=False)
    return solved


def _factor(gram: Float32s, ridge: float, kind: type[np.floating[Any]]) -> tuple[Any, bool]:
    """Factor G + ridge I, in a copy of the matrix and no other."""
    matrix = gram.astype(kind)
    matrix[np.diag_indices(len(matrix))] += ridge
    # Transposed, it is in the order of LAPACK, which then overwrites it.
    factored: tuple[Any, bool] = cho_factor(
        matrix.T, lower=True, overwrite_a=True, check_finite=False
    )
    return factored


def _residual(gram: Float32s, ridge: float, sums: Float32s, weights: Float64s) -> Float64s:
    """Return S - (G + ridge I) W in float64, of some rows of G at a time."""
    residual: Float64s = sums - ridge * weights
    for start in range(0, len(gram), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        residual[rows] -= gram[rows].astype(np.float64) @ weights
    return residual


def one_hot(numbers: Int64s, t: int | None = None) -> Float32s:
    """Return a matrix (n, t) with 1 where a vector is of a class."""
    return np.eye(t or int(numbers.max()) + 1, dtype=np.float32)[numbers]


def best_ridge(features: Float64s, truth: Float64s, held: Float64s, held_truth: Float64s) -> float:
    """Return the ridge of least held-out error; one eigendecomposition solves for all of them.

    It is that of the products between the vectors: W = F' (F F' + ridge)^-1 Y.
    """
    values, vectors = eigh(features @ features.T, check_finite=False)
    left, right = held @ features.T @ vectors, vectors.T @ truth
    values = np.maximum(values, 0.0)[:, np.newaxis]
    floor = np.finfo(np.float64).eps * values.sum()  # below that, eigenvalues are rounding
    errors = [
        float(np.mean((left @ (right / (values + max(ridge, floor))) - held_truth) ** 2))
        for ridge in RIDGES
    ]
    return float(RIDGES[int(np.argmin(errors))])
