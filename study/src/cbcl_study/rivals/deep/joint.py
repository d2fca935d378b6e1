"""Joint training: a network trained from scratch on all pictures so far, the upper bound."""

from __future__ import annotations

from typing import Any

from cbcl_study.rivals.deep.exemplars import join
from cbcl_study.rivals.deep.learner import Increment, PictureLearner, classification
from cbcl_study.rivals.deep.networks import BLOCKS_32, BLOCKS_34, WIDTHS_32, WIDTHS_34, ResNet
from cbcl_study.rivals.deep.sampling import Crops, mean_picture
from cbcl_study.rivals.deep.training import Recipe

# He et al. (2016), section 4.2: 64,000 steps of 128. Their decay of 1e-4 is of the squared weights.
RECIPE = Recipe(epochs=160, rate=0.1, drops=(80, 120), divisor=10.0, decay=2e-4)
NETWORKS = {32: (BLOCKS_32, WIDTHS_32), 34: (BLOCKS_34, WIDTHS_34)}


class Joint(PictureLearner):
    """Cross-entropy on all pictures, which it keeps; trained anew when it is asked for more.

    `deep` is 32 or 34, the network's layers.
    """

    recipe = RECIPE

    def __init__(self, *, deep: int = 32, **options: Any) -> None:
        if deep not in NETWORKS:
            raise ValueError(f"deep={deep!r} is none of {', '.join(map(str, NETWORKS))}.")
        blocks, widths = NETWORKS[deep]
        super().__init__(**{"blocks": blocks, "widths": widths, **options})

    def _learn(self, increment: Increment) -> None:
        for number in range(increment.old, increment.t):
            self.exemplars.append(increment.pictures[increment.numbers == number])
        self.network = None

    def _ready(self) -> ResNet:
        if self.network is None and self.exemplars:
            self._train()
        return super()._ready()

    def _train(self) -> None:
        """Train a new network; the generator begins anew, whenever that happens."""
        self.generator.manual_seed(self.seed)
        pictures, numbers = join(self.exemplars)
        self.mean = mean_picture(pictures)
        network = self._grow(len(self.exemplars))
        loss = classification(network, numbers)
        self._descend(Crops(pictures, self.mean), loss, self.recipe)
