"""Networks in eight bits: maps are uint8, weights int8, sums int32, and vectors float32.

ONNX Runtime fuses the pairs QuantizeLinear, DequantizeLinear around layers into integer kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.onnx_graph import FeatureMaps, Filters, NetworkGraph, WeightArray


class Quantization(NamedTuple):
    """The number that a byte stands for: (byte - zero_point) * scale."""

    scale: float
    zero_point: int


# (x - 127) / 128 of a byte x: exact.
QUANTIZED_PICTURES = Quantization(1 / 128, 127)
# Bytes cover 0 to 6, so that rounding to them is ReLU6.
QUANTIZED_RELU6 = Quantization(6 / 255, 0)
# -48 to 47.6 for maps that no ReLU6 follows. In Lite0 and on 441 photographs of Caltech-101, the
# limits of least squared error are 14 to 48, map by map; these make the vectors no worse (mean
# cosine to those of float32: .992 either way).
QUANTIZED_LINEAR = Quantization(3 / 8, 128)


def weight_scales(filters: Filters, scale: float) -> NDArray[np.float32]:
    """Return for each filter the finest scale of its weights without overflow: (out,).

    `scale` is that of the maps. Where a processor lacks VNNI, ONNX Runtime adds two products of a
    byte and a weight in 16 bits, and saturates: weights of one sign in such a pair must not exceed
    128 together. Inputs (0, 1), (2, 3), ... are pairs where the kernel is 1; where it is larger,
    any two may be. Filters of one channel are summed in 32 bits.
    """
    out, channels, kernel, _ = filters.weight.shape
    one_sign = np.stack([filters.weight, -filters.weight]).clip(min=0.0).reshape(2, out, -1)
    if channels == 1:
        pairs = one_sign
    elif kernel == 1:
        pairs = one_sign.reshape(2, out, -1, 2).sum(axis=3)
    else:
        pairs = np.sort(one_sign)[:, :, -2:].sum(axis=2, keepdims=True)
    finest = pairs.max(axis=(0, 2)) / 127.0  # rounding may add 1/2 to each of a pair
    holds_bias = np.abs(filters.bias) / (scale * 2**30)
    scales: WeightArray = np.maximum(finest, holds_bias).clip(min=1e-12)
    return scales.astype(np.float32)


class Int8Graph(NetworkGraph):
    """A network of convolutions, ReLU6 and sums for pictures (x - 127) / 128."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        # Names of the quantized maps, and their scales, by the names of the maps.
        self._quantized: dict[str, tuple[str, float]] = {}
        self.pictures, _ = self._quantize(self.pictures, QUANTIZED_PICTURES)

    def _conv_inputs(self, x: FeatureMaps, filters: Filters) -> list[str]:
        quantized, scale = self._quantize(x, QUANTIZED_LINEAR)
        scales = weight_scales(filters, scale)  # (out,)
        weight = np.rint(filters.weight / scales[:, None, None, None]).astype(np.int8)
        bias = np.rint(filters.bias / (scales * scale)).astype(np.int32)
        name = f"conv{len(self.nodes)}"
        return [
            quantized.name,
            self._dequantize(f"{name}.weight", weight, scales),
            self._dequantize(f"{name}.bias", bias, scales * scale),
        ]

    def relu6(self, x: FeatureMaps) -> FeatureMaps:
        return self._quantize(x, QUANTIZED_RELU6)[0]

    def add(self, x: FeatureMaps, y: FeatureMaps) -> FeatureMaps:
        (x, _), (y, _) = (self._quantize(maps, QUANTIZED_LINEAR) for maps in (x, y))
        return super().add(x, y)

    def _quantize(self, x: FeatureMaps, how: Quantization) -> tuple[FeatureMaps, float]:
        """Round maps to bytes unless they are rounded already; return them and their scale."""
        if x.name not in self._quantized:
            scale = self.constant(np.float32(how.scale), f"{x.name}.step")
            zero_point = self.constant(np.uint8(how.zero_point), f"{x.name}.zero")
            rounded = self("QuantizeLinear", x.name, scale, zero_point)
            name = self("DequantizeLinear", rounded, scale, zero_point)
            self._quantized[x.name] = self._quantized[name] = (name, how.scale)
        name, its_scale = self._quantized[x.name]
        return x._replace(name=name), its_scale

    def _dequantize(self, name: str, integers: NDArray[Any], scales: NDArray[np.float32]) -> str:
        """Return the numbers that integers stand for; each filter has a scale."""
        values = self.constant(integers, name), self.constant(scales, f"{name}.steps")
        return self("DequantizeLinear", *values, axis=0)
