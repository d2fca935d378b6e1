"""Speed of the method against peers in the same run: `make bench`, or `speed.py PART`.

    python study/benchmarks/speed.py heads --large

Contestants take turns, with two BLAS threads; a figure is a median. Parts, with what is wanted:

- peers (`make bench`; needs the extra `bench`), on a processor with AVX-512: Agg-Var on a class of
  500 vectors is at least 80 x faster than a loop like the authors'; on a class of 20,000 it takes
  at most 1.5 x one matrix product of its size; predicting takes at most 1.3 x the matrix product,
  is at least 3 x faster than scikit-learn's brute force and about as fast as faiss (the aim was: no
  slower); one query is no slower than a matrix-vector product with argpartition. The records in
  study/results/speed.jsonl are of runs one after the other.
- heads: the discriminant against the vote, vectors of 1,280 features. Learning one more class takes
  at most 2 x the time of the vote, however many classes are known; predicting 10,000 vectors among
  100 classes at most 1.5 x; from teaching one more view to the changed answer it takes at most
  25 ms with 10 things known, and 100 ms with 1,000. `--large` also asks with 10,000 things known.
- load: 0, 1, 2 and 4 processes that do nothing but count compete for the cores. Each work is timed
  in turns with a loop in plain Python, which is one thread that waits for nobody: what it loses is
  what the load costs. What cbcl loses, beside its own speed with no process competing, is at most
  twice what the loop loses. The last work is numpy's, by a BLAS whose threads wait for each other:
  on busy cores it takes longer than all of the prediction that it is a part of. On a machine that
  is busy with something else, the row with none is no quiet one, and the slowdowns are too small.

The last line is a JSON record of the run. (Linux only: it reads /proc.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep

os.environ.setdefault(
    "OPENBLAS_CORETYPE", "SkylakeX" if "avx512f" in Path("/proc/cpuinfo").read_text() else "Haswell"
)

import numpy as np
import scipy
import sklearn
from contest import line, medians, parser_of, record
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_info

import cbcl
from cbcl import CBCLClassifier, agg_var
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.centroids.budget import merge
from cbcl.method.centroids.kernel import KERNEL
from cbcl.method.centroids.model import CentroidModel, Options, learn
from cbcl.method.discriminant.model import DiscriminantModel, learn_statistics

D = 512
D_OF_HEADS = 1280
CLASSES = 100
LOADS = (0, 1, 2, 4)
LIMIT = 2.0  # times what the loop loses
PEER = "numpy: the products of 20 and 7,500, by BLAS's own threads"
COMPETITOR = "n = 0\nwhile True: n += 1"
Rows = list[dict[str, object]]
Contest = dict[str, Callable[[], object]]


def features(n: int, seed: int) -> Float32s:
    """N vectors like the output of a network: correlated, not negative."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, 16)) @ np.random.default_rng(0).normal(size=(16, D))
    return np.maximum(low + 1.5 * rng.normal(size=(n, D)), 0).astype(np.float32)


def distance(a: Float32s, b: Float32s, metric: str) -> float:
    if metric == "euclidean":
        return float(np.linalg.norm(a - b))
    raise ValueError(metric)


def plain_loop(vectors: Float32s, radius: float) -> list[Float32s]:
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


def radius_for(vectors: Float32s, centroids: int) -> float:
    """Return a radius that gives about so many centroids, by bisection."""
    low, high = 0.0, float(np.linalg.norm(vectors.max(axis=0) - vectors.min(axis=0)))
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if len(agg_var(vectors, middle).counts) > centroids else (low, middle)
        )
    return high


