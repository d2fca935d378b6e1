"""Teach an installed cbcl two things, ask about them, and check the memory: `smoke.py KERNEL`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from cbcl.method.centroids.kernel import KERNEL, NUMPY


def cbcl(*words: str) -> str:
    command = [sys.executable, "-P", "-m", "cbcl", *words]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(f"$ cbcl {' '.join(words)}\n{printed}", end="")
    return printed


def photo(name: str, shift: int, path: Path) -> str:
    """Write a photo of stripes or of rings."""
    down, right = np.mgrid[:240, :320] + shift
    waves = right if name == "stripes" else np.hypot(down - 120, right - 160)
    pixels = np.uint8(127 + 127 * np.sin(waves / 6))
    Image.fromarray(np.stack([pixels, pixels // 2, 255 - pixels], axis=2)).save(path)
    return str(path)


def main(kernel: str, folder: Path) -> None:
    assert kernel == ("numpy" if KERNEL is NUMPY else "compiled"), f"the kernel is not {kernel}"
    memory = str(folder / "things.cbcl")
    for name in ("stripes", "rings"):
        taught = [photo(name, shift, folder / f"{name}{shift}.png") for shift in range(3)]
        cbcl("learn", memory, "--label", name, *taught)
    for name in ("stripes", "rings"):
        asked = photo(name, 9, folder / f"asked-{name}.png")
        assert f'"label": "{name}"' in cbcl("recognize", "--json", memory, asked)
    assert "2 things" in cbcl("show", memory)
    assert "is ok" in cbcl("check", memory)
    print(f"smoke test passed, kernel: {kernel}")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(sys.argv[1], Path(temporary))
