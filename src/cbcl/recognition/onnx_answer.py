"""`cbcl.recognition.answer` as nodes of an ONNX graph: from vectors to labels and confidences, the same as `answers` gives.

b vectors, d features, m centroids, t classes, n nearest centroids. Each function names the one that it stands for, and
does what that does in the same order, so that ties and zeros stay what they are.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cbcl.method.confidence import CONFIDENCE_SLOPE, FAMILIARITY_SLOPE, Scale, shrinkage
from cbcl.method.distances import LANES, norms_squared
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import Index
from cbcl.method.voting import COINCIDENT
from cbcl.recognition.answer import MAX_GUESSES, RANKED_CENTROIDS

Operand: TypeAlias = str | float | NDArray[Any]  # the name of a value, or a constant

SPARE = 16  # centroids measured exactly, beyond those that are wanted
OWN = "cbcl/"  # what the names of values begin with


class Nodes:
    """Nodes in the making, one after another."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *operands: Operand, name: str = "", **attributes: Any) -> str:
        """What an operation gives."""
        name = name or f"{OWN}{kind.lower()}{len(self.nodes)}"
        values = [one if isinstance(one, str) else self.constant(one) for one in operands]
        self.nodes.append(helper.make_node(kind, values, [name], **attributes))
        return name

    def smallest(self, values: str, count: int) -> tuple[str, str]:
        """The smallest of each row in order, the first among equals first, and their places: (b, count) each."""
        return self._top(values, count, largest=0)

    def largest(self, values: str, count: int) -> tuple[str, str]:
        return self._top(values, count, largest=1)

    def _top(self, values: str, count: int, *, largest: int) -> tuple[str, str]:
        top = self("TopK", values, np.array([count]), largest=largest)
        self.nodes[-1].output.append(f"{top}.places")
        return top, f"{top}.places"

    def double(self, values: Operand) -> str:
        return self("Cast", values, to=TensorProto.DOUBLE)

    def total(self, values: str) -> str:
        """The sum of each row: (b, 1)."""
        return self("ReduceSum", values, np.array([1]), keepdims=1)

    def column(self, values: str, number: int = 0) -> str:
        """One of each row: (b, 1)."""
        return self("Gather", values, np.array([number]), axis=1)

    def constant(self, values: float | NDArray[Any]) -> str:
        name = f"{OWN}constant{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name


class _Near(NamedTuple):
    """The nearest centroids of each vector, the nearest first, then in the order of the index: (b, n)."""

    indices: str
    owners: str
    distances: str
    n: int


def answer(
    graph: Nodes, vector: str, knowledge: Knowledge, scale: Scale
) -> dict[str, tuple[int, list[int]]]:
    """`answers`: what is given by name, of which kind, and how much of it a picture."""
    t, d = len(knowledge.concepts), knowledge.index.centroids.shape[1]
    wide = graph.double(vector)
    length = graph(
        "Sqrt", graph.total(graph("Mul", wide, wide))
    )  # (b, 1), as all below that is of a picture
    near = _nearest(graph, wide, knowledge)
    votes = _votes(graph, vector, near, knowledge)
    strangeness = _strangeness(graph, near, length, knowledge.index, scale)
    strange = graph("Greater", strangeness, 1.0)
    known = _familiarity(graph, strangeness)
    firsts = _firsts(graph, near)
    shares = graph("Mul", known, _confidences(graph, near, firsts, length, scale))
    labels, sure = _ranking(graph, near, firsts, shares, votes, t)
    best = graph.column(labels)
    names = graph.constant(np.array([*knowledge.concepts, "unknown", ""], dtype=object))
    label = graph("Gather", names, graph("Where", strange, np.array(t), best))
    confidence = graph("Where", strange, graph("Sub", 1.0, known), graph.column(sure))
    guess = graph("Gather", names, best)
    singles = {"label": label, "confidence": confidence, "strangeness": strangeness, "guess": guess}
    for name, value in singles.items():
        graph("Squeeze", value, np.array([1]), name=name)
    graph("Gather", names, labels, name="ranking")
    graph("Identity", sure, name="ranking_confidence")
    few = [min(MAX_GUESSES, t)]
    return {
        "label": (TensorProto.STRING, []),
        "confidence": (TensorProto.DOUBLE, []),
        "strangeness": (TensorProto.DOUBLE, []),
        "guess": (TensorProto.STRING, []),
        "ranking": (TensorProto.STRING, few),
        "ranking_confidence": (TensorProto.DOUBLE, few),
        "vector": (TensorProto.FLOAT, [d]),
    }


