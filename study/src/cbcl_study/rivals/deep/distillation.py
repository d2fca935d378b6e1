"""Distillation: losses that keep a network's old outputs as a teacher's.

b pictures, t outputs, the first s of them old.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cbcl_study.rivals.deep.networks import ResNet

TEMPERATURE = 2.0  # of EEIL and BiC


def teacher_scores(teacher: ResNet, x: Tensor) -> Tensor:
    """Return a teacher's scores, which no gradient leads to: (b, t)."""
    with torch.no_grad():
        scores: Tensor = teacher(x)
    return scores


def old_as_teacher(truth: Tensor, scores: Tensor, old: int) -> Tensor:
    """Return targets of sigmoids: the teacher's for old outputs, 0 or 1 for all others: (b, t)."""
    return torch.cat([scores[:, :old].sigmoid(), truth[:, old:]], dim=1)


def soft_cross_entropy(scores: Tensor, taught: Tensor) -> Tensor:
    """Return -mean sum p log q, p and q being softmaxes of a teacher's scores and of ours, by T."""
    p = (taught / TEMPERATURE).softmax(dim=1)
    return -(p * (scores / TEMPERATURE).log_softmax(dim=1)).sum(dim=1).mean()
