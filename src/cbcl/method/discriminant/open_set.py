"""Open set: the probability that a vector shows a known class, from two hypotheses.

q vectors, t classes, v views, d features. The score of a vector for a class is its cosine to the
class mean, over the one that is to be expected of a mean of so many views; of measurements, it is
the distance, negative. Known things and strangers each have a distribution of the best score. Both
start from a few numbers of the backbone (`Cosines`) and move to what was learned: that of known
things by leaving a view out, that of strangers by leaving a class out, since each class is a
stranger to the others. docs/unknown.md has the formulas and how well they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import erf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.discriminant.calibration import MIN_WITNESSES, ChosenViews, Witnesses
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.discriminant.scoring import Scores
from cbcl.method.discriminant.statistics import ClassStatistics

PRIOR_ODDS = {"often": 1.0, "sometimes": 2.0, "rarely": 9.0}  # of a known thing to a stranger
DEFAULT_STRANGERS = "sometimes"  # a key of these
USUAL_CLASSES = 12.0  # with so many known, the odds are twice those
CENTRE_WEIGHT = 0.75  # of the mean direction of all photos, which is taken off
MEAN_WEIGHT = 10.0  # of the first mean of known things, in witnesses
DEVIATION_WEIGHT = 20.0  # of their first deviation
STRANGER_WEIGHT = 4.0  # of the first distribution of strangers, in classes
WIDE_TRUST = 0.1  # by which these three count less where a backbone was not measured
MAX_CLASS_WEIGHT = 10.0  # of all witnesses of a class
MIN_GAP = 0.05  # between the means of known things and strangers
MIN_DEVIATION = 0.04  # of strangers
SIGNS_WEIGHT = 1.25  # of the discriminant's signs, in deviations of the score, by many witnesses
MANY_WITNESSES = 30.0  # with so many, the signs count half of that
MANY_CLASSES = 10.0  # likewise
FAR = 3.0  # deviations from known measurements to strange ones, where there is one class
NORMALS = np.linspace(-8.0, 8.0, 2001)  # where the normal distribution is summed


class Cosines(NamedTuple):
    """Cosines of the directions of photos, less their centre, as measured for a backbone."""

    same: float  # of two photos of a thing, on average
    deviation: float  # of that
    class_deviation: float  # of the score of a thing, after very many photos
    other: float  # of two photos of different things of one kind, on average
    other_deviation: float
    centre: Float32s | None = None  # (d,), the mean direction of photos of anything

    def deviations(self, counts: Any) -> Any:
        """Return the deviation of the score of a thing by its number of photos."""
        excess = self.deviation**2 - self.class_deviation**2
        return np.sqrt(self.class_deviation**2 + excess / counts)

    @property
    def offset(self) -> Float32s | np.float32:
        """Vector that is taken off a direction before it is compared."""
        if self.centre is None:
            return np.float32(0.0)
        return np.float32(CENTRE_WEIGHT) * self.centre


# Where a backbone was not measured.
WIDE = Cosines(0.5, 0.2, 0.15, 0.2, 0.15)


class Hypotheses(NamedTuple):
    """Normal distributions of the best score, of known things and of strangers."""

    known: float
    deviations: Float64s  # (t,), of known things, by their class
    one_view: float  # deviation of a known thing after one view
    stranger: float
    stranger_deviation: float

    def lines(self, deviations: Float64s) -> tuple[Float64s, Float64s]:
        """Return slopes and limits of the log odds of "known", which are taken as linear."""
        gap = max(self.known - self.stranger, MIN_GAP)
        limits: Float64s = self.stranger + gap * self.stranger_deviation / (
            self.stranger_deviation + deviations
        )
        slopes: Float64s = 2.0 * gap / (self.stranger_deviation**2 + deviations**2)
        return slopes, limits


class Signs(NamedTuple):
    """Three signs of the discriminant that a vector is known, and how they are scaled.

    They are how near it is, how much better a class explains it than no class, and its score by the
    regression; of witnesses, each has mean 0 and deviation 1.
    """

    means: Float64s  # (3,)
    deviations: Float64s  # (3,)
    weight: float  # of their sum in the score

    @classmethod
    def of(cls, witnesses: Witnesses | None, deviation: float) -> Signs | None:
        """Scale them by the witnesses; None: there are too few."""
        if witnesses is None or len(witnesses.classes) < MIN_WITNESSES:
            return None
        m = len(witnesses.classes)
        signs = _stack_signs(witnesses.scores)
        means = signs.mean(axis=0)
        deviations = signs.std(axis=0)
        deviations[deviations == 0.0] = 1.0
        sums = ((signs - means) / deviations).sum(axis=1)
        t = witnesses.scores.total.shape[1]
        share = m / (m + MANY_WITNESSES) * (t - 1) / (t - 1 + MANY_CLASSES)
        return cls(means, deviations, SIGNS_WEIGHT * deviation * share / (float(sums.std()) or 1.0))

    def added(self, scores: Scores) -> Float64s:
        """Return what they add to the scores for all classes: (q, 1)."""
        sums = ((_stack_signs(scores) - self.means) / self.deviations).sum(axis=1, keepdims=True)
        added: Float64s = self.weight * sums
        return added


def _stack_signs(scores: Scores) -> Float64s:
    nearest = -np.sqrt(scores.distances.min(axis=1))
    signs = np.stack([nearest, scores.gains.max(axis=1), scores.ridge.max(axis=1)], axis=1)
    if scores.total.shape[1] == 1:
        signs[:, 1:] = 0.0  # which compare classes
    return signs


@dataclass(frozen=True, eq=False)
class OpenSet:
    """The classes as the score sees them, and both hypotheses.

    `hypotheses` is None where too little was learned of measurements: then nothing is unknown.
    """

    cosines: Cosines
    templates: Float32s  # (t, d), whose products with `units` are the scores; (t, 0)
    signs: Signs | None
    hypotheses: Hypotheses | None
    chosen: Int64s  # (v,), the classes of the views that were left out
    scores: Float64s  # (v, t), of these views without themselves
    stranger_scores: Float64s  # (v,), of these views without their classes

    @classmethod
    def of(
        cls,
        classes: Sequence[ClassStatistics],
        chosen: ChosenViews,
        witnesses: Witnesses | None,
        cosines: Cosines | None = None,
    ) -> OpenSet:
        """Compare at least one class with the views that were chosen of all."""
        counts = np.array([known.n for known in classes])
        first = cosines or WIDE
        if classes[0].dimension < MIN_EMBEDDING:
            return _of_measurements(classes, witnesses, counts)
        trust = WIDE_TRUST if cosines is None else 1.0
        means = np.stack([known.mean for known in classes]) - first.offset
        squares = np.maximum(np.einsum("td,td->t", means, means), 1e-12)
        scatters = np.array([known.scatter for known in classes])
        same = _same_cosine(counts, squares, scatters, first.same, trust)
        scales = _expected(counts, same) * np.sqrt(squares)
        templates = (means / scales[:, np.newaxis]).astype(np.float32)
        views = units(chosen.directions, first)
        scores = (views @ templates.T).astype(np.float64)
        own = chosen.classes
        row = np.arange(len(views))
        n = counts[own].astype(np.float64)
        offsets = chosen.directions - first.offset
        # The mean without the view; of a class of one view there is none.
        along = np.einsum("vd,vd->v", views, means[own])
        lengths = np.sqrt(np.einsum("vd,vd->v", offsets, offsets, dtype=np.float64))
        rest = n**2 * squares[own] - 2.0 * n * along * lengths + lengths**2
        without = (n * along - lengths) / np.sqrt(np.maximum(rest, 1e-12))
        scores[row, own] = np.where(n > 1, without / _expected(np.maximum(n - 1, 1), same), -np.inf)
        others = _best_of_others(scores, own)
        signs = Signs.of(witnesses, first.class_deviation)
        if signs is not None and witnesses is not None:
            scores[n > 1] += signs.added(witnesses.scores)
            added = signs.added(_without_own(witnesses))[:, 0]
            others += added.mean()  # where there is no telling
            others[n > 1] += added - added.mean()
        hypotheses = _find_hypotheses(scores, others, own, counts, first, trust)
        return cls(first, templates, signs, hypotheses, own, scores, others)

    def score(self, seen: Float32s, scores: Scores) -> Float64s:
        """Score `units` of vectors for each class, with the discriminant's scores: (q, t)."""
        found = (seen @ self.templates.T).astype(np.float64)
        return found if self.signs is None else found + self.signs.added(scores)

    def log_odds(self, scores: Float64s, strangers: str) -> Float64s:
        """Return the log odds that vectors show a known class, by their scores: (q, t) to (q,)."""
        if self.hypotheses is None:
            return np.full(len(scores), np.inf)
        slopes, limits = self.hypotheses.lines(self.hypotheses.deviations)
        odds: Float64s = ((scores - limits) * slopes).max(axis=1) + self.log_prior(strangers)
        return odds

    def log_odds_of_negative(self, scores: Float64s) -> Float64s:
        """Return the log odds that vectors show a negative, and not any other stranger: (q,).

        `scores` are the best for the negatives, each a thing of one view.
        """
        if self.hypotheses is None:
            return np.full(len(scores), -np.inf)
        slope, limit = self.hypotheses.lines(np.array(self.hypotheses.one_view))
        return (scores - limit) * slope

    def log_prior(self, strangers: str) -> float:
        """Return the log odds of a known thing before anything is seen of it."""
        return log(PRIOR_ODDS[strangers] * (1.0 + len(self.templates) / USUAL_CLASSES))


