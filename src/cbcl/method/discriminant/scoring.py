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
from typing import NamedTuple

import numpy as np

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.blocks import map_classes
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.discriminant.solving import (
    MANY_VIEWS,
    Whitening,
    find_fisher_space,
    multiply_rows,
    own_covariances,
    regress,
    row_squares,
    whiten,
)
from cbcl.method.discriminant.statistics import ClassStatistics

BLOCK_ROWS = 512  # vectors that are scored together
CLOSE_CALL = 2e-4  # between the two best scores; another block changes them by 1e-5 at most
RIDGE_WEIGHT = 0.3  # of the regression in the score, for few views


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
    def of(cls, classes: Sequence[ClassStatistics], threads: int = 1) -> Discriminant:
        """Solve at least one class. The number of threads changes no bit."""
        counts = np.array([known.n for known in classes])
        means = np.stack([known.mean for known in classes])
        centre = means.mean(axis=0)
        offsets = means - centre
        axes = np.concatenate([known.axes for known in classes])
        rest: Float64s = np.zeros(len(centre))
        for known in classes:
            if known.rest is not None:
                rest += known.rest
        kind = np.float64 if len(centre) < MIN_EMBEDDING else np.float32
        freedom, whitening = whiten(axes, rest, int(counts.sum()) - len(counts), offsets, threads)
        basis, places = find_fisher_space(whitening, offsets, kind)
        along = multiply_rows(axes, basis.astype(kind, copy=False), threads)
        return cls(
            counts,
            freedom,
            centre,
            whitening._replace(factor=whitening.factor.astype(kind, copy=False)),
            basis.astype(kind, copy=False),
            places.astype(kind, copy=False),
            regress(places).astype(kind, copy=False),
            *own_covariances(classes, along, basis, threads),
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
        return np.diff(self.starts, append=len(self.factors))

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
        return row_squares(self.means)

    def project(self, directions: Matrix) -> Matrix:
        """Return vectors in Fisher's space: (q, k)."""
        return self._offsets(directions) @ self.basis

    def squared_lengths(self, offsets: Matrix) -> Matrix:
        """Return the squared lengths of offsets by the pooled covariance: (q, d) to (q,)."""
        white = self.whitening
        offsets = offsets.astype(self.basis.dtype, copy=False)
        along = row_squares(offsets @ white.factor)
        return offsets**2 @ white.diagonal + white.sign * along

    def scores(self, directions: Float32s) -> Scores:
        """Score vectors."""
        offsets = self._offsets(directions)
        places = offsets @ self.basis
        products = places @ self.means.T  # (q, t)
        whole = row_squares(places)
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
        squares += row_squares(places)[:, np.newaxis]
        np.maximum(squares, 0.0, out=squares)
        ridge = places @ self.regression if self.ridge_weight else squares
        return self.combine(self.log_densities(places, squares), ridge)

    def winners(self, directions: Float32s) -> Int64s:
        """Return the number of each vector's class, whatever comes with it in a block: (q,).

        The size of a block changes the last bits of scores. So that it changes no label, a vector
        whose best scores are about equal is scored alone.
        """
        totals = self.totals(directions)
        winners: Int64s = totals.argmax(axis=1)
        if len(winners) == 1:
            return winners
        least = np.take_along_axis(totals, winners[:, np.newaxis], axis=1) - CLOSE_CALL
        close = np.flatnonzero((totals >= least).sum(axis=1) > 1)

        def score_alone(row: int) -> int:
            with one_thread():
                return int(self.totals(directions[[row]]).argmax())

        winners[close] = map_classes(score_alone, close.tolist(), len(close) * self.factors.size)
        return winners

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
        return directions - centre


def _standardize(scores: Matrix, deviation: float) -> Matrix:
    """Return scores of mean 0 and this deviation over the classes, or all 0: (q, t)."""
    centred: Matrix = scores - scores.mean(axis=1, keepdims=True)
    deviations = np.sqrt(row_squares(centred)[:, np.newaxis] / scores.shape[1])
    centred *= deviation / np.where(deviations > 0.0, deviations, 1.0)
    return centred
