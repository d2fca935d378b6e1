"""The same vectors asked about again and again while classes are learned: quickly, and with the answers of `Knowledge`.

q vectors, m centroids, d features, n voters, p directions. Two things save time. Concepts of a class stay what they are
until it is learned again or makes room, so only new ones are looked at until one changed. And most centroids can be
ruled out by their distance along the few directions in which the vectors differ most. Where the votes are so close that
rounding might decide, the method itself is asked, so the answers are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.concepts import Concepts
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import Voters
from cbcl.method.voting import tally

DIRECTIONS = 384
SAMPLE = 4096  # vectors to find them from
ROWS = 512  # vectors of a block
WORTH = 2.0  # so many times more features than directions make them worth the trouble
SLACK = 1e-4  # of float32, as a share of the squared lengths
CLOSE = 1e-5  # votes that differ by less, as a share, may be decided by rounding
LIKELY = 6  # centroids more than are wanted, to begin with


class ProjectedVectors(NamedTuple):
    """Vectors along a few directions, and what is left of them."""

    along: Float32s  # (q, p)
    squares: Float32s  # (q,) of the lengths along them
    rest: Float32s  # (q,) the length of what is left


class Directions:
    """The directions in which vectors differ most: an orthonormal basis of part of the space."""

    def __init__(self, vectors: Float32s) -> None:
        some = np.asarray(vectors[:: -(-len(vectors) // SAMPLE)], dtype=np.float32)
        self.centre: Float32s = some.mean(axis=0)
        self.basis: Float32s | None = None  # (d, p)
        if vectors.shape[1] >= WORTH * DIRECTIONS:
            some = some - self.centre
            self.basis = np.ascontiguousarray(
                np.linalg.eigh(some.T @ some)[1][:, : -DIRECTIONS - 1 : -1]
            )

    def view(self, vectors: Float32s) -> ProjectedVectors:
        """By the triangle inequality, two vectors are as far apart as their views, at least."""
        moved: Float32s = vectors - self.centre
        if self.basis is None:
            squares: Float32s = np.einsum("ij,ij->i", moved, moved)
            return ProjectedVectors(moved, squares, np.zeros_like(squares))
        along: Float32s = moved @ self.basis
        squares = np.einsum("ij,ij->i", along, along)
        left = np.einsum("ij,ij->i", moved, moved, dtype=np.float64) - squares
        return ProjectedVectors(along, squares, np.sqrt(np.maximum(left, 0.0)).astype(np.float32))


class _Nearest(NamedTuple):
    """The n nearest centroids of vectors, the nearest first: their distances, and the numbers of their classes."""

    distances: Float64s  # (q, n), infinite where there are fewer
    classes: Int64s  # (q, n)


class IncrementalSearch:
    """Labels the vectors it was given by what is known at the time."""

    def __init__(self, vectors: Float32s, directions: Directions | None = None) -> None:
        self._vectors = vectors
        self._directions = directions or Directions(vectors)
        self._view = self._directions.view(vectors)
        self._known: dict[Any, Concepts] = {}
        self._numbers: dict[
            Any, int
        ] = {}  # of the classes, in the order in which they were first seen
        self._nearest = _Nearest(np.empty((0, 1)), np.empty((0, 1), dtype=np.int64))

    def winners(self, knowledge: Knowledge, q: int) -> Int64s:
        """The number of the class of each of the first q vectors: (q,)."""
        self._look(knowledge, q)
        place = np.zeros(
            len(self._numbers), dtype=np.int64
        )  # of each class seen, among those known
        place[[self._numbers[label] for label in knowledge.concepts]] = np.arange(
            len(knowledge.concepts)
        )
        n = min(knowledge.n_voters, self._nearest.distances.shape[1])
        distances, classes = self._nearest.distances[:q, :n], place[self._nearest.classes[:q, :n]]
        votes = tally(
            Voters(classes, distances), np.arange(len(knowledge.concepts)), knowledge.index.sizes
        )
        answers: Int64s = votes.argmax(axis=1)
        doubtful = self._doubtful(votes, distances)
        if len(doubtful):
            answers[doubtful] = knowledge.winners(self._vectors[doubtful])
        return answers

    def _doubtful(self, votes: Float64s, distances: Float64s) -> Int64s:
        """Votes that rounding may decide: the two best alike, or a voter that may be another as near."""
        if votes.shape[1] == 1:
            return np.empty(0, dtype=np.int64)
        best = np.partition(votes, -2, axis=1)[:, -2:]
        ties = best[:, 0] >= best[:, 1] * (1.0 - CLOSE)
        spare = self._nearest.distances[: len(votes), -1]  # one more than there are voters
        return np.flatnonzero(
            ties | (spare <= distances[:, -1] * (1.0 + CLOSE)) | (distances[:, 0] == 0.0)
        )

    def _look(self, knowledge: Knowledge, q: int) -> None:
        """Make sure that the nearest centroids of the first q vectors are known, and one more than have a vote."""
        n = knowledge.n_voters + 1
        known = knowledge.concepts
        same = all(
            label in known and known[label].centroids is concepts.centroids
            for label, concepts in self._known.items()
        )
        for label in known:
            self._numbers.setdefault(label, len(self._numbers))
        if not same or self._nearest.distances.shape[1] != n:
            self._nearest = self._search(known, 0, q, n)
        else:
            old = len(self._nearest.distances)
            new = {label: concepts for label, concepts in known.items() if label not in self._known}
            if new:
                self._nearest = _joined(self._nearest, self._search(new, 0, old, n))
            if q > old:
                more = self._search(known, old, q, n)
                self._nearest = _Nearest(
                    *(np.concatenate(pair) for pair in zip(self._nearest, more, strict=True))
                )
        self._known = dict(known)

    def _search(self, some: dict[Any, Concepts], start: int, stop: int, n: int) -> _Nearest:
        """The n nearest centroids of these classes for the vectors from `start` to `stop`."""
        centroids = np.concatenate([concepts.centroids for concepts in some.values()])
        owners = np.repeat(
            [self._numbers[label] for label in some],
            [len(concepts.counts) for concepts in some.values()],
        )
        seen = self._directions.view(centroids)
        found = _Nearest(
            np.full((stop - start, n), np.inf), np.zeros((stop - start, n), dtype=np.int64)
        )
        for first in range(start, stop, ROWS):
            rows = slice(first, min(first + ROWS, stop))
            view = ProjectedVectors(*(part[rows] for part in self._view))
            distances, columns = _nearest(self._vectors[rows], view, centroids, seen, n)
            into = slice(rows.start - start, rows.stop - start)
            found.distances[into, : distances.shape[1]] = distances
            found.classes[into, : distances.shape[1]] = owners[columns]
        return found


def _joined(one: _Nearest, other: _Nearest) -> _Nearest:
    n = one.distances.shape[1]
    distances = np.concatenate([one.distances, other.distances], axis=1)
    classes = np.concatenate([one.classes, other.classes], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :n]
    return _Nearest(
        np.take_along_axis(distances, order, axis=1), np.take_along_axis(classes, order, axis=1)
    )


def _nearest(
    block: Float32s, view: ProjectedVectors, centroids: Float32s, seen: ProjectedVectors, n: int
) -> tuple[Float64s, Int64s]:
    """The n nearest of m centroids for each vector of a block: distances and columns, (b, at most n)."""
    b, m = len(block), len(centroids)
    n = min(n, m)
    least = (
        view.along @ seen.along.T
    )  # squared distances that are not exceeded by the true ones, in the end
    least *= -2.0
    least += seen.squares
    least += (1.0 - SLACK) * view.squares[:, np.newaxis]
    least -= SLACK * seen.squares
    left = view.rest[:, np.newaxis] - seen.rest
    least += left * left
    k = min(n + LIKELY, m)
    likely = np.argpartition(least, k - 1, axis=1)[:, :k]
    close = _distances(block, centroids, np.repeat(np.arange(b), k), likely.ravel()).reshape(b, k)
    within = np.partition(close, n - 1, axis=1)[:, n - 1]  # n are as near as that, at least
    rows, columns = np.nonzero(
        least <= (within * within * (1.0 + SLACK)).astype(np.float32)[:, np.newaxis]
    )
    distances = _distances(block, centroids, rows, columns)
    order = np.lexsort((columns, distances, rows))
    starts = np.searchsorted(rows, np.arange(b))  # each row has n at least
    chosen = order[starts[:, np.newaxis] + np.arange(n)]
    return distances[chosen], columns[chosen]


def _distances(block: Float32s, centroids: Float32s, rows: Int64s, columns: Int64s) -> Float64s:
    """The distances of pairs."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), 4 * ROWS):
        some = slice(start, start + 4 * ROWS)
        apart: NDArray[np.float32] = block[rows[some]] - centroids[columns[some]]
        found[some] = np.sqrt(np.einsum("ij,ij->i", apart, apart).astype(np.float64))
    return found
