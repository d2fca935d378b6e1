"""Streaming linear discriminant analysis (Hayes and Kanan, 2020): class means, one covariance.

n vectors, d features, t classes. No vector is kept: all that is estimated, the shrinkage of the
covariance included, is estimated from counts, means and the sum of squared deviations.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl_study.rivals.inputs import (
    as_examples,
    as_vectors,
    check_width,
    nothing_learned,
    number_labels,
)
from cbcl_study.rivals.linear import LinearLayer


class StreamingLDA:
    """Scores of Gaussians with one covariance: x' P m - m' P m / 2, P = ((1 - s) C + s v I)^-1.

    C is the covariance of the vectors within their classes, as if all had been there at once, with
    f = n - t degrees of freedom, v its mean variance, and s = d / (f + d): the ridge-type empirical
    Bayes estimate of Kubokawa and Srivastava (2008). P is then the mean of the precision given the
    vectors, if before it had a Wishart distribution of mean I / v and of d degrees of freedom, the
    fewest it can have. The original updates C vector by vector, counts the first of each class as
    if its mean had been 0, and has s fixed and v = 1, which suits features of one scale and number
    only. `power` takes each feature to that power, and then each vector to unit length.

    >>> vectors, labels = [[0.0, 1.0], [0.0, 2.0], [5.0, 5.0]], ["cup", "cup", "key"]
    >>> StreamingLDA().partial_fit(vectors, labels).predict([[1.0, 1.0], [5.0, 6.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, *, power: float | None = None) -> None:
        self.power = power
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.counts: Int64s = np.empty(0, dtype=np.int64)  # (t,)
        self.means: Float64s = np.empty((0, 0))  # (t, d)
        self.scatter: Float32s = np.empty((0, 0), dtype=np.float32)  # (d, d), (n - t) C
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
            freedom = int(self.counts.sum()) - len(self.classes)
            self.layer = _discriminant(self.scatter.astype(np.float64), freedom, self.means)
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


def _discriminant(scatter: Float64s, freedom: int, means: Float64s) -> LinearLayer:
    """Return the layer of the scores, in units of the mean variance; overwrite the scatter."""
    d, trace = len(scatter), float(np.trace(scatter))
    if trace > 0.0:
        scatter *= d / trace  # of mean variance 1
    shrinkage = d / (freedom + d)
    scatter *= 1.0 - shrinkage
    scatter[np.diag_indices(d)] += shrinkage
    with one_thread():
        factor = cho_factor(scatter, lower=True, overwrite_a=True, check_finite=False)
        # From the middle of the classes, where large features that all of them have are small.
        middle = means.mean(axis=0)
        weights = cho_solve(factor, (means - middle).T, check_finite=False)  # (d, t)
    biases = -0.5 * np.einsum("td,dt->t", means + middle, weights)
    return LinearLayer(weights.astype(np.float32), biases.astype(np.float32))
