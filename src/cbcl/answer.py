"""What is said about a picture: a label or "unknown", how sure, what else it might be, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.certainty import Scale, confidences
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import MANY_VOTERS, in_blocks, nearest


class Guess(NamedTuple):
    """One label that a picture might have."""

    label: str
    confidence: float
    distance: float  # to the nearest centroid of that label


class Reason(NamedTuple):
    """One of the centroids that voted."""

    label: str
    distance: float
    weight: float  # what its vote counted
    pictures: int  # that stand behind it
    thumbnails: tuple[bytes, ...]  # JPEG, of those nearest to it; none where the memory is private
    centroid: int  # its number among those of its label


class Answer(NamedTuple):
    """What a picture shows.

    `label` is None for "unknown": too far from everything that was learned, which is when `strangeness` is above 1. The
    confidence is that of the first guess among the labels known.
    """

    label: str | None
    confidence: float
    ranking: tuple[Guess, ...]  # the likeliest first
    evidence: tuple[Reason, ...]  # the nearest first
    strangeness: float
    picture: str = ""  # its name, if it has one

    def as_dict(self) -> dict[str, Any]:
        """For JSON: photo, label (None: unknown), confidence and ranking."""
        ranking = [
            {"label": guess.label, "confidence": _short(guess.confidence), "distance": _short(guess.distance)}
            for guess in self.ranking
        ]
        return {
            "photo": self.picture,
            "label": self.label,
            "confidence": _short(self.confidence),
            "strangeness": _short(self.strangeness),
            "ranking": ranking,
        }


MOST_GUESSES = 5


def answers(matrix: Float32s, knowledge: Knowledge, scale: Scale) -> list[Answer]:
    """An answer for each vector, without thumbnails: the first guess is what the vote says, bit for bit.

    The others follow by votes, then by distance; the confidences are those of `cbcl.method.certainty`, the largest for
    the first guess, over the classes of the nearest 64 centroids.
    """
    n = min(MANY_VOTERS, len(knowledge.index.owners))
    indices, distances = np.empty((len(matrix), n), dtype=np.int64), np.empty((len(matrix), n))
    for rows, found in in_blocks(matrix, knowledge.index, n, nearest):
        indices[rows], distances[rows] = found
    votes = knowledge.votes(matrix)
    winners = votes.argmax(axis=1)
    evidence = knowledge.evidence(matrix)
    lengths = [float(np.linalg.norm(vector.astype(np.float64))) for vector in matrix]
    made = []
    for row, length in enumerate(lengths):
        order = _guesses(indices[row], distances[row], votes[row], int(winners[row]), length, knowledge, scale)
        reasons = tuple(
            _reason(knowledge, int(centroid), float(distance), float(weight))
            for centroid, distance, weight in zip(
                evidence.centroids[row], evidence.distances[row], evidence.weights[row], strict=True
            )
        )
        apart = distances[row, 0] / length if length > 0.0 else float(distances[row, 0] > 0.0)
        strangeness = float(apart / scale.limit)
        label = None if strangeness > 1.0 else order[0].label
        made.append(Answer(label, order[0].confidence, order[:MOST_GUESSES], reasons, strangeness))
    return made


def _guesses(
    indices: Any, distances: Float64s, votes: Float64s, winner: int, length: float, knowledge: Knowledge, scale: Scale
) -> tuple[Guess, ...]:
    owners = knowledge.index.owners[indices]
    numbers, firsts = np.unique(owners, return_index=True)
    firsts.sort()
    numbers, apart = owners[firsts], distances[firsts]  # the classes near, the nearest first
    shares = confidences(apart, length, scale)
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i] != winner, -votes[numbers[i]], apart[i]))
    labels = [*knowledge.concepts]
    return tuple(
        Guess(labels[numbers[i]], float(share), float(apart[i])) for i, share in zip(order, shares, strict=True)
    )


def _reason(knowledge: Knowledge, centroid: int, distance: float, weight: float) -> Reason:
    owner = int(knowledge.index.owners[centroid])
    first = int(np.searchsorted(knowledge.index.owners, owner))
    label = [*knowledge.concepts][owner]
    return Reason(label, distance, weight, int(knowledge.index.counts[centroid]), (), centroid - first)


def _short(number: float) -> float:
    return float(f"{number:.6g}")
