"""Vectors as the statistics see them: the direction of an embedding, or measurements as they are.

n vectors, d features. An embedding's features are raised to the power of one half, with their
signs, and the result scaled to unit length: that makes a few strong features count less, and its
brightness or contrast not at all. A vector of few features is no embedding, and its length counts.
"""

from __future__ import annotations

import numpy as np

from cbcl.method.arrays import Float32s, Matrix, as_float32, not_finite

MIN_EMBEDDING = 64  # features: a vector of fewer is taken for measurements
SIGN_BIT = np.uint32(1 << 31)  # of float32


def as_directions(matrix: Matrix) -> Float32s:
    """Return the rows as the statistics see them; row by row, so that no batch matters.

    >>> as_directions(np.array([[3.0, -4.0]])).tolist()
    [[3.0, -4.0]]
    >>> as_directions(np.repeat([[9.0, -1.0, 0.0, 6.0]], 16, axis=1))[0, [0, 16, 32]].tolist()
    [0.1875, -0.0625, 0.0]
    """
    vectors = as_float32(matrix)
    directions = np.abs(vectors)
    lengths = directions.sum(axis=1, keepdims=True, dtype=np.float64)  # cannot overflow
    if not np.isfinite(lengths).all():
        raise not_finite("vectors")
    if vectors.shape[1] < MIN_EMBEDDING:
        return vectors
    lengths[lengths == 0.0] = 1.0
    np.sqrt(directions, out=directions)
    directions /= np.sqrt(lengths).astype(np.float32)
    directions.view(np.uint32)[:] |= vectors.view(np.uint32) & SIGN_BIT  # faster than copysign
    return directions
