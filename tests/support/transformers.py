"""A small vision transformer in ONNX, with weights at random."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from cbcl.vision.onnx_graph import GraphBuilder

SIZE = 32  # pixels a side of a picture
PATCH = 8  # pixels a side of a patch
WIDTH = 6  # features of a token
TOKENS = 1 + (SIZE // PATCH) ** 2


def transformer(seed: int = 0, opset: int = 17) -> bytes:
    """Return a model of patches, a class token, a layer of self-attention and one of a perceptron.

    Its first output is the tokens (b, TOKENS, WIDTH), its second the class token alone.
    """
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.normal(size=shape).astype(np.float32)

    graph = GraphBuilder()
    kernels = 0.1 * weights(WIDTH, 3, PATCH, PATCH)
    patches = graph("Conv", "pixel_values", kernels, strides=[PATCH, PATCH])
    flat = graph("Reshape", patches, np.array([0, WIDTH, -1]))
    tokens = graph("Transpose", flat, perm=[0, 2, 1])  # (b, TOKENS - 1, WIDTH)
    nothing = graph("Mul", graph("Gather", tokens, np.array([0]), axis=1), np.float32(0.0))
    first = graph("Add", nothing, weights(1, 1, WIDTH))
    x = graph("Add", graph("Concat", first, tokens, axis=1), weights(1, TOKENS, WIDTH))
    normed = _normalize(graph, x)
    query, key, value = (graph("MatMul", normed, weights(WIDTH, WIDTH)) for _ in range(3))
    scores = graph("MatMul", query, graph("Transpose", key, perm=[0, 2, 1]))
    shares = graph("Softmax", graph("Mul", scores, np.float32(WIDTH**-0.5)), axis=2)
    x = graph("Add", x, graph("MatMul", shares, value))
    hidden = graph("Relu", graph("MatMul", _normalize(graph, x), weights(WIDTH, 4 * WIDTH)))
    graph("Add", x, graph("MatMul", hidden, weights(4 * WIDTH, WIDTH)), name="last_hidden_state")
    graph("Gather", "last_hidden_state", np.array(0), axis=1, name="pooler_output")
    shapes: dict[str, list[str | int | None]] = {
        "pixel_values": ["batch", 3, SIZE, SIZE],
        "last_hidden_state": ["batch", TOKENS, WIDTH],
        "pooler_output": ["batch", WIDTH],
    }
    pictures, *outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    network = helper.make_graph(
        graph.nodes, "transformer", [pictures], outputs, [*graph.tensors.values()]
    )
    opsets = [helper.make_opsetid("", opset)]
    return bytes(helper.make_model(network, opset_imports=opsets, ir_version=8).SerializeToString())


def _normalize(graph: GraphBuilder, x: str) -> str:
    ones = np.ones(WIDTH, np.float32)
    zeros = np.zeros(WIDTH, np.float32)
    return graph("LayerNormalization", x, ones, zeros, axis=-1)
