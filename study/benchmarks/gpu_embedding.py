"""Speed of embedding a folder of pictures on a GPU, against its arithmetic limit and a processor.

    python study/benchmarks/gpu_embedding.py cifar100/ --backbone resnet50-keras

Prints seconds from files to vectors, decoding included, on threads and on --jobs processes, and
alone for the network; the share of the GPU's float32 peak; and how far vectors are from those of
the processor.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import cast

import numpy as np
import onnx
import torch
from onnx import shape_inference

from cbcl import PictureError, load_backbone
from cbcl.machine import cores
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.combined import leaves
from cbcl.vision.backbones.network import GPU_BATCH, Network
from cbcl.vision.decoding import Floats
from cbcl.vision.extraction import extract
from cbcl.vision.finding import find
from cbcl.vision.shards import embed_in_order

CORES_PER_MULTIPROCESSOR = 128  # of float32, since Ampere


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backbone", default="resnet50-keras")
    parser.add_argument("--jobs", type=int, default=8, help="processes")
    parser.add_argument("--compared", type=int, default=256, help="pictures for the processor")
    arguments = parser.parse_args()
    sources = [*find([arguments.folder])]
    on_gpu = cast(Backbone, load_backbone(arguments.backbone, device="cuda"))
    extract(on_gpu, sources[:GPU_BATCH])  # which loads it
    seconds, vectors = timed(on_gpu, sources)
    by_jobs, alike = timed_jobs(on_gpu, sources, arguments.jobs)
    assert (alike == vectors).all()
    operations = sum(count_operations(cast(Network, part)) for part in leaves(on_gpu))
    alone = time_network(on_gpu, len(sources))
    peak = peak_operations()
    print(f"{len(sources):,} pictures, {cores()} cores, {torch.cuda.get_device_name()}")
    for name, time in (
        ("from files to vectors, threads", seconds),
        (f"from files to vectors, {arguments.jobs} processes", by_jobs[1]),
        ("the same with their start", by_jobs[0]),
        ("the network alone", alone),
    ):
        rate = operations * len(sources) / time
        speed = f"{len(sources) / time:,.0f} pictures a second, {rate / 1e12:.1f} TFLOP/s"
        print(f"{name}: {time:.1f} s, {speed}, {rate / peak:.0%} of {peak / 1e12:.1f} (float32)")
    compared = sources[: arguments.compared]
    start = perf_counter()
    on_processor = cast(Backbone, load_backbone(arguments.backbone, device="cpu"))
    wanted = stacked(extract(on_processor, compared))
    slow = perf_counter() - start
    errors = np.linalg.norm(vectors[: len(wanted)] - wanted, axis=1)
    relative = errors / np.linalg.norm(wanted, axis=1)
    print(f"the processor: {len(compared) / slow:.0f} pictures a second")
    print(f"distance to its vectors, relative: at most {relative.max():.1e}")


def stacked(vectors: list[Floats | PictureError]) -> Floats:
    return np.stack([one for one in vectors if not isinstance(one, PictureError)])


def timed(backbone: Backbone, sources: list[Path]) -> tuple[float, Floats]:
    start = perf_counter()
    vectors = extract(backbone, sources)
    seconds = perf_counter() - start
    return seconds, stacked(vectors)


def timed_jobs(
    backbone: Backbone, sources: list[Path], jobs: int
) -> tuple[tuple[float, float], Floats]:
    """Return the seconds of a first run, which starts the processes, and of a second."""
    os.environ["CBCL_DEVICE"] = "cuda"  # theirs
    seconds = []
    for _ in range(2):
        start = perf_counter()
        pictures = [*embed_in_order(backbone, sources, n_jobs=jobs)]
        seconds.append(perf_counter() - start)
    vectors = [one if isinstance(one, PictureError) else one.vector for one in pictures]
    return (seconds[0], seconds[1]), stacked(vectors)


def time_network(backbone: Backbone, pictures: int) -> float:
    """Return the seconds that the networks take for so many pictures, without decoding."""
    total = 0.0
    for part in leaves(backbone):
        network = cast(Network, part)
        side = network.preprocessing.size
        crops = np.random.default_rng(0).integers(0, 256, (GPU_BATCH, side, side, 3), np.uint8)
        network._run_on_device(crops)
        start, repeats = perf_counter(), 40
        for _ in range(repeats):
            network._run_on_device(crops)
        total += (perf_counter() - start) / repeats / GPU_BATCH * pictures
    return total


def count_operations(network: Network) -> int:
    """Count the multiplications and additions of a picture's convolutions."""
    graph = shape_inference.infer_shapes(onnx.load_from_string(network.model)).graph
    shapes = {
        one.name: [d.dim_value for d in one.type.tensor_type.shape.dim] for one in graph.value_info
    }
    weights = {one.name: one.dims for one in graph.initializer}
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":
            _, *sides = shapes[node.output[0]]
            total += 2 * int(np.prod(sides)) * int(np.prod(weights[node.input[1]][1:]))
    return total


def peak_operations() -> float:
    """Return the float32 operations a second that the GPU's cores can do at their highest clock."""
    about = torch.cuda.get_device_properties(0)
    clock = about.clock_rate * 1e3 if hasattr(about, "clock_rate") else 1.98e9
    return float(about.multi_processor_count * CORES_PER_MULTIPROCESSOR * 2 * clock)


if __name__ == "__main__":
    main()
