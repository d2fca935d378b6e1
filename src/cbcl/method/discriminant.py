"""Discriminant: labels vectors by the statistics of all classes, solved in closed form.

t classes, n views of a class, d features, k dimensions of Fisher's space, q vectors. All classes
share a covariance within classes, shrunk towards the identity; in the space that the class means
span under it (Fisher's), each class also has its own. To the log density of that, a ridge
regression to the labels is added, which helps where classes have few views. `docs/method.md` has
the formulas, and the constants' origin. What is inverted is computed in float64; products with many
vectors are in float32, but for measurements, whose lengths may differ by any factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.directions import MIN_EMBEDDING
from cbcl.method.statistics import ClassStatistics

SHRINKAGE = 0.5  # of the pooled covariance, in pseudo-views a feature
RIDGE = 0.5  # penalty of the regression, in units of the mean squared length of a class mean
RIDGE_WEIGHT = 0.3  # of the regression in the score, for few views
POOLED_WEIGHT = 0.7  # of the pooled covariance in a class's own, for many views
MANY_VIEWS = 50.0  # of a class, from which it counts for itself
DUAL_SHARE = 0.7  # rows over features up to which the covariance is inverted by its rows
MAX_GENERAL_SOLVE = 128  # rows of a triangle that is solved like any matrix: scipy is not loaded
MIN_EIGENVALUE = 1e-9  # of the largest
MIN_PIVOT = 1e-6  # of the largest: with a smaller one, the eigenvalues are computed
MAX_EIGENVECTORS = 200  # classes up to which they are computed anyway
ROWS_AT_A_TIME = 4096  # of the axes of all classes


class Whitening(NamedTuple):
    """The inverse of a covariance: x W^-1 y = (x * diagonal) . y + sign (x factor) . (y factor)."""

    diagonal: Float64s  # (d,)
    factor: Matrix  # (d, m)
    sign: float


class Scores(NamedTuple):
    """Scores of q vectors for each class."""

    total: Float64s  # (q, t), the larger, the likelier; of mean 0 and deviation 1 for each vector
    distances: Float64s  # (q, t), squared, to each mean by the pooled covariance
    gains: Float64s  # (q, t), by which a class explains a vector better than no class
    ridge: Float64s  # (q, t)


@dataclass(frozen=True, eq=False)
class Discriminant:
    """The classes, solved. A `Matrix` is of float32, for measurements of float64."""

    counts: Int64s  # (t,), views of each
    freedom: float  # of the pooled covariance, with the pseudo-views
    centre: Float64s  # (d,), the mean of the class means
    whitening: Whitening
    basis: Matrix  # (d, k), of Fisher's space
    means: Matrix  # (t, k), there
    regression: Matrix  # (k, t)
    spreads: Float64s  # (t,), variance of each class in all directions, in units of the pooled
    factors: Matrix  # (sum of ranks, k): what each class's own axes take off its distances
    starts: Int64s  # (t,), the first of each class's factors
    log_volumes: Float64s  # (t,)

    @classmethod
    def of(cls, classes: Sequence[ClassStatistics]) -> Discriminant:
        """Solve at least one class."""
        counts = np.array([known.n for known in classes])
        means = np.stack([known.mean for known in classes])
        centre = means.mean(axis=0)
        offsets = means - centre
        axes = np.concatenate([known.axes for known in classes])
        rest: Float64s = np.zeros(len(centre))
        for known in classes:
            if known.rest is not None:
                rest += known.rest
        kind = _kind(len(centre))
        freedom, whitening = _whiten(axes, rest, int(counts.sum()) - len(counts), offsets)
        basis, places = _fisher(whitening, offsets, kind)
        return cls(
            counts,
            freedom,
            centre,
            whitening._replace(factor=whitening.factor.astype(kind, copy=False)),
            basis.astype(kind, copy=False),
            places.astype(kind, copy=False),
            _regress(places).astype(kind, copy=False),
            *_own_covariances(classes, axes @ basis.astype(kind, copy=False), basis),
        )

    @cached_property
    def ridge_weight(self) -> float:
        """Weight of the regression; of measurements 0, as their few features mask classes."""
        if len(self.centre) < MIN_EMBEDDING:
            return 0.0
        return float(RIDGE_WEIGHT * MANY_VIEWS / (MANY_VIEWS + self.counts.mean()))

    @cached_property
    def ranks(self) -> Int64s:
        """The number of each class's factors: (t,)."""
        ranks: Int64s = np.diff(self.starts, append=len(self.factors))
        return ranks

    @cached_property
    def factor_offsets(self) -> Float64s:
        """Return where each class's mean lies on its own factors: (sum of ranks,)."""
        owners = np.repeat(np.arange(len(self.counts)), self.ranks)
        offsets: Float64s = np.einsum(
            "rk,rk->r", self.factors, self.means[owners], dtype=np.float64
        )
        return offsets

    @cached_property
    def lengths(self) -> Matrix:
        """The squared lengths of the class means in Fisher's space: (t,)."""
        return _squares(self.means)

    def project(self, directions: Matrix) -> Matrix:
        """Return vectors in Fisher's space: (q, k)."""
        return self._offsets(directions) @ self.basis

    def squared_lengths(self, offsets: Matrix) -> Matrix:
        """Return the squared lengths of offsets by the pooled covariance: (q, d) to (q,)."""
        white = self.whitening
        offsets = offsets.astype(self.basis.dtype, copy=False)
        along = _squares(offsets @ white.factor)
        return offsets**2 @ white.diagonal + white.sign * along

    def scores(self, directions: Float32s) -> Scores:
        """Score vectors."""
        offsets = self._offsets(directions)
        places = offsets @ self.basis
        products = places @ self.means.T  # (q, t)
        whole = _squares(places)
        squares = np.maximum(whole[:, np.newaxis] - 2.0 * products + self.lengths, 0.0)
        ridge = places @ self.regression
        total = self.combine(self.log_densities(places, squares), ridge)
        outside = np.maximum(self.squared_lengths(offsets) - whole, 0.0)
        distances = squares + outside[:, np.newaxis]
        parts = (total, distances, products - 0.5 * self.lengths, ridge)
        return Scores(*(part.astype(np.float64) for part in parts))

    def totals(self, directions: Float32s) -> Matrix:
        """Return the total of the scores alone: (q, t)."""
        places = self.project(directions)
        squares = places @ (-2.0 * self.means.T)
        squares += self.lengths
        squares += _squares(places)[:, np.newaxis]
        np.maximum(squares, 0.0, out=squares)
        ridge = places @ self.regression if self.ridge_weight else squares
        return self.combine(self.log_densities(places, squares), ridge)

    def log_densities(self, places: Matrix, squares: Matrix) -> Matrix:
        """Return the log density of each class in Fisher's space, but for a constant: (q, t)."""
        densities: Matrix = squares * (1.0 / self.spreads).astype(squares.dtype)
        densities -= self.taken_off(places)
        densities += self.log_volumes.astype(squares.dtype)
        densities *= -0.5
        return densities

    def taken_off(self, places: Matrix) -> Matrix:
        """Return what each class's own axes take off its squared distances: (q, t)."""
        along = places @ self.factors.T
        along -= self.factor_offsets.astype(along.dtype)
        if (self.ranks == self.ranks[0]).all():
            equal = along.reshape(len(places), len(self.counts), self.ranks[0])
            sums: Matrix = np.einsum("qtr,qtr->qt", equal, equal)
            return sums
        np.square(along, out=along)
        sums = np.zeros((len(places), len(self.counts)), dtype=along.dtype)
        has_factors = self.ranks > 0
        sums[:, has_factors] = np.add.reduceat(along, self.starts[has_factors], axis=1)
        return sums

    def combine(self, densities: Matrix, ridge: Matrix) -> Matrix:
        """Return the score: both, each of mean 0 and deviation 1 over the classes: (q, t)."""
        weight = self.ridge_weight
        total = _standardize(densities, 1.0 - weight)
        if weight:
            total += _standardize(ridge, weight)
        return total

    def _offsets(self, directions: Matrix) -> Matrix:
        centre = self.centre.astype(self.basis.dtype, copy=False)
        offsets: Matrix = directions - centre
        return offsets