def units(directions: Float32s, cosines: Cosines) -> Float32s:
    """Return directions less their centre, of length 1: (q, d)."""
    offsets = directions - cosines.offset
    lengths = np.sqrt(np.einsum("qd,qd->q", offsets, offsets))
    scaled: Float32s = offsets / np.maximum(lengths, np.float32(1e-6))[:, np.newaxis]
    return scaled


def _expected(counts: Any, same: float) -> Any:
    """Return the cosine of a view to a mean of so many others, over that to one other."""
    return np.sqrt(counts / (1.0 + (counts - 1.0) * same))


def _same_cosine(
    counts: Int64s, squares: Float64s, scatters: Float64s, first: float, trust: float
) -> float:
    """Return the mean cosine of two views of a class, moved from the first one to those learned."""
    n = counts.astype(np.float64)
    many = counts > 1
    views = squares + scatters / n  # the mean square of the length of a view
    pairs = squares - scatters / (n * np.maximum(n - 1.0, 1.0))  # the mean product of two
    learned = ((n - 1.0) * pairs / views)[many].sum()
    weight = trust * MEAN_WEIGHT
    return float(max(weight * first + learned, 1e-3) / (weight + (n - 1.0).sum()))


def _best_of_others(scores: Float64s, own: Int64s) -> Float64s:
    others = scores.copy()
    others[np.arange(len(own)), own] = -np.inf
    best: Float64s = others.max(axis=1)
    return best


