"""ONNX graphs: a builder of nodes, and on it networks, layer by layer.

Weights are checked when they are taken, and batch norms are folded into them. Pictures and feature
maps are square. The weights of a convolution are (out, in / groups, kernel, kernel).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cbcl.errors import WeightsError

WeightArray: TypeAlias = NDArray[np.float64]
Operand: TypeAlias = str | float | NDArray[Any] | np.generic  # a value's name, or a constant

# ONNX Runtime reads both since 1.12.
OPSET = 17
IR_VERSION = 8
INPUT_NAME = "pictures"
OUTPUT_NAME = "vectors"
TORCH_NORM = (".weight", ".bias", ".running_mean", ".running_var")  # PyTorch's batch norm


class GraphBuilder:
    """Nodes and constants of an ONNX graph, in order."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix  # of the names of values
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, TensorProto] = {}

    def __call__(self, operator: str, *operands: Operand, name: str = "", **attributes: Any) -> str:
        """Append a node, and return the name of its output."""
        name = name or f"{self.prefix}{operator.lower()}{len(self.nodes)}"
        inputs = [value if isinstance(value, str) else self.constant(value) for value in operands]
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, values: float | NDArray[Any] | np.generic, name: str = "") -> str:
        """Add a constant unless there is one of that name, and return its name."""
        name = name or f"{self.prefix}constant{len(self.tensors)}"
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(np.asarray(values), name)
        return name


class Filters(NamedTuple):
    """The weights of a convolution."""

    weight: WeightArray  # (out, in / groups, kernel, kernel)
    bias: WeightArray  # (out,)


class BatchNorm(NamedTuple):
    """The parameters of a batch norm, each (channels,)."""

    gamma: WeightArray
    beta: WeightArray
    mean: WeightArray
    variance: WeightArray


def fold(
    weight: WeightArray, norm: BatchNorm, eps: float, *, bias: WeightArray | float = 0.0
) -> Filters:
    """Return the convolution that equals this one with the batch norm after it."""
    scale = norm.gamma / np.sqrt(norm.variance + eps)  # (out,)
    return Filters(weight * scale[:, None, None, None], norm.beta + (bias - norm.mean) * scale)


class Weights:
    """The tensors of a network by name; each must be taken once."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], network: str) -> None:
        self._left = dict(tensors)
        self._network = network

    def take(self, name: str, *shape: int) -> WeightArray:
        try:
            tensor = self._left.pop(name)
        except KeyError:
            raise self._error(name, "is missing") from None
        if tensor.shape != shape:
            raise self._error(name, f"has shape {tensor.shape}, not {shape}")
        if tensor.dtype.kind not in "fiu" or not np.isfinite(tensor).all():
            raise self._error(name, "holds something else than finite numbers")
        return tensor.astype(np.float64)

    def take_norm(
        self, prefix: str, channels: int, parts: tuple[str, ...] = TORCH_NORM
    ) -> BatchNorm:
        names = [f"{prefix}{part}" for part in parts]
        norm = BatchNorm(*(self.take(name, channels) for name in names))
        if (norm.variance < 0.0).any():
            raise self._error(names[-1], "holds negative variances")
        return norm

    def check_all_taken(self, *unused: str) -> None:
        """Raise an error if a tensor is left whose name neither starts nor ends with `unused`."""
        for name in self._left:
            if not name.startswith(unused) and not name.endswith(unused):
                raise self._error(name, "has no place in it")

    def _error(self, tensor: str, problem: str) -> WeightsError:
        problem = f"are not those of {self._network}: tensor {tensor!r} {problem}"
        return WeightsError("the weights", problem, "give the file of that network")


class FeatureMaps(NamedTuple):
    """The value between two layers: (batch, channels, size, size)."""

    name: str
    channels: int
    size: int


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return padding before and after, as TensorFlow's SAME; an odd pixel comes after.

    >>> same_padding(224, kernel=3, stride=2), same_padding(7, kernel=5, stride=1)
    ((0, 1), (2, 2))
    """
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def with_size(model: bytes, size: int) -> bytes:
    """Return a model for pictures of another size; the padding must not depend on the size."""
    network = onnx.load_from_string(model)
    for side in network.graph.input[0].type.tensor_type.shape.dim[2:]:
        side.dim_value = size
    return bytes(network.SerializeToString(deterministic=True))


class NetworkGraph(GraphBuilder):
    """A network, from normalised pictures (batch, 3, size, size) to vectors (batch, d), float32."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self.name = name
        self.pictures = FeatureMaps(INPUT_NAME, 3, size)

    def conv(
        self,
        x: FeatureMaps,
        filters: Filters,
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
    ) -> FeatureMaps:
        out, _, kernel, _ = filters.weight.shape
        inputs = self._conv_inputs(x, filters)
        return self._slide("Conv", inputs, x, out, kernel, stride, padding, group=groups)

    def _conv_inputs(self, x: FeatureMaps, filters: Filters) -> list[str]:
        name = f"conv{len(self.nodes)}"
        weight = self.constant(filters.weight.astype(np.float32), f"{name}.weight")
        bias = self.constant(filters.bias.astype(np.float32), f"{name}.bias")
        return [x.name, weight, bias]

    def max_pool(
        self, x: FeatureMaps, kernel: int, *, stride: int, padding: tuple[int, int] = (0, 0)
    ) -> FeatureMaps:
        return self._slide("MaxPool", [x.name], x, x.channels, kernel, stride, padding)

    def relu(self, x: FeatureMaps) -> FeatureMaps:
        return x._replace(name=self("Relu", x.name))

    def relu6(self, x: FeatureMaps) -> FeatureMaps:
        limits = self.constant(np.float32(0.0), "zero"), self.constant(np.float32(6.0), "six")
        return x._replace(name=self("Clip", x.name, *limits))

    def add(self, x: FeatureMaps, y: FeatureMaps) -> FeatureMaps:
        return x._replace(name=self("Add", x.name, y.name))

    def finish(self, x: FeatureMaps) -> bytes:
        """Return the model whose vectors are the means of these maps, always the same bytes."""
        self("Flatten", self("GlobalAveragePool", x.name), name=OUTPUT_NAME, axis=1)
        side = self.pictures.size
        shapes: dict[str, list[str | int | None]] = {
            INPUT_NAME: ["batch", 3, side, side],
            OUTPUT_NAME: ["batch", x.channels],
        }
        pictures, vectors = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        )
        graph = helper.make_graph(
            self.nodes, self.name, [pictures], [vectors], [*self.tensors.values()]
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="cbcl"
        )
        return bytes(model.SerializeToString(deterministic=True))

    def _slide(
        self,
        operator: str,
        inputs: list[str],
        x: FeatureMaps,
        out: int,
        kernel: int,
        stride: int,
        padding: tuple[int, int],
        **attributes: Any,
    ) -> FeatureMaps:
        before, after = padding
        pads = [before] * 2 + [after] * 2
        kernels = [kernel] * 2
        strides = [stride] * 2
        name = self(
            operator, *inputs, kernel_shape=kernels, strides=strides, pads=pads, **attributes
        )
        return FeatureMaps(name, out, (x.size + before + after - kernel) // stride + 1)
