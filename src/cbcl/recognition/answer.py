"""Answers about pictures: a label or "unknown", the confidence, other guesses, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s, Float64s, Int64s, as_float32
from cbcl.method.centroids.confidence import Scale, confidences, familiarity, shrinkage
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.voting import vote_weights, votes_by_class
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import DiscriminantModel

MAX_GUESSES = 5
MAX_SHOWN_VIEWS = 3  # of the likeliest label, as evidence
MAX_CONTRARY_VIEWS = 1  # of the next label
RANKED_CENTROIDS = 64  # the nearest, whose classes are ranked


class Guess(NamedTuple):
    """One label that a picture might have."""

    label: str
    confidence: float
    distance: float  # to the label's mean, by the covariance of all; of the vote, to a centroid


@dataclass(frozen=True)
class Example:
    """A picture that was learned, as far as the memory keeps it."""

    number: int  # permanent
    concept: int  # number of its view among those of its label; of the vote, of its centroid
    memory: Memory = field(repr=False, compare=False)

    @property
    def jpeg(self) -> bytes:
        """Thumbnail, read from the file; a LabelError if the example was forgotten meanwhile."""
        return self.memory.example(self.number)[1].jpeg


class Reason(NamedTuple):
    """One of the views nearest to the picture, or, of the vote, one of the centroids that voted."""

    label: str
    distance: float
    weight: float  # its part in its label's confidence, or its vote
    pictures: int  # that were learned into it
    examples: tuple[Example, ...]  # those nearest to it; none where the memory is private
    centroid: int  # its number among those of its label


class Answer(NamedTuple):
    """The answer about one picture.

    `label` is None for "unknown": more probable than any label, which is when `strangeness` is
    above 1; of the vote, too far from everything that was learned. `confidence` is that in the
    answer, be it a label or "unknown". The confidences in the ranking leave room for "none of
    these", so they need not add up to 1.

    Examples
    --------
    >>> guess = Guess("cup", confidence=0.97, distance=6.1)
    >>> answer = Answer("cup", 0.97, ranking=(guess,), evidence=(), strangeness=0.5)
    >>> answer.label, answer.ranking[0].distance
    ('cup', 6.1)
    >>> answer
    <Answer: cup, 97% sure>

    """

    label: str | None
    confidence: float
    ranking: tuple[Guess, ...]  # the likeliest first
    evidence: tuple[Reason, ...]  # the nearest first
    strangeness: float
    picture: str = ""  # its name, if it has one

    def __repr__(self) -> str:
        others = [
            f"{guess.label} {guess.confidence:.0%}"
            for guess in self.ranking
            if guess.label != self.label
        ]
        parts = [
            f"{self.label or 'unknown'}, {self.confidence:.0%} sure",
            *([f"else {', '.join(others)}"] if others else []),
            *([f"of {self.picture}"] if self.picture else []),
        ]
        return f"<Answer: {'; '.join(parts)}>"

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each reason's weight in all weights, from 0 to 1, in the order of evidence."""
        heaviest = max((reason.weight for reason in self.evidence), default=1.0)
        parts = [reason.weight / heaviest for reason in self.evidence]  # so that the sum is finite
        total = reduce(add, parts, 0.0)  # not sum(), which rounds otherwise since Python 3.12
        return tuple(part / total for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """Return photo, label (None: unknown), confidence, strangeness and ranking, for JSON."""
        ranking = [
            {
                "label": guess.label,
                "confidence": _round(guess.confidence),
                "distance": _round(guess.distance),
            }
            for guess in self.ranking
        ]
        return {
            "photo": self.picture,
            "label": self.label,
            "confidence": _round(self.confidence),
            "strangeness": _round(self.strangeness),
            "ranking": ranking,
        }


def judged_answers(matrix: Float32s, knowledge: DiscriminantModel) -> list[Answer]:
    """Return an answer for each vector by the statistics, without examples.

    The answer is "unknown" where that is more probable than any label. The evidence is the views
    nearest to the picture: of the likeliest label, and one of the next, which speaks against it;
    the weights of a label's views sum up to its confidence.
    """
    directions = as_directions(matrix)
    judgement = knowledge.judge_directions(directions)
    return [
        _judged(knowledge, direction, *row)
        for direction, *row in zip(
            directions, judgement.shares, judgement.known, judgement.distances, strict=True
        )
    ]


def _judged(
    knowledge: DiscriminantModel,
    direction: Float32s,
    shares: Float64s,
    known: float,
    distances: Float64s,
) -> Answer:
    order = np.argsort(-shares, kind="stable")[:MAX_GUESSES].tolist()
    ranking = tuple(
        Guess(knowledge.labels[number], float(known * shares[number]), float(distances[number]))
        for number in order
    )
    unknown, best = 1.0 - float(known), ranking[0].confidence
    strangeness = 2.0 * unknown / (unknown + best)
    reasons = _views_of(knowledge, direction, ranking[0], MAX_SHOWN_VIEWS)
    for guess in ranking[1:2]:
        reasons += _views_of(knowledge, direction, guess, MAX_CONTRARY_VIEWS)
    if strangeness > 1.0:
        return Answer(None, unknown, ranking, reasons, strangeness)
    return Answer(ranking[0].label, best, ranking, reasons, strangeness)


def _views_of(
    knowledge: DiscriminantModel, direction: Float32s, guess: Guess, most: int
) -> tuple[Reason, ...]:
    """Return the kept views of a label nearest to a vector, the nearest first."""
    known = knowledge.statistics[guess.label]
    distances = np.linalg.norm(known.directions.astype(np.float64) - direction, axis=1)
    nearest = np.argsort(distances, kind="stable")[:most]
    closeness = 1.0 / np.maximum(distances[nearest], 1e-6)
    weights = guess.confidence * closeness / closeness.sum()
    first = known.n - len(known.views)
    return tuple(
        Reason(guess.label, float(distances[row]), float(weight), 1, (), first + int(row))
        for row, weight in zip(nearest, weights, strict=True)
    )


def answers(matrix: Float32s, knowledge: CentroidModel, scale: Scale) -> list[Answer]:
    """Return an answer for each vector, without examples; the first guess is the vote's winner.

    The other guesses follow by votes, then by distance. The confidences are those of
    `cbcl.method.centroids.confidence`, the largest for the first guess, over the classes of the
    nearest 64 centroids, times the probability that the picture shows any known class.
    """
    index, n_voters = knowledge.index, knowledge.n_voters
    block = as_float32(matrix)
    neighbours = index.nearest(matrix, max(RANKED_CENTROIDS, n_voters))
    neighbours = index.prefer_small_classes(block, neighbours)  # so that the winner is among them
    voters = index.prefer_small_classes(block, neighbours.first(n_voters))
    rows = zip(matrix, *neighbours, *voters, strict=True)
    return [_answer(knowledge, scale, *row) for row in rows]


def _answer(
    knowledge: CentroidModel,
    scale: Scale,
    vector: Float32s,
    neighbours: Int64s,
    distances: Float64s,
    voters: Int64s,
    voter_distances: Float64s,
) -> Answer:
    index = knowledge.index
    length = float(np.linalg.norm(vector.astype(np.float64)))
    relative_distance = float(distances[0]) / (length or 1.0)
    strangeness = relative_distance * shrinkage(int(index.counts[neighbours[0]])) / scale.limit
    probability_known = familiarity(strangeness)

    class_distances: dict[int, float] = {}  # of the classes of the neighbours, the nearest first
    for number, distance in zip(index.owners[neighbours].tolist(), distances.tolist(), strict=True):
        class_distances.setdefault(number, distance)
    votes = votes_by_class(index.owners[voters], voter_distances, index.sizes)
    shares = confidences(np.array([*class_distances.values()]), length, scale)
    ranking = tuple(
        Guess(knowledge.labels[number], probability_known * share, class_distances[number])
        for number, share in zip(_rank(class_distances, votes), shares.tolist(), strict=True)
    )[:MAX_GUESSES]
    reasons = _reasons(knowledge, voters, voter_distances)
    if strangeness > 1.0:
        return Answer(None, 1.0 - probability_known, ranking, reasons, strangeness)
    return Answer(ranking[0].label, ranking[0].confidence, ranking, reasons, strangeness)


def _rank(distances: Mapping[int, float], votes: Mapping[int, float]) -> list[int]:
    """Return the classes in their order: the winner, then by votes, then by distance."""
    winner = max(votes, key=lambda number: votes[number])  # the first among equals, as in predict

    def key(number: int) -> tuple[bool, float, float]:
        return number != winner, -votes.get(number, 0.0), distances[number]

    return sorted(distances, key=key)


def _reasons(knowledge: CentroidModel, voters: Int64s, distances: Float64s) -> tuple[Reason, ...]:
    index = knowledge.index
    owners = index.owners[voters]
    weights = vote_weights(distances, index.sizes[owners])
    columns = (owners, distances, weights, index.counts[voters], index.places[voters])
    return tuple(
        Reason(knowledge.labels[owner], distance, weight, pictures, (), centroid)
        for owner, distance, weight, pictures, centroid in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def _round(number: float) -> float:
    return float(f"{number:.6g}")
