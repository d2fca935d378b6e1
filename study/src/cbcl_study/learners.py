"""The learners of the study by name, each made for a seed and a budget; and those of others."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import ArrayLike, NDArray

from cbcl.errors import DataError, first_line
from cbcl.method.centroids.tuning import MAX_TUNED_VOTERS
from cbcl.recognition.labels import find_like
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
GROUP = "cbcl.learners"  # of entry points
METHODS = ("partial_fit", "predict", "state")


class Learner(Protocol):
    """A learner of vectors and labels, a few classes at a time, that labels vectors.

    One of another package is a class that is called with `seed=`, a number from which all that it
    draws must follow. X is float32, (n, d). With the attribute `pictures = True` it is uint8,
    (n, 3072): each vector is a picture of 32 by 32, its rows from the top, each pixel red, green,
    blue from 0 to 255. Labels are strings, whatever they look like. One that also has `save(path)`
    and `load(path)` goes on where a killed run was.
    """

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> object:
        """Learn an increment, of new classes or of some that are known, and keep none of its data.

        y is an array of strings, (n,). The arrays are the learner's own: it may change them.
        """

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return one label for each vector, of those that were learned.

        They are strings as in y, in a list or an array of one dimension.
        """

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, of numbers or strings, that it would have to save to go on.

        The record counts their bytes. It is called after each increment, and its time counts as
        learning: work that `partial_fit` put off is done here.
        """


class LearnerKind(NamedTuple):
    """A learner in words, and how to make it from a seed and a budget."""

    words: str
    make: Callable[[int, int | None], Learner]
    budgeted: bool = True
    pictures: bool = False  # learn from pixels, not from vectors
    digest: str | None = None  # SHA-256 of the file of a learner of another package


def _hybrid(words: str, *, budgeted: bool = True, **parts: Any) -> LearnerKind:
    def make(seed: int, limit: int | None) -> Learner:
        return Hybrid(seed=seed, max_centroids=limit if budgeted else None, **parts)

    return LearnerKind(words, make, budgeted)


def _unbudgeted(words: str, make: Callable[[int], Learner]) -> LearnerKind:
    return LearnerKind(words, lambda seed, _: make(seed), budgeted=False)


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
            advice = f"pip install torch ({first_line(error)})"
            raise DataError(f"the learner {name}", "needs PyTorch", advice) from error
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
        f"voters-{n}": _hybrid(
            f"CBCL without a budget, by vote of the {n} nearest: D chosen by itself",
            budgeted=False,
            choose=voters(n),
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
    "ncm": _hybrid("nearest class mean", budgeted=False, choose=fixed(math.inf, 1)),
    "knn": _hybrid(
        f"{NEIGHBOURS} nearest neighbours, by 1 / distance",
        budgeted=False,
        choose=fixed(0.0, NEIGHBOURS),
    ),
    **{
        f"radius-{scale:g}": _hybrid(
            f"CBCL with D at {scale:g} times the vectors' spread",
            choose=fixed(scale, 1),
            widen=None,
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


@cache
def learner_kind(name: str) -> LearnerKind:
    """Return a learner by its name, or one of another package by `module:Class`.

    >>> learner_kind("nmc")
    Traceback (most recent call last):
    ValueError: there is no learner 'nmc': did you mean 'ncm'? `cbcl bench list` lists them.
    """
    if name in LEARNERS:
        return LEARNERS[name]
    kind = _load_plugin(name)

    def make(seed: int, _: int | None) -> Learner:
        learner: Learner = kind(seed=seed)
        return learner

    words = (inspect.getdoc(kind) or name).partition("\n")[0]
    digest = sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
    return LearnerKind(words, make, False, getattr(kind, "pictures", False), digest)


def plugin_names() -> list[str]:
    """Return the names of learners of other packages that are installed."""
    return sorted(entry_points(group=GROUP).names)


def _load_plugin(name: str) -> type[Any]:
    """Return the class of a learner, which has what the study asks of one."""
    own = [EntryPoint(name, name, GROUP)] if ":" in name else []
    for point in own or entry_points(group=GROUP, name=name):
        if "" not in sys.path:  # as for `python -m`: a module beside one's data
            sys.path.append("")
        try:
            found: type[Any] = point.load()
        except (Exception, SystemExit) as error:  # of another package: it may be any
            problem = f"cannot be loaded from {point.value}: {first_line(error)}"
            raise DataError(f"learner {name!r}", problem) from error
        if problem := _find_fault(found):
            raise DataError(f"learner {name!r}", problem, "see docs/bench.md")
        return found
    near = " or ".join(map(repr, find_like(name, [*LEARNERS, *plugin_names()])))
    advice = f"did you mean {near}?" if near else "give a name, or module:Class of your own."
    raise ValueError(f"there is no learner {name!r}: {advice} `cbcl bench list` lists them.")


def _find_fault(found: Any) -> str:
    """Return why something is no class of a learner; empty: it is one."""
    if not isinstance(found, type):
        return "is no class"
    missing = [method for method in METHODS if not callable(getattr(found, method, None))]
    if missing:
        return f"has no method {', '.join(missing)}"
    try:
        inspect.signature(found).bind(seed=0)
    except TypeError as error:
        return f"cannot be called with seed=0 alone: {error}"
    return ""


def logistic_penalty(name: str) -> float | None:
    """Return the penalty in the name of a logistic regression; None: it is another learner.

    >>> logistic_penalty("logistic-0.03"), logistic_penalty("ncm")
    (0.03, None)
    """
    kind, _, penalty = name.partition("-")
    return float(penalty) if kind == LOGISTIC and penalty else None
