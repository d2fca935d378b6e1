"""Examples beside an ONNX graph, and as its nodes: how far a picture is from each of them.

b vectors, d features, e examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from cbcl.heads.answer_nodes import AnswerGraph, Outputs
from cbcl.heads.base import ClassRecord, HeadModel
from cbcl.heads.discriminant.onnx import add_directions
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.coding import encode

MAX_PER_LABEL = 12  # examples, the latest: a person looks at three


class PortableExample(NamedTuple):
    """A picture that was learned, to be shown where it is near."""

    label: str
    jpeg: bytes
    direction: Float32s  # (d,)


def portable_examples(
    model: HeadModel, records: Mapping[str, ClassRecord[Any]]
) -> list[PortableExample]:
    """Return the latest examples of every label whose vectors and thumbnails are kept."""
    shown: list[PortableExample] = []
    for label, record in records.items():
        of_label = []
        for example in record.examples:
            direction = model.vector_of(label, example)
            if direction is not None and example.jpeg:
                of_label.append(PortableExample(label, example.jpeg, direction))
        shown += of_label[-MAX_PER_LABEL:]
    return shown


def add_examples(graph: AnswerGraph, vector: str, directions: Float32s) -> Outputs:
    """Add the distances to examples, by directions, and return their output: (b, e)."""
    e, d = directions.shape
    rows = encode(directions)
    own = add_directions(graph, vector, d)
    values = graph("Mul", graph.single(rows.codes), rows.scales[:, np.newaxis])
    products = graph("MatMul", own, graph("Transpose", values, perm=[1, 0]))
    lengths = (rows.values.astype(np.float64) ** 2).sum(axis=1).astype(np.float32)
    squares = graph("Sub", lengths, graph("Mul", np.float32(2.0), products))
    whole = graph("Add", graph.total(graph("Mul", own, own)), squares)
    graph("Sqrt", graph("Max", whole, np.float32(0.0)), name="example_distance")
    return {"example_distance": (TensorProto.FLOAT, [e])}