def _nearest(graph: Nodes, wide: str, knowledge: Knowledge) -> _Near:
    """`Search.nearest`: by exact distances; of many centroids, only to those that are nearest by a product."""
    index = knowledge.index
    m, n = len(index.owners), min(max(RANKED_CENTROIDS, knowledge.n_voters), len(index.owners))
    centroids = graph.constant(index.centroids)
    if m <= n + SPARE:
        distances, indices = graph.smallest(
            _distances(graph, wide, centroids, *index.centroids.shape), n
        )
    else:
        squares = norms_squared(index.centroids)
        scores = graph(
            "Gemm", wide, graph.double(centroids), squares, alpha=-2.0, transB=1
        )  # |c|^2 - 2 x.c
        if index.duplicates:  # whose scores may differ by rounding
            firsts = np.arange(m)
            for alike in index.duplicates.values():
                firsts[alike] = alike.min()
            scores = graph("Gather", scores, firsts, axis=1)
        _, some = graph.smallest(scores, n + SPARE)
        some, _ = graph.smallest(some, n + SPARE)  # in the order of the index
        theirs = graph("Gather", centroids, some)
        distances, places = graph.smallest(
            _distances(graph, wide, theirs, n + SPARE, index.centroids.shape[1]), n
        )
        indices = graph("GatherElements", some, places, axis=1)
    return _Near(indices, graph("Gather", index.owners, indices), distances, n)


