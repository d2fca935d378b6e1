"""Networks in eight bits: maps are unsigned bytes, weights signed ones, sums have 32 bits, and vectors are float32.

ONNX Runtime makes integer kernels of the pairs QuantizeLinear, DequantizeLinear around the layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.graph import Filters, Graph, Maps


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
    """One for each filter, where the maps it sees have this one: the finest that no processor's sums overflow with.

    Without VNNI, a processor adds two products of a byte and a weight, neighbours among the inputs, in 16 bits, and
    cuts off what does not fit: the weights of one sign in such a pair must not exceed 128 together. Pairs are
    (0, 1), (2, 3), ... where the kernel is 1, and depend on the version of ONNX Runtime where it is larger. Filters
    that see one channel alone have kernels with wider sums.
    """
    out, seen, kernel, _ = filters.weight.shape
    signs = np.stack([filters.weight, -filters.weight]).clip(min=0.0).reshape(2, out, -1)
    if seen > 1:
        signs = signs.reshape(2, out, -1, 2).sum(axis=3) if kernel == 1 else 2.0 * signs
    finest = signs.max(axis=(0, 2)) / 127.0  # rounding two weights may add 1
    fits_bias = np.abs(filters.bias) / (step * 2**30)
    return np.maximum(np.maximum(finest, fits_bias), 1e-12).astype(np.float32)


class Int8Graph(Graph):
    """A network of convolutions, ReLU6 and sums in the making, for pictures (x - 127) / 128."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self._steps: dict[str, float] = {}  # of the maps that were rounded
        self.pictures = self._round(self.pictures, PICTURES)

    def conv(
        self, x: Maps, filters: Filters, *, stride: int = 1, padding: tuple[int, int] = (0, 0), groups: int = 1
    ) -> Maps:
        x = self._round(x, LINEAR)
        step = self._steps[x.name]
        steps = weight_steps(filters, step)  # (out,)
        weight = np.rint(filters.weight / steps[:, None, None, None]).astype(np.int8)
        bias = np.rint(filters.bias / (steps * step)).astype(np.int32)
        name = f"conv{len(self._nodes)}"
        inputs = [
            x.name,
            self._values(f"{name}.weight", weight, steps),
            self._values(f"{name}.bias", bias, steps * step),
        ]
        return self._windows("Conv", inputs, x, len(weight), weight.shape[2], stride, padding, group=groups)

    def relu6(self, x: Maps) -> Maps:
        return self._round(x, RELU6)

    def add(self, x: Maps, y: Maps) -> Maps:
        return super().add(self._round(x, LINEAR), self._round(y, LINEAR))

    def _round(self, x: Maps, grid: Grid) -> Maps:
        """The maps as bytes, unless they are."""
        if x.name in self._steps:
            return x
        name = f"{x.name}.rounded"
        if name not in self._steps:
            ...
        return x._replace(name=name)

    def _values(self, name: str, numbers: NDArray[Any], steps: NDArray[np.float32]) -> str:
        """What integers stand for, filter by filter."""
        inputs = [self._tensor(name, numbers), self._tensor(f"{name}.steps", steps)]
        return self._node("DequantizeLinear", inputs, axis=0)
