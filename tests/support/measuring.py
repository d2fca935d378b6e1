"""Labelled pictures and a small network, for the tests of measuring and joining backbones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl.vision.onnx_graph import Filters, NetworkGraph

# The fewest that can be measured.
THINGS = 20
PHOTOS = 12
HOW = {"size": 32, "mean": [127, 127, 127], "scale": [64, 64, 64]}


def network(folder: Path) -> Path:
    """Write a network of 64 random filters, and its description."""
    graph = NetworkGraph("small", 32)
    rng = np.random.default_rng(0)
    filters = Filters(rng.normal(size=(64, 3, 3, 3)), rng.normal(size=64))
    model = graph.finish(graph.relu(graph.conv(graph.pictures, filters)))
    (folder / "net.onnx").write_bytes(model)
    (folder / "net.json").write_text(json.dumps(HOW))
    return folder / "net.onnx"


def backbone_of(name: str | Path) -> Backbone:
    """Return a backbone by its name, of those that need no pictures to be fitted to."""
    backbone = load_backbone(name)
    assert not isinstance(backbone, Fittable)
    return backbone


def things(folder: Path, seed: int, count: int = THINGS) -> Path:
    """Write a folder of photos for each thing: a pattern, with noise."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        (folder / f"thing {number}").mkdir(parents=True)
        pattern = rng.integers(0, 256, (4, 4, 3)).repeat(10, axis=0).repeat(10, axis=1)
        for photo in range(PHOTOS):
            pixels = pattern + rng.normal(scale=40, size=pattern.shape)
            image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            image.save(folder / f"thing {number}" / f"{photo}.png")
    return folder
