"""The convolutions of a residual network, and where the numbers of each begin."""

from __future__ import annotations

from typing import NamedTuple

TAPS = 9  # of a 3 x 3 kernel
EPSILON = 1e-5  # of a normalisation


class ConvolutionLayer(NamedTuple):
    """A 3 x 3 convolution with the normalisation after it."""

    inputs: int
    outputs: int
    stride: int
    kernel: int  # where it begins among all numbers of kernels
    channel: int  # and its outputs among all channels

    @property
    def kernel_size(self) -> int:
        return TAPS * self.inputs * self.outputs


def residual_layers(blocks: tuple[int, ...], widths: tuple[int, ...]) -> list[ConvolutionLayer]:
    """Return a stem and stages of blocks of two; each stage but the first halves the maps."""
    shapes, inputs = [(3, widths[0], 1)], widths[0]
    for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        for place in range(count):
            stride = 2 if stage and not place else 1
            shapes += [(inputs, width, stride), (width, width, 1)]
            inputs = width
    layers: list[ConvolutionLayer] = []
    kernel = channel = 0
    for shape in shapes:
        layers.append(ConvolutionLayer(*shape, kernel, channel))
        kernel, channel = kernel + layers[-1].kernel_size, channel + layers[-1].outputs
    return layers
