"""Linear layers trained on all vectors so far: the paper's few-shot baseline, and one that is tuned.

n vectors, d features, t classes. Both keep every vector they were shown, and train anew when they are next asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s, Matrix, as_float32, as_matrix, not_finite

# L2 penalties to try, the strongest first, for vectors of mean squared length 1 and the sum of their losses.
PENALTIES = (0.3, 0.1, 0.03, 0.01)
USUAL = 0.1  # where there is nothing to validate on
SHARPER = (
    0.7,
    1.0,
    1.4,
    2.0,
    2.8,
    4.0,
    5.6,
)  # what scores are multiplied by to see them at their best
MAX_TRIED = 2_500  # vectors to try them on, at most
HELD = 0.2  # of each class, to validate on
MAX_CURVED = 10_000  # vectors to measure the curvature on, at most
CURVATURE = 0.1  # p (1 - p), the loss's second derivative, where p is a probability that is neither sure nor lost
STEPS = 6  # of quasi-Newton: on real vectors, more change no accuracy
STEPS_KEPT = 6


class LinearLayer(NamedTuple):
    """Scores are x W + b."""

    weights: Float32s  # (d, t)
    biases: Float32s  # (t,)

    def answers(self, vectors: Float32s) -> Int64s:
        """The number of each vector's class: (n,)."""
        check_width(vectors, len(self.weights))
        numbers: Int64s = np.argmax(vectors @ self.weights + self.biases, axis=1)
        return numbers


Train: TypeAlias = Callable[
    [Float32s, Int64s, int], LinearLayer
]  # vectors, the numbers of their classes, t


