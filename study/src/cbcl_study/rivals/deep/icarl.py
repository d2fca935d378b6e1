"""iCaRL (Rebuffi et al., 2017): LwF-MC with exemplars, and the nearest mean of exemplars.

n pictures, d features, t classes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep.exemplars import BUDGET, join, with_exemplars
from cbcl_study.rivals.deep.learner import Increment
from cbcl_study.rivals.deep.lwf import LwFMC


class ICaRL(LwFMC):
    """LwF-MC's recipe and loss on new pictures and exemplars; ceil(budget / t) of each class.

    `hybrid1` answers with the network's outputs instead, as the paper's ablation of that name.
    """

    def __init__(self, *, budget: int = BUDGET, hybrid1: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.budget, self.hybrid1 = budget, hybrid1
        self.means: Tensor | None = None  # (t, d), of the exemplars; made when it is needed

    def _learn(self, increment: Increment) -> None:
        pictures, numbers = with_exemplars(increment.pictures, increment.numbers, self.exemplars)
        self._train(increment, pictures, numbers)
        self._renew_exemplars(increment, math.ceil(self.budget / increment.t))
        self.means = None

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        super()._restore(checkpoint)
        self.means = None

    def _answers(self, pictures: Tensor) -> Tensor:
        if self.hybrid1:
            return super()._answers(pictures)
        if self.means is None:
            self.means = self._class_means()
        # Algorithm 1: all being of unit length, the nearest has the largest product.
        return (self._unit_features(pictures) @ self.means.T).argmax(dim=1)

    def _class_means(self) -> Tensor:
        """Return the mean of each class's exemplars and their mirror images: (t, d).

        Features are of unit length before, and means are after.
        """
        pictures, _ = join(self.exemplars)
        features = self._unit_features(pictures) + self._unit_features(pictures.flip(2))
        parts = features.split([*map(len, self.exemplars)])
        return functional.normalize(torch.stack([part.sum(dim=0) for part in parts]))
