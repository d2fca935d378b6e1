"""Approximate search among very many centroids: a graph finds candidates, exact distances decide.

m centroids, n voters, d features, t classes, b vectors. The graph (HNSW, by usearch: extra `index`)
and the centroids are files that are mapped into memory, so opening them takes no time, and only
what a search touches is read. The candidates that it gives are measured and ordered as everywhere;
what it misses is counted when it is made: the recall is part of every answer. Classes that changed
since then are left out of it, and those learned since are searched exactly beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import MemoryFileError
from cbcl.machine import cores
from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_float32, read_only
from cbcl.method.concepts import Concepts
from cbcl.method.distances import distances_between
from cbcl.method.search import Index, Voters

CONNECTIVITY = 16  # edges of a centroid, and twice as many in the lowest layer
EXPANSION_ADD = 96  # candidates that are looked at when a centroid is added
EXPANSIONS = (64, 128, 256, 512, 1024)  # when it is searched; the first that is good enough
GOOD_RECALL = 0.99
RECALLED = 10  # nearest centroids, of which the recall is the share that is found
SPARE = 16  # candidates that are measured beyond those asked for: 16-bit floats are not exact
ROWS_AT_A_TIME = 4096  # that are added
CHUNK_ROWS = 1 << 16  # that are searched exactly


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph of centroids, with the number of candidates that a search looks at."""

    centroids: Float32s  # (m, d), mapped
    index: Any  # usearch's, of 16-bit floats
    scale: float  # by which vectors are divided, so that these hold them
    expansion: int

    @classmethod
    def build(
        cls, centroids: Float32s, path: Path, progress: Callable[[int, int], None] | None = None
    ) -> Graph:
        """Make a graph and write it to a file."""
        m, d = centroids.shape
        scale = max(float(abs(rows).max()) for rows in _chunks(centroids)) or 1.0
        index = _load_usearch().Index(
            ndim=d,
            metric="l2sq",
            dtype="f16",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            enable_key_lookups=False,
        )
        for first in range(0, m, ROWS_AT_A_TIME):
            rows = centroids[first : first + ROWS_AT_A_TIME] / np.float32(scale)
            index.add(np.arange(first, first + len(rows)), rows, threads=cores())
            if progress is not None:
                progress(first + len(rows), m)
        index.save(path)
        return cls(centroids, index, scale, EXPANSIONS[0])

    @classmethod
    def open(cls, centroids: Float32s, path: Path, scale: float, expansion: int) -> Graph:
        """Map a file that `build` wrote."""
        index = _load_usearch().Index(
            ndim=centroids.shape[1],
            metric="l2sq",
            dtype="f16",
            path=path,
            view=True,
            enable_key_lookups=False,
        )
        if len(index) != len(centroids):
            raise ValueError("the graph is of other centroids")
        return cls(centroids, index, scale, expansion)

    def candidates(self, vectors: Float32s, n: int) -> Int64s:
        """Return about the n nearest centroids of each vector; -1: no more were found: (b, n)."""
        n = min(n, len(self.centroids))
        self.index.expansion_search = max(self.expansion, n)
        matches = self.index.search(vectors / np.float32(self.scale), n, threads=cores())
        keys = np.asarray(matches.keys).astype(np.int64).reshape(len(vectors), -1)
        n_found = np.atleast_1d(getattr(matches, "counts", len(keys[0])))
        keys[np.arange(keys.shape[1]) >= n_found[:, np.newaxis]] = -1
        return keys


