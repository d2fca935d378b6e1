"""Nodes of an ONNX graph that answers, whatever the head: operations on rows, and the outputs.

b vectors, d features, t classes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from onnx import TensorProto

from cbcl.method.model import MAX_GUESSES
from cbcl.vision.onnx_graph import GraphBuilder, Operand

Outputs: TypeAlias = dict[str, tuple[int, list[int]]]  # type and shape (of one picture) by name

SINGLE_OUTPUTS = {
    "label": TensorProto.STRING,
    "confidence": TensorProto.DOUBLE,
    "strangeness": TensorProto.DOUBLE,
    "guess": TensorProto.STRING,
}


class AnswerGraph(GraphBuilder):
    """A graph builder with operations on rows: a row is a vector's."""

    def __init__(self) -> None:
        super().__init__(prefix="cbcl/")

    def smallest(self, values: str, count: int) -> tuple[str, str]:
        """Return the smallest of each row, equals from left to right, and their columns."""
        return self._top(values, count, largest=0)

    def largest(self, values: str, count: int) -> tuple[str, str]:
        return self._top(values, count, largest=1)

    def _top(self, values: str, count: int, *, largest: int) -> tuple[str, str]:
        top = self("TopK", values, np.array([count]), largest=largest)  # (b, count)
        self.nodes[-1].output.append(f"{top}.places")
        return top, f"{top}.places"

    def double(self, values: Operand) -> str:
        return self("Cast", values, to=TensorProto.DOUBLE)

    def single(self, values: Operand) -> str:
        return self("Cast", values, to=TensorProto.FLOAT)

    def total(self, values: str) -> str:
        """Return the sum of each row: (b, 1)."""
        return self("ReduceSum", values, np.array([1]), keepdims=1)

    def column(self, values: str, number: int = 0) -> str:
        """Return one column: (b, 1)."""
        return self("Gather", values, np.array([number]), axis=1)

    def or_one(self, length: str, value: str) -> str:
        """Return a value to divide by where the length is not 0, else 1."""
        return self("Where", self("Greater", length, 0.0), value, 1.0)

    def logistic(self, odds: str) -> str:
        """Return the probability of these log odds."""
        exponent = self("Clip", self("Neg", odds), np.float64(-700.0), np.float64(700.0))
        return self("Div", 1.0, self("Add", 1.0, self("Exp", exponent)))


class AnswerValues(NamedTuple):
    """The names of the parts of an answer, before it is concluded."""

    unknown: str  # (b, 1), probability that it is none of the labels
    strangeness: str  # (b, 1)
    ranking: str  # (b, up to 5), numbers of classes; t + 1 where there are no more
    confidences: str  # (b, up to 5), theirs


def add_outputs(graph: AnswerGraph, answer: AnswerValues, labels: list[str], d: int) -> Outputs:
    """Translate `conclude`, add the outputs, and return them."""
    t = len(labels)
    best = graph.column(answer.ranking)
    names = graph.constant(np.array([*labels, "unknown", ""], dtype=object))
    is_unknown = graph("Greater", answer.strangeness, 1.0)
    label = graph("Gather", names, graph("Where", is_unknown, np.array(t), best))
    confidence = graph("Where", is_unknown, answer.unknown, graph.column(answer.confidences))
    singles = label, confidence, answer.strangeness, graph("Gather", names, best)
    for name, value in zip(SINGLE_OUTPUTS, singles, strict=True):
        graph("Squeeze", value, np.array([1]), name=name)
    graph("Gather", names, answer.ranking, name="ranking")
    graph("Identity", answer.confidences, name="ranking_confidence")
    guesses = [min(MAX_GUESSES, t)]
    return {
        **{name: (kind, []) for name, kind in SINGLE_OUTPUTS.items()},
        "ranking": (TensorProto.STRING, guesses),
        "ranking_confidence": (TensorProto.DOUBLE, guesses),
        "vector": (TensorProto.FLOAT, [d]),
    }
