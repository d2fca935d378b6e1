"""Residual networks: torchvision's ResNet-18, 34 and 50, and the builder they share with Keras'.

Pictures are RGB between 0 and 1, minus (0.485, 0.456, 0.406), divided by (0.229, 0.224, 0.225).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from cbcl.vision.onnx_graph import FeatureMaps, Filters, NetworkGraph, Weights, fold

BATCH_NORM_EPSILON = 1e-5


class BlockPosition(NamedTuple):
    """Position of a convolution: part 0, 1, ... or shortcut of a block; the stem is stage 0."""

    stage: int
    block: int = 0
    part: int = 0
    is_shortcut: bool = False


class Architecture(NamedTuple):
    """The parameters of a residual network."""

    name: str
    blocks: tuple[int, int, int, int]  # in each stage
    # One for each convolution of a block; the third, if any, is four times as wide.
    kernels: tuple[int, ...]
    strided: int  # the number of the convolution with the stride


# Takes the weights of the convolution at a position; the second argument is their shape.
Layer: TypeAlias = Callable[[BlockPosition, tuple[int, int, int, int]], Filters]

ARCHITECTURES = {
    18: Architecture("ResNet-18", (2, 2, 2, 2), (3, 3), strided=0),
    34: Architecture("ResNet-34", (3, 4, 6, 3), (3, 3), strided=0),
    50: Architecture("ResNet-50", (3, 4, 6, 3), (1, 3, 1), strided=1),
}


def build(tensors: Mapping[str, NDArray[Any]], depth: int, *, size: int = 224) -> bytes:
    """Return the ONNX model of torchvision's ResNet of depth 18, 34 (512 features) or 50 (2048)."""
    weights = Weights(tensors, f"torchvision's {ARCHITECTURES[depth].name}")

    def layer(place: BlockPosition, shape: tuple[int, int, int, int]) -> Filters:
        prefix = f"layer{place.stage}.{place.block}." if place.stage else ""
        number = place.part + 1
        conv = f"conv{number}"
        norm = f"bn{number}"
        if place.is_shortcut:
            conv = "downsample.0"
            norm = "downsample.1"
        weight = weights.take(f"{prefix}{conv}.weight", *shape)
        return fold(weight, weights.take_norm(f"{prefix}{norm}", shape[0]), BATCH_NORM_EPSILON)

    model = build_residual(ARCHITECTURES[depth], layer, size)
    weights.check_all_taken("fc.", ".num_batches_tracked")
    return model


def build_residual(architecture: Architecture, layer: Layer, size: int) -> bytes:
    """Return the ONNX model of a residual network; its vectors are the means of its last maps."""
    graph = NetworkGraph(architecture.name, size)
    stem = layer(BlockPosition(0), (64, 3, 7, 7))
    x = graph.relu(graph.conv(graph.pictures, stem, stride=2, padding=(3, 3)))
    x = graph.max_pool(x, 3, stride=2, padding=(1, 1))
    for stage, repeats in enumerate(architecture.blocks, start=1):
        for block in range(repeats):
            stride = 2 if stage > 1 and block == 0 else 1
            x = _add_block(graph, architecture, layer, x, BlockPosition(stage, block), stride)
    return graph.finish(x)


def _add_block(
    graph: NetworkGraph,
    architecture: Architecture,
    layer: Layer,
    x: FeatureMaps,
    place: BlockPosition,
    stride: int,
) -> FeatureMaps:
    width = 32 << place.stage
    y = x
    for part, kernel in enumerate(architecture.kernels):
        out = 4 * width if part == 2 else width
        filters = layer(place._replace(part=part), (out, y.channels, kernel, kernel))
        y = graph.relu(y) if part else y
        own_stride = stride if part == architecture.strided else 1
        y = graph.conv(y, filters, stride=own_stride, padding=(kernel // 2, kernel // 2))
    if (x.channels, x.size) != (y.channels, y.size):
        shortcut = layer(place._replace(is_shortcut=True), (y.channels, x.channels, 1, 1))
        x = graph.conv(x, shortcut, stride=stride)
    return graph.relu(graph.add(y, x))
