"""Verdicts of the vote: labels, confidences, and the centroids that voted for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s, as_float32
from cbcl.method.centroids.confidence import Scale, confidences, familiarity, shrinkage
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import nearest
from cbcl.method.centroids.voting import vote_weights, votes_by_class
from cbcl.method.model import MAX_GUESSES, Ground, Guess, Verdict, conclude

RANKED_CENTROIDS = 64  # the nearest, whose classes are ranked


def vote_on_all(matrix: Float32s, model: CentroidModel, scale: Scale) -> list[Verdict]:
    """Return the verdict about each vector; the first guess is the vote's winner.

    The other guesses follow by votes, then by distance. The confidences are those of
    `cbcl.method.centroids.confidence`, the largest for the first guess, over the classes of the
    nearest 64 centroids, times the probability that the picture shows any known class.
    """
    index, n_voters = model.index, model.n_voters
    block = as_float32(matrix)
    neighbours = nearest(matrix, index, max(RANKED_CENTROIDS, n_voters))
    neighbours = index.prefer_small_classes(block, neighbours)  # so that the winner is among them
    voters = index.prefer_small_classes(block, neighbours.first(n_voters))
    rows = zip(matrix, *neighbours, *voters, strict=True)
    return [_verdict(model, scale, *row) for row in rows]


def _verdict(
    model: CentroidModel,
    scale: Scale,
    vector: Float32s,
    neighbours: Int64s,
    distances: Float64s,
    voters: Int64s,
    voter_distances: Float64s,
) -> Verdict:
    index = model.index
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
        Guess(model.labels[number], probability_known * share, class_distances[number])
        for number, share in zip(_rank(class_distances, votes), shares.tolist(), strict=True)
    )[:MAX_GUESSES]
    grounds = _grounds(model, voters, voter_distances)
    return conclude(ranking, grounds, probability_known, strangeness)


def _rank(distances: Mapping[int, float], votes: Mapping[int, float]) -> list[int]:
    """Return the classes in their order: the winner, then by votes, then by distance."""
    winner = max(votes, key=lambda number: votes[number])  # the first among equals, as in predict

    def key(number: int) -> tuple[bool, float, float]:
        return number != winner, -votes.get(number, 0.0), distances[number]

    return sorted(distances, key=key)


def _grounds(model: CentroidModel, voters: Int64s, distances: Float64s) -> tuple[Ground, ...]:
    index = model.index
    owners = index.owners[voters]
    weights = vote_weights(distances, index.sizes[owners])
    columns = (owners, distances, weights, index.counts[voters], index.places[voters])
    return tuple(
        Ground(model.labels[owner], distance, weight, pictures, place)
        for owner, distance, weight, pictures, place in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )
