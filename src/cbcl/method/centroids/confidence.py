"""Verdicts of the vote: labels, confidences, and "unknown", estimated from what was learned.

A distance here is relative: divided by the length of the vector that is classified, which separates
known from unknown far better than the distance itself (docs/method.md has the figures).
m centroids, t classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids.concepts import Concepts, cluster
from cbcl.method.centroids.distances import distances_between, norms_squared
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import Index, nearest
from cbcl.method.centroids.voting import vote_weights, votes_by_class
from cbcl.method.model import MAX_GUESSES, Ground, Guess, Verdict, conclude

RANKED_CENTROIDS = 64  # the nearest, whose classes are ranked
LIMIT_Z = 1.2816  # standard normal quantile of 0.9: about one known picture in ten is refused
CONFIDENCE_SLOPE = 30.0  # of log confidence, by distance in units of the mean distance
FAMILIARITY_SLOPE = 20.0  # of the logistic function, by distance in units of the limit
MAX_SPREAD_VECTORS = 200  # of a class, its first, whose distances are measured


@dataclass(frozen=True)
class Spread:
    """Running sums of relative distances, each from a vector to the concepts learned before it."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.n + other.n, self.total + other.total, self.squares + other.squares)


NO_SPREAD = Spread()  # before the first distance


def spread_of(
    vectors: Float32s, radius: float, known: Concepts | None = None, spread: Spread = NO_SPREAD
) -> Spread:
    """Measure each of these vectors of a class against the concepts that those before it make.

    A mean of w vectors is itself off by a w-th part of their variance, so the distance is divided
    by sqrt(1 + 1 / w). Since every vector is measured against those before it, learning in two
    calls gives what learning in one gives, to the last bit if `spread` is that of `known`.
    """
    concepts = known
    for vector in vectors[: max(0, MAX_SPREAD_VECTORS - (known.size if known else 0))]:
        length = math.sqrt(norms_squared(vector[np.newaxis])[0])
        if concepts is not None and length > 0.0:
            distances = distances_between(vector, concepts.centroids)
            nearest = int(distances.argmin())
            relative = float(distances[nearest]) / length * shrinkage(int(concepts.counts[nearest]))
            spread += Spread(1, relative, relative * relative)
        concepts = cluster(vector[np.newaxis], None, radius, concepts)
    return spread


def shrinkage(count: int) -> float:
    """Return the factor from the distance to a mean of so many vectors to that to the true mean."""
    return 1.0 / math.sqrt(1.0 + 1.0 / count)


class Scale(NamedTuple):
    """Mean relative distance of pictures of known classes, and the limit of what is known."""

    usual: float
    limit: float

    @classmethod
    def of(cls, spreads: Iterable[Spread], index: Index, initial_limit: float = math.inf) -> Scale:
        """Estimate from all classes together: with a few pictures each, none has enough by itself.

        The limit is the upper end of a prediction interval: one more distance stays below it nine
        times in ten. It is at least half the distance to another class, since pictures that are all
        alike say nothing about others of the same class. With fewer than three distances,
        `initial_limit` takes the place of the interval; with a single class, that of the half
        distance, unless it is infinite.
        """
        pooled = sum(spreads, NO_SPREAD)
        if pooled.n < 3 or pooled.total <= 0.0:
            usual = pooled.total / pooled.n if pooled.total > 0.0 else 1.0
            return cls(usual, max(initial_limit, index.half_class_distance))
        mean = pooled.total / pooled.n
        variance = max(0.0, pooled.squares - pooled.n * mean * mean) / (pooled.n - 1)
        limit = mean + _student_t(pooled.n - 1) * math.sqrt(variance * (1.0 + 1.0 / pooled.n))
        has_default = len(index.sizes) == 1 and initial_limit < math.inf
        return cls(mean, max(limit, initial_limit if has_default else index.half_class_distance))


def _student_t(freedom: int) -> float:
    """Return the 0.9 quantile of Student's t, by its expansion about the normal distribution.

    Loading scipy for it would take long.

    >>> [round(_student_t(freedom), 2) for freedom in (2, 5, 30)]
    [1.88, 1.48, 1.31]
    """
    z = LIMIT_Z
    u = 1.0 / freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + u * (first + u * (second + u * third))


def familiarity(strangeness: float) -> float:
    """Return the probability that a picture shows a known class, by its distance over the limit.

    >>> round(familiarity(0.8), 2), familiarity(1.0), round(familiarity(1.2), 2)
    (0.98, 0.5, 0.02)
    """
    return 1.0 / (1.0 + math.exp(min(FAMILIARITY_SLOPE * (strangeness - 1.0), 700.0)))


def confidences(distances: Float64s, length: float, scale: Scale) -> Float64s:
    """Return the confidence in each class, given that the picture shows one of them: (t,) to (t,).

    The distances are those to the nearest centroid of each class, the nearest class first; `length`
    is that of the vector. How the slope was chosen: docs/method.md.

    >>> confidences(np.array([1.0, 1.1, 2.0]), 2.0, Scale(usual=0.5, limit=1.0)).round(3).tolist()
    [0.953, 0.047, 0.0]
    """
    unit = length * scale.usual if length > 0.0 else 1.0
    shares: Float64s = np.exp(-CONFIDENCE_SLOPE * ((distances - distances[0]) / unit))
    shares /= shares.sum()
    return shares


def vote_on_all(matrix: Float32s, model: CentroidModel, scale: Scale) -> list[Verdict]:
    """Return the verdict about each vector; the first guess is the vote's winner.

    The other guesses follow by votes, then by distance. Their confidences are those of the classes
    of the nearest 64 centroids, the largest for the first guess, times the probability that the
    picture shows any known class.
    """
    index = model.index
    neighbours = nearest(matrix, index, max(RANKED_CENTROIDS, model.n_voters))
    neighbours = index.prefer_small_classes(matrix, neighbours)  # so that the winner is among them
    voters = index.prefer_small_classes(matrix, neighbours.first(model.n_voters))
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
