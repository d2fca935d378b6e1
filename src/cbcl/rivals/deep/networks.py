"""Residual networks for small pictures (He et al., 2016), with one linear layer on top.

n pictures, c channels, t outputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCKS_32, WIDTHS_32 = (5, 5, 5), (16, 32, 64)
BLOCKS_34, WIDTHS_34 = (3, 4, 6, 3), (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; a wider one subsamples and appends zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, last_relu: bool = True) -> None:
        super().__init__()
        self.stride, self.added, self.last_relu = stride, outputs - inputs, last_relu
        self.conv1, self.norm1 = _convolution(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = _convolution(outputs, outputs, 1), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        if self.added:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        outer = self.norm2(self.conv2(inner)) + x
        return functional.relu(outer, inplace=True) if self.last_relu else outer


class ResNet(nn.Module):
    """A residual network on pictures (n, 3, h, w); its maps are pooled and given scores.

    Without a ReLU at its end, as in iCaRL, features may be negative.
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
        self.stem, self.norm = _convolution(3, widths[0], 1), nn.BatchNorm2d(widths[0])
        layers, inputs = [], widths[0]
        for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            for place in range(count):
                stride = 2 if stage and not place else 1
                at_end = (stage, place) == (len(blocks) - 1, count - 1)
                layers.append(Block(inputs, width, stride, last_relu=last_relu or not at_end))
                inputs = width
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, outputs)
        self.to(generator.device, memory_format=torch.channels_last)
        self._initialise(generator)

    def _initialise(self, generator: torch.Generator) -> None:
        """Draw all weights from the generator: convolutions as He et al., the head uniformly."""
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
                    module.weight.normal_(0.0, math.sqrt(2.0 / fan_out), generator=generator)
            _draw_rows(self.head, 0, generator)

    def maps(self, x: Tensor) -> Tensor:
        """Return the last block's maps: (n, c, h, w)."""
        maps: Tensor = self.blocks(functional.relu(self.norm(self.stem(x)), inplace=True))
        return maps

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled maps: (n, c)."""
        return self.maps(x).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each output: (n, t)."""
        scores: Tensor = self.head(self.features(x))
        return scores

    def grow(self, outputs: int, generator: torch.Generator) -> None:
        """Append outputs with weights of their own, until there are so many."""
        known = self.head.out_features
        if outputs <= known:
            return
        head = nn.Linear(self.head.in_features, outputs).to(self.head.weight.device)
        with torch.no_grad():
            head.weight[:known], head.bias[:known] = self.head.weight, self.head.bias
            _draw_rows(head, known, generator)
        self.head = head


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def _draw_rows(head: nn.Linear, first: int, generator: torch.Generator) -> None:
    limit = 1.0 / math.sqrt(head.in_features)
    with torch.no_grad():
        head.weight[first:].uniform_(-limit, limit, generator=generator)
        head.bias[first:].zero_()
