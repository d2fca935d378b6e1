"""Pictures of grey cells, and a backbone that sees them: small, exact, and nothing else needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from cbcl import load_backbone
from cbcl.vision.decoding import Pixels


def see_cells(pictures: Any) -> Any:
    """Return the brightness of 64 cells: just enough to be embeddings."""
    box = Image.Resampling.BOX
    cells = [picture.convert("L").resize((8, 8), box) for picture in pictures]
    return [np.asarray(one, dtype=np.float32).ravel() for one in cells]


CELLS = load_backbone(see_cells, name="cells", at_least=8)


def grids(count: int, seed: int = 0) -> list[Pixels]:
    """Pictures of 64 cells, each of its own grey, which thumbnails show as well."""
    rng = np.random.default_rng([seed, 64])
    cells = rng.integers(0, 256, (count, 8, 8, 1)).astype(np.uint8)
    return [*np.tile(cells.repeat(16, axis=1).repeat(16, axis=2), 3)]
