"""Speed of learning and predicting, against peers in the same run: `make bench`.

Claim, on a processor with AVX-512 and two BLAS threads, in medians of contestants that take turns:
Agg-Var on a class of 500 vectors is at least 80 x faster than a loop like the authors'; on a class
of 20,000 it takes at most 1.5 x one matrix product of its size; predicting takes at most 1.3 x the
matrix product, is at least 3 x faster than scikit-learn's brute force and about as fast as faiss
(the aim was: no slower); one query is no slower than a matrix-vector product with argpartition.
The last line is a JSON record of the run, with the machine and the commit; those in
study/results/speed.jsonl are of runs one after the other. (Linux only: it reads /proc.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault(
    "OPENBLAS_CORETYPE", "SkylakeX" if "avx512f" in Path("/proc/cpuinfo").read_text() else "Haswell"
)

import faiss
import numpy as np
import sklearn
from contest import line, medians, record
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_info

import cbcl
from cbcl import CBCLClassifier, agg_var
from cbcl.method.centroids.kernel import KERNEL

D = 512
Floats = NDArray[np.float32]


def features(n: int, seed: int, spread: float = 1.5) -> Floats:
    """N vectors like the output of a network: correlated, not negative."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, 16)) @ np.random.default_rng(0).normal(size=(16, D))
    return np.maximum(low + spread * rng.normal(size=(n, D)), 0).astype(np.float32)


def distance(a: Floats, b: Floats, metric: str) -> float:
    if metric == "euclidean":
        return float(np.linalg.norm(a - b))
    raise ValueError(metric)


def plain_loop(vectors: Floats, radius: float) -> list[Floats]:
    """Agg-Var as the authors' published code does it: one distance at a time, in Python."""
    centroids, counts = [vectors[0]], [1]
    for i in range(1, len(vectors)):
        near, numbers = [], []
        for j in range(len(centroids)):
            found = distance(vectors[i], centroids[j], "euclidean")
            if found < radius:
                near.append(found)
                numbers.append(j)
        if not near:
            centroids.append(vectors[i])
            counts.append(1)
        else:
            j = numbers[int(np.argmin(near))]
            centroids[j] = np.add(np.multiply(counts[j], centroids[j]), vectors[i])
            counts[j] += 1
            centroids[j] = np.divide(centroids[j], counts[j])
    return centroids


def radius_for(vectors: Floats, centroids: int) -> float:
    """Return a radius that gives about so many centroids, by bisection."""
    low, high = 0.0, float(np.linalg.norm(vectors.max(axis=0) - vectors.min(axis=0)))
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if len(agg_var(vectors, middle).counts) > centroids else (low, middle)
        )
    return high


def learn_small() -> list[dict[str, object]]:
    vectors, rows = features(500, seed=1), []
    for wanted in (64, 140, 480):
        radius = radius_for(vectors, wanted)
        m = len(agg_var(vectors, radius).counts)
        contest: dict[str, Callable[[], object]] = {
            "cbcl": partial(agg_var, vectors, radius),
            "loop": partial(plain_loop, vectors, radius),
        }
        seconds = medians(contest, 7)
        ratio = seconds["loop"] / seconds["cbcl"]
        rows.append(
            line(
                f"Agg-Var 500 x {D}, {m} centroids: loop / cbcl",
                seconds,
                ratio,
                ">= 80",
                ratio >= 80,
            )
        )
    return rows


def learn_large() -> list[dict[str, object]]:
    vectors = features(20_000, seed=2)
    radius = radius_for(vectors, 2_000)
    m = len(agg_var(vectors, radius).counts)
    out = np.empty((20_000, 2_000), dtype=np.float32)
    contest = {
        "cbcl": lambda: agg_var(vectors, radius),
        "sgemm": lambda: np.matmul(vectors, vectors[:2_000].T, out=out),
    }
    seconds = medians(contest, 7)
    ratio = seconds["cbcl"] / seconds["sgemm"]
    work = f"Agg-Var 20,000 x {D}, {m} centroids: cbcl / sgemm for 2,000"
    return [line(work, seconds, ratio, "<= 1.5", ratio <= 1.5)]