def learn_small() -> Rows:
    vectors = features(500, seed=1)
    rows: Rows = []
    for wanted in (64, 140, 480):
        radius = radius_for(vectors, wanted)
        m = len(agg_var(vectors, radius).counts)
        contest: Contest = {
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


def learn_large() -> Rows:
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


def predict() -> Rows:
    import faiss

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


def memory() -> Rows:
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


def embeddings(t: int, n: int, seed: int) -> tuple[Float32s, Int64s]:
    """Return n vectors of each of t classes, like the output of a network, and their labels."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(16, D_OF_HEADS)).astype(np.float32)
    centres = rng.normal(size=(t, D_OF_HEADS)).astype(np.float32)
    low = rng.normal(size=(t * n, 16)).astype(np.float32) @ mixing
    noise = rng.normal(size=(t * n, D_OF_HEADS)).astype(np.float32)
    vectors = np.repeat(centres, n, axis=0) + 0.3 * low + noise
    return np.maximum(vectors, 0.0), np.repeat(np.arange(t), n)


def know(t: int, n: int) -> DiscriminantModel:
    return learn_statistics(None, *embeddings(t, n, seed=1))


def know_by_vote(t: int, n: int) -> CentroidModel:
    return learn(None, *embeddings(t, n, seed=1), Options())


def learn_by_heads() -> Rows:
    rows: Rows = []
    for n in (5, 500):
        vectors, _ = embeddings(1, n, seed=2)
        labels = np.full(n, CLASSES)
        contest: Contest = {
            "discriminant": partial(learn_statistics, know(CLASSES, n), vectors, labels),
            "vote": partial(learn, know_by_vote(CLASSES, n), vectors, labels, Options()),
        }
        seconds = medians(contest, 7)
        ratio = seconds["discriminant"] / seconds["vote"]
        work = f"learn a class of {n} after {CLASSES}: discriminant / vote"
        rows.append(line(work, seconds, ratio, "<= 2", ratio <= 2))
    vectors, _ = embeddings(1, 5, seed=2)
    few, many = know(CLASSES, 3), know(10_000, 3)
    many_known: Contest = {
        "10,000": partial(learn_statistics, many, vectors, np.full(5, 10_000)),
        "100": partial(learn_statistics, few, vectors, np.full(5, 10_000)),
        "vote": partial(learn, know_by_vote(10_000, 3), vectors, np.full(5, 10_000), Options()),
    }
    seconds = medians(many_known, 7)
    ratio = seconds["10,000"] / seconds["vote"]
    work = "learn a class of 5 after 10,000: discriminant / vote"
    return [*rows, line(work, seconds, ratio, "<= 2", ratio <= 2)]


def predict_by_heads() -> Rows:
    rows: Rows = []
    queries, _ = embeddings(CLASSES, 100, seed=3)
    for n in (5, 500):
        solved, vote = know(CLASSES, n), know_by_vote(CLASSES, n)
        contest: Contest = {
            "discriminant": partial(solved.winners, queries),
            "vote": partial(vote.winners, queries),
        }
        seconds = medians(contest, 7)
        ratio = seconds["discriminant"] / seconds["vote"]
        m = len(vote.index.owners)
        work = f"predict {len(queries):,}, {n} a class ({m:,} centroids): discriminant / vote"
        rows.append(line(work, seconds, ratio, "<= 1.5", ratio <= 1.5))
    return rows


def teach_and_answer(t: int, milliseconds: float) -> Rows:
    """Teach one more view of a thing, and ask about another vector."""
    before = know(t, 3)
    before.judge(embeddings(1, 1, seed=5)[0])
    view, query = embeddings(1, 1, seed=4)[0], embeddings(1, 1, seed=5)[0]

    def teach_and_ask() -> object:
        return learn_statistics(before, view, np.zeros(1, dtype=np.int64)).judge(query)

    seconds = medians({"teach and ask": teach_and_ask}, 7 if t <= 1000 else 1)
    taken = 1e3 * seconds["teach and ask"]
    work = f"one more view to the changed answer, {t:,} known: of {milliseconds:g} ms"
    return [line(work, seconds, taken / milliseconds, "<= 1", taken <= milliseconds)]


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


def show(seconds: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Rows:
    rows: Rows = []
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


def measure_peers() -> dict[str, object]:
    import faiss

    results = [*learn_small(), *learn_large(), *predict(), *memory()]
    kernel = KERNEL.__name__
    return record([cbcl, np, sklearn, faiss], results, kernel=kernel, blas=describe_blas())


def measure_heads(large: bool) -> dict[str, object]:
    limits = {10: 25.0, 100: 50.0, 1_000: 100.0}
    if large:
        limits[10_000] = 10_000.0
    rows = [*learn_by_heads(), *predict_by_heads()]
    for t, milliseconds in limits.items():
        rows += teach_and_answer(t, milliseconds)
    data = f"generated, {D_OF_HEADS} features, seeds 0-5"
    return record([cbcl, np, scipy], rows, data=data, load=os.getloadavg())


def describe_blas() -> list[str]:
    return [
        f"{info['prefix']} {info['architecture']} x {info['num_threads']}"
        for info in threadpool_info()
        if info["user_api"] == "blas"
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("part", nargs="?", default="peers", choices=["peers", "heads", "load"])
    parser.add_argument("--large", action="store_true", help="heads: ask among 10,000 things, too")
    parser.add_argument("--repetitions", type=int, default=9, help="load: turns of each work")
    args = parser.parse_args()
    if args.part == "peers":
        made = measure_peers()
    elif args.part == "heads":
        made = measure_heads(args.large)
    else:
        rows = show(measure(args.repetitions))
        made = record([cbcl, np], rows, blas=describe_blas())
    print(json.dumps(made))


if __name__ == "__main__":
    main()
