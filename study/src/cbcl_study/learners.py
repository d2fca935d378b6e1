"""The learners of the study by name, each made for a seed and a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from numpy.typing import ArrayLike, NDArray

from cbcl.errors import DataError, first_line
from cbcl.method.centroids.model import keep_radius
from cbcl.method.centroids.tuning import MAX_TUNED_VOTERS
from cbcl_study.ablations import (
    agglomerative,
    fixed,
    k_means,
    merge_evenly,
    rank_vote,
    remove,
    voters,
)
from cbcl_study.hybrid import Hybrid
from cbcl_study.paper import FLB
from cbcl_study.rivals.lda import StreamingLDA
from cbcl_study.rivals.linear import FewShotBaseline, LinearProbe
from cbcl_study.rivals.logistic import JointLogistic
from cbcl_study.rivals.ranpac import RandomProjectionRidge
from cbcl_study.statistical import StatisticalLearner

NEIGHBOURS = 10
VOTERS = range(1, MAX_TUNED_VOTERS + 1)
# Fixed radii to compare with the tuned one; an infinite one would be nearest class mean, "ncm".
FIXED_RADIUS_SCALES = (1.5, 1.25, 1.1, 1.0, 0.75, 0.0)
LOGISTIC = "logistic"  # followed by a penalty
# The best is picked on the test pictures. Weaker ones cannot be solved in float32.
LOGISTIC_PENALTIES = (3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)


class Learner(Protocol):
    """A learner of vectors and labels, a few classes at a time, that labels vectors."""

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> object: ...

    def predict(self, X: ArrayLike) -> NDArray[Any]: ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that it would have to save to go on."""


class LearnerKind(NamedTuple):
    """A learner in words, and how to make it from a seed and a budget."""

    words: str
    make: Callable[[int, int | None], Learner]
    budgeted: bool = True
    pictures: bool = False  # learn from pixels, not from vectors


def _hybrid(words: str, **parts: Any) -> LearnerKind:
    def make(seed: int, limit: int | None) -> Learner:
        return Hybrid(seed=seed, max_centroids=limit, **parts)

    return LearnerKind(words, make)


def _unbudgeted(words: str, make: Callable[[int], Learner]) -> LearnerKind:
    return LearnerKind(words, lambda seed, _: make(seed), budgeted=False)


def _voting(n: int, seed: int) -> Learner:
    return Hybrid(choose=voters(n), seed=seed)


def _logistic(penalty: float) -> LearnerKind:
    return _unbudgeted(
        f"joint logistic regression on all data so far, solved, L2 penalty {penalty:g}",
        lambda _: JointLogistic(penalty=penalty),
    )


def _needing_torch(words: str, module: str, name: str, **options: Any) -> LearnerKind:
    """Return a learner of a module that is only imported, with torch, when one is made."""

    def make(seed: int, _: int | None) -> Learner:
        try:
            kind = getattr(import_module(f"cbcl_study.rivals.{module}"), name)
        except ImportError as error:
            advice = f'pip install "cbcl[torch]" ({first_line(error)})'
            raise DataError(f"the learner {name}", "needs the extra torch", advice) from error
        learner: Learner = kind(seed=seed, **options)
        return learner

    pictures = module.startswith("deep.")
    return LearnerKind(words, make, budgeted=False, pictures=pictures)


