"""What is said about a picture: a label or "unknown", how sure, what else it might be, and why."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.confidence import Scale, confidences, familiarity, shrinkage
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import MANY_VOTERS, in_blocks, nearest


class Guess(NamedTuple):
    """One label that a picture might have."""

    label: str
    confidence: float
    distance: float  # to the nearest centroid of that label


class Example(NamedTuple):
    """A picture that was learned, as far as it is kept."""

    number: int  # its own for good
    concept: int  # the centroid nearest to it, by its number among those of its label
    jpeg: bytes  # small


class Reason(NamedTuple):
    """One of the centroids that voted."""

    label: str
    distance: float
    weight: float  # of its vote; those of one label at distance 0 count once together
    pictures: int  # that stand behind it
    examples: tuple[Example, ...]  # those nearest to it; none where the memory is private
    centroid: int  # its number among those of its label


class Answer(NamedTuple):
    """What a picture shows.

    `label` is None for "unknown": too far from everything that was learned, which is when `strangeness` is above 1.
    `confidence` is how sure that answer is, be it a label or "unknown". The confidences in the ranking leave room for
    "none of these", so they need not add up to 1.

    Examples
    --------
    >>> guess = Guess("cup", confidence=0.97, distance=6.1)
    >>> answer = Answer("cup", 0.97, ranking=(guess,), evidence=(), strangeness=0.5)
    >>> answer.label, answer.ranking[0].distance
    ('cup', 6.1)

    """

    label: str | None
    confidence: float
    ranking: tuple[Guess, ...]  # the likeliest first
    evidence: tuple[Reason, ...]  # the nearest first
    strangeness: float
    picture: str = ""  # its name, if it has one

    @property
    def shares(self) -> tuple[float, ...]:
        """Of all votes, what each reason's came to: from 0 to 1, in the order of the evidence."""
        most = max((reason.weight for reason in self.evidence), default=1.0)
        parts = [reason.weight / most for reason in self.evidence]  # so that the sum is finite
        whole = reduce(add, parts, 0.0)  # not sum(), which rounds otherwise since Python 3.12
        return tuple(part / whole for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: photo, label (None: unknown), confidence, strangeness and ranking."""
        ranking = [
            {
                "label": guess.label,
                "confidence": _short(guess.confidence),
                "distance": _short(guess.distance),
            }
            for guess in self.ranking
        ]
        return {
            "photo": self.picture,
            "label": self.label,
            "confidence": _short(self.confidence),
            "strangeness": _short(self.strangeness),
            "ranking": ranking,
        }


MAX_GUESSES = 5


def answers(matrix: Float32s, knowledge: Knowledge, scale: Scale) -> list[Answer]:
    """An answer for each vector, without examples: the first guess is what the vote says, bit for bit.

    The others follow by votes, then by distance; the confidences are those of `cbcl.method.confidence`, the largest for
    the first guess, over the classes of the nearest 64 centroids, times the chance that it is any of them.
    """
    n = min(max(MANY_VOTERS, knowledge.n_voters), len(knowledge.index.owners))
    indices, distances = np.empty((len(matrix), n), dtype=np.int64), np.empty((len(matrix), n))
    for rows, found in in_blocks(matrix, knowledge.index, n, nearest):
        indices[rows], distances[rows] = found
    votes, evidence = knowledge.votes(matrix), knowledge.evidence(matrix)
    made = []
    for row, vector in enumerate(matrix):
        length = float(np.linalg.norm(vector.astype(np.float64)))
        behind = int(knowledge.index.counts[indices[row, 0]])
        strangeness = float(distances[row, 0]) / (length or 1.0) * shrinkage(behind) / scale.limit
        known = familiarity(strangeness)
        ranking = _ranking(
            indices[row], distances[row], votes[row], knowledge, scale, length, known
        )
        voters = zip(
            evidence.centroids[row], evidence.distances[row], evidence.weights[row], strict=True
        )
        reasons = tuple(
            _reason(knowledge, int(voter), float(apart), float(weight))
            for voter, apart, weight in voters
        )
        label, sure = (
            (None, 1.0 - known) if strangeness > 1.0 else (ranking[0].label, ranking[0].confidence)
        )
        made.append(Answer(label, sure, ranking[:MAX_GUESSES], reasons, strangeness))
    return made


def _ranking(
    indices: Int64s,
    distances: Float64s,
    votes: Float64s,
    knowledge: Knowledge,
    scale: Scale,
    length: float,
    known: float,
) -> tuple[Guess, ...]:
    owners = knowledge.index.owners[indices]
    firsts = np.sort(np.unique(owners, return_index=True)[1])
    numbers, apart = owners[firsts], distances[firsts]  # the classes near, the nearest first
    shares = known * confidences(apart, length, scale)
    winner = votes.argmax()  # the first among equals, as for the estimator
    order = sorted(
        range(len(numbers)), key=lambda i: (numbers[i] != winner, -votes[numbers[i]], apart[i])
    )
    labels = [*knowledge.concepts]
    return tuple(
        Guess(labels[numbers[i]], float(share), float(apart[i]))
        for i, share in zip(order, shares, strict=True)
    )


def _reason(knowledge: Knowledge, centroid: int, distance: float, weight: float) -> Reason:
    owner = int(knowledge.index.owners[centroid])
    first = int(np.searchsorted(knowledge.index.owners, owner))
    label = [*knowledge.concepts][owner]
    return Reason(
        label, distance, weight, int(knowledge.index.counts[centroid]), (), centroid - first
    )


def _short(number: float) -> float:
    return float(f"{number:.6g}")
