"""Preprocessing: from a picture to the input of a network, the same for all callers.

s pixels a side.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from cbcl.errors import Subject, WeightsError
from cbcl.vision.decoding import Floats, Pixels

Filter = Literal["bicubic", "bilinear", "lanczos", "box", "nearest"]
Triple = tuple[float, float, float]

# Of the code here and in `decoding`; one more when either gives other pixels.
PREPROCESSING_REVISION = 1


@dataclass(frozen=True)
class Preprocessing:
    """The central part of a picture, resized to a square; then (colour - mean) / scale."""

    size: int  # pixels a side
    mean: Triple  # of the colours 0 to 255
    scale: Triple
    channels: Literal["RGB", "BGR"] = "RGB"  # the order of the colours, and of mean and scale
    square: float = 1.0  # the side of the central square, as a share of the picture's shorter side
    filter: Filter = "bicubic"
    squashed: bool = False  # `square` is a share of both sides, which become equally long
    mirrored: bool = False  # left and right change places

    @property
    def at_least(self) -> int:
        """Pixels a side that a decoder must leave: 1.5 times what the filter needs."""
        return round(1.5 * self.size / self.square)

    @property
    def description(self) -> dict[str, Any]:
        """All parameters and the revision of the code, for fingerprints and records; JSON."""
        description = {**asdict(self), "revision": PREPROCESSING_REVISION}
        for added in ("squashed", "mirrored"):  # parameters newer than stored fingerprints
            if not description[added]:
                del description[added]
        return description

    def crop(self, picture: Image.Image) -> Pixels:
        """Return the central part, resized: (s, s, 3), RGB."""
        width, height = picture.size
        sides = (width, height) if self.squashed else (min(width, height),) * 2
        across, down = (side * self.square for side in sides)
        box = ((width - across) / 2, (height - down) / 2, (width + across) / 2, (height + down) / 2)
        resampling = Image.Resampling[self.filter.upper()]
        pixels = np.asarray(picture.resize((self.size, self.size), resampling, box=box))
        return pixels[:, ::-1] if self.mirrored else pixels

    def normalize(self, pixels: Pixels) -> Floats:
        """Return the input of the network: (3, s, s)."""
        colours = pixels[:, :, ::-1] if self.channels == "BGR" else pixels
        planes = np.ascontiguousarray(colours.transpose(2, 0, 1)).astype(np.float32)
        planes -= np.array(self.mean, dtype=np.float32)[:, np.newaxis, np.newaxis]
        planes *= 1.0 / np.array(self.scale, dtype=np.float32)[:, np.newaxis, np.newaxis]
        return planes

    @classmethod
    def from_description(cls, description: object, name: Subject) -> Preprocessing:
        """Read a description, {"size": 224, "mean": [127, 127, 127], "scale": [128, 128, 128]}."""
        keys = [field.name for field in fields(cls)]
        given = set(description) if isinstance(description, dict) else set()
        if not isinstance(description, dict) or not set(keys[:3]) <= given <= set(keys):
            needed = ", ".join(keys[:3])
            optional = ", ".join(keys[3:])
            problem = f"must describe {needed} and may describe {optional}, tokens, note"
            raise WeightsError(name, problem)
        try:
            triples = {key: _as_triple(description[key]) for key in ("mean", "scale")}
            preprocessing = cls(**{**description, **triples})
            preprocessing._check()
        except (TypeError, ValueError, OverflowError):
            raise WeightsError(
                name,
                "makes no sense",
                "size is in pixels, mean and scale three numbers each (colours are 0 to 255), "
                "channels RGB or BGR, square a share, "
                f"filter one of {', '.join(get_args(Filter))}, squashed and mirrored true or false",
            ) from None
        return preprocessing

    def _check(self) -> None:
        """Raise a ValueError if a value is of the wrong type or out of range."""
        valid = [
            isinstance(self.size, int) and _is_number(self.size) and 8 <= self.size <= 2048,
            _is_number(self.square) and 0.05 <= self.square <= 1.0,
            min(self.scale) > 1e-6,
            self.channels in ("RGB", "BGR"),
            self.filter in get_args(Filter),
            isinstance(self.squashed, bool),
            isinstance(self.mirrored, bool),
        ]
        if not all(valid):
            raise ValueError


def _as_triple(values: Any) -> Triple:
    if not isinstance(values, list | tuple) or not all(map(_is_number, values)):
        raise ValueError
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