def own_weight(n: Any) -> Any:
    """Return the weight of a class's own covariance, by its number of views."""
    return (1.0 - POOLED_WEIGHT) * (1.0 - MANY_VIEWS / (MANY_VIEWS + n))


def _kind(d: int) -> type[np.float32] | type[np.float64]:
    return np.float64 if d < MIN_EMBEDDING else np.float32


def _squares(rows: Matrix) -> Matrix:
    squares: Matrix = np.einsum("nk,nk->n", rows, rows)
    return squares


def _standardize(scores: Matrix, deviation: float) -> Matrix:
    """Return scores of mean 0 and this deviation over the classes, or all 0: (q, t)."""
    centred: Matrix = scores - scores.mean(axis=1, keepdims=True)
    deviations = np.sqrt(_squares(centred)[:, np.newaxis] / scores.shape[1])
    centred *= deviation / np.where(deviations > 0.0, deviations, 1.0)
    return centred


def _whiten(
    axes: Float32s, rest: Float64s, freedom: int, offsets: Float64s
) -> tuple[float, Whitening]:
    """Invert the pooled covariance (A'A + diag(rest) + s I) / (freedom + pseudo-views)."""
    d = len(rest)
    trace = float(np.einsum("rd,rd->", axes, axes, dtype=np.float64) + rest.sum())
    if freedom == 0 or trace <= 0.0:  # no class has two views: as if they differed as classes do
        freedom, trace = 1, float((offsets**2).sum(axis=1).mean()) or 1.0
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
    covariance = np.diag(diagonal)
    for start in range(0, len(axes), ROWS_AT_A_TIME):
        block = axes[start : start + ROWS_AT_A_TIME].astype(np.float64)
        covariance += block.T @ block
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


