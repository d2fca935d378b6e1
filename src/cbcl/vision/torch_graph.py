"""ONNX graphs run by PyTorch on a GPU, for machines where ONNX Runtime has no GPU support.

b pictures, s pixels a side. All numbers are float32. TF32, which GPUs use for speed, is off, since
vectors must agree with those of a processor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

from cbcl.errors import Subject, WeightsError
from cbcl.vision.decoding import Floats, Pixels
from cbcl.vision.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch import Tensor

_PRECISION = Lock()  # PyTorch's setting is one for all threads


class _Node(NamedTuple):
    """An operation: its function, the names of its operands and of its result."""

    compute: Callable[..., Tensor]
    operands: list[str]
    attributes: dict[str, Any]
    result: str


class TorchGraph:
    """The graph of a network on a device, from cropped pictures to its first output.

    Each batch has the same number of pictures, the last one padded: in a smaller batch, a picture
    would get other bits.
    """

    def __init__(
        self, model: bytes, how: Preprocessing, device: str, batch: int, name: Subject
    ) -> None:
        self._device = torch.device(device)
        self._batch = batch
        graph = onnx.load_from_string(model).graph
        constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self._constants = {key: _as_tensor(value, device) for key, value in constants.items()}
        self._input = graph.input[0].name
        self._output = graph.output[0].name
        nodes = _read_nodes(graph, name)
        if self._device.type == "cuda":
            nodes = _fuse(nodes, self._output)
        self._nodes = [*zip(nodes, _last_used(nodes, {*constants, self._output}), strict=True)]
        self._bgr = how.channels == "BGR"
        shape = (1, 3, 1, 1)
        self._mean = _as_tensor(np.array(how.mean, dtype=np.float32).reshape(shape), device)
        factors = 1.0 / np.array(how.scale, dtype=np.float32)
        self._factors = _as_tensor(factors.reshape(shape), device)

    def __call__(self, crops: Pixels) -> Floats:
        """Return the first output for cropped pictures, (b, s, s, 3) RGB."""
        starts = range(0, len(crops), self._batch)
        return np.concatenate([self._run(crops[one : one + self._batch]) for one in starts])

    def _run(self, crops: Pixels) -> Floats:
        precision = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), _PRECISION, precision:
            pixels = torch.from_numpy(crops).to(self._device)
            missing = self._batch - len(crops)
            pixels = functional.pad(pixels, (0, 0, 0, 0, 0, 0, 0, missing)).permute(0, 3, 1, 2)
            colours = pixels.flip(1) if self._bgr else pixels
            planes = colours.to(torch.float32, memory_format=torch.contiguous_format)
            values = {self._input: (planes - self._mean) * self._factors}
            for node, last_used in self._nodes:
                operands = [self._find(values, operand) for operand in node.operands]
                values[node.result] = node.compute(*operands, **node.attributes)
                for operand in last_used:
                    values.pop(operand, None)
            features: Floats = values[self._output][: len(crops)].cpu().numpy()
        return features

    def _find(self, values: Mapping[str, Tensor], name: str) -> Tensor | None:
        return values[name] if name in values else self._constants.get(name)


def _as_tensor(values: Any, device: str) -> Tensor:
    return torch.from_numpy(np.array(values)).to(device)


def _read_nodes(graph: onnx.GraphProto, name: Subject) -> list[_Node]:
    nodes = []
    for node in graph.node:
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        operation = OPERATIONS.get(node.op_type)
        if operation is None or len(node.output) != 1 or node.domain not in ("", "ai.onnx"):
            problem = f"has the operation {node.op_type}, which cbcl cannot run on a GPU"
            raise WeightsError(name, problem, "use the processor, or install onnxruntime-gpu")
        nodes.append(_Node(operation, [*node.input], attributes, node.output[0]))
    return nodes


def _last_used(nodes: list[_Node], kept: set[str]) -> list[list[str]]:
    """Return for each operation the operands that no later one needs."""
    last = {operand: index for index, node in enumerate(nodes) for operand in node.operands}
    unneeded: list[list[str]] = [[] for _ in nodes]
    for operand in last.keys() - kept:
        unneeded[last[operand]].append(operand)
    return unneeded


def _fuse(nodes: list[_Node], output: str) -> list[_Node]:
    """Join each convolution with the sum and the ReLU after it: cuDNN computes them together."""
    users = Counter(operand for node in nodes for operand in node.operands)
    users[output] += 1
    fused: dict[str, _Node] = {}  # by their results
    for node in nodes:
        joined = _join(node, fused, users) if node.compute is torch.relu else None
        fused[node.result] = joined or node
    return [*fused.values()]


def _join(relu: _Node, made: dict[str, _Node], users: Mapping[str, int]) -> _Node | None:
    """Take the convolution, and the sum, that only this ReLU uses, and return all as one node."""

    def only_here(operand: str, compute: Callable[..., Tensor]) -> _Node | None:
        node = made.get(operand)
        is_fit = node is not None and node.compute is compute and users[operand] == 1
        return node if is_fit else None

    (before,) = relu.operands
    add = only_here(before, torch.add)
    for operand in add.operands if add else [before]:
        conv = only_here(operand, _conv)
        if conv is None or len(conv.operands) != 3:  # cuDNN wants a bias
            continue
        del made[conv.result]
        if add is None:
            return _Node(_conv_relu, conv.operands, conv.attributes, relu.result)
        del made[add.result]
        other = next(one for one in add.operands if one != conv.result)
        return _Node(_conv_add_relu, [*conv.operands, other], conv.attributes, relu.result)
    return None


def _padded(x: Tensor, pads: list[int] | None, value: float) -> Tensor:
    """Pad a picture; `pads` are above, left, below and right, as in ONNX."""
    if pads is None or not any(pads):
        return x
    above, left, below, right = pads
    return functional.pad(x, (left, right, above, below), value=value)


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, **attributes: Any) -> Tensor:
    x, *how = _symmetric(x, **attributes)
    return functional.conv2d(x, weight, bias, *how)


def _conv_relu(x: Tensor, weight: Tensor, bias: Tensor, **attributes: Any) -> Tensor:
    x, *how = _symmetric(x, **attributes)
    result: Tensor = torch.cudnn_convolution_relu(x, weight, bias, *how)
    return result


def _conv_add_relu(
    x: Tensor, weight: Tensor, bias: Tensor, other: Tensor, **attributes: Any
) -> Tensor:
    x, *how = _symmetric(x, **attributes)
    result: Tensor = torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, *how)
    return result


def _symmetric(
    x: Tensor,
    *,
    strides: list[int],
    kernel_shape: list[int] | None = None,  # noqa: ARG001 (the weight's)
    pads: list[int] | None = None,
    group: int = 1,
    dilations: list[int] | None = None,
) -> tuple[Tensor, list[int], list[int], list[int], int]:
    """Return the picture, padded where needed, and arguments for equal padding on both sides."""
    sides = [0, 0]
    if pads is not None and pads[:2] == pads[2:]:
        sides = pads[:2]
    else:
        x = _padded(x, pads, 0.0)
    return x, strides, sides, dilations or [1, 1], group


def _max_pool(
    x: Tensor, *, kernel_shape: list[int], strides: list[int], pads: list[int] | None = None
) -> Tensor:
    return functional.max_pool2d(_padded(x, pads, -np.inf), kernel_shape, strides)


def _clip(x: Tensor, lowest: Tensor | None = None, highest: Tensor | None = None) -> Tensor:
    return x.clamp(lowest, highest)


OPERATIONS: dict[str, Callable[..., Tensor]] = {  # all that the networks known by name need
    "Add": torch.add,
    "Clip": _clip,
    "Conv": _conv,
    "Flatten": lambda x, axis=1: x.flatten(axis),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "MaxPool": _max_pool,
    "Relu": torch.relu,
}
