"""Linear layers trained on all vectors so far: the paper's few-shot baseline, and a tuned one.

n vectors, d features, t classes. Both keep every vector, and train anew when they are next asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.blas import sgemm

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s
from cbcl_study.rivals.inputs import KeptExamples, as_vectors, check_width

# L2 penalties to try, the strongest first, for vectors of mean squared length 1 and summed losses.
PENALTIES = (0.3, 0.1, 0.03, 0.01)
DEFAULT_PENALTY = 0.1  # where there is nothing to validate on
TEMPERATURES = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6)  # factors of scores before they are compared
MAX_VALIDATED = 2_500  # vectors to choose a penalty with
HELD_OUT_SHARE = 0.2  # of each class
MAX_CURVATURE_ROWS = 10_000  # vectors to estimate the Hessian from
CURVATURE = 0.1  # p (1 - p), the loss's second derivative, at a probability between sure and lost
MAX_ITERATIONS = 6  # of L-BFGS: on real vectors, more change no accuracy
ROUNDING = 1e-7  # of a loss, in float32
MAX_PAIRS = 20  # of steps that L-BFGS remembers


class LinearLayer(NamedTuple):
    """Scores are x W + b."""

    weights: Float32s  # (d, t)
    biases: Float32s  # (t,)

    def answers(self, vectors: Float32s) -> Int64s:
        """Return the number of each vector's class: (n,)."""
        check_width(vectors, len(self.weights))
        numbers: Int64s = np.argmax(vectors @ self.weights + self.biases, axis=1)
        return numbers


class Frame(NamedTuple):
    """The vectors' mean, and the root mean square of their distances from it."""

    mean: Float32s  # (d,)
    length: float

    @classmethod
    def of(cls, vectors: Float32s) -> Frame:
        mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        offsets = vectors - mean
        squares = float(np.einsum("nd,nd->", offsets, offsets, dtype=np.float64))
        return cls(mean, math.sqrt(squares / len(vectors)) or 1.0)

    def points(self, vectors: Float32s) -> Float32s:
        """Return the vectors, centred and scaled, and 1, for the bias: (n, d + 1)."""
        n, d = vectors.shape
        points = np.ones((n, d + 1), dtype=np.float32)
        np.subtract(vectors, self.mean, out=points[:, :d])
        points[:, :d] /= self.length
        return points

    def layer(self, weights: Float32s) -> LinearLayer:
        """Return the layer that gives vectors the scores that weights give their points."""
        slopes = weights[:-1] / self.length
        return LinearLayer(slopes, weights[-1] - self.mean @ slopes)

    def weights(self, layer: LinearLayer) -> Float32s:
        """Return what `layer` was made of: (d + 1, t)."""
        slopes, biases = layer
        return np.vstack([slopes * np.float32(self.length), biases + self.mean @ slopes])


# From vectors, the numbers of their classes, and t.
LayerTrainer: TypeAlias = Callable[[Float32s, Int64s, int], LinearLayer]


