"""BiC: large scale incremental learning (Wu et al., 2019): distillation, and bias correction.

b pictures, t classes, s of them old.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep.distillation import soft_cross_entropy, teacher_scores
from cbcl_study.rivals.deep.exemplars import BUDGET, floor_share, join
from cbcl_study.rivals.deep.learner import Increment, PictureLearner, classification, frozen
from cbcl_study.rivals.deep.networks import ResNet
from cbcl_study.rivals.deep.sampling import Crops
from cbcl_study.rivals.deep.training import Loss, Recipe

# Wu et al. (2019), section 5.1 and their code.
RECIPE = Recipe(epochs=250, rate=0.1, drops=(100, 150, 200), divisor=10.0, decay=2e-4)
HELD_OUT = 10  # one in so many exemplars, to fit the correction with
STEPS = 200  # of L-BFGS at most; two numbers need far fewer


class Correction(NamedTuple):
    """Scores o of the newest classes become q = alpha o + beta; others stay."""

    old: int = 0  # classes before the newest ones
    alpha: float = 1.0
    beta: float = 0.0

    def apply(self, scores: Tensor) -> Tensor:
        """Return corrected scores: (b, t)."""
        return correct(scores, *self)


def correct(scores: Tensor, old: int, alpha: float | Tensor, beta: float | Tensor) -> Tensor:
    """Return scores of which those after the old ones are alpha o + beta: (b, t)."""
    return torch.cat([scores[:, :old], alpha * scores[:, old:] + beta], dim=1)


class BiC(PictureLearner):
    """Distillation and cross-entropy by the share of old classes; then two numbers are fitted."""

    recipe = RECIPE

    def __init__(self, *, budget: int = BUDGET, **options: Any) -> None:
        super().__init__(**options)
        self.budget, self.correction = budget, Correction()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        return {**super().state(), "correction": np.array(self.correction[1:])}

    def _learn(self, increment: Increment) -> None:
        room = floor_share(self.budget, increment.t)
        if increment.old:
            self._learn_more(increment)
        else:
            network = self._grow(increment.t)
            views = Crops(increment.pictures, self._mean())
            loss = classification(network, increment.numbers)
            self._descend(views, loss, self.recipe)
        self._renew_exemplars(increment, room)

    def _learn_more(self, increment: Increment) -> None:
        teacher, network = frozen(self._ready()), self._grow(increment.t)
        trained, held = self._split(increment)
        pictures, numbers = join(trained)
        loss = distillation(network, teacher, self.correction, numbers, increment)
        self._descend(Crops(pictures, self._mean()), loss, self.recipe)
        # Stage 2: the network is frozen, in evaluation mode.
        pictures, numbers = join(held)
        with torch.no_grad():
            scores = network.scores(self._features(pictures))
        self.correction = fit_correction(scores, numbers, increment.old)

    def _split(self, increment: Increment) -> tuple[list[Tensor], list[Tensor]]:
        """Return pictures of each class to train with, and a few of each to fit the correction.

        Of each class as many are held out as of an old one: a tenth of its exemplars.
        """
        classes = [
            increment.pictures[increment.numbers == number]
            for number in range(increment.old, increment.t)
        ]
        share = max(1, min(map(len, self.exemplars)) // HELD_OUT)
        trained, held = [], []
        for pictures in [*self.exemplars, *classes]:
            order = torch.randperm(len(pictures), generator=self.generator, device=self.device)
            count = min(share, len(pictures) - 1)  # the only picture of a class is trained with
            held.append(pictures[order[:count]])
            trained.append(pictures[order[count:]])
        return trained, held

    def _answers(self, pictures: Tensor) -> Tensor:
        return self.correction.apply(self._scores(pictures)).argmax(dim=1)

    def _checkpoint(self) -> dict[str, Any]:
        return {**super()._checkpoint(), "correction": [*self.correction]}

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        super()._restore(checkpoint)
        self.correction = Correction(*checkpoint["correction"])


def distillation(
    network: ResNet, teacher: ResNet, correction: Correction, numbers: Tensor, increment: Increment
) -> Loss:
    """Return the loss lambda L_d + (1 - lambda) L_c, lambda = s / t.

    The teacher's scores have its own correction, of the classes that were its newest.
    """
    old, share = increment.old, increment.old / increment.t

    def loss(x: Tensor, rows: Tensor) -> Tensor:
        scores = network(x)
        taught = correction.apply(teacher_scores(teacher, x))
        kept = soft_cross_entropy(scores[:, :old], taught)
        return share * kept + (1.0 - share) * functional.cross_entropy(scores, numbers[rows])

    return loss


def fit_correction(scores: Tensor, numbers: Tensor, old: int) -> Correction:
    """Return the correction of least cross-entropy, which is convex in its two numbers."""
    if not len(scores):
        return Correction(old)
    scores, numbers = scores.double().cpu(), numbers.cpu()
    alpha = torch.ones((), dtype=torch.float64, requires_grad=True)
    beta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [alpha, beta],
        max_iter=STEPS,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = functional.cross_entropy(correct(scores, old, alpha, beta), numbers)
        loss.backward()
        return loss

    optimiser.step(closure)
    return Correction(old, alpha.item(), beta.item())
