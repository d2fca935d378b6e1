"""LwF-MC: learning without forgetting (Li and Hoiem, 2016) as iCaRL's paper has it, in one head.

b pictures, t outputs. No picture is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep.distillation import old_as_teacher, teacher_scores
from cbcl_study.rivals.deep.learner import Increment, PictureLearner, frozen
from cbcl_study.rivals.deep.networks import ResNet
from cbcl_study.rivals.deep.sampling import Crops
from cbcl_study.rivals.deep.training import Recipe

# Rebuffi et al. (2017), section 4 and their code. The rate belongs to a mean over all outputs.
RECIPE = Recipe(epochs=70, rate=2.0, drops=(49, 63), divisor=5.0, decay=1e-5)
OUTPUTS = 100  # from the start; those of classes to come are trained to be 0


class LwFMC(PictureLearner):
    """Sigmoids trained to be 1 for a picture's class, and for old classes as they were before.

    `outputs` are there from the start, and the loss is their mean; they grow when they are too few.
    """

    recipe = RECIPE
    last_relu = False

    def __init__(self, *, outputs: int = OUTPUTS, **options: Any) -> None:
        super().__init__(**options)
        self.outputs = outputs

    def _learn(self, increment: Increment) -> None:
        self._train(increment, increment.pictures, increment.numbers)

    def _train(self, increment: Increment, pictures: Tensor, numbers: Tensor) -> None:
        old = increment.old
        teacher = frozen(self._ready()) if old else None
        network = self._grow(max(self.outputs, increment.t))
        truth = torch.eye(network.head.out_features, device=self.device)[numbers]

        def loss(x: Tensor, rows: Tensor) -> Tensor:
            return self._loss(network, teacher, x, truth[rows], old)

        self._descend(Crops(pictures, self._mean()), loss, self.recipe)

    def _loss(
        self, network: ResNet, teacher: ResNet | None, x: Tensor, truth: Tensor, old: int
    ) -> Tensor:
        """Return the loss of iCaRL's algorithm 3, as a mean over pictures and all outputs.

        Old outputs are distilled on every picture, whatever its class.
        """
        scores = network(x)
        if teacher is None:
            return functional.binary_cross_entropy_with_logits(scores, truth)
        targets = old_as_teacher(truth, teacher_scores(teacher, x), old)
        return functional.binary_cross_entropy_with_logits(scores, targets)
