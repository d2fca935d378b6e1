"""Streaming linear discriminant analysis (Hayes and Kanan, 2020): class means, one covariance.

n vectors, d features, t classes. No vector is kept.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.rivals.inputs import as_examples, as_vectors, check_width, nothing_learned, number_labels
from cbcl.rivals.linear import LinearLayer

MIN_SHRINKAGE = 1e-6  # of the mean variance


class StreamingLDA:
    """Scores of Gaussians with one covariance: x' P m - m' P m / 2, P = ((1 - s) C + s I)^-1.

    C is the mean square deviation of the vectors from their class's mean, as if all had been there
    at once; the original updates it vector by vector, and counts the first of each class as if its
    mean had been 0. The shrinkage s is the original's, and tied to the scale of the features: to
    bring any to one scale, `power` takes each feature to that power, and then each vector to unit
    length.

    >>> vectors, labels = [[0.0, 1.0], [0.0, 2.0], [5.0, 5.0]], ["cup", "cup", "key"]
    >>> StreamingLDA().partial_fit(vectors, labels).predict([[1.0, 1.0], [5.0, 6.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, *, shrinkage: float = 1e-4, power: float | None = None) -> None:
        self.shrinkage, self.power = shrinkage, power
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.counts: Int64s = np.empty(0, dtype=np.int64)  # (t,)
        self.means: Float64s = np.empty((0, 0))  # (t, d)
        self.scatter: Float32s = np.empty((0, 0), dtype=np.float32)  # (d, d), n C
        self.layer: LinearLayer | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        vectors, labels = as_examples(X, y)
        check_width(vectors, len(self.scatter) or None)
        vectors = raise_to_power(vectors, self.power)
        classes, numbers = number_labels(self.classes, labels)
        counts = np.zeros(len(classes), dtype=np.int64)
        means = np.zeros((len(classes), vectors.shape[1]))
        if t := len(self.classes):
            counts[:t], means[:t] = self.counts, self.means
        deviations = _update(vectors, numbers, counts, means)
        with one_thread():
            scatter = deviations.T @ deviations
        self.scatter = scatter + self.scatter if t else scatter
        self.classes, self.counts, self.means, self.layer = classes, counts, means, None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        vectors = raise_to_power(as_vectors(X), self.power)
        return self.classes[self._solved_layer().answers(vectors)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        self._solved_layer()
        return {
            "classes": self.classes,
            "counts": self.counts,
            "means": self.means,
            "scatter": self.scatter,
        }

    def _solved_layer(self) -> LinearLayer:
        if not len(self.classes):
            raise nothing_learned()
        if self.layer is None:
            covariance = self.scatter * ((1.0 - self.shrinkage) / float(self.counts.sum()))
            self.layer = _discriminant(covariance.astype(np.float64), self.means, self.shrinkage)
        return self.layer


def raise_to_power(vectors: Float32s, power: float | None) -> Float32s:
    """Raise each feature to a power, its sign kept, and scale to unit length; None: as they are."""
    if power is None:
        return vectors
    raised: Float32s = np.copysign(np.abs(vectors) ** np.float32(power), vectors)
    lengths = np.linalg.norm(raised, axis=1, keepdims=True)
    np.divide(raised, lengths, out=raised, where=lengths > 0.0)
    return raised


def _update(vectors: Float32s, numbers: Int64s, counts: Int64s, means: Float64s) -> Float32s:
    """Update counts and means in place; return rows whose outer products add to the scatter.

    Those are the deviations from the mean of the class's new vectors, and for a class that was
    known, the shift between the old mean and that one, times the root of a b / (a + b), where a old
    and b new vectors come together.
    """
    deviations = np.empty_like(vectors)
    shifts = []
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        old, new = int(counts[number]), len(rows)
        mean = vectors[rows].mean(axis=0, dtype=np.float64)
        deviations[rows] = vectors[rows] - mean
        shift = mean - means[number]
        if old:
            shifts.append(shift * np.sqrt(old * new / (old + new)))
        counts[number] += new
        means[number] += shift * (new / (old + new))
    return (
        np.concatenate([deviations, np.array(shifts, dtype=np.float32)]) if shifts else deviations
    )


def _discriminant(covariance: Float64s, means: Float64s, shrinkage: float) -> LinearLayer:
    # In float64: the shrinkage may be a millionth of the largest variance, too small for float32.
    # Large features need more of it: their sums are off by a share of their size.
    least = MIN_SHRINKAGE * float(np.trace(covariance)) / len(covariance)
    covariance[np.diag_indices(len(covariance))] += max(shrinkage, least)
    with one_thread():
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, means.T, check_finite=False)  # (d, t)
    biases = -0.5 * np.einsum("td,dt->t", means, weights)
    return LinearLayer(weights.astype(np.float32), biases.astype(np.float32))
