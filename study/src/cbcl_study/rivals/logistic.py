"""Joint logistic regression, solved to convergence: batch learning at its best.

n vectors, d features, t classes. It keeps every vector, as the directions that the discriminant of
`cbcl.method` sees.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.discriminant.directions import as_directions
from cbcl_study.rivals.inputs import as_vectors
from cbcl_study.rivals.linear import (
    Frame,
    LinearLayer,
    RetrainedLayer,
    minimise_loss,
    penalised_loss,
    softmax_errors,
)

TOLERANCE = 1e-4  # of the norm of the gradient, as a share of that of no weights
# At each, the curvature of the loss is estimated anew: near the minimum it is another.
ROUNDS = (8, 16, 1000)  # iterations


class JointLogistic(RetrainedLayer):
    """Multinomial logistic regression under a given L2 penalty, trained on all vectors so far.

    The penalty is for vectors that are centred and scaled to a mean squared length of 1, and for
    the sum of their losses. Each training starts from the last one. `gradient` is the norm of the
    gradient where it ended, as a share of that of no weights.

    >>> learner = JointLogistic().partial_fit([[0.0, 9.0], [9.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self, *, penalty: float = 0.1) -> None:
        super().__init__(self._solve)
        self.penalty = penalty
        self.solved: LinearLayer | None = None
        self.gradient = math.nan

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep these vectors and labels."""
        return super().partial_fit(as_directions(as_vectors(X)), y)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        return super().predict(as_directions(as_vectors(X)))

    def _solve(self, vectors: Float32s, numbers: Int64s, t: int) -> LinearLayer:
        n, d = vectors.shape
        frame = Frame.of(vectors)
        points, basis = frame.points(vectors), None
        weights = np.zeros((d + 1, t), dtype=np.float32)
        if self.solved is not None:
            weights[:, : self.solved.weights.shape[1]] = frame.weights(self.solved)
        if n <= d:  # the best weights are a mixture of the n points
            basis, mixture = np.linalg.qr(points.T)
            points, weights = np.ascontiguousarray(mixture.T), basis.T @ weights
        weights, self.gradient = solve(points, numbers, self.penalty, weights)
        self.solved = frame.layer(weights if basis is None else basis @ weights)
        return self.solved


def solve(
    points: Float32s, numbers: Int64s, penalty: float, weights: Float32s
) -> tuple[Float32s, float]:
    """Return the weights of least loss, and their gradient's norm as a share of no weights'."""
    _, gradient = penalised_loss(points, numbers, penalty, np.zeros_like(weights))
    most = float(np.linalg.norm(gradient)) or 1.0
    for iterations in ROUNDS:
        weights = minimise_loss(
            points,
            numbers,
            penalty,
            weights,
            curvature=mean_curvature(points, numbers, weights),
            max_iterations=iterations,
            least_gradient=TOLERANCE * most,
        )
    _, gradient = penalised_loss(points, numbers, penalty, weights)
    return weights, float(np.linalg.norm(gradient)) / most


def mean_curvature(points: Float32s, numbers: Int64s, weights: Float32s) -> float:
    """Return the mean of p (1 - p) over the probabilities of all vectors and classes."""
    errors = points @ weights
    softmax_errors(errors, numbers)
    rows = np.arange(len(numbers))
    errors[rows, numbers] += 1.0
    return float((errors * (1.0 - errors)).mean(dtype=np.float64))
