"""The vote as ONNX nodes: from vectors to the labels and confidences of `vote_on_all`.

b vectors, d features, m centroids, t classes, n nearest centroids. Each function names the one that
it translates, and computes in the same order, so that ties and zeros are the same.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from cbcl.heads.answer_nodes import AnswerGraph, AnswerValues, Outputs, add_outputs
from cbcl.method.centroids.confidence import (
    CONFIDENCE_SLOPE,
    FAMILIARITY_SLOPE,
    RANKED_CENTROIDS,
    Scale,
    shrinkage,
)
from cbcl.method.centroids.distances import LANES, norms_squared
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import Index
from cbcl.method.centroids.voting import COINCIDENT
from cbcl.method.model import MAX_GUESSES

SPARE_CENTROIDS = 16  # measured exactly, beyond those that are needed


class _Neighbours(NamedTuple):
    """The centroids nearest to each vector, by distance, then in the order of the index: (b, n)."""

    indices: str
    owners: str
    distances: str
    n: int


def add_vote(graph: AnswerGraph, vector: str, model: CentroidModel, scale: Scale) -> Outputs:
    """Translate `vote_on_all`, and return the outputs."""
    index = model.index
    wide = graph.double(vector)
    length = graph("Sqrt", graph.total(graph("Mul", wide, wide)))  # (b, 1)
    near = _nearest(graph, wide, model)
    nearest = graph.column(near.distances)
    relative = graph("Div", nearest, graph.or_one(length, length))
    shrinkages = np.array([shrinkage(int(count)) for count in index.counts])
    by = graph("Gather", shrinkages, graph.column(near.indices))
    strangeness = graph("Div", graph("Mul", relative, by), scale.limit)
    known = graph.logistic(graph("Mul", FAMILIARITY_SLOPE, graph("Sub", 1.0, strangeness)))
    # Translate `confidences`, at the nearest centroid of each class; 0 at the others.
    firsts = _first_of_class(graph, near)
    usual = graph.or_one(length, graph("Mul", length, scale.usual))
    behind = graph("Div", graph("Sub", near.distances, nearest), usual)
    shares = graph("Mul", graph("Exp", graph("Mul", -CONFIDENCE_SLOPE, behind)), firsts)
    shares = graph("Mul", known, graph("Div", shares, graph.total(shares)))
    numbers = _rank(graph, near, firsts, _votes(graph, near, model), len(index.sizes))
    confidences, _ = graph.largest(shares, min(MAX_GUESSES, len(index.sizes)))
    answer = AnswerValues(graph("Sub", 1.0, known), strangeness, numbers, confidences)
    return add_outputs(graph, answer, model.labels, index.centroids.shape[1])


def _nearest(graph: AnswerGraph, wide: str, model: CentroidModel) -> _Neighbours:
    """Translate `nearest`: exact distances; of many centroids, to the nearest by product.

    Where all of them coincide with the vector, they are those of the smallest classes.
    """
    index = model.index
    m, d = index.centroids.shape
    n = min(max(RANKED_CENTROIDS, model.n_voters), m)
    candidates = n + SPARE_CENTROIDS
    centroids = graph.constant(index.centroids)
    if m <= candidates:
        distances, indices = graph.smallest(_distances(graph, wide, centroids, m, d), n)
    else:
        # |c|^2 - 2 x.c
        squares = norms_squared(index.centroids)
        scores = graph("Gemm", wide, graph.double(centroids), squares, alpha=-2.0, transB=1)
        firsts = np.arange(m)
        for alike in index.duplicates.values():  # whose scores may differ by rounding
            firsts[alike] = alike.min()
        _, closest = graph.smallest(graph("Gather", scores, firsts, axis=1), candidates)
        closest, _ = graph.smallest(closest, candidates)  # in the order of the index
        theirs = graph("Gather", centroids, closest)
        exact = _distances(graph, wide, theirs, candidates, d)
        distances, places = graph.smallest(exact, n)
        indices = graph("GatherElements", closest, places, axis=1)
    indices = _prefer_small_classes(graph, indices, distances, index, n)
    return _Neighbours(indices, graph("Gather", index.owners, indices), distances, n)


def _distances(graph: AnswerGraph, wide: str, centroids: str, k: int, d: int) -> str:
    """Translate `distances_between`, in its order of summation, to k centroids: (b, k)."""
    apart = graph("Sub", graph("Unsqueeze", wide, np.array([1])), graph.double(centroids))
    squares = graph("Mul", apart, apart)
    if d % LANES:
        squares = graph("Pad", squares, np.array([0, 0, 0, 0, 0, -d % LANES]))
    lanes = graph("Reshape", squares, np.array([0, k, -(-d // LANES), LANES]))
    for _ in range(2):  # along a lane, then over the lanes
        lanes = graph("Gather", graph("CumSum", lanes, np.array(2)), np.array(-1), axis=2)
    return graph("Sqrt", lanes)


def _prefer_small_classes(
    graph: AnswerGraph, indices: str, distances: str, index: Index, n: int
) -> str:
    """Translate `Index.prefer_small_classes` of the n nearest: (b, n)."""
    groups = [alike for alike in index.duplicates.values() if len(alike) >= n]
    if not groups:
        return indices
    numbers = np.zeros(len(index.owners), dtype=np.int64)  # of each centroid's group; 0: none
    for number, alike in enumerate(groups, start=1):
        numbers[alike] = number
    group = graph("Gather", numbers, graph.column(indices))
    coincide = graph("Equal", graph.column(distances, n - 1), 0.0)
    crowded = graph("And", coincide, graph("Greater", group, np.array(0)))
    smallest = np.stack([np.zeros(n, dtype=np.int64), *(alike[:n] for alike in groups)])
    chosen = graph("Gather", smallest, graph("Squeeze", group, np.array([1])))
    return graph("Where", crowded, chosen, indices)


def _votes(graph: AnswerGraph, near: _Neighbours, model: CentroidModel) -> str:
    """Translate `tally` of the nearest: (b, t)."""
    n = min(model.n_voters, near.n)
    distances = graph("Gather", near.distances, np.arange(n), axis=1)
    nearest = graph("Gather", near.indices, np.arange(n), axis=1)
    voters = _prefer_small_classes(graph, nearest, distances, model.index, n)
    owners = graph("Gather", model.index.owners, voters)
    weights = graph("Min", graph("Div", 1.0, distances), COINCIDENT)
    nothing = graph("Mul", graph.column(distances), np.zeros((1, len(model.concepts))))
    votes = graph("ScatterElements", nothing, owners, weights, axis=1, reduction="add")
    # Several voters at distance 0 count once a class: no others come near to this weight.
    return graph("Mul", graph("Min", votes, COINCIDENT), 1.0 / model.index.sizes)


def _first_of_class(graph: AnswerGraph, near: _Neighbours) -> str:
    """Return 1 for the nearest centroid of a class, 0 for its others: (b, n)."""
    owners, places = graph.smallest(near.owners, near.n)  # class by class, the nearest first
    before = graph("Gather", owners, np.arange(near.n).clip(min=1) - 1, axis=1)
    begin = graph("Or", graph("Not", graph("Equal", owners, before)), np.arange(near.n) == 0)
    return graph("ScatterElements", near.distances, places, graph.double(begin), axis=1)


def _rank(graph: AnswerGraph, near: _Neighbours, firsts: str, votes: str, t: int) -> str:
    """Translate `_rank`: the likeliest classes; t + 1 where there are no more."""
    winner = graph("ArgMax", votes, axis=1, keepdims=1)  # the first among equals
    theirs = graph("GatherElements", votes, near.owners, axis=1)
    ranks = graph("Where", graph("Equal", near.owners, winner), inf, theirs)
    ranks = graph("Where", graph("Greater", firsts, 0.0), ranks, -1.0)
    best, places = graph.largest(ranks, min(MAX_GUESSES, t))
    numbers = graph("GatherElements", near.owners, places, axis=1)
    return graph("Where", graph("Less", best, 0.0), np.array(t + 1), numbers)
