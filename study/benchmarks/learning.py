"""Seconds to learn a folder of 200 photos, and decodes a photo: `learning.py [OTHER]`.

OTHER is another checkout of cbcl, with its environment in .venv, to compare with: the two take
turns, each time in a new process, with the backbone loaded before the clock starts. The photos are
views of 1000 x 750 pixels made from scikit-image's pictures. Claim, on two cores, in medians of
seven: a photo is decoded once, and learning is no slower than before. The last line is a JSON
record of the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import skimage.data
from PIL import Image

import cbcl
from cbcl import Recognizer

PHOTOS = 200
RUNS = 7
SIZE = (1000, 750)
NAMES = ("astronaut", "chelsea", "coffee", "rocket")  # in scikit-image's wheel
WORK = {  # labels, whether vectors are cached
    "10 labels, no cache": (10, False),
    "1 label, no cache": (1, False),
    "10 labels, cached vectors": (10, True),
    "1 label, cached vectors": (1, True),
}


def make_photos(folder: Path) -> None:
    """Write views of pictures: other parts, lighter and darker."""
    rng = np.random.default_rng(0)
    for number in range(PHOTOS):
        whole = Image.fromarray(getattr(skimage.data, NAMES[number % len(NAMES)])())
        width, height = (round(side * rng.uniform(0.6, 0.9)) for side in whole.size)
        left, top = rng.integers(whole.width - width), rng.integers(whole.height - height)
        box = (int(left), int(top), int(left) + width, int(top) + height)
        view = whole.resize(SIZE, Image.Resampling.BICUBIC, box=box)
        lit = np.clip(np.asarray(view) * rng.uniform(0.7, 1.2), 0, 255).astype(np.uint8)
        Image.fromarray(lit).save(folder / f"{number:03d}.jpg", quality=90)


def learn(folder: Path, labels: int, cached: bool) -> dict[str, float]:
    """Learn all photos into a new memory; return seconds, processor seconds and decodes."""
    files = sorted(folder.glob("*.jpg"))
    things = {f"label {number}": files[number::labels] for number in range(labels)}
    decodes = 0
    open_image = Image.open

    def count(*arguments: Any, **options: Any) -> Any:
        nonlocal decodes
        decodes += 1
        return open_image(*arguments, **options)

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "things.cbcl")
        with Recognizer(path, cache=cached) as recognizer:
            recognizer.embed(files if cached else files[:4])
            Image.open = count
            start, cpu = time.perf_counter(), time.process_time()
            recognizer.learn_many(things)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            return {"seconds": seconds, "processor": cpu, "decodes": decodes}


def run(python: Path | str, folder: Path, work: str) -> dict[str, float]:
    """Learn in a process of its own, by the checkout of that interpreter."""
    command = [str(python), __file__, "--worker", str(folder), work]
    environment = {"CBCL_HOME": str(folder / "home"), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(folder: Path, contestants: dict[str, Path | str]) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    print(f"{f'{PHOTOS} photos of {SIZE[0]} x {SIZE[1]}':<28}", *(f"{n:>34}" for n in contestants))
    for work in WORK:
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        for _ in range(RUNS):
            for name, python in contestants.items():
                runs[name].append(run(python, folder, work))
        medians = {
            name: {key: float(np.median([one[key] for one in some])) for key in some[0]}
            for name, some in runs.items()
        }
        cells = (
            f"{one['seconds']:.2f} s, CPU {one['processor']:.2f} s, {one['decodes']:.0f} decodes"
            for one in medians.values()
        )
        print(f"{work:<28}", *(f"{cell:>34}" for cell in cells), flush=True)
        results.append({"work": work, "medians": medians})
    return results


def main() -> None:
    from contest import record  # not in a worker, which may be of an older checkout

    print(__doc__)
    contestants: dict[str, Path | str] = {"here": sys.executable}
    if len(sys.argv) > 1:
        contestants["other"] = Path(sys.argv[1], ".venv", "bin", "python").absolute()
    with tempfile.TemporaryDirectory() as name:
        make_photos(Path(name))
        results = compare(Path(name), contestants)
    print(json.dumps(record([cbcl, np, PIL], results, data=f"{PHOTOS} views, seed 0")))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(learn(Path(sys.argv[2]), *WORK[sys.argv[3]])))
    else:
        main()
