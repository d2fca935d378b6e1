"""Combined backbones: the mean over several views of a picture, and networks side by side.

b pictures, d features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from cbcl.vision.backbones.base import Backbone, fingerprint
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing

ENLARGEMENT = 9 / 7  # of the first view, relative to the network's own size
CENTRAL_SHARE = 0.8  # of both sides, in the second view
SHORTEST_LENGTH = np.finfo(np.float64).tiny  # shorter than all vectors but 0


@dataclass(frozen=True)
class Combined(ABC):
    """Backbones that get the same pictures; a subclass combines their vectors."""

    name: str
    parts: tuple[Backbone, ...]

    state: ClassVar[bytes] = b""
    kind: ClassVar[str]

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.kind, *(part.fingerprint for part in self.parts))

    @property
    def description(self) -> dict[str, Any]:
        return {self.kind: [part.description for part in self.parts]}

    @property
    def at_least(self) -> int:
        return max(part.at_least or 1 for part in self.parts)

    @property
    def batch(self) -> int:
        return max(part.batch for part in self.parts)

    @property
    def threads(self) -> bool:
        return all(part.threads for part in self.parts)

    @cached_property
    def on_all_cores(self) -> Combined:
        return replace(self, parts=tuple(on_all_cores(part) for part in self.parts))

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        return self._combine([part.vectors(things) for part in self.parts])

    @abstractmethod
    def _combine(self, vectors: list[Floats]) -> Floats:
        """Return one row per picture from the vectors of each part."""


class Views(Combined):
    """The mean of the vectors of several views of a picture."""

    kind = "views"

    def _combine(self, vectors: list[Floats]) -> Floats:
        mean: Floats = np.mean(vectors, axis=0, dtype=np.float32)
        return mean


class Joined(Combined):
    """The vectors of several backbones, each scaled to unit length, one after another."""

    kind = "parts"

    def _combine(self, vectors: list[Floats]) -> Floats:
        return np.concatenate([_as_unit(some) for some in vectors], axis=1)


def _as_unit(vectors: Floats) -> Floats:
    """Scale vectors to unit length, (b, d); 0 stays 0."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):  # the infinite become NaN, which learning refuses
        units: Floats = (wide / np.maximum(lengths, SHORTEST_LENGTH)).astype(np.float32)
    return units


def two_views(how: Preprocessing, *, enlarged: bool) -> tuple[Preprocessing, Preprocessing]:
    """Return the whole picture, larger where the network allows it, and the mirrored centre."""
    size = round(ENLARGEMENT * how.size) if enlarged else how.size
    whole = replace(how, size=size, square=1.0, squashed=True)
    return whole, replace(how, square=CENTRAL_SHARE, squashed=True, mirrored=True)


def on_all_cores(backbone: Backbone) -> Backbone:
    """Return the same backbone with all cores for each picture, where it can use them."""
    return backbone.on_all_cores if isinstance(backbone, Network | Combined) else backbone


def on_device(backbone: Backbone, device: str) -> Backbone:
    """Return the same backbone with its ONNX networks on "cpu" or "cuda"."""
    if isinstance(backbone, Combined):
        return replace(backbone, parts=tuple(on_device(part, device) for part in backbone.parts))
    return replace(backbone, device=device) if isinstance(backbone, Network) else backbone


def leaves(backbone: Backbone) -> Iterator[Backbone]:
    """Yield the backbones that a combined one consists of, in order."""
    if isinstance(backbone, Combined):
        for part in backbone.parts:
            yield from leaves(part)
    else:
        yield backbone
