"""A multi-layer perceptron trained on all vectors so far, and the layers FearNet shares with it.

n vectors, d features, t classes. It needs torch, and uses a GPU where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from cbcl.method.arrays import Float32s
from cbcl_study.rivals.inputs import KeptExamples, as_vectors, check_width

EPOCHS = 20  # of the offline perceptron; from 15 to 60, held-out training vectors differ by a point
BLOCK = 4_096  # vectors to be answered at a time


class NetworkSettings(NamedTuple):
    """Layers and their training: FearNet's for CIFAR-100, as remembered from the paper."""

    hidden: tuple[int, ...] = (140, 130)  # units of each hidden layer
    rate: float = 2e-3  # of NAdam
    batch: int = 450
    dropout: float = 0.25  # share of a hidden layer's units that a step leaves out


CIFAR100_NETWORK = NetworkSettings()


class DenseLayer(NamedTuple):
    """A fully connected layer: x W + b."""

    weights: Tensor  # (inputs, outputs)
    biases: Tensor  # (outputs,)

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weights + self.biases


Layers: TypeAlias = list[DenseLayer]
Dropout: TypeAlias = Callable[[Tensor], Tensor]
# From layers in as many parts as are trained, and the rows of a batch, the mean loss.
BatchLoss: TypeAlias = Callable[[list[Layers], Tensor], Tensor]


class OfflineMLP:
    """FearNet's measure of what can be learned: its encoder and a softmax, on all vectors at once.

    It keeps every vector, and trains anew when it is next asked.

    >>> learner = OfflineMLP(epochs=20).partial_fit([[0.0, 9.0], [9.0, 0.0]], ["cup", "key"])
    >>> learner.predict([[1.0, 20.0], [20.0, 1.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(
        self,
        settings: NetworkSettings = CIFAR100_NETWORK,
        *,
        epochs: int = EPOCHS,
        seed: int = 0,
    ) -> None:
        self.settings, self.epochs, self.seed = settings, epochs, seed
        self.kept = KeptExamples()
        self.layers: Layers | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep these vectors and labels."""
        self.kept.add(X, y)
        self.layers = None
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        layers, vectors = self._trained_layers(), as_vectors(X)
        check_width(vectors, len(layers[0].weights))
        with torch.no_grad():
            blocks = on_device(vectors).split(BLOCK)
            numbers = [scores(layers, block).argmax(dim=1) for block in blocks]
        answers: NDArray[Any] = self.kept.classes[torch.cat(numbers).cpu().numpy()]
        return answers

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        layers = self._trained_layers()
        return {**self.kept.arrays(), **layer_arrays("layer", layers)}

    def _trained_layers(self) -> Layers:
        if self.layers is None:
            vectors, generator = on_device(self.kept.vectors()), new_generator(self.seed)
            numbers = torch.from_numpy(self.kept.numbers).to(vectors.device)
            hidden, drop = self.settings.hidden, dropout(self.settings.dropout, generator)
            layers = new_layers([vectors.shape[1], *hidden, len(self.kept.classes)], generator)

            def loss(parts: list[Layers], rows: Tensor) -> Tensor:
                return functional.cross_entropy(
                    scores(parts[0], vectors[rows], drop), numbers[rows]
                )

            [self.layers] = train(
                [layers], [1.0], loss, len(vectors), self.epochs, self.settings, generator
            )
        return self.layers


def on_device(vectors: Float32s) -> Tensor:
    """Return the vectors on the GPU, if there is one, scaled to unit length as in the paper."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return functional.normalize(torch.tensor(vectors, device=device))


def new_generator(*seeds: int) -> torch.Generator:
    """Return a generator on the device whose numbers depend on all the seeds."""
    generator = torch.Generator("cuda" if torch.cuda.is_available() else "cpu")
    return generator.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))


def new_layers(sizes: Sequence[int], generator: torch.Generator) -> Layers:
    """Return layers from each size to the next: Glorot's uniform weights, and biases of 0.

    FearNet's paper has biases of 1. A decoder that begins with them is far from vectors of unit
    length, and in two classes' 1,000 epochs its pseudo-examples stay easily told from real ones.
    """
    layers = []
    for inputs, outputs in pairwise(sizes):
        limit = math.sqrt(6.0 / (inputs + outputs))
        weights = torch.empty(inputs, outputs, device=generator.device)
        weights.uniform_(-limit, limit, generator=generator)
        layers.append(DenseLayer(weights, torch.zeros(outputs, device=generator.device)))
    return layers


def dropout(share: float, generator: torch.Generator) -> Dropout:
    """Return a function that sets a share of the units to 0, and scales up the others."""

    def drop(units: Tensor) -> Tensor:
        kept = torch.empty_like(units).bernoulli_(1.0 - share, generator=generator)
        return units * kept.div_(1.0 - share)

    return drop


def keep(units: Tensor) -> Tensor:
    """Return all units, as is done when nothing is trained."""
    return units


def activations(layers: Iterable[DenseLayer], x: Tensor, drop: Dropout = keep) -> list[Tensor]:
    """Return the output of each layer, an exponential linear unit; dropout is for the next one."""
    outputs: list[Tensor] = []
    for layer in layers:
        outputs.append(functional.elu(layer(drop(outputs[-1]) if outputs else x)))
    return outputs


def scores(layers: Layers, x: Tensor, drop: Dropout = keep) -> Tensor:
    """Return the outputs of a last, linear layer on hidden ones: (n, t)."""
    *hidden, last = layers
    return last(drop(activations(hidden, x, drop)[-1]))


def train(
    parts: Sequence[Layers],
    shares: Sequence[float],
    loss: BatchLoss,
    n: int,
    epochs: int,
    settings: NetworkSettings,
    generator: torch.Generator,
) -> list[Layers]:
    """Return layers trained by NAdam on the loss of n rows, each part at its share of the rate.

    A part is one vector to the optimiser: a step is a few operations, however many layers there
    are, which is what decides the time of small networks on a GPU.
    """
    vectors = [
        torch.cat([one.flatten() for layer in part for one in layer]).requires_grad_()
        for part in parts
    ]
    rates = [{"params": [v], "lr": settings.rate * s} for v, s in zip(vectors, shares, strict=True)]
    optimiser = torch.optim.NAdam(rates)
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator, device=generator.device)
        for rows in order.split(settings.batch):
            optimiser.zero_grad()
            loss([*map(_shaped_like, parts, vectors)], rows).backward()
            optimiser.step()
    return [*map(_shaped_like, parts, [vector.detach() for vector in vectors])]


def _shaped_like(layers: Layers, vector: Tensor) -> Layers:
    """Return layers of these shapes that are made of a vector."""
    shapes = [one.shape for layer in layers for one in layer]
    pieces = vector.split([shape.numel() for shape in shapes])
    arrays = [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    return [DenseLayer(*pair) for pair in zip(arrays[::2], arrays[1::2], strict=True)]


def layer_arrays(name: str, layers: Layers) -> dict[str, NDArray[Any]]:
    """Return the arrays of layers by name, for a learner's state."""
    arrays: dict[str, NDArray[Any]] = {}
    for number, layer in enumerate(layers):
        arrays |= tensor_arrays(layer._asdict(), f"{name}-{number}-")
    return arrays


def tensor_arrays(tensors: dict[str, Tensor], prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return copies of tensors as arrays."""
    return {prefix + name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}
