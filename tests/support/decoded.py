"""Pictures as they are decoded: their colours, the memory that it takes, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cbcl.errors import PictureError
from cbcl.vision.decoding import load

UPRIGHT = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]

# Looks at a file in some threads at once; prints the growth of memory in MB, and the errors.
MEASURE = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from PIL import Image
from cbcl_study.backbones.pixels import PIXELS
from cbcl.vision.extraction import embed_pictures

def memory(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(kind))

def see(path):
    (result,) = embed_pictures(PIXELS, [path], thumbnails=[0])
    return str(result) if isinstance(result, Exception) else ""

Image.init()
start = memory("VmRSS")
with ThreadPoolExecutor(int(sys.argv[2])) as threads:
    errors = [*threads.map(see, [sys.argv[1]] * int(sys.argv[2]))]
print(json.dumps([memory("VmHWM") - start, memory("VmRSS") - start, errors]))
"""


def corners(image: Image.Image) -> list[tuple[int, ...]]:
    """Red, green, blue, white, read as the flag is."""
    pixels = np.asarray(image)
    h, w = pixels.shape[:2]
    places = [
        (h // 4, w // 4),
        (h // 4, 3 * w // 4),
        (3 * h // 4, w // 4),
        (3 * h // 4, 3 * w // 4),
    ]
    return [tuple(round(c / 250) for c in pixels[place]) for place in places]


def refusal(data: bytes, name: str) -> str:
    """The one sentence about bytes that are not read, which begins with their name."""
    with pytest.raises(PictureError) as caught:
        load(data, name, 224)
    sentence = str(caught.value)
    assert sentence.startswith(f"{name} ")
    assert "\n" not in sentence
    return sentence


def measure(data: bytes, folder: Path, threads: int = 1) -> tuple[float, float, list[str]]:
    (folder / "picture").write_bytes(data)
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(folder / "picture"), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, kept, errors = json.loads(done.stdout)
    return peak, kept, errors
