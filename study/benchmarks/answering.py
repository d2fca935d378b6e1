"""Time to recognize one embedded picture, by the number of classes, here and in another checkout.

    python study/benchmarks/answering.py [FOLDER OF ANOTHER CHECKOUT]

One example a class, vectors of 1,280 numbers, one voter. The picture is embedded beforehand, so the
time is that of checking the memory file, searching, and making the answer with its evidence. The
checkouts take turns, each in a process of its own; a figure is the median of the medians of turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cbcl import Recognizer, load_backbone

FEATURES = 1280
CLASSES = (10, 1_000, 10_000)
TURNS = 21
TURN_SECONDS = 0.2
HERE = Path(__file__).resolve().parents[2]


def work(classes: int) -> None:
    """Learn so many classes, then time a turn for each line of the standard input."""
    rng = np.random.default_rng(0)
    vectors = np.maximum(rng.normal(size=(classes, FEATURES)), 0.0).astype(np.float32)
    query = vectors[0] + 0.1 * rng.random(FEATURES, dtype=np.float32)
    backbone = load_backbone(lambda rows: [*rows], name="vectors")
    with (
        tempfile.TemporaryDirectory() as folder,
        Recognizer(Path(folder) / "memory.cbcl", backbone, radius=np.inf, n_voters=1) as recognizer,
    ):
        recognizer.learn_many({f"{row:05}": [vector] for row, vector in enumerate(vectors)})
        [picture] = recognizer.look([query])
        assert recognizer.recognize(picture).label == "00000"
        print("ready", flush=True)
        for _ in sys.stdin:
            times: list[float] = []
            while sum(times) < TURN_SECONDS:
                start = time.perf_counter()
                recognizer.recognize(picture)
                times.append(time.perf_counter() - start)
            print(statistics.median(times), flush=True)


def main() -> None:
    from contest import Worker  # not in a worker, which may be of an older checkout

    checkouts = {"here": HERE} | {folder: Path(folder).resolve() for folder in sys.argv[1:2]}
    print(f"{'classes':>8}", *(f"{name:>16}" for name in checkouts))
    for classes in CLASSES:
        workers = {
            name: Worker(__file__, checkout, str(classes)) for name, checkout in checkouts.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(TURNS):
            for name, worker in workers.items():
                seconds[name].append(float(worker.take_turn()))
        for worker in workers.values():
            worker.close()
        medians = [statistics.median(times) for times in seconds.values()]
        ratio = f"   {medians[-1] / medians[0]:.2f} x" if len(medians) > 1 else ""
        print(f"{classes:8,}", *(f"{1e3 * median:13.3f} ms" for median in medians), ratio, sep=" ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]))
    else:
        main()