LEARNERS = {
    "discriminant": _unbudgeted(
        "CBCL's default: the discriminant of each class's statistics",
        lambda _: StatisticalLearner(),
    ),
    "cbcl": _hybrid("CBCL as in the paper, by vote: D and n chosen by itself"),
    "cbcl-rank": _hybrid(
        "CBCL with the vote of the authors' published code; with a budget, that is CBCL itself",
        vote=rank_vote,
    ),
    "single-centroid": _hybrid(
        "CBCL with one voter; with a budget, that is CBCL itself, and without, voters-1",
        choose=voters(1),
    ),
    **{
        f"voters-{n}": _unbudgeted(
            f"CBCL without a budget, by vote of the {n} nearest: D chosen by itself",
            partial(_voting, n),
        )
        for n in VOTERS
    },
    "trad-agg": _hybrid(
        "CBCL with traditional agglomerative clustering, as many centroids",
        cluster=agglomerative,
    ),
    "k-means": LearnerKind(
        "CBCL with k-means, as many centroids",
        lambda seed, limit: Hybrid(cluster=k_means(seed), max_centroids=limit, seed=seed),
    ),
    "remove-centroids": _hybrid("CBCL that removes centroids to make room", shrink=remove),
    "merge-evenly": _hybrid(
        "CBCL whose k-means counts each centroid once to make room", shrink=merge_evenly
    ),
    "ncm": _unbudgeted(
        "nearest class mean",
        lambda seed: Hybrid(choose=fixed(math.inf, 1), seed=seed),
    ),
    "knn": _unbudgeted(
        f"{NEIGHBOURS} nearest neighbours, by 1 / distance",
        lambda seed: Hybrid(choose=fixed(0.0, NEIGHBOURS), seed=seed),
    ),
    **{
        f"radius-{scale:g}": _hybrid(
            f"CBCL with D at {scale:g} times the vectors' spread",
            choose=fixed(scale, 1),
            widen=keep_radius,
        )
        for scale in FIXED_RADIUS_SCALES
    },
    "flb": _unbudgeted(
        "the paper's few-shot baseline: a linear layer, trained on all data so far",
        lambda seed: FewShotBaseline(**FLB, seed=seed),
    ),
    "probe": _unbudgeted(
        "a well-tuned linear layer, trained on all data so far", lambda seed: LinearProbe(seed=seed)
    ),
    **{f"{LOGISTIC}-{penalty:g}": _logistic(penalty) for penalty in LOGISTIC_PENALTIES},
    "slda": _unbudgeted(
        "streaming linear discriminant analysis, its shrinkage estimated", lambda _: StreamingLDA()
    ),
    "slda-roots": _unbudgeted(
        "streaming linear discriminant analysis of square roots, scaled to unit length, likewise",
        lambda _: StreamingLDA(power=0.5),
    ),
    "ranpac": _unbudgeted(
        "random projection to 2,000 and ridge regression",
        lambda seed: RandomProjectionRidge(seed=seed),
    ),
    "ranpac-10000": _unbudgeted(
        "random projection to 10,000 and ridge regression",
        lambda seed: RandomProjectionRidge(10_000, seed=seed),
    ),
    "ft": _needing_torch(
        "fine-tuning: a network trained on the newest classes", "deep.finetune", "FineTuning"
    ),
    "lwf-mc": _needing_torch("LwF-MC: a network that keeps its old outputs", "deep.lwf", "LwFMC"),
    "lwm": _needing_torch("LwM: LwF-MC that keeps its attention", "deep.lwm", "LwM"),
    "icarl": _needing_torch(
        "iCaRL: 2,000 exemplars and the nearest of their means", "deep.icarl", "ICaRL"
    ),
    "icarl-hybrid1": _needing_torch(
        "iCaRL that answers by its network's outputs", "deep.icarl", "ICaRL", hybrid1=True
    ),
    "eeil": _needing_torch("EEIL: 2,000 exemplars and balanced fine-tuning", "deep.eeil", "EEIL"),
    "bic": _needing_torch("BiC: 2,000 exemplars and a bias correction", "deep.bic", "BiC"),
    "joint": _needing_torch("a ResNet-32 trained on all pictures so far", "deep.joint", "Joint"),
    "joint-resnet34": _needing_torch(
        "a ResNet-34 trained on all pictures so far", "deep.joint", "Joint", deep=34
    ),
    "fearnet": _needing_torch(
        "FearNet: recent vectors, an autoencoder that rehearses, and a chooser between them",
        "fearnet",
        "FearNet",
    ),
    "mlp": _needing_torch(
        "FearNet's offline perceptron, trained on all data so far",
        "mlp",
        "OfflineMLP",
    ),
}


def learner_kind(name: str) -> LearnerKind:
    """Return a learner by name.

    >>> learner_kind("nmc")
    Traceback (most recent call last):
    ValueError: there is no learner 'nmc': there are discriminant, cbcl, ...
    """
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}: there are {', '.join(LEARNERS)}.")
    return LEARNERS[name]


def logistic_penalty(name: str) -> float | None:
    """Return the penalty in the name of a logistic regression; None: it is another learner.

    >>> logistic_penalty("logistic-0.03"), logistic_penalty("ncm")
    (0.03, None)
    """
    kind, _, penalty = name.partition("-")
    return float(penalty) if kind == LOGISTIC and penalty else None
