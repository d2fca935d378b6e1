"""Narrow residual networks on a GPU, by Triton kernels of our own: ten of them for a block.

A ResNet-32 has 16 to 64 channels, and its time goes into memory traffic and into starting kernels.
Here a convolution sums what it writes for the normalisation after it; a normalisation, a shortcut
and a ReLU are one pass, and on the way back the gradient of a ReLU is taken where it is written.
Maps lie channels last, in bfloat16; sums are in float32.

In names: x what goes into a convolution, z what comes out of it, h what a block gives, dy the
gradient after a normalisation and dz before it. A row is a place in a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from cbcl_study.rivals.deep.layers import ConvolutionLayer

WIDTHS = {16, 32, 64}  # channels that the kernels take
MIN_WIDTH = 16  # of a product
JOIN_NUMBERS = 4096  # that a program joins


class KernelTuning(NamedTuple):
    """How a kernel's work is cut for an H200, by the channels that it writes."""

    rows: int  # for each program
    warps: int
    stages: int  # of loads that are under way

    @property
    def options(self) -> dict[str, int]:
        return {"ROWS": self.rows, "num_warps": self.warps, "STAGES": self.stages}


CONVOLVE = {16: KernelTuning(256, 4, 3), 32: KernelTuning(256, 8, 4), 64: KernelTuning(64, 4, 3)}
TRANSPOSE = {16: KernelTuning(256, 4, 3), 32: KernelTuning(256, 8, 3), 64: KernelTuning(64, 4, 3)}
WEIGH = {16: KernelTuning(64, 2, 3), 32: KernelTuning(128, 4, 4), 64: KernelTuning(128, 4, 2)}
WEIGH_PROGRAMS = {16: 132, 32: 88, 64: 64}  # for each of the kernel's three rows


class Trunk(Protocol):
    """A network up to its maps."""

    layers: list[ConvolutionLayer]
    training: bool
    last_relu: bool
    momentum: float
    kernels: Tensor
    scales: Tensor
    shifts: Tensor
    means: Tensor
    variances: Tensor


def can_compute(layers: Sequence[ConvolutionLayer], x: Tensor) -> bool:
    """Return whether these kernels can compute a network on pictures, which lie on a GPU."""
    return x.is_cuda and _has_triton() and {layer.outputs for layer in layers} <= WIDTHS


def maps(network: Trunk, x: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return the last block's maps: (n, c, h, w)."""
    result: Tensor = _Trunk.apply(
        x.permute(0, 2, 3, 1).to(dtype).contiguous(),
        network.kernels,
        network.scales,
        network.shifts,
        network,
    )
    return result


class _Trunk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, kernels: Tensor, scales: Tensor, shifts: Tensor, network: Trunk
    ) -> Tensor:
        walk = _Walk(network, x, kernels, scales, shifts)
        ctx.walk = walk
        return walk.forward().permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.walk.backward(gradient.permute(0, 2, 3, 1).contiguous()), None


