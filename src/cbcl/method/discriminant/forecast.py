"""Report of what decides "unknown" in a memory, and what each setting does with its own photos."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Float64s
from cbcl.method.discriminant.calibration import softmax
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.open_set import PRIOR_ODDS


class Forecast(NamedTuple):
    """Answers by a setting to the photos that are kept: n known ones, m strange ones.

    Each is asked about as if it had not been learned, and then as if its thing were not known.
    """

    known: int  # n
    refused: int  # of these
    strange: int  # m
    found: int  # of these


class UnknownReport(NamedTuple):
    """The two distributions of the score, and the photos that they come from."""

    strangers: str  # the setting
    known: tuple[float, float]  # mean and deviation, of photos of known things
    strange: tuple[float, float]  # of photos of anything else
    limit: float  # the score below which a photo is unknown
    known_scores: list[float]  # of the photos that are kept, each as if it had not been learned
    strange_scores: list[float]  # of these, as if their things were not known
    forecasts: dict[str, Forecast]  # by setting


def report_unknown(knowledge: DiscriminantModel) -> UnknownReport | None:
    """Describe what decides; None: too little was learned of measurements."""
    open_set = knowledge.open_set
    hypotheses = open_set.hypotheses
    if hypotheses is None:
        return None
    has_others = knowledge.discriminant.counts[open_set.chosen] > 1
    scores = open_set.scores[has_others]
    strange = open_set.stranger_scores if len(knowledge.labels) > 1 else np.empty(0)
    deviation = float(np.median(hypotheses.deviations))
    slope, limit = (float(part) for part in hypotheses.lines(np.array(deviation)))

    best, best_of_others = _log_best_shares(knowledge)

    def forecast(strangers: str) -> Forecast:
        refused = open_set.log_odds(scores, strangers) + best < 0.0
        odds = (strange - limit) * slope + open_set.log_prior(strangers)
        found = odds + best_of_others < 0.0
        return Forecast(len(refused), int(refused.sum()), len(found), int(found.sum()))

    return UnknownReport(
        knowledge.strangers,
        (hypotheses.known, deviation),
        (hypotheses.stranger, hypotheses.stranger_deviation),
        limit - open_set.log_prior(knowledge.strangers) / slope,
        scores.max(axis=1).round(4).tolist() if len(scores) else [],
        strange.round(4).tolist(),
        {strangers: forecast(strangers) for strangers in PRIOR_ODDS},
    )


def _log_best_shares(knowledge: DiscriminantModel) -> tuple[Float64s, Float64s]:
    """Return those of the likeliest class, of known photos and of strange ones.

    The answer is "unknown" where that is more probable than the likeliest class, not than all.
    """
    witnesses = knowledge.witnesses
    known = np.empty(0)
    if witnesses is not None:
        known = knowledge.shares(witnesses.scores).max(axis=1)
    if len(knowledge.labels) == 1:
        return np.log(known), np.empty(0)
    own, _, views = knowledge.chosen
    if knowledge.dimension < MIN_EMBEDDING:  # only the witnesses were asked about as strangers
        has_others = knowledge.discriminant.counts[own] > 1
        own = own[has_others]
        views = views[has_others]
    total = knowledge.discriminant.scores(views).total
    of_others = np.arange(total.shape[1]) != own[:, np.newaxis]
    others = total[of_others].reshape(len(total), -1).astype(np.float64)
    # Scores are standardised over the classes; without one of them, they differ by more.
    others *= (total.std(axis=1) / np.maximum(others.std(axis=1), 1e-12))[:, np.newaxis]
    shares = softmax(others / knowledge.temperature)
    return np.log(known), np.log(shares.max(axis=1))
