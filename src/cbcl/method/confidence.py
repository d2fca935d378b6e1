"""How far is too far, and how sure is sure: both read off what was learned.

A distance here is relative: divided by the length of the vector that is asked about, which sets what is unknown apart
far better than the distance itself (docs/method.md has the figures). m centroids, t classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.distances import distances_between, norms_squared
from cbcl.method.search import MANY_VOTERS, Index, Search

REFUSED = 1.2816  # standard deviations above the mean, beyond which one in ten lies, if all were known exactly
SHARPNESS = 30.0  # how fast confidence falls with distance, in units of the mean distance
MAX_MEASURED = 200  # vectors of a class, its first, whose distances are kept
MAX_LOOKED_AT = 128  # centroids, to find out how far classes are apart
DOUBT = 20.0  # how fast a thing gets stranger around the limit, in units of the limit


@dataclass(frozen=True)
class Spread:
    """Relative distances from vectors of a class to what was known of it before each: their sums."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.n + other.n, self.total + other.total, self.squares + other.squares)


NOTHING = Spread()


def spread_of(
    vectors: Float32s, radius: float, known: Concepts | None = None, spread: Spread = NOTHING
) -> Spread:
    """How far each of these vectors is from what was known of its class before it came, one after another.

    A mean of w vectors is itself off by a w-th part of their variance: the distance is divided by sqrt(1 + 1 / w).
    Since every vector is measured against those before it, learning in two goes gives what learning in one gives, to
    the last bit if the sums go on from the `spread` of what is known.
    """
    concepts = known
    for vector in vectors[: max(0, MAX_MEASURED - (known.size if known else 0))]:
        length = math.sqrt(norms_squared(vector[np.newaxis])[0])
        if concepts is not None and length > 0.0:
            distances = distances_between(vector, concepts.centroids)
            nearest = int(distances.argmin())
            relative = float(distances[nearest]) / length * shrinkage(int(concepts.counts[nearest]))
            spread += Spread(1, relative, relative * relative)
        concepts = cluster(vector[np.newaxis], None, radius, concepts)
    return spread


def shrinkage(count: int) -> float:
    """By how much a distance to a mean of so many vectors is too long, compared to one to the true mean."""
    return 1.0 / math.sqrt(1.0 + 1.0 / count)


class Scale(NamedTuple):
    """The relative distance that is usual for a known thing, and the largest that is believed."""

    usual: float
    limit: float

    @classmethod
    def of(cls, spreads: Iterable[Spread], index: Index, at_first: float = math.inf) -> Scale:
        """From all classes together: with a few pictures each, none has enough to say by itself.

        The limit is what one more distance stays below nine times in ten, as far as n distances can tell; but no less
        than half way to another class, since pictures that are all alike say nothing about others of the same thing.
        With fewer than three distances there is nothing to go by, and with one class no half way: then the limit is
        what is said to fit `at_first`; if nothing is, nothing is too far, and the distances of one class are believed.
        """
        whole = sum(spreads, Spread())
        if whole.n < 3 or whole.total <= 0.0:
            usual = whole.total / whole.n if whole.total > 0.0 else 1.0
            return cls(usual, max(at_first, half_way(index)))
        mean = whole.total / whole.n
        variance = max(0.0, whole.squares - whole.n * mean * mean) / (whole.n - 1)
        limit = mean + _student(whole.n - 1) * math.sqrt(variance * (1.0 + 1.0 / whole.n))
        least = half_way(index) if len(index.sizes) > 1 or at_first == math.inf else at_first
        return cls(mean, max(limit, least))


def half_way(index: Index) -> float:
    """Half the relative distance from a centroid to the nearest of another class, on average over some of them."""
    m = len(index.owners)
    some = np.arange(0, m, max(1, m // MAX_LOOKED_AT))
    apart = np.full(len(some), np.nan)
    for n in (4, MANY_VOTERS):  # mostly one of another class is among the first few
        left = np.flatnonzero(np.isnan(apart))
        if not len(left):
            break
        search = Search(index, n)
        found = search.nearest(index.centroids[some[left]], search.n)
        others = index.owners[found.indices] != index.owners[some[left]][:, np.newaxis]
        nearest = np.take_along_axis(found.distances, others.argmax(axis=1)[:, np.newaxis], axis=1)[
            :, 0
        ]
        apart[left] = np.where(others.any(axis=1), nearest, np.nan)
    lengths = np.sqrt(norms_squared(index.centroids[some]))
    seen = ~np.isnan(apart) & (lengths > 0.0)  # some have too many of their own class around them
    return float(0.5 * np.mean(apart[seen] / lengths[seen])) if seen.any() else 0.0


def _student(freedom: int) -> float:
    """Student's t for REFUSED, by its expansion about the normal distribution (scipy's would take long to load).

    >>> [round(_student(freedom), 2) for freedom in (2, 5, 30)]
    [1.88, 1.48, 1.31]
    """
    z, u = REFUSED, 1.0 / freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + u * (first + u * (second + u * third))


def familiarity(strangeness: float) -> float:
    """The chance that a thing is one of those known, by its distance in units of the limit; half of it at the limit.

    >>> round(familiarity(0.8), 2), familiarity(1.0), round(familiarity(1.2), 2)
    (0.98, 0.5, 0.02)
    """
    return 1.0 / (1.0 + math.exp(min(DOUBT * (strangeness - 1.0), 700.0)))


def confidences(distances: Float64s, length: float, scale: Scale) -> Float64s:
    """A share for each class, by the relative distance of its nearest centroid: (t,) to (t,), the nearest first.

    The shares are of a thing that is one of those known; both constants were set by what photos show (docs/method.md).

    >>> confidences(np.array([1.0, 1.1, 2.0]), 2.0, Scale(usual=0.5, limit=1.0)).round(3).tolist()
    [0.953, 0.047, 0.0]
    """
    behind = (
        (distances - distances[0]) / (length * scale.usual)
        if length > 0.0
        else distances - distances[0]
    )
    shares: Float64s = np.exp(-SHARPNESS * behind)
    shares /= shares.sum()
    return shares
