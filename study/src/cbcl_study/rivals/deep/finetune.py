"""Fine-tuning (FT): a softmax over all classes seen, trained on the new ones alone.

It forgets by construction: outputs of old classes are trained, too, and only downwards. Baselines
that freeze them are others.
"""

from __future__ import annotations

from cbcl_study.rivals.deep.learner import Increment, PictureLearner, classification
from cbcl_study.rivals.deep.sampling import Crops
from cbcl_study.rivals.deep.training import Recipe

# The schedule of iCaRL (Rebuffi et al., 2017) at the rate of He et al. (2016) for a softmax.
RECIPE = Recipe(epochs=70, rate=0.1, drops=(49, 63), divisor=5.0, decay=1e-5)


class FineTuning(PictureLearner):
    """Cross-entropy on the pictures of each increment, from the last one's weights on."""

    recipe = RECIPE

    def _learn(self, increment: Increment) -> None:
        network = self._grow(increment.t)
        views = Crops(increment.pictures, self._mean())
        loss = classification(network, increment.numbers)
        self._descend(views, loss, self.recipe)
