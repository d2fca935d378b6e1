"""Views that may be why an answer was wrong, and the answer without each of them."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

import numpy as np

from cbcl.heads.base import NEGATIVES, SuspectView
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.answering import judge_all
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics, unlearn_view
from cbcl.method.model import Verdict

MAX_SUSPECTS = 3  # each of which takes as long as learning a picture


def find_suspects(
    model: DiscriminantModel, sight: DirectionSight, places: Callable[[str], Container[int]]
) -> list[SuspectView]:
    """Return the views that speak most for the answer about a vector, the most decisive first.

    They are the nearest of those kept of the label that was answered; where that was "unknown", of
    those taught as none of the known things. `places` has those of a label that have an example.
    """
    (verdict,) = judge_all(model, sight.points, sight.sketches)
    label = NEGATIVES if verdict.label is None else verdict.label
    known = model.negatives if verdict.label is None else model.statistics[verdict.label]
    if known is None:
        return []
    suspects = []
    for place in _nearest(known, sight.points[0], places(label)):
        rest = _without(model, label, unlearn_view(known, place))
        without = None if rest is None else judge_all(rest, sight.points, sight.sketches)[0]
        suspects.append(SuspectView(label, place, without))
    return sorted(suspects, key=lambda suspect: _support(suspect.verdict, verdict.label))


def _nearest(known: ClassStatistics, direction: Float32s, places: Container[int]) -> list[int]:
    """Return the places of views that are kept and have an example, the nearest first."""
    first = known.n - len(known.views)
    distances = np.linalg.norm(known.directions.astype(np.float64) - direction, axis=1)
    nearest = [first + row for row in np.argsort(distances, kind="stable").tolist()]
    return [place for place in nearest if place in places][:MAX_SUSPECTS]


def _without(
    model: DiscriminantModel, label: str, rest: ClassStatistics | None
) -> DiscriminantModel | None:
    if label == NEGATIVES:
        return replace(model, negatives=rest)
    if rest is None:
        return model.without(label)
    return replace(model, statistics={**model.statistics, label: rest})


def _support(verdict: Verdict | None, label: str | None) -> float:
    """Return the confidence that a verdict leaves to a label, or to "unknown"."""
    if verdict is None:
        return 0.0
    if label is None:
        return 1.0 - sum(guess.confidence for guess in verdict.ranking)
    return sum(guess.confidence for guess in verdict.ranking if guess.label == label)
