"""EEIL: end-to-end incremental learning (Castro et al., 2018).

b pictures, t classes. A head is the outputs of one increment's classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep.distillation import soft_cross_entropy, teacher_scores
from cbcl_study.rivals.deep.exemplars import BUDGET, floor_share, join, with_exemplars
from cbcl_study.rivals.deep.learner import Increment, PictureLearner, frozen
from cbcl_study.rivals.deep.networks import ResNet
from cbcl_study.rivals.deep.sampling import TwelvefoldViews
from cbcl_study.rivals.deep.training import Recipe

# Castro et al. (2018), section 5; the first model as their code has it. The noise is added to the
# sum of a batch's gradients, not to their mean.
NOISE = (0.3, 0.55)
FIRST = Recipe(100, 0.1, (25, 50, 75), 10.0, 1e-4, noise=NOISE)
LATER = Recipe(40, 0.1, (10, 20, 30), 10.0, 1e-4, noise=NOISE)
BALANCED = Recipe(30, 0.01, (10, 20), 10.0, 1e-4, noise=NOISE)


class Teacher(NamedTuple):
    """A network as it was, and the heads to keep as they were in it."""

    network: ResNet
    first: int  # output of the first head
    sizes: list[int]  # outputs of each head

    def distil(self, scores: Tensor, x: Tensor) -> Tensor:
        """Return the sum of L_D over heads (equation 3), each a softmax of its own."""
        end = self.first + sum(self.sizes)
        ours = scores[:, self.first : end].split(self.sizes, dim=1)
        taught = teacher_scores(self.network, x)[:, self.first : end].split(self.sizes, dim=1)
        return torch.stack([*map(soft_cross_entropy, ours, taught)]).sum()


class EEIL(PictureLearner):
    """Cross-entropy over all classes and distillation a head; then both on a balanced set."""

    first, later, balanced = FIRST, LATER, BALANCED

    def __init__(self, *, budget: int = BUDGET, **options: Any) -> None:
        super().__init__(**options)
        self.budget = budget

    def _learn(self, increment: Increment) -> None:
        room = floor_share(self.budget, increment.t)
        if increment.old:
            self._learn_more(increment)
        else:
            self._grow(increment.t)
            self._train(self.first, increment.pictures, increment.numbers)
        self._renew_exemplars(increment, room)

    def _learn_more(self, increment: Increment) -> None:
        before = Teacher(frozen(self._ready()), 0, self.sizes)
        network = self._grow(increment.t)
        pictures, numbers = with_exemplars(increment.pictures, increment.numbers, self.exemplars)
        self._train(self.later, pictures, numbers, before)
        # Stage 2: as many pictures of each new class as of each old one; the new head is kept, too.
        room = floor_share(self.budget, increment.old)
        pictures, numbers = join([*self.exemplars, *self._choose(increment, room)])
        unbalanced = Teacher(frozen(network), increment.old, [increment.t - increment.old])
        self._train(self.balanced, pictures, numbers, before, unbalanced)

    def _train(self, recipe: Recipe, pictures: Tensor, numbers: Tensor, *teachers: Teacher) -> None:
        network = self._ready()

        def loss(x: Tensor, rows: Tensor) -> Tensor:
            scores = network(x)
            total = functional.cross_entropy(scores, numbers[rows])
            for teacher in teachers:  # equation (1): L_C + sum over heads of L_D
                total = total + teacher.distil(scores, x)
            return total

        self._descend(TwelvefoldViews(pictures, self._mean()), loss, recipe)
