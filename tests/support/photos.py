"""Photographs for the tests: those in scikit-image's wheel, and files made of them."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
from PIL import Image

from cbcl.vision.decoding import Pixels

# In scikit-image's wheel: others would be downloaded.
NAMES = ("astronaut", "chelsea", "coffee", "rocket")


@cache
def photo(name: str) -> Image.Image:
    return Image.fromarray(getattr(skimage.data, name)())


def views(name: str, count: int, seed: int = 0) -> list[Pixels]:
    """Return views of one photograph: other parts, other sizes, rotated, lighter and darker."""
    rng = np.random.default_rng([seed, *name.encode()])
    return [view(photo(name), rng) for _ in range(count)]


def view(image: Image.Image, rng: np.random.Generator) -> Pixels:
    width, height = image.size
    side = min(width, height) * rng.uniform(0.6, 0.9)
    left = rng.uniform(0, width - side)
    top = rng.uniform(0, height - side)
    turned = image.rotate(
        rng.uniform(-10, 10), Image.Resampling.BICUBIC, center=(left + side / 2, top + side / 2)
    )
    part = turned.resize(
        (256, 256), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side)
    )
    return np.clip(np.asarray(part) * rng.uniform(0.7, 1.2), 0, 255).astype(np.uint8)


def encoded(image: Image.Image | Pixels, kind: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(file, kind, **options)
    return file.getvalue()


def folders(where: Path, names: tuple[str, ...] = NAMES, count: int = 3) -> Path:
    """Write one folder of views for each photograph."""
    for name in names:
        (where / name).mkdir(parents=True)
        for number, pixels in enumerate(views(name, count)):
            (where / name / f"{number}.jpg").write_bytes(encoded(pixels))
    return where


def noise(where: Path, names: tuple[str, ...] = NAMES, count: int = 100) -> Path:
    """Write folders of many pictures that are quick to make, and all different."""
    rng = np.random.default_rng(0)
    for name in names:
        (where / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            (where / name / f"{number}.jpg").write_bytes(encoded(pixels))
    return where