def _distances(graph: Nodes, wide: str, centroids: str, k: int, d: int) -> str:
    """`distances_between`, in its order of summation, to k centroids, the same for all or not: (b, k)."""
    apart = graph("Sub", graph("Unsqueeze", wide, np.array([1])), graph.double(centroids))
    squares = graph("Mul", apart, apart)
    if d % LANES:
        squares = graph("Pad", squares, np.array([0, 0, 0, 0, 0, -d % LANES]))
    lanes = graph("Reshape", squares, np.array([0, k, -(-d // LANES), LANES]))
    for _ in range(2):  # along a lane, then over the lanes
        lanes = graph("Gather", graph("CumSum", lanes, np.array(2)), np.array(-1), axis=2)
    return graph("Sqrt", lanes)


def _votes(graph: Nodes, vector: str, near: _Near, knowledge: Knowledge) -> str:
    """`tally` of the n nearest: (b, t)."""
    t, n = len(knowledge.concepts), min(knowledge.n_voters, near.n)
    owners = graph("Gather", knowledge.index.owners, _voters(graph, near, knowledge.index, n))
    distances = _first(graph, near.distances, n)
    apart = graph("Greater", distances, 0.0)
    weights = graph("Where", apart, graph("Div", 1.0, distances), COINCIDENT)
    shape = graph("Concat", graph("Shape", vector, end=1), np.array([t]), axis=0)
    nothing = graph("Expand", 0.0, shape)
    votes = graph("ScatterElements", nothing, owners, weights, axis=1, reduction="add")
    zeros = graph("Where", apart, 0.0, 1.0)
    coincident = graph("ScatterElements", nothing, owners, zeros, axis=1, reduction="add")
    once = graph("Where", graph("Greater", coincident, 0.0), COINCIDENT, votes)
    return graph("Mul", once, 1.0 / knowledge.index.sizes)


def _voters(graph: Nodes, near: _Near, index: Index, n: int) -> str:
    """`Search.voters`: the nearest; where more than these coincide with a vector, those of the smallest classes."""
    voters = _first(graph, near.indices, n)
    groups = [alike for alike in index.duplicates.values() if len(alike) > n]
    if not groups:
        return voters
    numbers = np.zeros(
        len(index.owners), dtype=np.int64
    )  # of the group that a centroid is of; 0: of none
    for number, alike in enumerate(groups, start=1):
        numbers[alike] = number
    group = graph("Gather", numbers, graph.column(near.indices))
    coincide = graph("Not", graph("Greater", graph.column(near.distances, n - 1), 0.0))
    crowded = graph("And", coincide, graph("Greater", group, np.array(0)))
    smallest = np.stack([np.zeros(n, dtype=np.int64), *(alike[:n] for alike in groups)])
    chosen = graph("Gather", smallest, graph("Squeeze", group, np.array([1])))
    return graph("Where", crowded, chosen, voters)


def _first(graph: Nodes, values: str, n: int) -> str:
    return graph("Slice", values, np.array([0]), np.array([n]), np.array([1]))


def _strangeness(graph: Nodes, near: _Near, length: str, index: Index, scale: Scale) -> str:
    shrinkages = np.array([shrinkage(int(count)) for count in index.counts])
    by = graph("Gather", shrinkages, graph.column(near.indices))
    relative = graph("Div", graph.column(near.distances), _or_one(graph, length, length))
    return graph("Div", graph("Mul", relative, by), scale.limit)


def _familiarity(graph: Nodes, strangeness: str) -> str:
    doubt = graph("Min", graph("Mul", FAMILIARITY_SLOPE, graph("Sub", strangeness, 1.0)), 700.0)
    return graph("Div", 1.0, graph("Add", 1.0, graph("Exp", doubt)))


def _firsts(graph: Nodes, near: _Near) -> str:
    """1 for the nearest centroid of a class, 0 for its others: (b, n)."""
    owners, places = graph.smallest(near.owners, near.n)  # class by class, the nearest first
    before = graph("Gather", owners, np.arange(near.n).clip(min=1) - 1, axis=1)
    begin = graph("Or", graph("Not", graph("Equal", owners, before)), np.arange(near.n) == 0)
    return graph("ScatterElements", near.distances, places, graph.double(begin), axis=1)


def _confidences(graph: Nodes, near: _Near, firsts: str, length: str, scale: Scale) -> str:
    """`confidences`, at the nearest centroid of each class, and 0 at the others: (b, n)."""
    farther = graph("Sub", near.distances, graph.column(near.distances))
    behind = graph("Div", farther, _or_one(graph, length, graph("Mul", length, scale.usual)))
    shares = graph("Mul", graph("Exp", graph("Mul", -CONFIDENCE_SLOPE, behind)), firsts)
    return graph("Div", shares, graph.total(shares))


def _ranking(
    graph: Nodes, near: _Near, firsts: str, shares: str, votes: str, t: int
) -> tuple[str, str]:
    """The numbers of the likeliest classes and their confidences; t + 1 and 0 where there are no more."""
    few = min(MAX_GUESSES, t)
    winner = graph("ArgMax", votes, axis=1, keepdims=1)  # the first among equals
    theirs = graph("GatherElements", votes, near.owners, axis=1)
    places = graph("Where", graph("Equal", near.owners, winner), inf, theirs)
    best, places = graph.largest(graph("Where", graph("Greater", firsts, 0.0), places, -1.0), few)
    numbers = graph("GatherElements", near.owners, places, axis=1)
    sure, _ = graph.largest(shares, few)
    return graph("Where", graph("Less", best, 0.0), np.array(t + 1), numbers), sure


def _or_one(graph: Nodes, length: str, value: str) -> str:
    """A value to divide by, where there is a length; else 1."""
    return graph("Where", graph("Greater", length, 0.0), value, 1.0)
