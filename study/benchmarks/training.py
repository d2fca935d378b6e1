"""Training a ResNet-32: pictures a second by our kernels, beside torch's own operations.

    python study/benchmarks/training.py [--teacher] [--epochs 20]

Both take the same steps on the same random pictures, in one run: batches of 128, augmented on the
device, bfloat16 on a GPU, a recorded step replayed. With a teacher, each step also asks a frozen
network, as iCaRL does. Needs the extra torch; without a GPU there is only torch's own, and a small
network.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep import fused
from cbcl_study.rivals.deep.networks import BLOCKS_32, ResNet
from cbcl_study.rivals.deep.sampling import Crops, mean_picture
from cbcl_study.rivals.deep.training import Recipe, train

CUDA = torch.cuda.is_available()
PICTURES = 7_000 if CUDA else 256
BLOCKS = BLOCKS_32 if CUDA else (1, 1, 1)
ICARL_PICTURES = 70 * (10 * 5_000 + 9 * 2_000)  # that ten increments of ten classes show it


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--teacher", action="store_true", help="Ask a frozen network, too.")
    parser.add_argument("--epochs", type=int, default=20 if CUDA else 1)
    options = parser.parse_args()
    can_compute, rates = fused.can_compute, {}
    for name in ("torch", *(["ours"] if CUDA else [])):
        fused.can_compute = can_compute if name == "ours" else lambda *_: False
        rates[name] = pictures_a_second(options.epochs, options.teacher)
        print(
            f"{name:>6}: {rates[name]:10,.0f} pictures/s, {rates[name] / rates['torch']:.2f} times "
            f"torch; iCaRL's ten increments in {ICARL_PICTURES / rates[name]:.0f} s"
        )


if __name__ == "__main__":
    main()
