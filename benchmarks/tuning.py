"""What choosing the radius and n by itself is worth: streams of classes on real vectors, `auto` beside fixed choices.

    python benchmarks/tuning.py digits --shots 5 --increment 2
    python benchmarks/tuning.py vectors.npz --shots 5 --increment 10 --about "data set, network, preprocessing"

The file holds vectors `X` and labels `y`, and `X_test` and `y_test`, or else 20 % of each class are tested on; at most
100 classes take part. Accuracy is top-1 over the classes seen so far, on all their test vectors: its average over the
increments / after the last. Each run is appended to results/tuning.jsonl with its record.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import cbcl
from cbcl import CBCLClassifier
from cbcl.method.tuning import Lesson, spread

RECORDS = Path(__file__).parent.parent / "results" / "tuning.jsonl"
CHOICES: dict[str, tuple[float, int] | None] = {  # a radius in units of the spread of the first increment, and n
    "auto": None,
    "one centroid a class": (math.inf, 1),
    "1.3 x": (1.3, 1),
    "1.1 x": (1.1, 1),
    "every vector, n = 1": (0.0, 1),
    "every vector, n = 10": (0.0, 10),
}


class Data(NamedTuple):
    x: NDArray[np.float32]
    y: NDArray[Any]
    x_test: NDArray[np.float32]
    y_test: NDArray[Any]


def load(source: str, seed: int) -> Data:
    if source == "digits":
        x, y = load_digits(return_X_y=True)
        held: dict[str, Any] = {"X": x.astype(np.float32), "y": y}
    else:
        held = dict(np.load(source))
    if "X_test" in held:
        return Data(held["X"], held["y"], held["X_test"], held["y_test"])
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label in rng.permutation(np.unique(held["y"]))[:100]:
        rows = rng.permutation(np.flatnonzero(held["y"] == label))
        cut = round(0.8 * len(rows))
        train.append(rows[:cut])
        test.append(rows[cut:])
    a, b = np.concatenate(train), np.concatenate(test)
    return Data(held["X"][a], held["y"][a], held["X"][b], held["y"][b])


def increments(data: Data, size: int, shots: int | None, seed: int) -> Iterator[list[NDArray[np.int64]]]:
    """The rows to learn, class by class, increment by increment, in a random order of classes."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.unique(data.y))
    rows = [rng.permutation(np.flatnonzero(data.y == label))[:shots] for label in order]
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def run(data: Data, choice: tuple[float, int] | None, size: int, shots: int | None, seed: int) -> dict[str, Any]:
    learner, seconds = CBCLClassifier(random_state=seed), 0.0
    accuracies: list[float] = []
    tunings: list[tuple[float, int]] = []
    for classes in increments(data, size, shots, seed):
        if choice is not None and not accuracies:
            scale, n = choice
            unit = spread(data.x, [Lesson(some) for some in classes])
            learner.set_params(radius=scale and scale * unit, n_voters=n)
        rows = np.concatenate(classes)
        start = time.perf_counter()
        learner.partial_fit(data.x[rows], data.y[rows])
        seconds += time.perf_counter() - start
        seen = np.isin(data.y_test, learner.classes_)
        accuracies.append(float((learner.predict(data.x_test[seen]) == data.y_test[seen]).mean()))
        tunings.append((learner.radius_, learner.n_voters_))
    return {
        "accuracies": accuracies,
        "tunings": tunings,
        "centroids": learner.n_centroids_,
        "seconds_learning": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="digits, or an .npz file")
    parser.add_argument(
        "--about", default="digits of scikit-learn, 8 x 8 pixels", help="what the vectors are, for the record"
    )
    parser.add_argument("--shots", type=int, help="vectors of each class; default: all")
    parser.add_argument("--increment", type=int, default=10, help="classes at a time")
    parser.add_argument("--orders", type=int, default=3, help="random orders of the classes")
    options = parser.parse_args()
    shots = options.shots or "all"
    print(f"{options.about}: {shots} shots, {options.increment} classes at a time, {options.orders} orders")
    git = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    content = b"digits" if options.source == "digits" else Path(options.source).read_bytes()
    record = {
        "commit": git.stdout.strip(),
        "version": cbcl.__version__,
        "about": options.about,
        "data_sha256": hashlib.sha256(content).hexdigest(),
        "protocol": {"shots": options.shots, "increment": options.increment, "split": "own, else 80/20 by seed"},
    }
    for name, choice in CHOICES.items():
        runs = []
        for seed in range(options.orders):
            runs.append(run(load(options.source, seed), choice, options.increment, options.shots, seed))
            with RECORDS.open("a") as file:
                file.write(json.dumps({**record, "choice": name, "seed": seed, **runs[-1]}) + "\n")
        average = 100 * np.array([np.mean(done["accuracies"]) for done in runs])
        last = 100 * np.array([done["accuracies"][-1] for done in runs])
        print(
            f"{name:<22} {average.mean():6.2f} ± {average.std():4.2f} / {last.mean():6.2f}"
            f"   {np.mean([done['centroids'] for done in runs]):8.0f} centroids"
            f"   {np.mean([done['seconds_learning'] for done in runs]):6.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
