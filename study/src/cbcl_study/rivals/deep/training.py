"""The training loop that all networks share: stochastic gradient descent with momentum.

On a GPU, one step is recorded as a CUDA graph and replayed: making the views, the network forward
and backward, and the update are then one launch, and the processor has time for other runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from cbcl_study.rivals.deep.sampling import PictureViews

EAGER_STEPS = 3  # before a step is recorded: libraries choose their algorithms in the first
# From pictures (b, 3, h, w) and their numbers (b,), the mean loss.
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Recipe(NamedTuple):
    """How long to train, and at what rate."""

    epochs: int
    rate: float
    drops: tuple[int, ...]  # epochs after which the rate is divided
    divisor: float
    decay: float  # of weights
    batch: int = 128
    momentum: float = 0.9
    noise: tuple[float, float] | None = None  # variance of a gradient's noise; power of its fall

    def rate_in(self, epoch: int) -> float:
        """Return the rate in an epoch, the first of which is 0.

        >>> recipe = Recipe(70, 2.0, (49, 63), 5.0, 1e-5)
        >>> recipe.rate_in(48), recipe.rate_in(49)
        (2.0, 0.4)
        """
        return self.rate / self.divisor ** sum(epoch >= drop for drop in self.drops)


def train(
    network: nn.Module, views: PictureViews, loss: Loss, recipe: Recipe, generator: torch.Generator
) -> None:
    """Train a network in place, and leave it in evaluation mode.

    A last batch that is not full is left out; the next epoch draws another order.
    """
    network.train()
    _Descent(network, views, loss, recipe, generator).run()
    network.eval()


class _Descent:
    def __init__(
        self,
        network: nn.Module,
        views: PictureViews,
        loss: Loss,
        recipe: Recipe,
        generator: torch.Generator,
    ) -> None:
        self.views, self.loss, self.recipe, self.generator = views, loss, recipe, generator
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        device = generator.device
        self.rate = torch.tensor(recipe.rate, device=device)
        self.optimiser = torch.optim.SGD(
            self.parameters,
            lr=self.rate,
            momentum=recipe.momentum,
            weight_decay=recipe.decay,
            fused=True,
        )
        self.drawn = views.draw(generator)
        self.batch = min(recipe.batch, len(self.drawn))
        self.steps = len(self.drawn) // self.batch  # an epoch
        self.places = torch.arange(self.batch, device=device)
        self.noise = torch.zeros((), device=device)  # standard deviation
        self.total = torch.zeros((), device=device)  # of losses

    def run(self) -> None:
        on_gpu = self.generator.device.type == "cuda"
        walk = self._replay if on_gpu else self._walk
        walk()
        if not torch.isfinite(self.total):
            raise ArithmeticError("training diverged: the loss is not finite.")

    def _walk(self) -> None:
        for epoch in range(self.recipe.epochs):
            self._begin(epoch)
            for _ in range(self.steps):
                self._step()

    def _replay(self) -> None:
        stream, graph = torch.cuda.Stream(), None
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            left = EAGER_STEPS
            for epoch in range(self.recipe.epochs):
                self._begin(epoch)
                for _ in range(self.steps):
                    if graph is not None:
                        graph.replay()
                        continue
                    self._step()
                    left -= 1
                    if not left:
                        graph = self._record(stream)
        torch.cuda.current_stream().wait_stream(stream)

    def _record(self, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        if self.recipe.noise:
            graph.register_generator_state(self.generator)
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, stream=stream):
            self._step()
        return graph

    def _begin(self, epoch: int) -> None:
        """Draw an epoch's views, in the place of the last ones."""
        if epoch:
            self.drawn.copy_(self.views.draw(self.generator))
        self.places.copy_(torch.arange(self.batch, device=self.places.device))
        self.rate.fill_(self.recipe.rate_in(epoch))
        if self.recipe.noise:
            variance, power = self.recipe.noise
            self.noise.fill_((variance / (1 + epoch) ** power) ** 0.5 / self.batch)

    def _step(self) -> None:
        drawn = self.drawn[self.places]
        self.places += self.batch
        self.optimiser.zero_grad(set_to_none=True)
        with half_precision(self.generator.device):
            loss = self.loss(self.views.make(drawn), drawn[:, 0])
        loss.backward()
        if self.recipe.noise:
            self._add_noise()
        self.optimiser.step()
        self.total += loss.detach()

    def _add_noise(self) -> None:
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        noise = torch.empty(sum(map(Tensor.numel, gradients)), device=self.noise.device)
        noise.normal_(generator=self.generator).mul_(self.noise)
        parts = noise.split([*map(Tensor.numel, gradients)])
        torch._foreach_add_(gradients, [*map(_shaped, parts, gradients)])


def _shaped(numbers: Tensor, like: Tensor) -> Tensor:
    """Return the numbers in the shape and the layout of a tensor."""
    return numbers.as_strided(like.shape, like.stride())


def half_precision(device: torch.device) -> torch.autocast:
    """Compute convolutions and products in bfloat16 on a GPU; the CPU keeps float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