class Retrained:
    """Keeps all it was shown, and trains a layer on it anew."""

    def __init__(self, train: Train) -> None:
        self.train = train
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.blocks: list[Float32s] = []
        self.numbers: Int64s = np.empty(0, dtype=np.int64)
        self.layer: LinearLayer | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep these vectors and labels."""
        vectors, labels = examples(X, y)
        check_width(vectors, self.blocks[0].shape[1] if self.blocks else None)
        self.classes, numbers = numbered(self.classes, labels)
        self.blocks.append(vectors.copy())
        self.numbers = np.concatenate([self.numbers, numbers])
        self.layer = None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each vector."""
        return self.classes[self._trained().answers(as_vectors(X))]

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on."""
        layer = self._trained()
        return {
            "classes": self.classes,
            "vectors": self.blocks[0],
            "numbers": self.numbers,
            **layer._asdict(),
        }

    def _trained(self) -> LinearLayer:
        if not self.blocks:
            raise nothing_learned()
        if self.layer is None:
            self.blocks = [np.concatenate(self.blocks)]
            with one_thread():
                self.layer = self.train(self.blocks[0], self.numbers, len(self.classes))
        return self.layer


class FewShotBaseline(Retrained):
    """The paper's FLB: a softmax layer by plain stochastic gradient descent on the vectors as they come.

    >>> learner = FewShotBaseline().partial_fit([[0.0, 90.0], [90.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(
        self, *, epochs: int = 25, rate: float = 0.001, batch: int = 8, seed: int = 0
    ) -> None:
        super().__init__(partial(descend, epochs=epochs, rate=rate, batch=batch, seed=seed))


class LinearProbe(Retrained):
    """Multinomial logistic regression with an L2 penalty chosen on held-out vectors: what batch learning can do.

    >>> learner = LinearProbe().partial_fit([[0.0, 9.0], [9.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(partial(probe, seed=seed))


def as_vectors(X: ArrayLike) -> Float32s:
    vectors = as_float32(as_matrix(X))
    if not np.isfinite(vectors).all():
        raise not_finite("vectors")
    return vectors


def examples(X: ArrayLike, y: ArrayLike) -> tuple[Float32s, NDArray[Any]]:
    """Vectors and their labels, checked; they may still be the caller's own arrays."""
    vectors, labels = as_vectors(X), np.asarray(y)
    check_labels(vectors, labels)
    return vectors, labels


def check_labels(vectors: Matrix, labels: NDArray[Any]) -> None:
    if labels.shape != vectors.shape[:1]:
        raise ValueError(
            f"{len(vectors)} vectors need as many labels: got labels of shape {labels.shape}."
        )


def check_width(vectors: Matrix, d: int | None) -> None:
    """Vectors of as many features as those learned before, if any were."""
    if d is not None and vectors.shape[1] != d:
        raise ValueError(
            f"vectors have {vectors.shape[1]} features, but those learned before have {d}."
        )


def numbered(classes: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    """The classes and those among the labels that are new, in the order in which they came; each label's number."""
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    found = np.array(
        [numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64
    )
    return np.array([*numbers]), found


def nothing_learned() -> ValueError:
    return ValueError("nothing was learned yet: call partial_fit first.")


def descend(
    vectors: Float32s, numbers: Int64s, t: int, *, epochs: int, rate: float, batch: int, seed: int
) -> LinearLayer:
    """Stochastic gradient descent on the softmax loss, from Glorot's uniform weights and no biases."""
    rng = np.random.default_rng(seed)
    n, d = vectors.shape
    limit = math.sqrt(6.0 / (d + t))
    weights, biases = (
        rng.uniform(-limit, limit, size=(d, t)).astype(np.float32),
        np.zeros(t, dtype=np.float32),
    )
    some, scores = np.empty((batch, d), dtype=np.float32), np.empty((batch, t), dtype=np.float32)
    step = np.empty_like(weights)
    for _ in range(epochs):
        order = rng.permutation(n)
        for start in range(0, n, batch):
            rows = order[start : start + batch]
            x, errors = some[: len(rows)], scores[: len(rows)]
            np.take(vectors, rows, axis=0, out=x, mode="clip")  # any other mode copies once more
            np.matmul(x, weights, out=errors)
            errors += biases
            softmax_errors(errors, numbers[rows])
            errors *= rate / len(rows)
            weights -= np.matmul(x.T, errors, out=step)
            biases -= errors.sum(axis=0)
    return LinearLayer(weights, biases)


def softmax_errors(scores: Float32s, numbers: Int64s) -> Float32s:
    """Turns scores (n, t) into probabilities less the truth, in place; gives the losses (n,)."""
    rows = np.arange(len(numbers))
    scores -= scores.max(axis=1, keepdims=True)
    losses = -scores[rows, numbers]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1, keepdims=True)
    scores /= sums
    scores[rows, numbers] -= 1.0
    losses += np.log(sums[:, 0])
    return losses


def probe(vectors: Float32s, numbers: Int64s, t: int, *, seed: int) -> LinearLayer:
    """The layer of least softmax loss under the penalty that is best for held-out vectors.

    The vectors are centred and scaled, by one number: a scale for each feature would be noise where vectors are few.
    """
    n, d = vectors.shape
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    points = np.ones((n, d + 1), dtype=np.float32)  # the bias is one more feature
    np.subtract(vectors, mean, out=points[:, :d])
    length = (
        math.sqrt(float(np.einsum("nd,nd->", points[:, :d], points[:, :d], dtype=np.float64)) / n)
        or 1.0
    )
    points[:, :d] /= length
    basis = None
    if n < d:
        # The best weights are a mixture of the n vectors, so those may be turned into n features: X = F Q, Q Q' = I.
        gram = points @ points.T
        gram[np.diag_indices(n)] += (
            1e-4 * gram.trace() / n
        )  # more than what float32 rounds off, where rows are equal
        factor = cholesky(gram, lower=True, check_finite=False)
        basis, points = solve_triangular(factor, points, lower=True, check_finite=False), factor
    tried, held = split(numbers, seed)
    weights: Float32s = np.zeros((points.shape[1], t), dtype=np.float32)
    penalty, weights = choose_penalty(points, numbers, tried, held, weights)
    weights = minimise(points, numbers, penalty, weights)
    if basis is not None:
        weights = basis.T @ weights
    return LinearLayer(weights[:d] / length, weights[d] - mean @ weights[:d] / length)


def split(numbers: Int64s, seed: int) -> tuple[Int64s, Int64s]:
    """Rows to try penalties on and rows to validate on: some of each class that has two."""
    rng = np.random.default_rng(seed)
    classes = np.unique(numbers)
    tried, held = [], []
    for number in classes:
        rows = rng.permutation(np.flatnonzero(numbers == number))[
            : max(2, MAX_TRIED // len(classes))
        ]
        cut = max(1, round(HELD * len(rows))) if len(rows) > 1 else 0
        held.append(rows[:cut])
        tried.append(rows[cut:])
    return np.concatenate(tried), np.concatenate(held)


def choose_penalty(
    points: Float32s, numbers: Int64s, tried: Int64s, held: Int64s, weights: Float32s
) -> tuple[float, Float32s]:
    """The penalty of least loss on the held-out points, and the weights it gave.

    A stronger penalty gives lower scores, and so a higher loss, where all answers are the same. Each penalty's scores
    are therefore multiplied by what suits them best.
    """
    if not len(held):
        return USUAL, weights
    x, truth, least, best = points[tried], numbers[tried], math.inf, (USUAL, weights)
    for penalty in PENALTIES:
        weights = minimise(x, truth, penalty, weights)
        scores = points[held] @ weights
        losses = [
            softmax_errors(scores * np.float32(factor), numbers[held]).mean() for factor in SHARPER
        ]
        if min(losses) < least:
            least, best = float(min(losses)), (penalty, weights)
    return best


def minimise(points: Float32s, numbers: Int64s, penalty: float, weights: Float32s) -> Float32s:
    """Weights of less loss than these: L-BFGS on the mean loss and |W|^2 penalty / 2n.

    Its first guess at the Hessian is that of a loss of one curvature everywhere, which is a matrix of features alone.
    """
    n = len(points)

    def objective(at: Float32s) -> tuple[float, Float32s]:
        errors = points @ at
        losses = softmax_errors(errors, numbers)
        errors /= n
        gradient: Float32s = points.T @ errors
        gradient += np.float32(penalty / n) * at
        return float(losses.mean(dtype=np.float64)) + 0.5 * penalty / n * _inner(at, at), gradient

    some = points[:: -(-n // MAX_CURVED)]
    hessian = some.T @ some
    hessian *= CURVATURE / len(some)
    hessian[np.diag_indices(len(hessian))] += max(
        penalty / n, 3e-6 * float(hessian.trace())
    )  # the same there
    factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    value, gradient = objective(weights)
    pairs: list[tuple[Float32s, Float32s, float]] = []
    for _ in range(STEPS):
        way = _direction(gradient, pairs, lambda g: cho_solve(factor, g, check_finite=False))
        slope, size = _inner(gradient, way), 1.0
        while (found := objective(weights - np.float32(size) * way))[
            0
        ] > value - 1e-4 * size * slope:
            size *= 0.4
            if size < 1e-3:
                return weights  # as low as float32 can tell
        step = np.float32(-size) * way
        change = found[1] - gradient
        weights, (value, gradient) = weights + step, found
        if (curvature := _inner(step, change)) > 0.0:
            pairs = [*pairs, (step, change, curvature)][-STEPS_KEPT:]
    return weights


def _direction(
    gradient: Float32s,
    pairs: list[tuple[Float32s, Float32s, float]],
    solve: Callable[[Float32s], Float32s],
) -> Float32s:
    """The two loops of L-BFGS: the inverse Hessian that the last steps tell of, times the gradient."""
    way, shares = gradient.copy(), []
    for step, change, curvature in reversed(pairs):
        shares.append(_inner(step, way) / curvature)
        way -= np.float32(shares[-1]) * change
    way = solve(way)
    for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        way += np.float32(share - _inner(change, way) / curvature) * step
    return way


def _inner(a: Float32s, b: Float32s) -> float:
    return float(np.vdot(a, b))