class _Walk:
    """One way through a network, forward and back."""

    def __init__(
        self, network: Trunk, x: Tensor, kernels: Tensor, scales: Tensor, shifts: Tensor
    ) -> None:
        self.programs = import_module("cbcl_study.rivals.deep.kernels")  # it needs Triton
        self.network, self.layers = network, network.layers
        self.kernels, self.scales, self.shifts = kernels.detach().to(x.dtype), scales, shifts
        self.x = [x]  # of each layer
        self.z: list[Tensor] = []

    def forward(self) -> Tensor:
        """Return the last block's maps, channels last."""
        n, side = self.x[0].shape[:2]
        self.counts = _counts(self.layers, n, side, self.kernels.device)
        training = self.network.training
        self.sums = torch.zeros_like(self.counts) if training else self._known_sums()
        last = len(self.layers) - 1
        for place, layer in enumerate(self.layers):
            self.z.append(self._convolve(layer, self.x[-1]))
            ends_block = place and place % 2 == 0
            relu = place < last or self.network.last_relu
            self.x.append(self._join(place, self.x[-2] if ends_block else None, relu=relu))
        if training:
            self._update()
        return self.x[-1]

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of kernels, scales and shifts."""
        self.sums_back = torch.zeros_like(self.sums)
        self.kernels_back = torch.zeros(self.kernels.shape, device=gradient.device)
        dy = beside = self._begin(gradient)
        for place in reversed(range(len(self.layers))):
            dz = self._differentiate(place, dy)
            self._weigh(place, dz)
            if place:
                begins_block = place % 2 == 1
                dy = self._transpose(place, dz, beside if begins_block else None)
                beside = dy if begins_block else beside
        shifts, scales = self.sums_back
        return self.kernels_back, scales, shifts

    def _known_sums(self) -> Tensor:
        means, variances = self.network.means, self.network.variances
        return torch.stack([means, variances + means * means]) * self.counts

    def _update(self) -> None:
        """Move the network's means and variances towards those of this batch."""
        n = self.counts[0]
        mean = self.sums[0] / n
        variance = (self.sums[1] / n - mean * mean).clamp_min(0.0) * (n / (n - 1.0))
        with torch.no_grad():
            self.network.means.lerp_(mean, self.network.momentum)
            self.network.variances.lerp_(variance, self.network.momentum)

    def _norm(self, place: int) -> tuple[Any, ...]:
        """Return what kernels need for a layer's normalisation: sums, scales, shifts, rows."""
        layer, z = self.layers[place], self.z[place]
        at = layer.channel
        rows = z.numel() // layer.outputs
        return self.sums.view(-1)[at:], self.scales[at:], self.shifts[at:], rows

    def _back(self, place: int) -> Tensor:
        """Return the sums of gradients of a layer's normalisation."""
        return self.sums_back.view(-1)[self.layers[place].channel :]

    def _convolve(self, layer: ConvolutionLayer, x: Tensor) -> Tensor:
        n, side = x.shape[:2]
        height = side // layer.stride
        z = x.new_empty(n, height, height, layer.outputs)
        rows = n * height * height
        tuning = CONVOLVE[layer.outputs]
        self.programs.convolve[(_ceil(rows, tuning.rows),)](
            x,
            self.kernels[layer.kernel :],
            z,
            self.sums.view(-1)[layer.channel :],
            rows,
            self.sums.shape[1],
            H=side,
            INPUTS=max(MIN_WIDTH, layer.inputs),
            REAL=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            COUNT=self.network.training,
            **tuning.options,
        )
        return z

    def _join(self, place: int, before: Tensor | None, *, relu: bool) -> Tensor:
        """Return a layer's normalised maps, with the shortcut from what was before the block."""
        z, width = self.z[place], self.layers[place].outputs
        result = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        self.programs.join[(_ceil(z.numel() // width, block),)](
            z,
            *self._norm(place),
            z if before is None else before,
            result,
            self.sums.shape[1],
            H=z.shape[1],
            C=width,
            BESIDE=0 if before is None else before.shape[3],
            STRIDE=1 if before is None else before.shape[1] // z.shape[1],
            RELU=relu,
            ROWS=block,
        )
        return result

    def _begin(self, gradient: Tensor) -> Tensor:
        """Return dy of the last normalisation."""
        place, width = len(self.z) - 1, self.layers[-1].outputs
        z = self.z[place]
        dy = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        self.programs.begin[(_ceil(z.numel() // width, block),)](
            gradient,
            self.x[-1],
            z,
            *self._norm(place),
            self._back(place),
            dy,
            self.sums.shape[1],
            C=width,
            RELU=self.network.last_relu,
            ROWS=block,
        )
        return dy

    def _differentiate(self, place: int, dy: Tensor) -> Tensor:
        """Return dz of a layer from its dy."""
        z, width = self.z[place], self.layers[place].outputs
        dz = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        self.programs.differentiate[(_ceil(z.numel() // width, block),)](
            dy,
            z,
            *self._norm(place),
            self._back(place),
            dz,
            self.sums.shape[1],
            C=width,
            ROWS=block,
        )
        return dz

    def _transpose(self, place: int, dz: Tensor, beside: Tensor | None) -> Tensor:
        """Return dy of the normalisation before a layer, from dz after it.

        Between them is a ReLU. `beside` is what comes back by the block's shortcut.
        """
        layer, x = self.layers[place], self.x[place]
        dx = torch.empty_like(x)
        rows = x.numel() // layer.inputs
        tuning = TRANSPOSE[layer.inputs]
        self.programs.transpose[(_ceil(rows, tuning.rows),)](
            dz,
            self.kernels[layer.kernel :],
            dz if beside is None else beside,
            x,
            self.z[place - 1],
            *self._norm(place - 1),
            self._back(place - 1),
            dx,
            self.sums.shape[1],
            H=x.shape[1],
            INPUTS=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            BESIDE=beside is not None,
            **tuning.options,
        )
        return dx

    def _weigh(self, place: int, dz: Tensor) -> None:
        """Compute the gradient of a layer's kernel."""
        layer, x = self.layers[place], self.x[place]
        rows = dz.numel() // layer.outputs
        tuning = WEIGH[layer.outputs]
        tiles = _ceil(rows, tuning.rows)
        each = _ceil(tiles, min(tiles, WEIGH_PROGRAMS[layer.outputs]))
        self.programs.weigh[(_ceil(tiles, each), 3)](
            x,
            dz,
            self.kernels_back[layer.kernel :],
            rows,
            H=x.shape[1],
            INPUTS=max(MIN_WIDTH, layer.inputs),
            REAL=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            TILES=each,
            **tuning.options,
        )


def _counts(layers: Sequence[ConvolutionLayer], n: int, side: int, device: torch.device) -> Tensor:
    """Return the number of places behind each channel's mean, twice: (2, channels)."""
    parts = []
    for layer in layers:
        side //= layer.stride
        parts.append(torch.full((layer.outputs,), float(n * side * side), device=device))
    return torch.cat(parts).expand(2, -1).contiguous()


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
