"""Discriminant: labels vectors by the statistics of all classes, solved in closed form.

t classes, n views of a class, d features, k dimensions of Fisher's space, q vectors. All classes
share a covariance within classes, shrunk towards the identity; in the space that the class means
span under it (Fisher's), each class also has its own. To the log density of that, a ridge
regression to the labels is added, which helps where classes have few views. `docs/method.md` has
the formulas, and the constants' origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.directions import MIN_EMBEDDING
from cbcl.method.statistics import ClassStatistics

SHRINKAGE = 0.5  # of the pooled covariance, in pseudo-views a feature
RIDGE = 0.5  # penalty of the regression, in units of the mean squared length of a class mean
RIDGE_WEIGHT = 0.3  # of the regression in the score, for few views
POOLED_WEIGHT = 0.7  # of the pooled covariance in a class's own, for many views
MANY_VIEWS = 50.0  # of a class, from which it counts for itself
DUAL_SHARE = 0.7  # rows over features up to which the covariance is inverted by its rows
MIN_EIGENVALUE = 1e-9  # of the largest


class Whitening(NamedTuple):
    """The inverse of a covariance: x W^-1 y = (x * diagonal) . y + sign (x factor) . (y factor)."""

    diagonal: Float64s  # (d,)
    factor: Float64s  # (d, m)
    sign: float

    def solve(self, rows: Float64s) -> Float64s:
        """Return rows times the inverse: (n, d)."""
        return rows * self.diagonal + self.sign * ((rows @ self.factor) @ self.factor.T)


class Scores(NamedTuple):
    """Scores of q vectors for each class."""

    total: Float64s  # (q, t), the larger, the likelier; of mean 0 and deviation 1 for each vector
    distances: Float64s  # (q, t), squared, to each mean by the pooled covariance
    gains: Float64s  # (q, t), by which a class explains a vector better than no class
    ridge: Float64s  # (q, t)


@dataclass(frozen=True, eq=False)
class Discriminant:
    """The classes, solved."""

    counts: Int64s  # (t,), views of each
    freedom: float  # of the pooled covariance, with the pseudo-views
    centre: Float64s  # (d,), the mean of the class means
    whitening: Whitening
    basis: Float64s  # (d, k), of Fisher's space
    means: Float64s  # (t, k), there
    regression: Float64s  # (k, t)
    spreads: Float64s  # (t,), variance of each class in all directions, in units of the pooled
    factors: Float64s  # (sum of ranks, k): what each class's own axes take off its distances
    starts: Int64s  # (t,), the first of each class's factors
    log_volumes: Float64s  # (t,)

    @classmethod
    def of(cls, classes: Sequence[ClassStatistics]) -> Discriminant:
        """Solve at least one class."""
        counts = np.array([known.n for known in classes])
        means = np.stack([known.mean for known in classes])
        centre = means.mean(axis=0)
        offsets = means - centre
        axes = np.concatenate([known.axes for known in classes]).astype(np.float64)
        rests = [known.rest for known in classes if known.rest is not None]
        rest: Float64s = np.zeros(len(centre))
        for own in rests:
            rest += own
        freedom, whitening = _whiten(axes, rest, int(counts.sum()) - len(counts), offsets)
        basis, places = _fisher(whitening, offsets)
        regression = _regress(places)
        own_covariances = _own_covariances(classes, basis.astype(np.float32))
        return cls(counts, freedom, centre, whitening, basis, places, regression, *own_covariances)

    @cached_property
    def ridge_weight(self) -> float:
        """Weight of the regression; of measurements 0, as their few features mask classes."""
        if len(self.centre) < MIN_EMBEDDING:
            return 0.0
        return float(RIDGE_WEIGHT * MANY_VIEWS / (MANY_VIEWS + self.counts.mean()))

    @cached_property
    def factor_offsets(self) -> Float64s:
        """Return where each class's mean lies on its own factors: (sum of ranks,)."""
        owners = np.repeat(
            np.arange(len(self.counts)), np.diff(self.starts, append=len(self.factors))
        )
        offsets: Float64s = np.einsum("rk,rk->r", self.factors, self.means[owners])
        return offsets

    def project(self, directions: Matrix) -> Float64s:
        """Return vectors in Fisher's space: (q, k)."""
        places: Float64s = (directions - self.centre) @ self.basis
        return places

    def squared_lengths(self, offsets: Matrix) -> Float64s:
        """Return the squared lengths of offsets by the pooled covariance: (q, d) to (q,)."""
        white = self.whitening
        along = (offsets @ white.factor) ** 2
        lengths: Float64s = (offsets**2) @ white.diagonal + white.sign * along.sum(axis=1)
        return lengths

    def outside(self, directions: Matrix, places: Float64s) -> Float64s:
        """Return the squared distances of vectors from Fisher's space: (q,)."""
        whole = self.squared_lengths(directions - self.centre)
        outside: Float64s = np.maximum(whole - (places**2).sum(axis=1), 0.0)
        return outside

    def scores(self, directions: Float32s) -> Scores:
        """Score vectors."""
        places = self.project(directions)
        products = places @ self.means.T  # (q, t)
        lengths = (self.means**2).sum(axis=1)
        squares = (places**2).sum(axis=1)[:, np.newaxis] - 2.0 * products + lengths
        squares = np.maximum(squares, 0.0)
        ridge = places @ self.regression
        total = self.combine(self.log_densities(places, squares), ridge)
        outside = self.outside(directions, places)
        return Scores(total, squares + outside[:, np.newaxis], products - 0.5 * lengths, ridge)

    def log_densities(self, places: Float64s, squares: Float64s) -> Float64s:
        """Return the log density of each class in Fisher's space, but for a constant: (q, t)."""
        return -0.5 * (squares / self.spreads - self.taken_off(places) + self.log_volumes)

    def taken_off(self, places: Float64s) -> Float64s:
        """Return what each class's own axes take off its squared distances: (q, t)."""
        if not len(self.factors):
            return np.zeros((len(places), len(self.counts)))
        along = (places @ self.factors.T - self.factor_offsets) ** 2
        padded = np.concatenate([along, np.zeros((len(places), 1))], axis=1)
        sums = np.add.reduceat(padded, self.starts, axis=1)
        sums[:, np.diff(self.starts, append=len(self.factors)) == 0] = 0.0
        return sums

    def combine(self, densities: Float64s, ridge: Float64s) -> Float64s:
        """Return the score: both, each of mean 0 and deviation 1 over the classes: (q, t)."""
        weight = self.ridge_weight
        return (1.0 - weight) * _standardize(densities) + weight * _standardize(ridge)