def _fisher(whitening: Whitening, offsets: Float64s, kind: Any) -> tuple[Matrix, Matrix]:
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
        gram = _gram(white.astype(np.float64, copy=False))
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
    """Return `_fisher` of more classes than features: often the whole space."""
    gram = _gram(white.T.astype(np.float64))
    if _factor_gram(gram) is not None:
        return factor, white
    _, vectors = _eigenvectors(gram)
    vectors = vectors.astype(white.dtype)
    return factor @ vectors, white @ vectors


def _gram(rows: Float64s) -> Float64s:
    products: Float64s = rows @ rows.T
    return products


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


def _regress(means: Matrix) -> Float64s:
    """Return the ridge regression from Fisher's space to the classes: (k, t)."""
    rows = means.T.astype(np.float64)  # (k, t)
    gram = _gram(rows) / len(means)
    gram[np.diag_indices(len(rows))] += ridge_penalty(means)
    return np.linalg.solve(gram, rows).astype(np.float64, copy=False)


def ridge_penalty(means: Matrix) -> float:
    """Return the penalty of the regression, by the class means in Fisher's space."""
    return (
        RIDGE * float(np.einsum("tk,tk->", means, means, dtype=np.float64)) / len(means) ** 2 or 1.0
    )


def _own_covariances(
    classes: Sequence[ClassStatistics], along: Matrix, basis: Matrix
) -> tuple[Float64s, Matrix, Int64s, Float64s]:
    """Return spreads, factors, starts and log volumes of the classes' own covariances.

    Each is a mixture of the pooled one, which is the identity in Fisher's space, and the class's,
    whose axes lie there at `along`. Classes of equal ranks are solved together.
    """
    k = basis.shape[1]
    counts = np.array([known.n for known in classes])
    ranks = np.array([len(known.axes) for known in classes])
    starts = np.cumsum(ranks) - ranks
    energies = _squares(basis).astype(np.float64) / k
    rests = np.array([0.0 if known.rest is None else known.rest @ energies for known in classes])
    weights = own_weight(counts)
    shares = weights / np.maximum(counts - 1, 1)
    spreads: Float64s = 1.0 - weights + shares * rests
    volumes: Float64s = k * np.log(spreads)
    scales = np.repeat(np.sqrt(shares / spreads), ranks)[:, np.newaxis]
    own = along * scales.astype(along.dtype)
    factors = np.empty_like(own)
    for rank in np.unique(ranks[ranks > 0]):
        numbers = np.flatnonzero(ranks == rank)
        rows = starts[numbers][:, np.newaxis] + np.arange(rank)  # (g, rank)
        group = own[rows]
        gram = (group @ group.transpose(0, 2, 1)).astype(np.float64) + np.eye(rank)
        lower = np.linalg.cholesky(gram)
        halves = np.linalg.inv(lower) / np.sqrt(spreads[numbers])[:, np.newaxis, np.newaxis]
        factors[rows] = halves.astype(own.dtype) @ group
        diagonals = np.diagonal(lower, axis1=1, axis2=2)
        volumes[numbers] += 2.0 * np.log(diagonals).sum(axis=1)
    return spreads, factors, starts, volumes
