"""Calibration: a true confidence, from the views that are kept.

t classes, w witnesses, q vectors. A witness is a view that is kept, scored as if it had not been
learned (leave-one-out): it is taken out of the mean and the covariances by rank-one updates, so no
class is solved again, and the scores are those of a new picture of its class. The temperature that
makes the confidences true on the witnesses makes them so on new pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.discriminant.scoring import Discriminant, Scores
from cbcl.method.discriminant.solving import own_weight, ridge_penalty
from cbcl.method.discriminant.statistics import ClassStatistics

MAX_WITNESSES = 1000  # of all classes together; half of it where that is one of a class
MIN_WITNESSES = 6  # to calibrate by
MAX_LEVERAGE = 0.98  # of a witness, so that it can be taken out of the covariance
TEMPERATURES = np.geomspace(0.05, 2.0, 75)  # that are tried
FIRST_TEMPERATURE = 0.3  # that of the witnesses counts more, the more there are
PRIOR_WITNESSES = 10.0  # that this one counts for


class ChosenViews(NamedTuple):
    """Views that are kept, at most MAX_WITNESSES of all classes together."""

    classes: Int64s  # (v,), their own
    rows: Int64s  # (v,), among the views that are kept of these
    directions: Float32s  # (v, d)


class Witnesses(NamedTuple):
    """Scores of the witnesses, each without itself."""

    classes: Int64s  # (w,), their own
    rows: Int64s  # (w,), among the views that are kept of these
    scores: Scores  # (w, t) each


def choose_views(classes: Sequence[ClassStatistics]) -> ChosenViews:
    """Choose the latest views of each class; of very many classes, one view of some."""
    most = max(1, MAX_WITNESSES // len(classes))  # of a class
    counts = [min(most, len(known.views)) for known in classes]
    own = np.repeat(np.arange(len(classes)), counts)
    if most == 1 and len(own) > MAX_WITNESSES // 2:
        own = own[np.linspace(0, len(own) - 1, MAX_WITNESSES // 2).astype(np.int64)]
    views: list[Float32s] = [np.empty((0, classes[0].dimension), dtype=np.float32)]
    rows = [np.empty(0, dtype=np.int64)]
    for number in np.unique(own).tolist():
        n_views = len(classes[number].views)
        first = n_views - counts[number]
        views.append(classes[number].directions[first:])
        rows.append(np.arange(first, n_views))
    return ChosenViews(own, np.concatenate(rows), np.concatenate(views))


def leave_one_out(
    discriminant: Discriminant, classes: Sequence[ClassStatistics], chosen: ChosenViews
) -> Witnesses | None:
    """Score the views of classes that have two or more; None: there are none."""
    places = np.flatnonzero(discriminant.counts[chosen.classes] > 1)
    if not len(places):
        return None
    own = chosen.classes[places]
    scores = _rescore(discriminant, classes, chosen.directions[places], own)
    return Witnesses(own, chosen.rows[places], scores)


def _rescore(
    solved: Discriminant, classes: Sequence[ClassStatistics], views: Float32s, own: Int64s
) -> Scores:
    """Score views without themselves.

    With z the offset of a view from its class mean, the covariance without it is W - g z z', whose
    inverse adds `gamma` (W^-1 z)(W^-1 z)', and the mean without it is off by z / (n - 1). A class
    that is summarized holds the view by the share of its scatter that its axes keep.
    """
    row = np.arange(len(own))
    n = solved.counts[own].astype(np.float64)
    away = views - np.stack([classes[i].mean for i in own])  # z
    length = np.maximum(solved.squared_lengths(away), 1e-12).astype(np.float64)  # z W^-1 z
    places = solved.project(views)
    offset = places - solved.means[own]  # z in Fisher's space
    along = (offset @ solved.means.T).astype(np.float64)  # z W^-1 (mean - centre): (w, t)
    own_along = along[row, own]
    share = np.array([_held_share(classes[i]) for i in own])
    leverage = share * np.minimum(n / (n - 1.0) / solved.freedom * length, MAX_LEVERAGE)
    gamma = leverage / length / (1.0 - leverage)
    kappa = (solved.freedom - 1.0) / solved.freedom
    # A new picture is compared with a mean of n, not of n - 1.
    surplus = (1.0 - (n**2 - 1.0) / n**2) * kappa * (n / (n - 1.0)) ** 2

    products = (places @ solved.means.T).astype(np.float64)
    lengths = solved.lengths.astype(np.float64)
    whole = length + 2.0 * own_along + lengths[own]  # (x - centre) W^-1 (x - centre)
    squares = whole[:, np.newaxis] - 2.0 * products + lengths
    to_means = length[:, np.newaxis] + own_along[:, np.newaxis] - along  # (x - mean) W^-1 z
    distances = kappa * np.maximum(squares + gamma[:, np.newaxis] * to_means**2, 0.0)
    own_square = length * (1.0 + gamma * length)
    distances[row, own] = kappa * (n / (n - 1.0)) ** 2 * own_square - surplus * own_square

    to_centre = length + own_along  # (x - centre) W^-1 z
    shift = length / (n - 1.0)
    inner = kappa * (products + (gamma * to_centre)[:, np.newaxis] * along)
    moved = -kappa * (to_centre + gamma * to_centre * length) / (n - 1.0)  # of the own mean
    inner[row, own] += moved
    own_lengths = lengths[own] - 2.0 * own_along / (n - 1.0) + shift / (n - 1.0)
    gains = inner - 0.5 * kappa * lengths
    gains[row, own] = inner[row, own] - 0.5 * kappa * own_lengths + 0.5 * surplus * own_square

    inside = (places.astype(np.float64) ** 2).sum(axis=1)
    nearness = np.maximum(kappa * inside[:, np.newaxis] - 2.0 * gains, 1e-9)
    taken_off = solved.taken_off(places).astype(np.float64)
    densities = -0.5 * (nearness / solved.spreads - taken_off + solved.log_volumes)
    own_offset = np.maximum((offset.astype(np.float64) ** 2).sum(axis=1), 1e-12)
    spread = solved.spreads[own]
    density = own_offset / spread - taken_off[row, own]
    freed = 1.0 - share * own_weight(n) * n / (n - 1.0) ** 2 * density
    rate = np.minimum(1.0 / spread, density / own_offset / np.maximum(freed, 0.05))
    densities[row, own] = -0.5 * (nearness[row, own] * rate + solved.log_volumes[own])

    # The ridge regression's scores, where the Gram matrix of the means changes, too: by a matrix of
    # rank two, made of the unit vector of the class and of `along`.
    t = len(solved.counts)
    penalty = ridge_penalty(solved.means)
    inverse = -(solved.means[own] @ solved.regression).astype(np.float64) / t
    inverse[row, own] += 1.0
    inverse /= penalty  # rows of the inverse of the Gram matrix with the penalty
    projected = (offset @ solved.regression).astype(np.float64)  # along times it
    ridge = (places @ solved.regression).astype(np.float64)
    ridge = kappa * (ridge + (gamma * to_centre)[:, np.newaxis] * projected)
    ridge += moved[:, np.newaxis] * inverse  # inner times it
    change = np.empty((len(own), 2, 2))
    change[:, 0, 0] = shift / (n - 1.0) + gamma * shift**2
    change[:, 0, 1] = change[:, 1, 0] = -1.0 / (n - 1.0) - gamma * shift
    change[:, 1, 1] = gamma
    between = np.empty((len(own), 2, 2))
    between[:, 0, 0] = inverse[row, own]
    between[:, 0, 1] = between[:, 1, 0] = projected[row, own]
    between[:, 1, 1] = (projected * along).sum(axis=1)
    core = np.linalg.solve(t * np.eye(2) + change @ between, change)
    outer = np.stack([ridge[row, own], (ridge * along).sum(axis=1)], axis=1)
    weights = np.einsum("wi,wij->wj", outer, core)
    ridge -= weights[:, :1] * inverse + weights[:, 1:] * projected
    total = solved.combine(densities, ridge).astype(np.float64, copy=False)
    return Scores(total, distances, gains, ridge)


def _held_share(known: ClassStatistics) -> float:
    """Return the share of a class's scatter that its axes keep."""
    if known.rest is None:
        return 1.0
    kept = float((known.axes**2).sum())
    rest = float(known.rest.sum())
    return kept / (kept + rest) if kept > 0.0 else 0.0


def find_temperature(witnesses: Witnesses | None) -> float:
    """Return the temperature of the likeliest confidences, with some weight on the first one.

    With too few witnesses it is the first one.
    """
    if witnesses is None or len(witnesses.classes) < MIN_WITNESSES:
        return FIRST_TEMPERATURE
    own = witnesses.classes
    total = witnesses.scores.total
    shifted = total - total.max(axis=1, keepdims=True)
    own_sum = float(shifted[np.arange(len(own)), own].sum())

    @cache
    def loss(place: int) -> float:
        temperature = TEMPERATURES[place]
        logarithms = np.log(np.exp(shifted / temperature).sum(axis=1)).sum()
        first = np.log(temperature / FIRST_TEMPERATURE) ** 2
        return float(logarithms - own_sum / temperature + 0.5 * PRIOR_WITNESSES * first)

    low = 0
    high = len(TEMPERATURES) - 1
    while low < high:  # there is one minimum
        middle = (low + high) // 2
        if loss(middle) <= loss(middle + 1):
            high = middle
        else:
            low = middle + 1
    return float(TEMPERATURES[low])


def softmax(scores: Float64s) -> Float64s:
    """Return probabilities by their logarithms, but for a constant: (q, t)."""
    shares: Float64s = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
