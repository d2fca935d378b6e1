"""The pixels of a picture as its vector, for learners that are trained on pictures.

b pictures, s pixels a side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from cbcl.vision.backbones.base import fingerprint
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing


@dataclass(frozen=True)
class PixelVectors:
    """The colours 0 to 255, row by row, red, green and blue of each pixel.

    A picture of s x s pixels is taken as it is; the central square of another is resized.
    """

    preprocessing: Preprocessing

    name: ClassVar[str] = "pixels"
    batch: ClassVar[int] = 64
    threads: ClassVar[bool] = True
    state: ClassVar[bytes] = b""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.name, self.description)

    @property
    def description(self) -> dict[str, Any]:
        return self.preprocessing.description

    @property
    def at_least(self) -> int:
        return self.preprocessing.at_least

    @property
    def dimension(self) -> int:
        return 3 * self.preprocessing.size**2

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        pixels = np.stack([self.preprocessing.crop(picture) for picture in things])
        return pixels.reshape(len(things), self.dimension).astype(np.float32)  # (b, s * s * 3)


PIXELS = PixelVectors(Preprocessing(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
