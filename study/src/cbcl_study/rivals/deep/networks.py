"""Residual networks for small pictures (He et al., 2016), with one linear layer on top.

n pictures, c channels, t outputs. The kernels of all convolutions are one parameter, as are the
normalisations' scales and shifts: an update is then three operations, however deep the network. On
a GPU, `cbcl_study.rivals.deep.fused` computes narrow networks with kernels of its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from cbcl_study.rivals.deep import fused
from cbcl_study.rivals.deep.layers import EPSILON, TAPS, ConvolutionLayer, residual_layers

BLOCKS_32, WIDTHS_32 = (5, 5, 5), (16, 32, 64)
BLOCKS_34, WIDTHS_34 = (3, 4, 6, 3), (64, 128, 256, 512)


class ResNet(nn.Module):
    """A residual network on pictures (n, 3, h, w); its maps are pooled and given scores.

    A block is two convolutions beside a shortcut; where it is wider than what it is given, the
    shortcut subsamples and appends zeros. Without a ReLU at its end, as in iCaRL, features may be
    negative.
    """

    def __init__(
        self,
        outputs: int,
        generator: torch.Generator,
        *,
        blocks: tuple[int, ...] = BLOCKS_32,
        widths: tuple[int, ...] = WIDTHS_32,
        last_relu: bool = True,
    ) -> None:
        super().__init__()
        self.momentum = 0.1  # of a normalisation's mean and variance
        self.layers, self.last_relu = residual_layers(blocks, widths), last_relu
        channels = sum(layer.outputs for layer in self.layers)
        device = generator.device
        kernels = torch.empty(sum(layer.kernel_size for layer in self.layers), device=device)
        self.kernels = nn.Parameter(kernels)
        self.scales = nn.Parameter(torch.ones(channels, device=device))
        self.shifts = nn.Parameter(torch.zeros(channels, device=device))
        self.register_buffer("means", torch.zeros(channels, device=device))
        self.register_buffer("variances", torch.ones(channels, device=device))
        self.head = _linear(widths[-1], outputs, device)
        with torch.no_grad():
            for layer in self.layers:  # as He et al.
                deviation = math.sqrt(2.0 / (TAPS * layer.outputs))
                end = layer.kernel + layer.kernel_size
                self.kernels[layer.kernel : end].normal_(0.0, deviation, generator=generator)
        _draw_rows(self.head, 0, generator)

    def maps(self, x: Tensor) -> Tensor:
        """Return the last block's maps: (n, c, h, w)."""
        if fused.can_compute(self.layers, x):
            return fused.maps(self, x)
        stem, *layers = self._convolutions()
        x = functional.relu(stem(x))
        for first, second in zip(layers[::2], layers[1::2], strict=True):
            outer = second(functional.relu(first(x))) + _shortcut(x, first.layer)
            x = functional.relu(outer) if second is not layers[-1] or self.last_relu else outer
        return x

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled maps: (n, c)."""
        return self.maps(x).float().mean(dim=(2, 3))

    def scores(self, features: Tensor) -> Tensor:
        """Return a score for each output: (n, t), in float32."""
        with torch.autocast(features.device.type, enabled=False):
            scores: Tensor = self.head(features)
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each output: (n, t)."""
        return self.scores(self.features(x))

    def grow(self, outputs: int, generator: torch.Generator) -> None:
        """Append outputs with weights of their own, until there are so many."""
        known = self.head.out_features
        if outputs <= known:
            return
        head = _linear(self.head.in_features, outputs, self.head.weight.device)
        with torch.no_grad():
            head.weight[:known], head.bias[:known] = self.head.weight, self.head.bias
        _draw_rows(head, known, generator)
        self.head = head

    def _convolutions(self) -> list[_Convolution]:
        parts = self.kernels.split([layer.kernel_size for layer in self.layers])
        return [
            _Convolution(self, layer, part) for layer, part in zip(self.layers, parts, strict=True)
        ]


class _Convolution:
    """One layer of a network, by torch's own operations."""

    def __init__(self, network: ResNet, layer: ConvolutionLayer, kernel: Tensor) -> None:
        self.network, self.layer = network, layer
        self.kernel = kernel.view(3, 3, layer.inputs, layer.outputs).permute(3, 2, 0, 1)

    def __call__(self, x: Tensor) -> Tensor:
        network, layer = self.network, self.layer
        at = slice(layer.channel, layer.channel + layer.outputs)
        z = functional.conv2d(x, self.kernel, stride=layer.stride, padding=1)
        return functional.batch_norm(
            z,
            network.means[at],
            network.variances[at],
            network.scales[at],
            network.shifts[at],
            training=network.training,
            momentum=network.momentum,
            eps=EPSILON,
        )


def _shortcut(x: Tensor, layer: ConvolutionLayer) -> Tensor:
    added = layer.outputs - layer.inputs
    step = layer.stride
    return functional.pad(x[:, :, ::step, ::step], (0, 0, 0, 0, 0, added)) if added else x


def _linear(inputs: int, outputs: int, device: torch.device) -> nn.Linear:
    # Without weights of its own: those are drawn from the common generator otherwise.
    return nn.utils.skip_init(nn.Linear, inputs, outputs, device=device)


def _draw_rows(head: nn.Linear, first: int, generator: torch.Generator) -> None:
    limit = 1.0 / math.sqrt(head.in_features)
    with torch.no_grad():
        head.weight[first:].uniform_(-limit, limit, generator=generator)
        head.bias[first:].zero_()
