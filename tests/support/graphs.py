"""Small networks, graphs of a head alone, from vectors to answers, and what a graph says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper
from PIL import Image

from cbcl.heads.answer_nodes import AnswerGraph
from cbcl.heads.base import HeadModel
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Pixels
from cbcl.vision.preprocessing import Preprocessing

Said = dict[str, NDArray[Any]]


def graph_of(model: HeadModel, d: int) -> bytes:
    """The head alone, from vectors to answers."""
    graph = AnswerGraph()
    outputs = model.add_answer(graph, graph("Identity", "vectors", name="vector"))
    whole = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "head",
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", d])],
            [
                helper.make_tensor_value_info(name, kind, ["b", *shape])
                for name, (kind, shape) in outputs.items()
            ],
            [*graph.tensors.values()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(whole, full_check=True)
    return bytes(whole.SerializeToString())


def ask(model: bytes, values: NDArray[Any], batch: int = 7) -> Said:
    """What a graph says of its only input, so many rows at a time."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    names = [output.name for output in session.get_outputs()]
    parts = [
        session.run(names, {given.name: values[start : start + batch]})
        for start in range(0, len(values), batch)
    ]
    columns = zip(names, zip(*parts, strict=True), strict=True)
    return {name: np.concatenate(some) for name, some in columns}


def network_of(
    name: str,
    nodes: list[onnx.NodeProto],
    opset: int,
    how: Preprocessing,
    batch: int | str = "batch",
    initial: Sequence[TensorProto] = (),
) -> Network:
    """A network of these nodes; its vectors are the result of the last."""
    shape = [batch, 3, how.size, how.size]
    pictures = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, shape)
    vectors = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, name, [pictures], [vectors], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return Network(f"{name}.onnx", model.SerializeToString(), how, "0" * 64)


def vectors_of(network: Network, pixels: Pixels) -> NDArray[np.float32]:
    return network.vectors([Image.fromarray(one) for one in pixels])