def predict() -> list[dict[str, object]]:
    m, q, n = 7_500, 10_000, 10
    centroids, queries = features(m, seed=3), features(q, seed=4)
    learner = CBCLClassifier(radius=0.0, n_voters=n).fit(centroids, np.arange(m) % 100)
    stored = learner.centroids_
    brute = NearestNeighbors(n_neighbors=n, algorithm="brute", n_jobs=2).fit(stored)
    flat = faiss.IndexFlatL2(D)
    flat.add(stored)
    faiss.omp_set_num_threads(2)
    out = np.empty((q, m), dtype=np.float32)
    contest = {
        "cbcl": lambda: learner.predict(queries),
        "sgemm": lambda: np.matmul(queries, stored.T, out=out),
        "scikit-learn": lambda: brute.kneighbors(queries),
        "faiss": lambda: flat.search(queries, n),
    }
    seconds = medians(contest, 7)
    slower, sk, fa = (
        seconds[name] / seconds["cbcl"] for name in ("sgemm", "scikit-learn", "faiss")
    )
    work = f"predict {q:,} x {D} over {m:,} centroids, n = {n}"
    rows = [
        line(f"{work}: cbcl / sgemm", seconds, 1 / slower, "<= 1.3", 1 / slower <= 1.3),
        line(f"{work}: scikit-learn / cbcl", {}, sk, ">= 3", sk >= 3),
        line(f"{work}: faiss / cbcl", {}, fa, ">= 1", fa >= 1),
    ]
    one, halves = queries[:1], 0.5 * np.einsum("md,md->m", stored, stored)

    def plain() -> object:
        return np.argpartition(halves - stored @ one[0], n)[:n]

    seconds = medians({"cbcl": lambda: learner.predict(one), "numpy": plain}, 21)
    ratio = seconds["cbcl"] / seconds["numpy"]
    return [
        *rows,
        line(
            f"predict 1 over {m:,}: cbcl / numpy argpartition", seconds, ratio, "<= 1", ratio <= 1
        ),
    ]


def memory() -> list[dict[str, object]]:
    """Measure the peak memory of learning and predicting, in another process, in MB."""
    code = f"""
from pathlib import Path
import numpy as np
from cbcl import CBCLClassifier

def peak():  # of this process alone, in MB; the usual ru_maxrss begins with the parent's
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

rng = np.random.default_rng(0)
x = rng.standard_normal((60_000, {D}), dtype=np.float32)
y = np.arange(len(x)) % 10
CBCLClassifier(radius=0.0, n_voters=1).fit(x[:99], y[:99]).predict(x[:99])
before = peak()
learner = CBCLClassifier(radius=0.0, n_voters=10).fit(x[:12_000], y[:12_000])
learner.predict(x)
print(peak() - before, learner.n_centroids_, learner.centroids_.nbytes / 2**20)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    added, m, held = float(done[0]), int(done[1]), float(done[2])
    print(
        f"learning 12,000 x {D} as {m:,} centroids and predicting 60,000 adds {added:.0f} MB "
        f"at most, of which the centroids, kept per class and in one array, are 2 x {held:.0f}; "
        f"all products would be {60_000 * m * 4 / 2**20:,.0f} MB"
    )
    return [{"work": "memory", "added_mb": added, "centroids": m, "centroids_mb": held}]


def main() -> None:
    print(__doc__)
    results = [*learn_small(), *learn_large(), *predict(), *memory()]
    blas = [
        f"{info['prefix']} {info['architecture']} x {info['num_threads']}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    ]
    kernel = KERNEL.__name__
    print(json.dumps(record([cbcl, np, sklearn, faiss], results, kernel=kernel, blas=blas)))


if __name__ == "__main__":
    main()
