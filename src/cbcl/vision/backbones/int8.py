"""Networks in eight bits: maps are unsigned bytes, weights signed ones, sums have 32 bits, and vectors are float32.

ONNX Runtime makes integer kernels of the pairs QuantizeLinear, DequantizeLinear around the layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.onnx_graph import Filters, Float64s, Graph, Maps


class Grid(NamedTuple):
    """What bytes stand for: (byte - zero) * step."""

    step: float
    zero: int


PICTURES = Grid(1 / 128, 127)  # (x - 127) / 128, where x is a byte: nothing is lost
RELU6 = Grid(6 / 255, 0)  # bytes end where ReLU6 does, so that rounding to them is ReLU6
# -48 to 47.6 for what no ReLU6 follows. In Lite0 and on 441 photographs of Caltech-101, the limits of least squared
# error are 14 to 48, map by map; these make the vectors no worse (mean cosine to those of float32: .992 either way).
LINEAR = Grid(3 / 8, 128)


def weight_steps(filters: Filters, step: float) -> NDArray[np.float32]:
    """The finest steps of the weights, one a filter, with which no sum overflows; `step` is that of what it sees.

    Where a processor lacks VNNI, ONNX Runtime adds two products of a byte and a weight in 16 bits, and cuts off what
    does not fit: weights of one sign in such a pair must not exceed 128 together. Inputs (0, 1), (2, 3), ... are pairs
    where the kernel is 1; where it is larger, any two may be. Filters of one channel are summed in 32 bits.
    """
    out, seen, kernel, _ = filters.weight.shape
    one_sign = np.stack([filters.weight, -filters.weight]).clip(min=0.0).reshape(2, out, -1)
    if seen == 1:
        together = one_sign
    elif kernel == 1:
        together = one_sign.reshape(2, out, -1, 2).sum(axis=3)
    else:
        together = np.sort(one_sign)[:, :, -2:].sum(axis=2, keepdims=True)
    finest = together.max(axis=(0, 2)) / 127.0  # rounding may add 1/2 to each of a pair
    holds_bias = np.abs(filters.bias) / (step * 2**30)
    steps: Float64s = np.maximum(finest, holds_bias).clip(min=1e-12)
    return steps.astype(np.float32)


class Int8Graph(Graph):
    """A network of convolutions, ReLU6 and sums in the making, for pictures (x - 127) / 128."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self._rounded: dict[
            str, tuple[str, float]
        ] = {}  # from the name of maps to what they are as bytes
        self.pictures, _ = self._round(self.pictures, PICTURES)

    def conv(
        self,
        x: Maps,
        filters: Filters,
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
    ) -> Maps:
        rounded, step = self._round(x, LINEAR)
        steps = weight_steps(filters, step)  # (out,)
        weight = np.rint(filters.weight / steps[:, None, None, None]).astype(np.int8)
        bias = np.rint(filters.bias / (steps * step)).astype(np.int32)
        name = f"conv{len(self._nodes)}"
        parts = [
            self._values(f"{name}.weight", weight, steps),
            self._values(f"{name}.bias", bias, steps * step),
        ]
        inputs = [rounded.name, *parts]
        return self._windows(
            "Conv", inputs, x, len(weight), weight.shape[2], stride, padding, group=groups
        )

    def relu6(self, x: Maps) -> Maps:
        return self._round(x, RELU6)[0]

    def add(self, x: Maps, y: Maps) -> Maps:
        return super().add(self._round(x, LINEAR)[0], self._round(y, LINEAR)[0])

    def _round(self, x: Maps, grid: Grid) -> tuple[Maps, float]:
        """The maps as bytes, on this grid unless they are bytes already, and the step of their grid."""
        if x.name not in self._rounded:
            step, zero = np.float32(grid.step), np.uint8(grid.zero)
            on = [self._tensor(f"{x.name}.step", step), self._tensor(f"{x.name}.zero", zero)]
            name = self._node(
                "DequantizeLinear", [self._node("QuantizeLinear", [x.name, *on]), *on]
            )
            self._rounded[x.name] = self._rounded[name] = (name, grid.step)
        as_bytes, its_step = self._rounded[x.name]
        return x._replace(name=as_bytes), its_step

    def _values(self, name: str, numbers: NDArray[Any], steps: NDArray[np.float32]) -> str:
        """What integers stand for, filter by filter."""
        inputs = [self._tensor(name, numbers), self._tensor(f"{name}.steps", steps)]
        return self._node("DequantizeLinear", inputs, axis=0)
