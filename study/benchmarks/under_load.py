"""Speed beside other work on the machine: `study/benchmarks/under_load.py [REPETITIONS]`.

0, 1, 2 and 4 processes that do nothing but count compete for the cores. Each work is timed in turns
with a loop in plain Python, which is one thread that waits for nobody: what it loses is what the
load costs. Claim: what cbcl loses, beside its own speed with no process competing, is at most twice
what the loop loses. The last work is numpy's, by a BLAS whose threads wait for each other: on busy
cores it takes longer than all of the prediction that it is a part of.
On a machine that is busy with something else, the row with none is no quiet one, and the slowdowns
are too small. The last line is a JSON record of the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import sleep

import numpy as np
from contest import medians, record
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

import cbcl
from cbcl import CBCLClassifier, agg_var
from cbcl.method.centroids.budget import merge

D = 512
LOADS = (0, 1, 2, 4)
LIMIT = 2.0  # times what the loop loses
PEER = "numpy: the products of 20 and 7,500, by BLAS's own threads"
COMPETITOR = "n = 0\nwhile True: n += 1"
Floats = NDArray[np.float32]


def features(n: int, seed: int) -> Floats:
    """N vectors like the output of a network: correlated, not negative."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, 16)) @ np.random.default_rng(0).normal(size=(16, D))
    return np.maximum(low + 1.5 * rng.normal(size=(n, D)), 0).astype(np.float32)


def radius_for(vectors: Floats, centroids: int) -> float:
    """Return a radius that gives about so many centroids, by bisection."""
    low, high = 0.0, float(np.linalg.norm(vectors.max(axis=0) - vectors.min(axis=0)))
    for _ in range(12):
        middle = (low + high) / 2
        many = len(agg_var(vectors, middle).counts) > centroids
        low, high = (middle, high) if many else (low, middle)
    return high


def loop() -> int:
    """Work of one thread, about 10 ms of it."""
    total = 0
    for number in range(200_000):
        total += number & 7
    return total


def works() -> dict[str, Callable[[], object]]:
    small, large, many = features(500, 1), features(6_000, 2), features(7_500, 3)
    queries = features(1_000, 4)
    products = np.empty((20, len(many)), dtype=np.float32)
    concepts = agg_var(large[:1_000], radius_for(large[:1_000], 400))
    learner = CBCLClassifier(radius=0.0, n_voters=10)
    learner.fit(many, np.arange(len(many)) % 100)
    return {
        "Agg-Var 500 x 512, 480 centroids": partial(agg_var, small, radius_for(small, 480)),
        "Agg-Var 6,000 x 512, 3,000 centroids": partial(agg_var, large, radius_for(large, 3_000)),
        "merge 400 centroids into 200": partial(merge, concepts, 200, seed=0),
        "predict 1,000 over 7,500 centroids": partial(learner.predict, queries),
        "predict 20 over 7,500 centroids": partial(learner.predict, queries[:20]),
        "predict 1 over 7,500 centroids": partial(learner.predict, queries[:1]),
        PEER: lambda: np.matmul(queries[:20], many.T, out=products),
    }


@contextmanager
def competing(processes: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(processes)]
    sleep(0.5)  # until they have started
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(repetitions: int) -> dict[str, dict[int, dict[str, float]]]:
    """Return the median seconds of each work and of the loop beside it, by load."""
    contestants = works()
    seconds: dict[str, dict[int, dict[str, float]]] = {}
    for load in LOADS:
        with competing(load):
            for name, work in contestants.items():
                times = medians({"work": work, "loop": loop}, repetitions)
                seconds.setdefault(name, {})[load] = times
    return seconds


def show(seconds: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, by_load in seconds.items():
        print(f"\n{name}")
        for load, times in by_load.items():
            slower = {key: times[key] / by_load[0][key] for key in times}
            ratio = slower["work"] / slower["loop"]
            met = "" if name == PEER else f", {'yes' if ratio <= LIMIT else 'NO'}"
            print(
                f"  {load} competing: {1e3 * times['work']:9.2f} ms, {slower['work']:6.2f} times "
                f"its own without; the loop {slower['loop']:6.2f} times: {ratio:6.2f}"
                f" (wanted <= {LIMIT:g}{met})"
            )
            rows.append({"work": name, "competing": load, "ratio": ratio, "seconds": times})
    return rows


def main() -> None:
    print(__doc__)
    results = show(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
    blas = [
        f"{info['prefix']} {info['architecture']} x {info['num_threads']}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    ]
    print(json.dumps(record([cbcl, np], results, blas=blas)))


if __name__ == "__main__":
    main()
