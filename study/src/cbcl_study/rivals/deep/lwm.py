"""LwM: learning without memorizing (Dhar et al., 2019): LwF-MC, and attention kept as it was.

b pictures, c maps of h x w, t outputs. No picture is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cbcl_study.rivals.deep.distillation import old_as_teacher
from cbcl_study.rivals.deep.lwf import LwFMC
from cbcl_study.rivals.deep.networks import ResNet

# The paper gives neither; with 1 and 0, LwM is LwF-MC.
BETA, GAMMA = 1.0, 1.0  # weights of distillation and of attention


class LwM(LwFMC):
    """LwF-MC's sigmoids, its distillation weighed by beta, and gamma times attention distillation.

    Its losses are sums over outputs, here divided by the number of outputs to go with LwF-MC's
    rate.
    """

    def __init__(self, *, beta: float = BETA, gamma: float = GAMMA, **options: Any) -> None:
        super().__init__(**options)
        self.beta, self.gamma = beta, gamma

    def _loss(
        self, network: ResNet, teacher: ResNet | None, x: Tensor, truth: Tensor, old: int
    ) -> Tensor:
        """Return L_C + beta L_D + gamma L_AD, by the number of outputs."""
        maps = network.maps(x)
        scores = network.scores(pooled(maps))
        if teacher is None:
            return functional.binary_cross_entropy_with_logits(scores, truth)
        with torch.no_grad():
            old_maps = teacher.maps(x)
            old_scores = teacher.scores(pooled(old_maps))[:, :old]
        top = old_scores.argmax(dim=1)  # one old class a picture, the same for both networks
        weights = torch.ones_like(truth[0])
        weights[:old] = self.beta
        targets = old_as_teacher(truth, old_scores, old)
        loss = functional.binary_cross_entropy_with_logits(scores, targets, weights)
        kept = attention_distance(attention(network, maps, top), attention(teacher, old_maps, top))
        return loss + self.gamma / scores.shape[1] * kept


def pooled(maps: Tensor) -> Tensor:
    """Return the mean of each map: (b, c)."""
    return maps.float().mean(dim=(2, 3))


def attention(network: ResNet, maps: Tensor, top: Tensor) -> Tensor:
    """Return a Grad-CAM for one class a picture, flattened: Q = ReLU(sum_k w_k A_k), (b, h w).

    w_k is the mean over places of d score / d A_k. A score being linear in the means of maps, that
    is the head's weight of map k by h w, of which the common factor does not matter here. The
    weights carry no gradient; the maps do.
    """
    weights = network.head.weight.detach()[top]  # (b, c)
    weighted = weights.unsqueeze(2).unsqueeze(3) * maps.float()
    return weighted.sum(dim=1).relu().flatten(1)


def attention_distance(q: Tensor, old_q: Tensor) -> Tensor:
    """Return L_AD, the mean of ‖Q_t / ‖Q_t‖ - Q_t-1 / ‖Q_t-1‖‖_1 over pictures."""
    difference = functional.normalize(q) - functional.normalize(old_q)
    return difference.abs().sum(dim=1).mean()
