"""Speed of learning and answering of many classes on a GPU, against its limits and a processor.

    python benchmarks/gpu_answering.py --out figures.json

Vectors of 1,280 features, drawn around the means of their classes. For the vote with 10^4 to 10^6
centroids, for Agg-Var with few and with many centroids a class, and for the default head with up to
10,000 classes, it prints seconds of the GPU and of all cores, the share of the GPU's arithmetic
limit (the datasheet's float32 without tensor cores) and of its memory's, and how many decisions
were compared, differed, and were settled by the processor. It fails if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch

from cbcl.machine import blas_threads, description, one_thread
from cbcl.method.arrays import Float32s
from cbcl.method.concepts import DEFAULT_PLAN, ClusteringPlan, Concepts, cluster
from cbcl.method.directions import as_directions
from cbcl.method.kernel import KERNEL, NUMPY
from cbcl.method.knowledge import _cluster_classes
from cbcl.method.search import Index, nearest
from cbcl.method.statistical import learn_statistics
from cbcl.method.torch_discriminant import DeviceDiscriminant
from cbcl.method.tuning import ClassRows

DATASHEET = {"NVIDIA H200": (66.9e12, 4.8e12)}  # float32 operations and bytes, a second
FEATURES = 1280
SPREAD = 0.7  # of the vectors of a class around its mean, whose features have the deviation 1
REPEATS = 3
VOTES = [(10**4, 16384), (10**5, 8192), (10**6, 1024)]  # centroids, vectors for the processor
HEADS = [(100, 30), (1000, 30), (10000, 4)]  # classes, views of each
LESSONS = [  # classes, vectors of each, their clusters, radius
    (1000, 500, 1, 1.2),
    (1000, 500, 100, 1.2),
    (1000, 500, 1, 0.5),
    (4, 20000, 3000, 1.2),
]
MAX_OPERATIONS = 4e12  # of the processor, for the default head

Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    parser.add_argument("--small", action="store_true", help="a hundredth of everything")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=85.0, help="no step is begun after these")
    arguments = parser.parse_args()
    os.environ["CBCL_DEVICE"] = "cpu"  # the device is given where it is to be used
    start = perf_counter()
    bench = Bench(arguments.device, small=arguments.small)
    report: dict[str, Any] = {"machine": bench.describe()}
    print(json.dumps(report), flush=True)
    differ = failed = 0
    for name, work, sizes in bench.steps():
        if perf_counter() - start > arguments.seconds:
            print(f"{name} {sizes} is left out: there is no time left", flush=True)
            continue
        try:
            figures = work(*sizes)
        except RuntimeError as error:  # of PyTorch: the other steps are still worth their figures
            print(f"{name} {sizes} failed: {error}", flush=True)
            failed += 1
            continue
        differ += figures["differ"]
        report.setdefault(name, []).append(figures)
        print(name, json.dumps(figures), f"({perf_counter() - start:.0f} s so far)", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{differ} decisions differ; {perf_counter() - start:.0f} s in total", flush=True)
    assert differ == failed == 0


class Bench:
    """The measurements, on one device and this machine's cores."""

    def __init__(self, device: str, *, small: bool) -> None:
        self.device, self.generator = device, torch.Generator(device).manual_seed(0)
        self.part = 100 if small else 1
        self.name = torch.cuda.get_device_name() if device == "cuda" else device
        limits = [limit for name, limit in DATASHEET.items() if self.name.startswith(name)]
        self.peak, self.bandwidth = limits[0] if limits else (float("nan"), float("nan"))
        a = torch.ones((512, 512), device=device)
        (a @ a.T).topk(8)  # which loads libraries

    def steps(self) -> list[tuple[str, Callable[..., dict[str, Any]], tuple[Any, ...]]]:
        part = self.part
        return [
            *(("vote", self.vote, (m // part, q // part)) for m, q in VOTES),
            *(("head", self.head, (t // part + 1, views)) for t, views in HEADS),
            *(("learning", self.learn, (t // part + 1, *rest)) for t, *rest in LESSONS),
        ]

    def describe(self) -> dict[str, Any]:
        size = 1 << (28 if self.device == "cuda" else 22)
        numbers = torch.zeros(size, device=self.device)
        target = torch.empty_like(numbers)
        seconds, _ = self.timed(lambda: target.copy_(numbers))
        return {
            "device": self.name,
            "processor": description(),
            "threads": blas_threads(),
            "compiled kernel": KERNEL is not NUMPY,
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "datasheet": {"float32 TFLOP/s": self.peak / 1e12, "TB/s": self.bandwidth / 1e12},
            "measured": {
                "copy, TB/s": 8.0 * size / seconds / 1e12,
                "float32 product, TFLOP/s": self.measure_product(),
                "to the device, GB/s": 4.0 * size / self.timed_upload(size) / 1e9,
            },
        }

    def measure_product(self) -> float:
        """Return the rate of a large float32 product, the practical limit of all below."""
        n = 8192 if self.device == "cuda" else 512
        a, b = (torch.ones((n, n), device=self.device) for _ in range(2))
        seconds, _ = self.timed(lambda: a @ b.T)
        return 2.0 * n**3 / seconds / 1e12

    def timed_upload(self, size: int) -> float:
        numbers = torch.ones(size)
        return self.timed(lambda: numbers.to(self.device))[0]

    def timed(self, work: Callable[[], Result], repeats: int = REPEATS) -> tuple[float, Result]:
        """Return the seconds of the fastest of some runs, and the result."""
        seconds = []
        for _ in range(repeats):
            self.synchronize()
            start = perf_counter()
            result = work()
            self.synchronize()
            seconds.append(perf_counter() - start)
        return min(seconds), result

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def draw(self, means: torch.Tensor, owners: torch.Tensor, spread: float = SPREAD) -> Float32s:
        """Return vectors of these classes."""
        drawn = np.empty((len(owners), FEATURES), dtype=np.float32)
        for start in range(0, len(owners), 1 << 17):
            own = means[owners[start : start + (1 << 17)]]
            noise = torch.empty_like(own).normal_(generator=self.generator)
            drawn[start : start + len(own)] = (own + spread * noise).cpu().numpy()
        return drawn

    def means(self, t: int) -> torch.Tensor:
        return torch.randn((t, FEATURES), device=self.device, generator=self.generator)

    def owners(self, t: int, n: int) -> torch.Tensor:
        return torch.randint(t, (n,), device=self.device, generator=self.generator)

    def vote(self, m: int, q: int) -> dict[str, Any]:
        """Search for five voters among m centroids of m / 100 classes, for q vectors."""
        t, n = m // 100, 5
        means = self.means(t)
        centroids = self.draw(means, torch.arange(m, device=self.device) // 100)
        vectors = self.draw(means, self.owners(t, 16384 // self.part))
        index = Index([Concepts(centroids, np.ones(m, dtype=np.int64))])
        _ = index.centroids, index.bounds  # computed once, for both
        slow, wanted = self.timed(lambda: nearest(vectors[:q], index, n), repeats=1)
        one_slow, _ = self.timed(lambda: nearest(vectors[:1], index, n), repeats=2)
        copy, _ = self.timed(lambda: index.copy_to(self.device, min_products=0), repeats=1)
        fast, found = self.timed(lambda: nearest(vectors, index, n))
        one_fast, _ = self.timed(lambda: nearest(vectors[:1], index, n))
        differ = (found.indices[:q] != wanted.indices) | (found.distances[:q] != wanted.distances)
        assert index.on_device is not None
        some = index.on_device.candidates(vectors[:1024], n, 2 * n + 32)
        return {
            "centroids": m,
            "processor": rates(q, slow),
            "device": self.roofline(2.0 * m * FEATURES, len(vectors), fast),
            "one vector": {
                "processor, ms": 1e3 * one_slow,
                "device, ms": 1e3 * one_fast,
                "share of the datasheet's bandwidth": 4.0
                * m
                * FEATURES
                / one_fast
                / self.bandwidth,
            },
            "seconds of the copy": copy,
            "candidates of a vector": float(some.counts.mean()),
            "settled by the processor": [int((~some.complete).sum()), len(some.complete)],
            "compared": q,
            "differ": int(differ.any(axis=1).sum()),
        }

    def learn(self, t: int, n: int, clusters: int, radius: float) -> dict[str, Any]:
        """Cluster t classes of n vectors, in so many clusters each, by a radius in their units."""
        owners = torch.arange(t * n, device=self.device) // n * clusters + self.owners(
            clusters, t * n
        )
        matrix = self.draw(self.means(t * clusters), owners)
        radius *= SPREAD * float(np.sqrt(2.0 * FEATURES))
        rows = [ClassRows(np.arange(i * n, (i + 1) * n)) for i in range(t)]
        classes = dict(enumerate(rows))
        sample = rows[: max(1, t // 10)]
        one_core, _ = self.timed(
            lambda: [cluster(matrix, one.rows, radius, None, DEFAULT_PLAN) for one in sample], 1
        )
        slow, wanted = self.timed(lambda: _cluster_classes(cluster, matrix, classes, radius), 2)
        fast, found = self.timed(lambda: self.cluster_on_device(matrix, classes, radius), 2)
        figures = {
            "classes": t,
            "vectors of each": n,
            "centroids of each": float(np.mean([len(one.counts) for one in wanted.values()])),
            "processor, one thread, s": one_core * t / len(sample),
            "processor, s": slow,
            "device, s": fast,
            "compared": t,
            "differ": sum(not same(wanted[label], found[label]) for label in classes),
        }
        return figures | (self.divide_learning(matrix, rows, radius) if n <= 1000 else {})

    def cluster_on_device(
        self, matrix: Float32s, classes: dict[int, ClassRows], radius: float
    ) -> dict[int, Concepts]:
        if self.device == "cpu":  # which the environment takes for the processor, without PyTorch
            plan = ClusteringPlan.on_device("cpu", min_products=0)
            return {i: cluster(matrix, one.rows, radius, None, plan) for i, one in classes.items()}
        os.environ["CBCL_DEVICE"] = self.device
        try:
            return _cluster_classes(cluster, matrix, classes, radius)
        finally:
            os.environ["CBCL_DEVICE"] = "cpu"

    def divide_learning(
        self, matrix: Float32s, rows: list[ClassRows], radius: float
    ) -> dict[str, float]:
        """Return the seconds of what a device could do at most in learning, and of the rest."""
        n, sample = len(rows[0].rows), max(1, len(rows) // 10)
        classes = matrix.reshape(len(rows), n, FEATURES)

        def multiply() -> Any:
            on_device = torch.from_numpy(classes).to(self.device)
            return torch.bmm(on_device, on_device.transpose(1, 2)).cpu()

        products, grams = self.timed(multiply, repeats=2)

        def absorb() -> None:
            for vectors, gram in zip(classes[:sample], grams[:sample].numpy(), strict=True):
                state = (np.empty((n, FEATURES), "f"), np.empty(n, np.int64), np.empty(n))
                scratch: Float32s = np.empty((n, n), dtype=np.float32)
                KERNEL.absorb(vectors, scratch, gram, *state, n, FEATURES, 0, n, radius)

        with one_thread():
            scalar, _ = self.timed(absorb, repeats=1)
        return {
            "products of all pairs on the device, with both copies, s": products,
            "scalar pass on one thread, given these, s": scalar * len(rows) / sample,
        }

    def head(self, t: int, views: int) -> dict[str, Any]:
        """Label by the default head, with t classes."""
        means = self.means(t)
        matrix = self.draw(means, torch.arange(t * views, device=self.device) // views)
        labels = np.arange(t).repeat(views)
        learning, known = self.timed(lambda: learn_statistics(None, matrix, labels), repeats=1)
        solving, solved = self.timed(lambda: known.discriminant, repeats=1)
        vectors = self.draw(means, self.owners(t, 65536 // self.part), spread=8.0 * SPREAD)
        copy, there = self.timed(
            lambda: DeviceDiscriminant(solved, known.probes(), self.device, 0), repeats=1
        )
        operations = 2.0 * there.products
        q = min(len(vectors), max(1024, int(MAX_OPERATIONS / operations)))
        slow, wanted = self.timed(lambda: known.winners(vectors[:q]), repeats=1)
        fast, found = self.timed(lambda: known.winners_by(there, vectors), repeats=2)
        block = as_directions(vectors[:2048])
        alone, _ = self.timed(lambda: there.winners(block))
        starts = range(0, len(vectors), 2048)
        parts = [there.winners(as_directions(vectors[at : at + 2048])) for at in starts]
        unsettled, close = map(np.concatenate, zip(*parts, strict=True))
        return {
            "classes": t,
            "views of each": views,
            "own axes": len(solved.factors),
            "learning, s": learning,
            "solving, s": solving,
            "copy and measurement of the error, s": copy,
            "processor": rates(q, slow),
            "device": self.roofline(operations, len(vectors), fast),
            "device, one block": self.roofline(operations, len(block), alone),
            "error that is allowed for, of the scale": there.error,
            "settled by the processor": [int(close.sum()), len(close)],
            "of these changed": int((unsettled != found).sum()),
            "compared": q,
            "differ": int((found[:q] != wanted).sum()),
        }

    def roofline(self, operations: float, n: int, seconds: float) -> dict[str, float]:
        """Return the rates of n vectors, of so many operations each, and the share of the peak."""
        rate = operations * n / seconds
        return rates(n, seconds) | {
            "TFLOP/s": rate / 1e12,
            "share of the datasheet's peak": rate / self.peak,
        }


def rates(n: int, seconds: float) -> dict[str, float]:
    return {"vectors": n, "seconds": seconds, "vectors a second": n / seconds}


def same(these: Concepts, those: Concepts) -> bool:
    return [array.tobytes() for array in these] == [array.tobytes() for array in those]


if __name__ == "__main__":
    main()