def own_weight(n: Any) -> Any:
    """Return the weight of a class's own covariance, by its number of views."""
    return (1.0 - POOLED_WEIGHT) * (1.0 - MANY_VIEWS / (MANY_VIEWS + n))


def _standardize(scores: Float64s) -> Float64s:
    centred = scores - scores.mean(axis=1, keepdims=True)
    deviations = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    standardized: Float64s = centred / np.where(deviations > 0.0, deviations, 1.0)
    return standardized


def _whiten(
    axes: Float64s, rest: Float64s, freedom: int, offsets: Float64s
) -> tuple[float, Whitening]:
    """Invert the pooled covariance (A'A + diag(rest) + s I) / (freedom + pseudo-views)."""
    d = len(rest)
    trace = float((axes**2).sum() + rest.sum())
    if freedom == 0 or trace <= 0.0:  # no class has two views: as if they differed as classes do
        freedom, trace = 1, float((offsets**2).sum(axis=1).mean()) or 1.0
    pseudo = SHRINKAGE * d
    diagonal = rest + pseudo * trace / (d * freedom)
    total = freedom + pseudo
    if len(axes) <= DUAL_SHARE * d:
        scaled = axes / np.sqrt(diagonal)
        gram = scaled @ scaled.T
        gram[np.diag_indices(len(gram))] += 1.0
        half = (
            solve_triangular(cholesky(gram, lower=True), scaled, lower=True)
            if len(axes)
            else scaled
        )
        factor = np.sqrt(total) * (half / np.sqrt(diagonal)).T
        return total, Whitening(total / diagonal, factor, -1.0)
    covariance = axes.T @ axes
    covariance[np.diag_indices(d)] += diagonal
    lower = cholesky(covariance, lower=True, overwrite_a=True)
    factor = np.sqrt(total) * solve_triangular(lower, np.eye(d), lower=True, overwrite_b=True).T
    return total, Whitening(np.zeros(d), factor, 1.0)


def _fisher(whitening: Whitening, offsets: Float64s) -> tuple[Float64s, Float64s]:
    """Return a basis of Fisher's space, (d, k), and the class means there, (t, k)."""
    weights = whitening.solve(offsets)  # (t, d)
    gram = weights @ offsets.T
    values, vectors = eigh(0.5 * (gram + gram.T))
    kept = values > MIN_EIGENVALUE * max(values[-1], 1e-300)
    if len(offsets) == 1 or not kept.any():
        return np.zeros((offsets.shape[1], 1)), np.zeros((len(offsets), 1))
    values, vectors = values[kept], vectors[:, kept]
    return weights.T @ (vectors / np.sqrt(values)), vectors * np.sqrt(values)


def _regress(places: Float64s) -> Float64s:
    """Return the ridge regression from Fisher's space to the classes: (k, t)."""
    t, k = places.shape
    gram = places.T @ places / t
    penalty = RIDGE * float((places**2).sum()) / t**2
    gram[np.diag_indices(k)] += penalty or 1.0
    regression: Float64s = cho_solve(cho_factor(gram, overwrite_a=True), places.T)
    return regression


def _own_covariances(
    classes: Sequence[ClassStatistics], basis: Float32s
) -> tuple[Float64s, Float64s, Int64s, Float64s]:
    """Return spreads, factors, starts and log volumes of the classes' own covariances.

    Each is a mixture of the pooled one, which is the identity in Fisher's space, and the class's.
    """
    k = basis.shape[1]
    along = np.concatenate([known.axes for known in classes]) @ basis
    energies = (basis**2).sum(axis=1) / k
    spreads, factors, starts, volumes, start = [], [], [], [], 0
    for known in classes:
        pooled = 1.0 - float(own_weight(known.n))
        share = (1.0 - pooled) / max(known.n - 1, 1)
        rest = 0.0 if known.rest is None else float(known.rest @ energies)
        spread = pooled + share * rest
        rank = len(known.axes)
        own = along[start : start + rank].astype(np.float64) * np.sqrt(share / spread)
        lower = cholesky(np.eye(rank) + own @ own.T, lower=True) if rank else np.empty((0, 0))
        factors.append(solve_triangular(lower, own, lower=True) / np.sqrt(spread) if rank else own)
        starts.append(start)
        start += rank
        spreads.append(spread)
        volumes.append(k * np.log(spread) + 2.0 * np.log(np.diag(lower)).sum())
    return np.array(spreads), np.concatenate(factors), np.array(starts), np.array(volumes)
