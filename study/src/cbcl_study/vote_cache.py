"""The vote on a run's test vectors: after a step, only those centroids are searched that are new.

q test vectors, m centroids, d features, n voters, r centroids kept of each test vector. Where a
budget is kept, most centroids come out of a step as they went in: the r nearest of a vector remain
known but for those that are gone, and the new ones are searched up to the distance of the last.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.blocks import BLOCK_ROWS
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.kernel import SearchLimits
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import Index, Search, Voters, feature_keys
from cbcl.method.centroids.voting import tally
from cbcl_study.projected_search import Coordinates, ProjectedSearch, QueryVectors

# Centroids kept of each vector beyond the voters: more take longer to find than they save.
SPARE = 1


class Neighbours(NamedTuple):
    """The nearest centroids of test vectors, by distance, then by index."""

    indices: Int64s  # (q, r), rows of the index; -1: not known
    distances: Float64s  # (q, r); infinite where not known
    limits: Float64s  # (q,): all centroids that are nearer are among these

    @classmethod
    def unknown(cls, q: int, r: int) -> Neighbours:
        indices = np.full((q, r), -1, dtype=np.int64)
        return cls(indices, np.full((q, r), np.inf), np.zeros(q))

    def write(self, rows: Any, those: Neighbours) -> None:
        for own, other in zip(self, those, strict=True):
            own[rows] = other


class VoteCache:
    """The winners of the vote on test vectors, of which more are asked about step by step.

    They are those of `CentroidModel.winners`, vector by vector.
    """

    def __init__(self, queries: QueryVectors) -> None:
        self.queries = queries
        self.coordinates: Coordinates | None = None  # of all centroids
        self.concepts: dict[Any, Concepts] = {}
        self.n_voters = 0
        self.neighbours = Neighbours.unknown(0, 0)

    def copy(self) -> VoteCache:
        """Return a cache that goes on from here by itself."""
        return copy(self)  # no array is changed in place

    def winners(self, knowledge: CentroidModel, q: int) -> Int64s:
        """Return the number of the class of each of the first q vectors: (q,)."""
        self._update(knowledge, q)
        index, n = knowledge.index, min(knowledge.n_voters, len(knowledge.index.owners))
        known = self.neighbours
        voters = Voters(known.indices[:, :n], known.distances[:, :n])
        voters = index.prefer_small_classes(self.queries.vectors[:q], voters)
        if n == 1:  # only one class has a vote
            winners: Int64s = index.owners[voters.indices[:, 0]]
        else:
            winners = tally(voters, index.owners, index.sizes).argmax(axis=1)
        return winners

    def _update(self, knowledge: CentroidModel, q: int) -> None:
        index, n = knowledge.index, knowledge.n_voters
        m, before = len(index.owners), self.neighbours
        if n != self.n_voters or q < len(before.limits):
            self.concepts, before = {}, Neighbours.unknown(0, n + SPARE)
        neighbours = Neighbours.unknown(q, n + SPARE)
        seen = slice(0, len(before.limits))
        fresh = moved = np.arange(0)
        if len(before.limits):
            moved = _moved_rows(self.concepts, knowledge.concepts)
            kept = _keep(before, moved)
            fresh = np.setdiff1d(np.arange(m), moved)
        self.coordinates = self._project(index, moved)
        new = _NewCentroids(index, fresh, self.coordinates, n + SPARE) if len(fresh) else None
        if len(before.limits):
            neighbours.write(seen, self._add(kept, new) if new else kept)
        # Of new vectors, and of those whose last neighbour is gone.
        rows = np.flatnonzero(neighbours.indices[:, min(n, m) - 1] < 0)
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows[start : start + BLOCK_ROWS]
            found = self._search(index, block, new, n + SPARE)
            r = found.indices.shape[1]
            neighbours.indices[block, :r] = found.indices
            neighbours.distances[block, :r] = found.distances
            neighbours.limits[block] = found.distances[:, -1] if r < m else np.inf
        self.concepts, self.n_voters, self.neighbours = knowledge.concepts, n, neighbours

    def _project(self, index: Index, moved: Int64s) -> Coordinates | None:
        """Return the coordinates of all centroids, of which some moved from one row to another."""
        m = len(index.owners)
        if not self.queries.pay_to_project(m):
            return None
        projection, before = self.queries.projection, self.coordinates
        if before is None or not len(moved):
            return projection.coordinates(index.centroids)
        kept, fresh = np.flatnonzero(moved >= 0), np.setdiff1d(np.arange(m), moved)
        new = projection.coordinates(index.centroids[fresh])
        values = np.empty((m, before.values.shape[1]), dtype=np.float32)
        values[moved[kept]], values[fresh] = before.values[kept], new.values
        squares = np.empty(m)
        squares[moved[kept]], squares[fresh] = before.squares[kept], new.squares
        return Coordinates(values, squares)

    def _search(self, index: Index, rows: Int64s, new: _NewCentroids | None, r: int) -> Voters:
        """Return the nearest of all centroids to these test vectors.

        New vectors are mostly near to new centroids: that is how far others are searched.
        """
        block = self.queries.vectors[rows]
        if self.coordinates is None or new is None or len(new.rows) < r:
            search = Search(index, r)
            return search.nearest(block, search.n)
        farthest = new.search.nearest(block, r).distances[:, -1]
        limits = SearchLimits(np.nextafter(farthest, np.inf), self.queries.squares[rows])
        search_all = ProjectedSearch(index, self.coordinates)
        return search_all.nearest(block, self.queries.coordinates.some(rows), r, limits)

    def _add(self, kept: Neighbours, new: _NewCentroids) -> Neighbours:
        """Return the neighbours among these and new centroids: (q, r)."""
        q, r = kept.indices.shape
        added = Neighbours(kept.indices.copy(), kept.distances.copy(), kept.limits.copy())
        for start in range(0, q, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, q))
            limits = SearchLimits(kept.limits[block], self.queries.squares[block])
            found = new.nearest(self.queries, block, limits)
            nearer = found.indices >= 0
            rows = start + np.flatnonzero(nearer.any(axis=1))
            changed, nearer = found.indices[rows - start], nearer[rows - start]
            indices = np.where(nearer, new.rows[changed], -1)
            distances = np.where(nearer, found.distances[rows - start], np.inf)
            reached = kept.limits[rows]
            if new.search.n < len(new.rows):  # there may be more, as far as the last of those found
                reached = np.minimum(reached, found.distances[rows - start, -1])
            both = Neighbours(
                np.concatenate([kept.indices[rows], indices], axis=1),
                np.concatenate([kept.distances[rows], distances], axis=1),
                reached,
            )
            added.write(rows, _nearest_of(both, r))
        return added


class _NewCentroids:
    """Rows of an index that the step before had not."""

    def __init__(self, index: Index, rows: Int64s, coordinates: Coordinates | None, r: int) -> None:
        self.rows = rows
        ones = np.ones(len(rows), dtype=np.int64)
        self.search = Search(Index([Concepts(index.centroids[rows], ones)]), r)
        self.projected: ProjectedSearch | None = None
        if coordinates is not None:
            self.projected = ProjectedSearch(self.search.index, coordinates.some(rows))

    def nearest(self, queries: QueryVectors, rows: slice, limits: SearchLimits) -> Voters:
        """Return those that are nearer to test vectors than their limits."""
        block, n = queries.vectors[rows], self.search.n
        if self.projected is None:
            return self.search.nearest(block, n, limits)
        return self.projected.nearest(block, queries.coordinates.some(rows), n, limits)


def _keep(before: Neighbours, moved: Int64s) -> Neighbours:
    """Return what is still known of neighbours after centroids moved to other rows, or went.

    One as far as the limit may have others as far, which are not among these.
    """
    certain = before.distances < before.limits[:, np.newaxis]
    indices = np.where(certain, moved[before.indices], -1)
    distances = np.where(indices >= 0, before.distances, np.inf)
    kept = Neighbours(indices, distances, before.limits.copy())
    gaps = np.flatnonzero(((indices < 0) & certain).any(axis=1))
    rest = Neighbours(indices[gaps], distances[gaps], before.limits[gaps])
    kept.write(gaps, _nearest_of(rest, indices.shape[1]))
    return kept


def _nearest_of(several: Neighbours, r: int) -> Neighbours:
    """Return the r nearest of these, and limits that allow for those left out."""
    order = np.lexsort((several.indices, several.distances), axis=1)
    indices = np.take_along_axis(several.indices, order, axis=1)
    distances = np.take_along_axis(several.distances, order, axis=1)
    limits = several.limits
    if indices.shape[1] > r:
        limits = np.minimum(limits, distances[:, r])
    return Neighbours(indices[:, :r], distances[:, :r], limits)


def _moved_rows(before: dict[Any, Concepts], after: dict[Any, Concepts]) -> Int64s:
    """Return the row of each centroid in the index after a step, -1 if it is gone."""
    starts, start = {}, 0
    for label, concepts in after.items():
        starts[label] = start
        start += len(concepts.counts)
    moved = []
    for label, old in before.items():
        new = after.get(label)
        if new is None:
            rows = np.full(len(old.counts), -1)
        elif new is old:
            rows = starts[label] + np.arange(len(old.counts))
        else:
            rows = _equal_rows(old.centroids, new.centroids)
            rows[rows >= 0] += starts[label]
        moved.append(rows)
    return np.concatenate(moved)


def _equal_rows(old: Float32s, new: Float32s) -> Int64s:
    """Return the row of `new` that equals each of `old`, bit for bit, none twice; -1: none does.

    Of rows that are alike and not equal, some may be missed.
    """
    keys, new_keys = feature_keys(old), feature_keys(new)
    order = np.argsort(new_keys, kind="stable")
    places = np.minimum(np.searchsorted(new_keys, keys, sorter=order), len(new) - 1)
    rows: Int64s = order[places]
    rows[new_keys[rows] != keys] = -1
    _, firsts = np.unique(rows, return_index=True)
    taken = np.zeros(len(rows), dtype=bool)
    taken[firsts] = True
    rows[~taken] = -1
    alike = np.flatnonzero(rows >= 0)
    equal = (old[alike].view(np.int32) == new[rows[alike]].view(np.int32)).all(axis=1)
    rows[alike[~equal]] = -1
    return rows
