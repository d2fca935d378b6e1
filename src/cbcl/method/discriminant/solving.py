"""Solving the classes for the discriminant: the pooled covariance, Fisher's space, the regression.

t classes, d features, k dimensions of Fisher's space. What is inverted is computed in float64.
Parts that are independent are computed on threads, in a division that is always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.blocks import map_threads
from cbcl.method.discriminant.statistics import ClassStatistics

SHRINKAGE = 0.5  # of the pooled covariance, in pseudo-views a feature
RIDGE = 0.5  # penalty of the regression, in units of the mean squared length of a class mean
POOLED_WEIGHT = 0.7  # of the pooled covariance in a class's own, for many views
MANY_VIEWS = 50.0  # of a class, from which it counts for itself
DUAL_SHARE = 0.7  # rows over features up to which the covariance is inverted by its rows
MAX_GENERAL_SOLVE = 128  # rows of a triangle that is solved like any matrix: scipy is not loaded
MIN_EIGENVALUE = 1e-9  # of the largest
MIN_PIVOT = 1e-6  # of the largest: with a smaller one, the eigenvalues are computed
MAX_EIGENVECTORS = 200  # classes up to which they are computed anyway
BLOCK_AXES = 4096  # of the axes of all classes
GROUP_CLASSES = 64  # of equal ranks


class Whitening(NamedTuple):
    """The inverse of a covariance: x W^-1 y = (x * diagonal) . y + sign (x factor) . (y factor)."""

    diagonal: Float64s  # (d,)
    factor: Matrix  # (d, m)
    sign: float


def own_weight(n: Any) -> Any:
    """Return the weight of a class's own covariance, by its number of views."""
    return (1.0 - POOLED_WEIGHT) * (1.0 - MANY_VIEWS / (MANY_VIEWS + n))


def row_squares(rows: Matrix) -> Matrix:
    squares: Matrix = np.einsum("nk,nk->n", rows, rows)
    return squares


def _blocks(n_rows: int) -> list[slice]:
    """Divide the axes of all classes, always in the same way, so that no bit depends on threads."""
    return [slice(start, start + BLOCK_AXES) for start in range(0, n_rows, BLOCK_AXES)]


def multiply_rows(rows: Float32s, matrix: Matrix, threads: int) -> Matrix:
    parts = map_threads(
        lambda block: rows[block] @ matrix, _blocks(len(rows)) or [slice(0)], threads
    )
    return np.concatenate([*parts])


def whiten(
    axes: Float32s, rest: Float64s, freedom: int, offsets: Float64s, threads: int = 1
) -> tuple[float, Whitening]:
    """Invert the pooled covariance (A'A + diag(rest) + s I) / (freedom + pseudo-views)."""
    d = len(rest)
    trace = float(np.einsum("rd,rd->", axes, axes, dtype=np.float64) + rest.sum())
    if freedom == 0 or trace <= 0.0:  # no class has two views: as if they differed as classes do
        freedom = 1
        trace = float((offsets**2).sum(axis=1).mean()) or 1.0
    pseudo = SHRINKAGE * d
    diagonal = rest + pseudo * trace / (d * freedom)
    total = freedom + pseudo
    if len(axes) <= DUAL_SHARE * d and len(offsets) <= d:
        scaled: Matrix = axes / np.sqrt(diagonal)
        gram = scaled @ scaled.T
        gram[np.diag_indices(len(gram))] += 1.0
        if len(axes):
            scaled = _solve_lower(np.linalg.cholesky(gram), scaled)
        factor: Float64s = (np.sqrt(total) * (scaled / np.sqrt(diagonal)).T).astype(np.float64)
        return total, Whitening(total / diagonal, factor, -1.0)

    def scatter(rows: slice) -> Float64s:
        block = axes[rows].astype(np.float64)
        return block.T @ block

    covariance = np.diag(diagonal)
    for part in map_threads(scatter, _blocks(len(axes)), threads):
        covariance += part
    from scipy.linalg.lapack import dtrtri  # which takes long to load

    inverse, _ = dtrtri(np.linalg.cholesky(covariance), lower=True)
    return total, Whitening(np.zeros(d), np.sqrt(total) * inverse.T, 1.0)


def _solve_lower(lower: Matrix, rows: Matrix) -> Matrix:
    """Return the inverse of a lower triangle times rows."""
    solution: Matrix
    if len(lower) <= MAX_GENERAL_SOLVE:
        solution = np.linalg.solve(lower, rows)
    else:
        from scipy.linalg import solve_triangular  # which takes long to load

        solution = solve_triangular(lower, rows, lower=True, check_finite=False)
    return solution


