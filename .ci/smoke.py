"""Teach an installed cbcl two things, ask about them, and check the memory.

python smoke.py [compiled | numpy]       with this kernel, or whichever there is
python smoke.py --study                  run the study, which must be installed, on digits
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from cbcl.method.centroids.kernel import KERNEL, NUMPY

CBCL = (sys.executable, "-P", "-m", "cbcl")


def cbcl(*words: str) -> str:
    printed = subprocess.run([*CBCL, *words], check=True, capture_output=True, text=True).stdout
    print(f"$ cbcl {' '.join(words)}\n{printed}", end="")
    return printed


def photo(name: str, shift: int, path: Path) -> str:
    """Write a photo of stripes or of rings."""
    down, right = np.mgrid[:240, :320] + shift
    waves = right if name == "stripes" else np.hypot(down - 120, right - 160)
    pixels = np.uint8(127 + 127 * np.sin(waves / 6))
    Image.fromarray(np.stack([pixels, pixels // 2, 255 - pixels], axis=2)).save(path)
    return str(path)


def check_product(wanted: list[str], folder: Path) -> None:
    kernel = "numpy" if KERNEL is NUMPY else "compiled"
    assert wanted in ([], [kernel]), f"the kernel is {kernel}"
    memory = str(folder / "things.cbcl")
    for name in ("stripes", "rings"):
        taught = [photo(name, shift, folder / f"{name}{shift}.png") for shift in range(3)]
        cbcl("learn", memory, "--label", name, *taught)
    for name in ("stripes", "rings"):
        asked = photo(name, 9, folder / f"asked-{name}.png")
        assert f'"label": "{name}"' in cbcl("recognize", "--json", memory, asked)
    assert "2 things" in cbcl("show", memory)
    assert "is ok" in cbcl("check", memory)
    without_study = subprocess.run([*CBCL, "bench"], capture_output=True, text=True)
    assert without_study.returncode == 2
    assert "pip install" in without_study.stderr
    print(f"smoke test passed, kernel: {kernel}")


def check_study(folder: Path) -> None:
    results = str(folder / "results")
    run = ("run", "digits", "--shots", "5", "--seeds", "0", "--results", results)
    assert "ncm" in cbcl("bench", *run)
    print("smoke test of the study passed")


def main() -> None:
    with TemporaryDirectory() as name:
        if sys.argv[1:] == ["--study"]:
            check_study(Path(name))
        else:
            check_product(sys.argv[1:], Path(name))


if __name__ == "__main__":
    main()
