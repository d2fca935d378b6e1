"""Learning by workers: seconds, and processor time of the driver and of all, by engine.

    python study/benchmarks/workers.py FOLDER --about NAME

FOLDER holds one folder a class; 15 photos of each of the first ten classes are learned, without
the cache: by `learn_many` in one process, by `learn_each` with workers of each engine that is
installed, each in a process of its own. Seconds are of the call; the processor time of the driver,
too; that of all includes the start of Python, engine and backbone. What is stored must
be the same bit for bit. The driver's part of a photo is the slope over pictures of noise, which
take the workers no time. The run is appended to study/results/workers.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import joblib
import numpy as np
from contest import record
from PIL import Image

import cbcl
from cbcl import Recognizer
from cbcl.cli.workers import start_workers
from cbcl.vision.backbones.base import Function

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.memory_contents import known
from support.photos import noise

RECORDS = Path(__file__).parent.parent / "results" / "workers.jsonl"
CLASSES, PER_CLASS = 10, 15
RUNS = [("", 1), ("loky", 1), ("loky", 2), ("loky", 4), ("dask", 2), ("ray", 2)]
NOISE = (100, 600)  # pictures of each of four classes
MODULES = {"dask": "distributed", "ray": "ray"}


def choose(folder: Path) -> dict[str, list[Path]]:
    classes = sorted(path for path in folder.iterdir() if path.is_dir())[:CLASSES]
    return {path.name: sorted(path.iterdir())[:PER_CLASS] for path in classes}


def contents(recognizer: Recognizer) -> str:
    """Return a digest of all classes and examples, without their numbers."""
    return sha256(repr(known(recognizer)).encode()).hexdigest()


def learn(folder: Path, engine: str, jobs: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as place,
        start_workers(jobs if engine else None, engine or None, None) as n_jobs,
        Recognizer(Path(place, "m.cbcl"), cache=False) as recognizer,
    ):
        things = choose(folder)
        start, begun = perf_counter(), process_time()
        if n_jobs is None:
            recognizer.learn_many(things)
        else:
            recognizer.learn_each(things, n_jobs=n_jobs)
        seconds, driver = perf_counter() - start, process_time() - begun
        return {"seconds": seconds, "driver": driver, "stored": contents(recognizer)}


def learn_noise(per_class: int) -> dict[str, Any]:
    """Learn pictures that take the workers no time: what is left is the driver's part."""
    weights = np.random.default_rng(0).normal(size=(192, 1280)).astype(np.float32)

    def see(pictures: Sequence[Image.Image]) -> Any:
        small = [np.asarray(one.resize((8, 8)), dtype=np.float32).ravel() for one in pictures]
        return np.stack(small) @ weights

    with tempfile.TemporaryDirectory() as place:
        os.environ["CBCL_HOME"] = place  # with a cache, which is part of it
        noise(Path(place, "photos"), count=per_class)
        backbone = Function(see, "see", at_least=8)
        with Recognizer(Path(place, "m.cbcl"), backbone) as recognizer:
            things = recognizer.embedder.find_labelled([Path(place, "photos")])
            start, begun = perf_counter(), process_time()
            result = recognizer.learn_each(things, n_jobs=2)
            seconds, driver = perf_counter() - start, process_time() - begun
        return {"photos": sum(result.pictures.values()), "seconds": seconds, "driver": driver}


def perform(folder: Path, engine: str, number: int) -> dict[str, Any]:
    command = [sys.executable, __file__, str(folder), "--one", engine, str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    one: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return one


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--about", help="the data set's name", default="")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        engine, number = args.one[0], int(args.one[1])
        noisy = engine == "noise"
        print(json.dumps(learn_noise(number) if noisy else learn(args.data, engine, number)))
        return
    photos = sum(map(len, choose(args.data).values()))
    results: list[dict[str, Any]] = []
    for engine, jobs in RUNS:
        if engine in MODULES and find_spec(MODULES[engine]) is None:
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        one = perform(args.data, engine, jobs)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert not results or one["stored"] == results[0]["stored"], (engine, jobs)
        # Those of ray are nobody's children.
        everybody = {} if engine == "ray" else {"all": used}
        results.append(
            {"engine": engine, "jobs": jobs, "load": os.getloadavg()[0]} | one | everybody
        )
        print(results[-1])
    few, many = (perform(args.data, "noise", count) for count in NOISE)
    driver = (many["driver"] - few["driver"]) / (many["photos"] - few["photos"])
    print(f"driver {1000 * driver:.2f} ms a photo")
    about = {"about": args.about, "photos": photos, "labels": CLASSES, "driver_per_photo": driver}
    with RECORDS.open("a") as file:
        file.write(json.dumps(record([cbcl, joblib, np], results, **about)) + "\n")


if __name__ == "__main__":
    main()