def find_fisher_space(whitening: Whitening, offsets: Float64s, kind: Any) -> tuple[Matrix, Matrix]:
    """Return a basis of Fisher's space, (d, k), and the class means there, (t, k).

    It is orthonormal under the covariance; which such basis it is changes no score.
    """
    t, d = offsets.shape
    diagonal, factor, sign = whitening
    if sign > 0.0:
        factor = factor.astype(kind, copy=False)
        white = offsets.astype(kind, copy=False) @ factor  # (t, d): the means, whitened
        if t > d:
            return _span(white, factor)
        weights = white @ factor.T
        white = white.astype(np.float64, copy=False)
        gram = white @ white.T
    else:
        weights = offsets * diagonal - (offsets @ factor) @ factor.T
        gram = weights @ offsets.T
    lower = _factor_gram(gram[:-1, :-1]) if t > MAX_EIGENVECTORS else None
    if lower is not None:  # the last mean is minus the sum of the others
        basis = _solve_lower(lower.astype(weights.dtype), weights[:-1])
        return basis.T, np.concatenate([lower, -lower.sum(axis=0, keepdims=True)])
    values, vectors = _eigenvectors(gram)
    return weights.T @ (vectors / np.sqrt(values)).astype(weights.dtype), vectors * np.sqrt(values)


def _span(white: Matrix, factor: Matrix) -> tuple[Matrix, Matrix]:
    """Return `find_fisher_space` of more classes than features: often the whole space."""
    rows = white.T.astype(np.float64)
    gram = rows @ rows.T
    if _factor_gram(gram) is not None:
        return factor, white
    _, vectors = _eigenvectors(gram)
    vectors = vectors.astype(white.dtype)
    return factor @ vectors, white @ vectors


def _factor_gram(gram: Float64s) -> Float64s | None:
    """Return the Cholesky factor of a Gram matrix; None where it is, or is nearly, singular."""
    try:
        lower: Float64s = np.linalg.cholesky(gram).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diag(lower) ** 2
    return lower if pivots.min() > MIN_PIVOT * pivots.max() else None


def _eigenvectors(gram: Float64s) -> tuple[Float64s, Float64s]:
    """Return the eigenvalues above 0, (k,), and their vectors, (t, k); if none is, 1 and 0."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    kept = values > MIN_EIGENVALUE * max(values[-1], 1e-300)
    if len(gram) == 1 or not kept.any():
        return np.ones(1), np.zeros((len(gram), 1))
    return values[kept], vectors[:, kept]


def regress(means: Matrix) -> Float64s:
    """Return the ridge regression from Fisher's space to the classes: (k, t)."""
    rows = means.T.astype(np.float64)  # (k, t)
    gram = rows @ rows.T / len(means)
    gram[np.diag_indices(len(rows))] += ridge_penalty(means)
    return np.linalg.solve(gram, rows).astype(np.float64, copy=False)


def ridge_penalty(means: Matrix) -> float:
    """Return the penalty of the regression, by the class means in Fisher's space."""
    return (
        RIDGE * float(np.einsum("tk,tk->", means, means, dtype=np.float64)) / len(means) ** 2 or 1.0
    )


def own_covariances(
    classes: Sequence[ClassStatistics], along: Matrix, basis: Matrix, threads: int
) -> tuple[Float64s, Matrix, Int64s, Float64s]:
    """Return spreads, factors, starts and log volumes of the classes' own covariances.

    Each is a mixture of the pooled one, which is the identity in Fisher's space, and the class's,
    whose axes lie there at `along`. Classes of equal ranks are solved together.
    """
    k = basis.shape[1]
    counts = np.array([known.n for known in classes])
    ranks = np.array([len(known.axes) for known in classes])
    starts = np.cumsum(ranks) - ranks
    energies = row_squares(basis).astype(np.float64) / k
    rests = np.array([0.0 if known.rest is None else known.rest @ energies for known in classes])
    weights = own_weight(counts)
    shares = weights / np.maximum(counts - 1, 1)
    spreads: Float64s = 1.0 - weights + shares * rests
    volumes: Float64s = k * np.log(spreads)
    scales = np.repeat(np.sqrt(shares / spreads), ranks)[:, np.newaxis]
    own = along * scales.astype(along.dtype)
    factors = np.empty_like(own)

    def solve(numbers: Int64s) -> None:
        rank = ranks[numbers[0]]
        rows = starts[numbers][:, np.newaxis] + np.arange(rank)  # (g, rank)
        group = own[rows]
        gram = (group @ group.transpose(0, 2, 1)).astype(np.float64) + np.eye(rank)
        lower = np.linalg.cholesky(gram)
        halves = np.linalg.inv(lower) / np.sqrt(spreads[numbers])[:, np.newaxis, np.newaxis]
        factors[rows] = halves.astype(own.dtype) @ group
        diagonals = np.diagonal(lower, axis1=1, axis2=2)
        volumes[numbers] += 2.0 * np.log(diagonals).sum(axis=1)

    groups: list[Int64s] = []
    for rank in np.unique(ranks[ranks > 0]):
        numbers = np.flatnonzero(ranks == rank)
        groups += np.split(numbers, range(GROUP_CLASSES, len(numbers), GROUP_CLASSES))
    for _ in map_threads(solve, groups, threads):
        pass
    return spreads, factors, starts, volumes