def _without_own(witnesses: Witnesses) -> Scores:
    """Return scores for which no witness is of its own class."""
    row = (np.arange(len(witnesses.classes)), witnesses.classes)
    total, distances, gains, ridge = (part.copy() for part in witnesses.scores)
    if total.shape[1] > 1:
        distances[row] = np.inf
        gains[row] = -np.inf
        ridge[row] = -np.inf
    return Scores(total, distances, gains, ridge)


def _find_hypotheses(
    scores: Float64s, others: Float64s, own: Int64s, counts: Int64s, first: Cosines, trust: float
) -> Hypotheses:
    n = counts[own]
    many = n > 1
    weights = np.minimum(1.0, MAX_CLASS_WEIGHT / np.bincount(own, minlength=len(counts))[own])
    best = scores.max(axis=1)[many]
    weight = weights[many]
    prior = trust * MEAN_WEIGHT
    known = (prior * first.same + weight @ best) / (prior + weight.sum())
    usual = first.deviations(np.maximum(n - 1, 1))[many]
    prior = trust * DEVIATION_WEIGHT
    excess = (prior + weight @ ((best - known) / usual) ** 2) / (prior + weight.sum())
    deviations = np.sqrt(excess) * first.deviations(counts)
    one_view = float(np.sqrt(excess) * first.deviations(1))
    stranger, deviation = _find_strangers(others, own, len(counts), first, trust)
    return Hypotheses(float(known), deviations, one_view, stranger, deviation)


def _find_strangers(
    best: Float64s, own: Int64s, t: int, first: Cosines, trust: float
) -> tuple[float, float]:
    """Return mean and deviation of the best score of strangers; `best` is to the other classes.

    Those of a memory of t - 1 classes are learned; one more class raises the best a little.
    """
    if t == 1:
        return first.other, first.other_deviation
    mean, deviation = _largest_of(t - 1)
    expected = first.other + mean * first.other_deviation
    sizes = np.bincount(own, minlength=t)
    means = np.bincount(own, best, t) / np.maximum(sizes, 1)
    by_class = means[sizes > 0]
    within = float(((best - means[own]) ** 2).mean())
    share = t / (t + trust * STRANGER_WEIGHT)
    learned = float(by_class.mean())
    one_more = (_largest_of(t)[0] - mean) * first.other_deviation
    variance = (1.0 - share) * (deviation * first.other_deviation) ** 2
    variance += share * (float(by_class.var()) + within)
    variance += share * (1.0 - share) * (expected - learned) ** 2
    mixed = (1.0 - share) * expected + share * learned + one_more
    return mixed, max(sqrt(variance), MIN_DEVIATION)


@cache
def _largest_of(t: int) -> tuple[float, float]:
    """Return mean and deviation of the largest of t standard normal numbers."""
    shares = np.diff(_normal_shares() ** t)
    middles = (NORMALS[1:] + NORMALS[:-1]) / 2.0
    mean = float(shares @ middles)
    return mean, sqrt(float(shares @ (middles - mean) ** 2))


@cache
def _normal_shares() -> Float64s:
    return np.array([0.5 * (1.0 + erf(number / sqrt(2.0))) for number in NORMALS])


def _of_measurements(
    classes: Sequence[ClassStatistics], witnesses: Witnesses | None, counts: Int64s
) -> OpenSet:
    """Compare measurements by what the witnesses tell: nothing else is known of them."""
    templates = np.empty((len(classes), 0), dtype=np.float32)
    own = np.empty(0, dtype=np.int64)
    scores = np.empty((0, len(classes)))
    if witnesses is not None:
        own = witnesses.classes
        scores = -np.sqrt(witnesses.scores.distances)
    best = scores[np.arange(len(own)), own]
    deviation = float(best.std()) if len(own) > 1 else 0.0
    others = _best_of_others(scores, own)
    if deviation == 0.0:
        return OpenSet(WIDE, templates, None, None, own, scores, others)
    known = float(best.mean())
    first = Cosines(known, deviation, deviation, known - FAR * deviation, deviation)
    hypotheses = _find_hypotheses(scores, others, own, counts, first, WIDE_TRUST)
    return OpenSet(first, templates, None, hypotheses, own, scores, others)