class StoredClasses(NamedTuple):
    """The classes of a graph's centroids, by their number among the classes of now."""

    owners: Int64s  # (m,); -1: it is not as it was, or not there any more
    places: Int64s  # (m,), number of each centroid among those of its class
    counts: Int64s  # (m,)


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Centroids of all classes, for searches as an `Index` does them, but approximate."""

    graph: Graph
    stored: StoredClasses
    new: Index | None  # classes that the graph does not have
    new_numbers: Int64s  # of these, among the classes of now
    sizes: Int64s  # (t,), N_y
    half_class_distance: float  # as of `Index`, when the graph was made
    recall: float

    @cached_property
    def owners(self) -> Int64s:
        """The class of each centroid, first those of the graph: (m + new,)."""
        return self._join(self.stored.owners, lambda new: self.new_numbers[new.owners])

    @cached_property
    def places(self) -> Int64s:
        """The number of each centroid among those of its class: (m + new,)."""
        return self._join(self.stored.places, lambda new: new.places)

    @cached_property
    def counts(self) -> Int64s:
        return self._join(self.stored.counts, lambda new: new.counts)

    def _join(self, stored: Int64s, of_new: Callable[[Index], Int64s]) -> Int64s:
        return stored if self.new is None else np.concatenate([stored, of_new(self.new)])

    @cached_property
    def n_live(self) -> int:
        """How many centroids are of a class of now."""
        return int((self.owners >= 0).sum())

    def nearest(self, matrix: Matrix, n: int) -> Voters:
        """Return about the n nearest centroids of each row, the nearest first."""
        vectors = as_float32(matrix)
        n = min(n, self.n_live)
        candidates = self.graph.candidates(vectors, n + SPARE)
        rows = [self._measure(*row, n) for row in zip(vectors, candidates, strict=True)]
        if self.new is not None:
            new = self.new.nearest(matrix, n)
            m = len(self.graph.centroids)
            rows = [
                _first(np.append(ids, new_ids + m), np.append(distances, new_distances), n)
                for (ids, distances), new_ids, new_distances in zip(
                    rows, new.indices, new.distances, strict=True
                )
            ]
        n_found = min(len(ids) for ids, _ in rows)  # fewer than n, if a graph is not connected
        return Voters(
            np.stack([ids[:n_found] for ids, _ in rows]),
            np.stack([distances[:n_found] for _, distances in rows]),
        )

    def _measure(self, vector: Float32s, ids: Int64s, n: int) -> tuple[Int64s, Float64s]:
        """Return the nearest candidates that are of a class of now; if they are few, ask again."""
        live = self._live(ids)
        asked = len(ids)
        while len(live) < n and asked < len(self.graph.centroids) and (ids >= 0).all():
            asked *= 2
            (ids,) = self.graph.candidates(vector[np.newaxis], asked)
            live = self._live(ids)
        return _first(live, distances_between(vector, np.asarray(self.graph.centroids[live])), n)

    def _live(self, ids: Int64s) -> Int64s:
        """Return those of a class of now, in the order of the centroids."""
        found = np.sort(ids[ids >= 0])
        return found[self.stored.owners[found] >= 0]

    def prefer_small_classes(self, _: Float32s, voters: Voters) -> Voters:
        """Return the voters: where many coincide, those that were found vote."""
        return voters


def search_exactly(vectors: Float32s, centroids: Float32s, n: int) -> Voters:
    """Return the n nearest centroids of each vector, a chunk of mapped centroids at a time."""
    n = min(n, len(centroids))
    ids = np.empty((len(vectors), 0), dtype=np.int64)
    distances = np.empty((len(vectors), 0))
    first = 0
    for rows in _chunks(centroids):
        chunk = Index([Concepts(read_only(rows), np.ones(len(rows), dtype=np.int64))])
        found = chunk.nearest(vectors, n)
        ids = np.concatenate([ids, found.indices + first], axis=1)
        distances = np.concatenate([distances, found.distances], axis=1)
        order = np.lexsort((ids, distances), axis=1)[:, :n]
        ids = np.take_along_axis(ids, order, axis=1)
        distances = np.take_along_axis(distances, order, axis=1)
        first += len(rows)
    return Voters(ids, distances)


def measure_recall(graph: Graph, vectors: Float32s, exact: Int64s) -> float:
    """Return the share of the nearest centroids of vectors, (b, n), that a graph finds."""
    found = graph.candidates(vectors, exact.shape[1])
    hits = (exact[:, :, np.newaxis] == found[:, np.newaxis, :]).any(axis=2)
    return float(hits.mean())


def _first(ids: Int64s, distances: Float64s, n: int) -> tuple[Int64s, Float64s]:
    order = np.lexsort((ids, distances))[:n]
    return ids[order], distances[order]


def _chunks(centroids: Float32s) -> list[Float32s]:
    return [centroids[i : i + CHUNK_ROWS] for i in range(0, len(centroids), CHUNK_ROWS)]


def _load_usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        problem = 'needs the extra "index"'
        raise MemoryFileError("a search index", problem, 'pip install "cbcl[index]"') from None
    return usearch.index
