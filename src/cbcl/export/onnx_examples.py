"""Examples beside an ONNX graph, and as its nodes: how far a picture is from each of them.

b vectors, d features, e examples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from cbcl.heads.centroids.onnx import AnswerGraph, Outputs
from cbcl.heads.discriminant.onnx import add_directions
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.coding import encode
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.recognition.snapshot import Snapshot

MAX_PER_LABEL = 12  # examples, the latest: a person looks at three


class PortableExample(NamedTuple):
    """A picture that was learned, to be shown where it is near."""

    label: str
    jpeg: bytes
    direction: Float32s  # (d,)


def portable_examples(snapshot: Snapshot) -> list[PortableExample]:
    """Return the latest examples of every label whose vectors and thumbnails are kept."""
    return [
        example
        for label in snapshot.view.classes
        for example in _examples_of(snapshot, label)[-MAX_PER_LABEL:]
    ]


def _examples_of(snapshot: Snapshot, label: str) -> list[PortableExample]:
    examples = []
    knowledge, memory = snapshot.knowledge, snapshot.memory
    for number, place in memory.example_numbers(snapshot.view, label):
        _, stored = memory.example(number)
        if isinstance(knowledge, DiscriminantModel):
            known = knowledge.statistics[label]
            row = place - (known.n - len(known.views))
            if not 0 <= row < len(known.views):
                continue  # its vector is part of the sums alone
            direction = known.directions[row]
        else:
            direction = as_directions(stored.vector[np.newaxis])[0]
        if stored.jpeg:
            examples.append(PortableExample(label, stored.jpeg, direction))
    return examples


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
