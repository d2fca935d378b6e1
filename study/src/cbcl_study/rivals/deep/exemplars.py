"""Exemplars: which pictures of a class to keep (herding; Rebuffi et al., 2017, algorithm 4).

n pictures of a class, d features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BUDGET = 2_000  # pictures that iCaRL, EEIL and BiC keep of CIFAR-100


def herd(features: Tensor, count: int) -> Tensor:
    """Return at most so many rows of features of unit length, the best first.

    The k-th brings the mean of the first k as near as it can to the mean m of all: it has the least
    ‖m - (s + f) / k‖, s being the sum of those before. Since all f have one length, that is the
    largest f (k m - s).
    """
    features = features.float()
    mean, chosen = features.mean(dim=0), []
    total, taken = torch.zeros_like(mean), torch.zeros_like(features[:, 0])
    for k in range(1, min(count, len(features)) + 1):
        row = (features @ (k * mean - total) + taken).argmax(dim=0, keepdim=True)
        taken.index_fill_(0, row, -math.inf)
        total += features.index_select(0, row)[0]
        chosen.append(row)
    return torch.cat(chosen)


def floor_share(budget: int, t: int) -> int:
    """Return the pictures of each of t classes that a budget has room for."""
    if budget < t:
        raise ValueError(f"budget={budget} cannot hold {t} classes: each needs an exemplar.")
    return budget // t


def join(exemplars: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the pictures of all classes, and the number of each one's class."""
    numbers = [
        torch.full_like(of_class[:, 0, 0, 0], number, dtype=torch.int64)
        for number, of_class in enumerate(exemplars)
    ]
    return torch.cat(exemplars), torch.cat(numbers)


def with_exemplars(
    pictures: Tensor, numbers: Tensor, exemplars: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return pictures and numbers of classes, and those of exemplars after them."""
    if not exemplars:
        return pictures, numbers
    kept, of_kept = join(exemplars)
    return torch.cat([pictures, kept]), torch.cat([numbers, of_kept])
