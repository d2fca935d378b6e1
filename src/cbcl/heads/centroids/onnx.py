"""The vote as ONNX nodes: from vectors to the labels and confidences of `vote_on_all`.

b vectors, d features, m centroids, t classes, n nearest centroids. Each function names the one that
it translates, and computes in the same order, so that ties and zeros are the same.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from cbcl.heads.answer_nodes import AnswerGraph, AnswerValues, Outputs, add_outputs
from cbcl.method.centroids.answering import RANKED_CENTROIDS
from cbcl.method.centroids.confidence import CONFIDENCE_SLOPE, FAMILIARITY_SLOPE, Scale, shrinkage
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
    t, d = len(model.concepts), model.index.centroids.shape[1]
    wide = graph.double(vector)
    length = graph("Sqrt", graph.total(graph("Mul", wide, wide)))  # (b, 1)
    near = _nearest(graph, wide, model)
    votes = _votes(graph, vector, near, model)
    strangeness = _strangeness(graph, near, length, model.index, scale)
    familiarity = _familiarity(graph, strangeness)
    firsts = _first_of_class(graph, near)
    shares = graph("Mul", familiarity, _confidences(graph, near, firsts, length, scale))
    numbers, confidences = _ranking(graph, near, firsts, shares, votes, t)
    unknown = graph("Sub", 1.0, familiarity)
    answer = AnswerValues(unknown, strangeness, numbers, confidences)
    return add_outputs(graph, answer, model.labels, d)


def _nearest(graph: AnswerGraph, wide: str, model: CentroidModel) -> _Neighbours:
    """Translate `nearest`: exact distances; of many centroids, to the nearest by product.

    Where all of them coincide with the vector, they are those of the smallest classes.
    """
    index = model.index
    m, n = len(index.owners), min(max(RANKED_CENTROIDS, model.n_voters), len(index.owners))
    centroids = graph.constant(index.centroids)
    candidates = n + SPARE_CENTROIDS
    if m <= candidates:
        exact = _distances(graph, wide, centroids, *index.centroids.shape)
        distances, indices = graph.smallest(exact, n)
    else:
        squares = norms_squared(index.centroids)
        # |c|^2 - 2 x.c
        scores = graph("Gemm", wide, graph.double(centroids), squares, alpha=-2.0, transB=1)
        if index.duplicates:  # whose scores may differ by rounding
            firsts = np.arange(m)
            for alike in index.duplicates.values():
                firsts[alike] = alike.min()
            scores = graph("Gather", scores, firsts, axis=1)
        _, closest = graph.smallest(scores, candidates)
        closest, _ = graph.smallest(closest, candidates)  # in the order of the index
        theirs = graph("Gather", centroids, closest)
        exact = _distances(graph, wide, theirs, candidates, index.centroids.shape[1])
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


def _votes(graph: AnswerGraph, vector: str, near: _Neighbours, model: CentroidModel) -> str:
    """Translate `tally` of the n nearest: (b, t)."""
    t, n = len(model.concepts), min(model.n_voters, near.n)
    distances = _first_columns(graph, near.distances, n)
    nearest = _first_columns(graph, near.indices, n)
    voters = _prefer_small_classes(graph, nearest, distances, model.index, n)
    owners = graph("Gather", model.index.owners, voters)
    apart = graph("Greater", distances, 0.0)
    weights = graph("Where", apart, graph("Div", 1.0, distances), COINCIDENT)
    shape = graph("Concat", graph("Shape", vector, end=1), np.array([t]), axis=0)
    nothing = graph("Expand", 0.0, shape)
    votes = graph("ScatterElements", nothing, owners, weights, axis=1, reduction="add")
    zeros = graph("Where", apart, 0.0, 1.0)
    coincident = graph("ScatterElements", nothing, owners, zeros, axis=1, reduction="add")
    once = graph("Where", graph("Greater", coincident, 0.0), COINCIDENT, votes)
    return graph("Mul", once, 1.0 / model.index.sizes)


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
    coincide = graph("Not", graph("Greater", graph.column(distances, n - 1), 0.0))
    crowded = graph("And", coincide, graph("Greater", group, np.array(0)))
    smallest = np.stack([np.zeros(n, dtype=np.int64), *(alike[:n] for alike in groups)])
    chosen = graph("Gather", smallest, graph("Squeeze", group, np.array([1])))
    return graph("Where", crowded, chosen, indices)


def _first_columns(graph: AnswerGraph, values: str, n: int) -> str:
    return graph("Slice", values, np.array([0]), np.array([n]), np.array([1]))


def _strangeness(
    graph: AnswerGraph, near: _Neighbours, length: str, index: Index, scale: Scale
) -> str:
    shrinkages = np.array([shrinkage(int(count)) for count in index.counts])
    by = graph("Gather", shrinkages, graph.column(near.indices))
    relative = graph("Div", graph.column(near.distances), _or_one(graph, length, length))
    return graph("Div", graph("Mul", relative, by), scale.limit)


def _familiarity(graph: AnswerGraph, strangeness: str) -> str:
    exponent = graph("Min", graph("Mul", FAMILIARITY_SLOPE, graph("Sub", strangeness, 1.0)), 700.0)
    return graph("Div", 1.0, graph("Add", 1.0, graph("Exp", exponent)))


def _first_of_class(graph: AnswerGraph, near: _Neighbours) -> str:
    """Return 1 for the nearest centroid of a class, 0 for its others: (b, n)."""
    owners, places = graph.smallest(near.owners, near.n)  # class by class, the nearest first
    before = graph("Gather", owners, np.arange(near.n).clip(min=1) - 1, axis=1)
    begin = graph("Or", graph("Not", graph("Equal", owners, before)), np.arange(near.n) == 0)
    return graph("ScatterElements", near.distances, places, graph.double(begin), axis=1)


def _confidences(
    graph: AnswerGraph, near: _Neighbours, firsts: str, length: str, scale: Scale
) -> str:
    """Translate `confidences`, at the nearest centroid of each class; 0 at the others: (b, n)."""
    farther = graph("Sub", near.distances, graph.column(near.distances))
    behind = graph("Div", farther, _or_one(graph, length, graph("Mul", length, scale.usual)))
    shares = graph("Mul", graph("Exp", graph("Mul", -CONFIDENCE_SLOPE, behind)), firsts)
    return graph("Div", shares, graph.total(shares))


def _ranking(
    graph: AnswerGraph, near: _Neighbours, firsts: str, shares: str, votes: str, t: int
) -> tuple[str, str]:
    """Return the likeliest classes and their confidences; t + 1 and 0 where there are no more."""
    guesses = min(MAX_GUESSES, t)
    winner = graph("ArgMax", votes, axis=1, keepdims=1)  # the first among equals
    theirs = graph("GatherElements", votes, near.owners, axis=1)
    ranks = graph("Where", graph("Equal", near.owners, winner), inf, theirs)
    ranks = graph("Where", graph("Greater", firsts, 0.0), ranks, -1.0)
    best, places = graph.largest(ranks, guesses)
    numbers = graph("GatherElements", near.owners, places, axis=1)
    confidences, _ = graph.largest(shares, guesses)
    return graph("Where", graph("Less", best, 0.0), np.array(t + 1), numbers), confidences


def _or_one(graph: AnswerGraph, length: str, value: str) -> str:
    """Return a value to divide by where the length is not 0, else 1."""
    return graph("Where", graph("Greater", length, 0.0), value, 1.0)
