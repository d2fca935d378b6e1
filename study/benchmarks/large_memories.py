"""Memories of very many centroids, or classes: seconds to open, learn and answer.

    python study/benchmarks/large_memories.py FOLDER --centroids 1e4,1e5 --classes 1e2,1e3
    python study/benchmarks/large_memories.py FOLDER --learning --centroids 1e3,1e4,1e5,1e6

Makes memories in FOLDER unless they are there, and asks them about new vectors of their classes. By
the vote: every vector is a centroid, 100 a class, beside faiss (flat), scikit-learn and plain BLAS
in the same run. By the default head: five vectors a class. Vectors are drawn: class means and
deviations are normal, with standard deviations that fall as 1 / sqrt(i) from feature to feature,
which gives about the distances of photos seen through EfficientNet-Lite0. Needs the extra `bench`;
10^6 centroids of 512 features take 2 GB of disk and 9 GB of memory. With `--learning`, only the
time to learn one more class is measured, in turn with that of the smallest memory, so that both
have met the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from cbcl import Recognizer, load_backbone
from cbcl.machine import description
from cbcl.method.arrays import Float32s, Int64s

PER_CLASS = 100
QUERIES = 256
N = 10  # nearest that are asked for of the libraries; cbcl ranks 64 whatever is asked
SINGLE = 20  # of the queries are asked one at a time
LEARNED = 20  # classes of five vectors, one after another, to time learning by
ROUNDS = 15  # of these, by two memories in turn
Measure: TypeAlias = Callable[[Path, int], dict[str, Any]]
AS_GIVEN = load_backbone(lambda rows: np.stack(rows), name="as-given")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--centroids", default="1e4,1e5,1e6", help="by the vote, 512 features")
    parser.add_argument("--classes", default="1e2,1e3,1e4", help="by default, 1,280 features")
    parser.add_argument("--learning", action="store_true", help="measure nothing but learning")
    parser.add_argument("--record", type=Path, help="append a line of JSON for each memory")
    options = parser.parse_args()
    vote: Measure = measure_vote
    default: Measure = measure_default
    if options.learning:
        vote, default = LearningTimes(vote_memory), LearningTimes(default_memory)
    for work, sizes in ((vote, options.centroids), (default, options.classes)):
        for size in filter(None, sizes.split(",")):
            figures = work(options.folder, int(float(size)))
            figures["seconds"] = {
                name: float(f"{value:.4g}") for name, value in figures["seconds"].items()
            }
            figures |= {"load": os.getloadavg()[0], "machine": description()}
            print(json.dumps(figures), flush=True)
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps(figures) + "\n")


class LearningTimes:
    """Times to learn a class, in turn by a memory and by the smallest one."""

    def __init__(self, make: Callable[[Path, int], tuple[Recognizer, int]]) -> None:
        self.make, self.smallest = make, 0

    def __call__(self, folder: Path, size: int) -> dict[str, Any]:
        self.smallest = self.smallest or size
        small, d = self.make(folder / "beside", self.smallest)
        things, _ = self.make(folder, size)
        rounds = []
        with small, things:
            for _ in range(ROUNDS):
                rounds.append([time_learning(one, d) for one in (things, small)])
            head = things.snapshot().settings.head
        times = np.array(rounds)
        ratio = float(np.median(times[:, 0] / times[:, 1]))
        seconds = {"learn one class": float(np.median(times[:, 0]))}
        small_seconds = float(np.median(times[:, 1]))
        return {
            "head": head,
            "classes": size // PER_CLASS if head == "vote" else size,
            "features": d,
            "seconds": seconds | {"by the smallest": small_seconds},
            "ratio": round(ratio, 3),
        }


def default_memory(folder: Path, t: int, d: int = 1280) -> tuple[Recognizer, int]:
    """Return a memory of t classes, made unless it is there, and its features."""
    path = folder / f"default-{t}.cbcl"
    folder.mkdir(parents=True, exist_ok=True)
    things = Recognizer(path, AS_GIVEN, cache=False)
    if not path.exists():
        for first in range(0, t, 200):
            numbers = range(first, min(first + 200, t))
            things.learn_many({f"class {i:06}": [*vectors_of(i, d, 5)] for i in numbers})
    return things, d


def vote_memory(folder: Path, m: int, d: int = 512) -> tuple[Recognizer, int]:
    """Return a memory of m centroids, made unless it is there, and its features."""
    things = recognizer(folder / f"{m}-{d}.cbcl")
    folder.mkdir(parents=True, exist_ok=True)
    if not things.path.exists():
        for batch in batches(m, d):
            things.learn_many(batch)
    return things, d


def measure_default(folder: Path, t: int) -> dict[str, Any]:
    made, d = default_memory(folder, t)
    made.close()
    path, seconds = made.path, dict[str, float]()
    with Recognizer(path, AS_GIVEN, cache=False) as things:
        seconds["open"] = timed(things.snapshot)
        seconds["learn one class"] = time_learning(things, d)
        query = vectors_of(3, d, 6)[-1]
        seconds["first answer"] = timed(lambda: things.recognize(query))
        seconds["a query"] = median(timed(lambda: things.recognize(query)) for _ in range(SINGLE))
        seconds["of 256"] = timed(lambda: things.recognize_many([query] * QUERIES)) / QUERIES
    return {
        "head": "discriminant",
        "classes": t,
        "features": d,
        "seconds": seconds,
        "bytes": {"memory": path.stat().st_size},
    }


def measure_vote(folder: Path, m: int) -> dict[str, Any]:
    made, d = vote_memory(folder, m)
    path, seconds = made.path, dict[str, float]()
    with made:
        seconds["learn one class"] = time_learning(made, d)
    queries = between(m, d)
    with recognizer(path) as things:
        seconds["exact: first answer"] = timed(lambda: things.recognize(queries[0]))
        seconds |= times(
            "exact", lambda rows: things.recognize_many([*rows]), queries, few=m >= 10**6
        )
    compare(m, d, queries, seconds)
    return {
        "head": "vote",
        "centroids": m,
        "features": d,
        "classes": m // PER_CLASS,
        "seconds": seconds,
        "bytes": {"memory": path.stat().st_size},
    }


def recognizer(path: Path) -> Recognizer:
    return Recognizer(path, AS_GIVEN, head="vote", radius=0.0, n_voters=1, cache=False)


def deviations(d: int) -> Float32s:
    falling = (1.0 + np.arange(d)) ** -0.5
    return (0.7 * falling / np.linalg.norm(falling)).astype(np.float32)


def vectors_of(number: int, d: int, n: int) -> Float32s:
    """Return vectors of a class, always the same."""
    rng = np.random.default_rng([number, d])
    rows: Float32s = rng.standard_normal((n + 1, d), dtype=np.float32) * deviations(d)
    return rows[:1] + rows[1:] + np.float32(0.02)


def batches(m: int, d: int) -> Iterator[dict[str, list[Float32s]]]:
    for first in range(0, m // PER_CLASS, 100):
        numbers = range(first, min(first + 100, m // PER_CLASS))
        yield {f"class {number:06}": [*vectors_of(number, d, PER_CLASS)] for number in numbers}


def between(m: int, d: int) -> Float32s:
    """Return new vectors of known classes."""
    numbers = np.random.default_rng(1).integers(0, m // PER_CLASS, QUERIES)
    return np.stack([vectors_of(int(number), d, PER_CLASS + 1)[-1] for number in numbers])


def time_learning(things: Recognizer, d: int) -> float:
    """Return the seconds to learn a class of five vectors; all are undone in the end."""
    seconds = []
    for number in range(LEARNED):
        vectors = [*vectors_of(10**9 + number, d, 5)]
        seconds.append(timed(partial(things.learn, f"new {number}", vectors)))
    for _ in range(LEARNED):
        things.undo()
    return median(seconds)


def timed(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


def times(
    name: str, answer: Callable[[Float32s], object], queries: Float32s, *, few: bool = False
) -> dict[str, float]:
    """Return the seconds a query takes alone, and among many."""
    single = queries[: 5 if few else SINGLE]
    answer(queries[:2])
    return {
        f"{name}: a query": median(timed(partial(answer, row[np.newaxis])) for row in single),
        f"{name}: of {len(queries)}": timed(lambda: answer(queries)) / len(queries),
    }


def compare(m: int, d: int, queries: Float32s, seconds: dict[str, float]) -> None:
    """Time the libraries on the same centroids, which are the vectors."""
    import faiss
    from sklearn.neighbors import NearestNeighbors

    centroids: Float32s = np.empty((m, d), dtype=np.float32)
    for number, rows in enumerate(centroids.reshape(-1, PER_CLASS, d)):
        rows[:] = vectors_of(number, d, PER_CLASS)
    few = m >= 10**6
    flat = faiss.IndexFlatL2(d)
    flat.add(centroids)
    seconds |= times("faiss flat", lambda rows: flat.search(rows, N), queries, few=few)
    brute = NearestNeighbors(n_neighbors=N, algorithm="brute").fit(centroids)
    seconds |= times("scikit-learn", brute.kneighbors, queries, few=few)
    halves = 0.5 * np.einsum("md,md->m", centroids, centroids)
    seconds |= times("BLAS", lambda rows: _by_blas(rows, centroids, halves), queries, few=few)


def _by_blas(rows: Float32s, centroids: Float32s, halves: Float32s) -> Int64s:
    """Return the ten nearest by one product, unordered: the least work of an exact search."""
    products = rows @ centroids.T
    np.subtract(halves, products, out=products)
    nearest: Int64s = np.argpartition(products, N, axis=1)[:, :N]
    return nearest


if __name__ == "__main__":
    main()
