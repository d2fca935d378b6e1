"""Verdicts of the discriminant: labels, confidences, and the views that speak for them.

q vectors, t classes.
"""

from __future__ import annotations

import numpy as np

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant.model import NEGATIVE, DiscriminantModel
from cbcl.method.discriminant.statistics import Sketches
from cbcl.method.model import MAX_GUESSES, Ground, Guess, Verdict, conclude

MAX_SHOWN_VIEWS = 3  # of the likeliest label, as evidence
MAX_CONTRARY_VIEWS = 1  # of the next label


def judge_all(model: DiscriminantModel, directions: Float32s, sketches: Sketches) -> list[Verdict]:
    """Return the verdict about each direction, whose sketch is given, too.

    The answer is "unknown" where that is more probable than any label. The grounds are the views
    nearest to the picture: of the likeliest label, and one of the next, which speaks against it;
    the weights of a label's views sum up to its confidence.
    """
    judgement = model.judge_directions(directions, sketches=sketches)
    names: dict[int, str | None] = {NEGATIVE: "", -1: None}
    names |= dict(enumerate(model.labels))
    return [
        _verdict(model, direction, *row)._replace(taught=names[taught])
        for direction, taught, *row in zip(
            directions,
            judgement.taught.tolist(),
            judgement.shares,
            judgement.known,
            judgement.distances,
            strict=True,
        )
    ]


def _verdict(
    model: DiscriminantModel,
    direction: Float32s,
    shares: Float64s,
    known: float,
    distances: Float64s,
) -> Verdict:
    order = np.argsort(-shares, kind="stable")[:MAX_GUESSES].tolist()
    ranking = tuple(
        Guess(model.labels[number], float(known * shares[number]), float(distances[number]))
        for number in order
    )
    unknown = 1.0 - float(known)
    strangeness = 2.0 * unknown / (unknown + ranking[0].confidence)
    grounds = _views_of(model, direction, ranking[0], MAX_SHOWN_VIEWS)
    for guess in ranking[1:2]:
        grounds += _views_of(model, direction, guess, MAX_CONTRARY_VIEWS)
    return conclude(ranking, grounds, float(known), strangeness)


def _views_of(
    model: DiscriminantModel, direction: Float32s, guess: Guess, most: int
) -> tuple[Ground, ...]:
    """Return the kept views of a label nearest to a vector, the nearest first."""
    known = model.statistics[guess.label]
    distances = np.linalg.norm(known.directions.astype(np.float64) - direction, axis=1)
    nearest = np.argsort(distances, kind="stable")[:most]
    closeness = 1.0 / np.maximum(distances[nearest], 1e-6)
    weights = guess.confidence * closeness / closeness.sum()
    first = known.n - len(known.views)
    return tuple(
        Ground(guess.label, float(distances[row]), float(weight), 1, first + int(row))
        for row, weight in zip(nearest, weights, strict=True)
    )
