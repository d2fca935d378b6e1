"""Speed of networks on a GPU: embedding a folder of pictures, and training a ResNet-32.

    python study/benchmarks/gpu.py embedding cifar100/ --backbone resnet50-keras
    python study/benchmarks/gpu.py training --teacher

`embedding`: against the arithmetic limit of the GPU, and against a processor. Prints seconds from
files to vectors, decoding included, on threads and on --jobs processes, and alone for the network;
the share of the GPU's float32 peak; and how far vectors are from those of the processor.

`training`: pictures a second by our kernels, beside torch's own operations. Both take the same
steps on the same random pictures, in one run: batches of 128, augmented on the device, bfloat16 on
a GPU, a recorded step replayed. With a teacher, each step also asks a frozen network, as iCaRL
does. Without a GPU there is only torch's own, and a small network.

Both need the extra torch.
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
from contest import parser_of
from onnx import shape_inference
from torch import Tensor
from torch.nn import functional

from cbcl import PictureError, load_backbone
from cbcl.machine import cores
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.combined import leaves
from cbcl.vision.backbones.network import GPU_BATCH, Network
from cbcl.vision.decoding import Floats
from cbcl.vision.extraction import extract
from cbcl.vision.finding import find
from cbcl.vision.shards import embed_in_order
from cbcl_study.rivals.deep import fused
from cbcl_study.rivals.deep.networks import BLOCKS_32, ResNet
from cbcl_study.rivals.deep.sampling import Crops, mean_picture
from cbcl_study.rivals.deep.training import Recipe, train

CORES_PER_MULTIPROCESSOR = 128  # of float32, since Ampere
CUDA = torch.cuda.is_available()
PICTURES = 7_000 if CUDA else 256
BLOCKS = BLOCKS_32 if CUDA else (1, 1, 1)
ICARL_PICTURES = 70 * (10 * 5_000 + 9 * 2_000)  # that ten increments of ten classes show it


def embedding(arguments: argparse.Namespace) -> None:
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


def pictures_a_second(epochs: int, teacher: bool) -> float:
    device = "cuda" if CUDA else "cpu"
    generator = torch.Generator(device).manual_seed(0)
    pictures = torch.randint(
        0, 256, (PICTURES, 32, 32, 3), dtype=torch.uint8, device=device, generator=generator
    )
    labels = torch.randint(0, 100, (PICTURES,), device=device, generator=generator)
    truth = functional.one_hot(labels, 100).float()
    network = ResNet(100, generator, blocks=BLOCKS, last_relu=False)
    old = ResNet(100, generator, blocks=BLOCKS, last_relu=False).eval()

    def loss(x: Tensor, rows: Tensor) -> Tensor:
        targets = truth[rows]
        if teacher:
            with torch.no_grad():
                targets = torch.cat([old(x)[:, :50].sigmoid(), targets[:, 50:]], dim=1)
        return functional.binary_cross_entropy_with_logits(network(x), targets)

    views = Crops(pictures, mean_picture(pictures))
    recipe = Recipe(epochs=1, rate=2.0, drops=(), divisor=1.0, decay=1e-5)
    train(network, views, loss, recipe, generator)  # kernels are compiled
    begun = perf_counter()
    train(network, views, loss, recipe._replace(epochs=epochs), generator)
    if CUDA:
        torch.cuda.synchronize()
    return epochs * (PICTURES // recipe.batch * recipe.batch) / (perf_counter() - begun)


def training(arguments: argparse.Namespace) -> None:
    can_compute = fused.can_compute
    rates = {}
    for name in ("torch", *(["ours"] if CUDA else [])):
        fused.can_compute = can_compute if name == "ours" else lambda *_: False
        rates[name] = pictures_a_second(arguments.epochs, arguments.teacher)
        print(
            f"{name:>6}: {rates[name]:10,.0f} pictures/s, {rates[name] / rates['torch']:.2f} times "
            f"torch; iCaRL's ten increments in {ICARL_PICTURES / rates[name]:.0f} s"
        )


def main() -> None:
    parser = parser_of(__doc__)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("embedding", help="pictures of a folder to vectors")
    one.add_argument("folder", type=Path)
    one.add_argument("--backbone", default="resnet50-keras")
    one.add_argument("--jobs", type=int, default=8, help="processes")
    one.add_argument("--compared", type=int, default=256, help="pictures for the processor")
    one.set_defaults(measure=embedding)
    other = parts.add_parser("training", help="a ResNet-32 on random pictures")
    other.add_argument("--teacher", action="store_true", help="ask a frozen network, too")
    other.add_argument("--epochs", type=int, default=20 if CUDA else 1)
    other.set_defaults(measure=training)
    arguments = parser.parse_args()
    arguments.measure(arguments)


if __name__ == "__main__":
    main()
