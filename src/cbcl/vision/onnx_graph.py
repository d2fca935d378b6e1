"""Networks as ONNX graphs: weights checked as they are taken, batch norm folded into them, layer after layer.

Pictures and maps are square. The weights of a convolution are (out, in / groups, kernel, kernel).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from cbcl.errors import WeightsError

Float64s: TypeAlias = NDArray[np.float64]

OPSET, IR_VERSION = 17, 8  # what ONNX Runtime has read since 1.12
INPUT, OUTPUT = "pictures", "vectors"


class Filters(NamedTuple):
    """The weights of a convolution."""

    weight: Float64s  # (out, in / groups, kernel, kernel)
    bias: Float64s  # (out,)


class BatchNorm(NamedTuple):
    """What a batch norm learned of each channel."""

    gamma: Float64s
    beta: Float64s
    mean: Float64s
    variance: Float64s


def fold(weight: Float64s, norm: BatchNorm, eps: float, *, bias: Float64s | float = 0.0) -> Filters:
    """The convolution that does what one with this weight and bias and the batch norm after it do."""
    scale = norm.gamma / np.sqrt(norm.variance + eps)  # (out,)
    return Filters(weight * scale[:, None, None, None], norm.beta + (bias - norm.mean) * scale)


class Weights:
    """The tensors of a network by name: each is checked when it is taken, and in the end none may be left over."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], network: str) -> None:
        self._left = dict(tensors)
        self._network = network

    def take(self, name: str, *shape: int) -> Float64s:
        try:
            tensor = self._left.pop(name)
        except KeyError:
            raise self._wrong(f"tensor {name!r} is missing") from None
        if tensor.shape != shape:
            raise self._wrong(f"tensor {name!r} has shape {tensor.shape}, not {shape}")
        if tensor.dtype.kind not in "fiu" or not np.isfinite(tensor).all():
            raise self._wrong(f"tensor {name!r} holds something else than finite numbers")
        return tensor.astype(np.float64)

    def take_norm(
        self, gamma: str, beta: str, mean: str, variance: str, channels: int
    ) -> BatchNorm:
        norm = BatchNorm(*(self.take(name, channels) for name in (gamma, beta, mean, variance)))
        if (norm.variance < 0.0).any():
            raise self._wrong(f"tensor {variance!r} holds negative variances")
        return norm

    def take_torch_norm(self, name: str, channels: int) -> BatchNorm:
        parts = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, variance = (f"{name}.{part}" for part in parts)
        return self.take_norm(gamma, beta, mean, variance, channels)

    def nothing_left(self, *but: str) -> None:
        """Tensors may remain whose names start or end like this, those of the classifier for instance."""
        for name in self._left:
            if not name.startswith(but) and not name.endswith(but):
                raise self._wrong(f"tensor {name!r} has no place in it")

    def _wrong(self, what: str) -> WeightsError:
        return WeightsError(
            f"the weights are not those of {self._network}: {what}. Give the file of that network."
        )


class Maps(NamedTuple):
    """What flows between two layers: (batch, channels, size, size)."""

    name: str
    channels: int
    size: int


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after, as TensorFlow's SAME has them: where they are odd, the larger part comes after.

    >>> same_padding(224, kernel=3, stride=2), same_padding(7, kernel=5, stride=1)
    ((0, 1), (2, 2))
    """
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Graph:
    """A network in the making, from normalised pictures (batch, 3, size, size) to vectors (batch, d), all float32."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.pictures = Maps(INPUT, 3, size)
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}

    def conv(
        self,
        x: Maps,
        filters: Filters,
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
    ) -> Maps:
        out, _, kernel, _ = filters.weight.shape
        name = f"conv{len(self._nodes)}"
        inputs = [
            x.name,
            self._tensor(f"{name}.weight", filters.weight),
            self._tensor(f"{name}.bias", filters.bias),
        ]
        return self._windows("Conv", inputs, x, out, kernel, stride, padding, group=groups)

    def max_pool(
        self, x: Maps, kernel: int, *, stride: int, padding: tuple[int, int] = (0, 0)
    ) -> Maps:
        return self._windows("MaxPool", [x.name], x, x.channels, kernel, stride, padding)

    def relu(self, x: Maps) -> Maps:
        return x._replace(name=self._node("Relu", [x.name]))

    def relu6(self, x: Maps) -> Maps:
        limits = [self._tensor("zero", np.float64(0.0)), self._tensor("six", np.float64(6.0))]
        return x._replace(name=self._node("Clip", [x.name, *limits]))

    def add(self, x: Maps, y: Maps) -> Maps:
        return x._replace(name=self._node("Add", [x.name, y.name]))

    def finish(self, x: Maps) -> bytes:
        """The network whose vectors are the means of these maps; the same weights give the same bytes."""
        means = self._node("GlobalAveragePool", [x.name])
        self._nodes.append(helper.make_node("Flatten", [means], [OUTPUT], axis=1))
        shape: list[str | int | None] = ["batch", 3, self.pictures.size, self.pictures.size]
        pictures = helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, shape)
        vectors = helper.make_tensor_value_info(
            OUTPUT, onnx.TensorProto.FLOAT, ["batch", x.channels]
        )
        graph = helper.make_graph(
            self._nodes, self.name, [pictures], [vectors], list(self._tensors.values())
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="cbcl"
        )
        return bytes(model.SerializeToString(deterministic=True))

    def _windows(
        self,
        kind: str,
        inputs: list[str],
        x: Maps,
        out: int,
        kernel: int,
        stride: int,
        padding: tuple[int, int],
        **options: int,
    ) -> Maps:
        before, after = padding
        name = self._node(
            kind,
            inputs,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[before] * 2 + [after] * 2,
            **options,
        )
        return Maps(name, out, (x.size + before + after - kernel) // stride + 1)

    def _node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _tensor(self, name: str, values: NDArray[Any] | np.generic) -> str:
        if name not in self._tensors:
            dtype = np.float32 if values.dtype == np.float64 else values.dtype
            self._tensors[name] = numpy_helper.from_array(np.asarray(values, dtype=dtype), name)
        return name