class RetrainedLayer:
    """A learner that keeps all vectors and trains a layer on them anew."""

    def __init__(self, train: LayerTrainer) -> None:
        self.train, self.kept = train, KeptExamples()
        self.layer: LinearLayer | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep these vectors and labels."""
        self.kept.add(X, y)
        self.layer = None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        return self.kept.classes[self._trained_layer().answers(as_vectors(X))]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        layer = self._trained_layer()
        return {**self.kept.arrays(), **layer._asdict()}

    def _trained_layer(self) -> LinearLayer:
        if self.layer is None:
            vectors = self.kept.vectors()
            with one_thread():
                self.layer = self.train(vectors, self.kept.numbers, len(self.kept.classes))
        return self.layer


class FewShotBaseline(RetrainedLayer):
    """The paper's FLB: a softmax layer by plain stochastic gradient descent on raw vectors.

    >>> learner = FewShotBaseline().partial_fit([[0.0, 90.0], [90.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(
        self, *, epochs: int = 25, rate: float = 0.001, batch: int = 8, seed: int = 0
    ) -> None:
        super().__init__(partial(descend, epochs=epochs, rate=rate, batch=batch, seed=seed))


class LinearProbe(RetrainedLayer):
    """Multinomial logistic regression, its L2 penalty chosen on held-out vectors.

    It shows how well batch learning can do.

    >>> learner = LinearProbe().partial_fit([[0.0, 9.0], [9.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(partial(train_probe, seed=seed))


def descend(
    vectors: Float32s, numbers: Int64s, t: int, *, epochs: int, rate: float, batch: int, seed: int
) -> LinearLayer:
    """Train by stochastic gradient descent on the softmax loss, from Glorot's uniform weights."""
    rng = np.random.default_rng(seed)
    n, d = vectors.shape
    limit = math.sqrt(6.0 / (d + t))
    weights = rng.uniform(-limit, limit, size=(d, t)).astype(np.float32)
    biases = np.zeros(t, dtype=np.float32)
    inputs, scores = np.empty((batch, d), np.float32), np.empty((batch, t), np.float32)
    places = np.arange(batch)
    for _ in range(epochs):
        order = rng.permutation(n)
        for start in range(0, n, batch):
            rows = order[start : start + batch]
            x, errors = inputs[: len(rows)], scores[: len(rows)]
            np.take(vectors, rows, axis=0, out=x, mode="clip")  # any other mode copies once more
            np.matmul(x, weights, out=errors)
            errors += biases
            errors -= errors.max(axis=1, keepdims=True)
            _exponentiate(errors)
            errors[places[: len(rows)], numbers[rows]] -= 1.0
            errors *= rate / len(rows)
            # weights -= x.T @ errors, in one pass over them.
            sgemm(-1.0, errors.T, x.T, 1.0, weights.T, trans_b=True, overwrite_c=True)
            biases -= errors.sum(axis=0)
    return LinearLayer(weights, biases)


def softmax_errors(scores: Float32s, numbers: Int64s) -> Float32s:
    """Turn scores (n, t) into probabilities less the truth, in place; return the losses (n,)."""
    rows = np.arange(len(numbers))
    scores -= scores.max(axis=1, keepdims=True)
    losses = -scores[rows, numbers]
    losses += np.log(_exponentiate(scores)[:, 0])
    scores[rows, numbers] -= 1.0
    return losses


def _exponentiate(scores: Float32s) -> Float32s:
    """Turn scores of at most 0 into probabilities, in place; return what they summed to: (n, 1)."""
    np.exp(scores, out=scores)
    sums: Float32s = scores.sum(axis=1, keepdims=True)
    scores /= sums
    return sums


def train_probe(vectors: Float32s, numbers: Int64s, t: int, *, seed: int) -> LinearLayer:
    """Return the layer of least loss under the penalty that is best for held-out vectors.

    The vectors are centred and scaled by one number: a scale for each feature would be noise where
    vectors are few.
    """
    n, d = vectors.shape
    frame = Frame.of(vectors)
    points = frame.points(vectors)
    basis = None
    if n < d:
        # The best weights are a mixture of the n vectors: so n features do, X = F Q, Q Q' = I.
        gram = points @ points.T
        # More than float32 rounds off, where rows are equal.
        gram[np.diag_indices(n)] += 1e-4 * gram.trace() / n
        factor = cholesky(gram, lower=True, check_finite=False)
        basis, points = solve_triangular(factor, points, lower=True, check_finite=False), factor
    weights: Float32s = np.zeros((points.shape[1], t), dtype=np.float32)
    penalty, weights = choose_penalty(points, numbers, *split(numbers, seed), weights)
    weights = minimise_loss(points, numbers, penalty, weights)
    return frame.layer(weights if basis is None else basis.T @ weights)


def split(numbers: Int64s, seed: int) -> tuple[Int64s, Int64s]:
    """Return rows to train and rows to validate on: some of each class that has two."""
    rng = np.random.default_rng(seed)
    classes = np.unique(numbers)
    limit = max(2, MAX_VALIDATED // len(classes))
    trained, held_out = [], []
    for number in classes:
        rows = rng.permutation(np.flatnonzero(numbers == number))[:limit]
        cut = max(1, round(HELD_OUT_SHARE * len(rows))) if len(rows) > 1 else 0
        held_out.append(rows[:cut])
        trained.append(rows[cut:])
    return np.concatenate(trained), np.concatenate(held_out)


def choose_penalty(
    points: Float32s, numbers: Int64s, trained: Int64s, held_out: Int64s, weights: Float32s
) -> tuple[float, Float32s]:
    """Return the penalty of least loss on the held-out points, and the weights it gave.

    A stronger penalty gives lower scores, and so a higher loss, where all answers are the same:
    each penalty's scores are multiplied by the factor that suits them best.
    """
    if not len(held_out):
        return DEFAULT_PENALTY, weights
    x, truth, least, best = points[trained], numbers[trained], math.inf, (DEFAULT_PENALTY, weights)
    for penalty in PENALTIES:
        weights = minimise_loss(x, truth, penalty, weights)
        scores = points[held_out] @ weights
        loss = min(
            float(softmax_errors(scores * np.float32(factor), numbers[held_out]).mean())
            for factor in TEMPERATURES
        )
        if loss < least:
            least, best = loss, (penalty, weights)
    return best


def penalised_loss(
    points: Float32s, numbers: Int64s, penalty: float, weights: Float32s
) -> tuple[float, Float32s]:
    """Return the mean softmax loss and |W|^2 penalty / 2n, and the gradient."""
    n = len(points)
    errors = points @ weights
    losses = softmax_errors(errors, numbers)
    errors /= n
    gradient: Float32s = points.T @ errors
    gradient += np.float32(penalty / n) * weights
    value = float(losses.mean(dtype=np.float64))
    return value + 0.5 * penalty / n * _inner(weights, weights), gradient


def minimise_loss(
    points: Float32s,
    numbers: Int64s,
    penalty: float,
    weights: Float32s,
    *,
    curvature: float = CURVATURE,
    max_iterations: int = MAX_ITERATIONS,
    least_gradient: float = 0.0,
) -> Float32s:
    """Return weights of less `penalised_loss`: a few steps of L-BFGS, or until the gradient is so.

    The first estimate of the Hessian is that of a loss of one curvature everywhere, a matrix of
    features alone. scipy's L-BFGS takes other steps, and where a few of them stop decides up to 1.4
    points of accuracy: the records of the probe are of these.
    """
    hessian = _hessian(points, penalty, curvature)
    factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    value, gradient = penalised_loss(points, numbers, penalty, weights)
    pairs: list[tuple[Float32s, Float32s, float]] = []
    for _ in range(max_iterations):
        if _inner(gradient, gradient) <= least_gradient**2:
            break
        direction = _direction(gradient, pairs, lambda g: cho_solve(factor, g, check_finite=False))
        slope, size = _inner(gradient, direction), 1.0
        lower = penalised_loss(points, numbers, penalty, weights - direction)
        while not _is_lower(lower, value, direction, slope, size):
            size *= 0.4
            if size < 1e-3:
                return weights  # as low as float32 can tell
            moved = weights - np.float32(size) * direction
            lower = penalised_loss(points, numbers, penalty, moved)
        step = np.float32(-size) * direction
        change = lower[1] - gradient
        weights, (value, gradient) = weights + step, lower
        if (inner := _inner(step, change)) > 0.0:
            pairs = [*pairs, (step, change, inner)][-MAX_PAIRS:]
    return weights


def _is_lower(
    there: tuple[float, Float32s], value: float, direction: Float32s, slope: float, size: float
) -> bool:
    """Tell if a step of this size lowers the loss enough; where rounding hides it, by slopes."""
    if there[0] <= value - 1e-4 * size * slope:
        return True
    return there[0] <= value * (1.0 + ROUNDING) and _inner(there[1], direction) >= -0.9 * slope


def _direction(
    gradient: Float32s,
    pairs: list[tuple[Float32s, Float32s, float]],
    solve: Callable[[Float32s], Float32s],
) -> Float32s:
    """Multiply the gradient by the inverse Hessian that the last steps tell of (two loops)."""
    direction, shares = gradient.copy(), []
    for step, change, curvature in reversed(pairs):
        shares.append(_inner(step, direction) / curvature)
        direction -= np.float32(shares[-1]) * change
    direction = solve(direction)
    for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += np.float32(share - _inner(change, direction) / curvature) * step
    return direction


def _inner(a: Float32s, b: Float32s) -> float:
    return float(np.vdot(a, b))


def _hessian(points: Float32s, penalty: float, curvature: float) -> Float32s:
    sample = points[:: -(-len(points) // MAX_CURVATURE_ROWS)]
    hessian: Float32s = sample.T @ sample
    hessian *= curvature / len(sample)
    # The penalty's part, or as much as makes the matrix definite in float32.
    least = 3e-6 * float(hessian.trace())
    hessian[np.diag_indices(len(hessian))] += max(penalty / len(points), least)
    return hessian
