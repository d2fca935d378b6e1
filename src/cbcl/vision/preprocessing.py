"""From a picture to the numbers a network takes: one description, one piece of code for every way in.

b pictures, s pixels a side.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from cbcl.errors import WeightsError
from cbcl.vision.decoding import Floats, Pixels

Filter = Literal["bicubic", "bilinear", "lanczos", "box", "nearest"]
Triple = tuple[float, float, float]

REVISION = 1  # of the code here and of `decoding`: one more whenever it gives other pixels


@dataclass(frozen=True)
class Preprocessing:
    """The central square of a picture, resized; then (colour - mean) / scale."""

    size: int  # pixels a side
    mean: Triple  # of the colours 0 to 255
    scale: Triple
    channels: Literal["RGB", "BGR"] = "RGB"  # the order of the colours, and of mean and scale
    square: float = 1.0  # the side of the central square, as a share of the picture's shorter side
    filter: Filter = "bicubic"

    @property
    def at_least(self) -> int:
        """Pixels a side that a decoder must leave: what the filter needs, and half as many again."""
        return round(1.5 * self.size / self.square)

    def pixels(self, picture: Image.Image) -> Pixels:
        """The central square: (s, s, 3), RGB."""
        width, height = picture.size
        side = min(width, height) * self.square
        box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
        resized = picture.resize(
            (self.size, self.size), Image.Resampling[self.filter.upper()], box=box
        )
        return np.asarray(resized)

    def numbers(self, pixels: Pixels) -> Floats:
        """What the network takes: (3, s, s)."""
        colours = pixels[:, :, ::-1] if self.channels == "BGR" else pixels
        planes = np.ascontiguousarray(colours.transpose(2, 0, 1)).astype(np.float32)
        planes -= np.array(self.mean, dtype=np.float32)[:, np.newaxis, np.newaxis]
        planes *= 1.0 / np.array(self.scale, dtype=np.float32)[:, np.newaxis, np.newaxis]
        return planes

    def description(self) -> dict[str, Any]:
        return {**asdict(self), "revision": REVISION}

    @classmethod
    def described(cls, description: object, name: str) -> Preprocessing:
        """From what a user wrote, such as {"size": 224, "mean": [127, 127, 127], "scale": [128, 128, 128]}."""
        wanted = [field.name for field in fields(cls)]
        if not isinstance(description, dict) or not {"size", "mean", "scale"} <= set(
            description
        ) <= set(wanted):
            raise WeightsError(
                f"{name} must describe {', '.join(wanted[:3])} and may describe {', '.join(wanted[3:])}."
            )
        try:
            given = {
                **description,
                "mean": _triple(description["mean"]),
                "scale": _triple(description["scale"]),
            }
            made = cls(**given)
            numbers = (made.size, made.square, *made.scale)
            reasonable = all(_is_number(number) for number in numbers) and isinstance(
                made.size, int
            )
            if not reasonable or not (
                8 <= made.size <= 2048 and 0.05 <= made.square <= 1.0 and min(made.scale) > 1e-6
            ):
                raise ValueError
            if made.channels not in ("RGB", "BGR") or made.filter not in get_args(Filter):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise WeightsError(
                f"{name} makes no sense: size is in pixels, mean and scale three numbers each (colours are 0 to 255), "
                f"channels RGB or BGR, square a share, filter one of {', '.join(get_args(Filter))}."
            ) from None
        return made


def _triple(values: Any) -> Triple:
    if not isinstance(values, list | tuple) or not all(map(_is_number, values)):
        raise ValueError
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
