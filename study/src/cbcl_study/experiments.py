"""The paper's experiments, and ours, as runs: learners on streams of data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

from cbcl_study.learners import FIXED_RADIUS_SCALES, VOTERS, learner_kind
from cbcl_study.paper import BUDGETS, ORDERS, OWN_RESNET34
from cbcl_study.records import Run
from cbcl_study.streams import Protocol

TRAINED_ORDERS = 3  # of networks, which take minutes a run on a GPU
CLASSES = 100
FIGURE_BUDGETS = (3000, 5000, 7000, 9000)  # K of figure 5
SHOTS = (None, 5, 10)

CIFAR = "cifar100"
CALTECH = "caltech101"
CUB = "cub200"
OFFICIAL_CUB = "cub200-official"

MAIN = "resnet50-keras"
LITE = "efficientnet-lite0"
VGG = "vgg16"
WORDS = "visual-words"
PIXELS = "pixels"  # the backbone of networks that are trained on the pictures themselves
OBJECTS = [(data, backbone) for data in (CALTECH, CUB) for backbone in (MAIN, LITE)]
# The backbone of the paper's comparison on CIFAR-100, and one that `pip install` brings.
PAIRS = {CIFAR: MAIN, CALTECH: LITE, CUB: LITE}
FIXED_RADII = tuple(f"radius-{scale:g}" for scale in FIXED_RADIUS_SCALES)
# With a budget there is one voter: these three are then the same, bit for bit, and run once.
VOTES = ("cbcl", "cbcl-rank", "single-centroid")
ABLATION = ("trad-agg", "k-means", "remove-centroids", "merge-evenly")
PEERS = ("knn", "slda", "ranpac", "probe")
DEFAULT_AND_PEERS = ("discriminant", "slda", "slda-roots", "ranpac", "ranpac-10000")
NETWORKS = ("ft", "lwf-mc", "lwm", "icarl", "eeil", "bic")  # trained a few classes at a time
JOINT = ("joint", "joint-resnet34")  # trained on all classes at once
FEW_SHOT_LEARNERS = ("ncm", "cbcl", "slda", "slda-roots", "discriminant")


def paper(orders: int = ORDERS, *, beyond: bool = False) -> list[Run]:
    """Return the paper's experiments in so many orders, no run twice: its learner and baselines.

    `beyond` adds ours, and the rivals that are trained; those in fewer orders.
    """
    runs: dict[Run, None] = {}
    for seed in range(orders):
        for experiment, most in (EXPERIMENTS if beyond else PAPER).items():
            if seed < most:
                runs |= dict.fromkeys(experiment(seed))
    return [*runs]


def runs(
    data: str,
    backbone: str,
    learners: Iterable[str],
    *,
    seed: int,
    max_centroids: int | None = None,
    **protocol: Any,
) -> Iterator[Run]:
    """Yield one run a learner; the limit on centroids is for those to which it means something.

    Learners of pictures are given pixels, whatever the backbone. The rest are fields of `Protocol`.
    """
    fields = Protocol(**protocol)._asdict()
    for name in learners:
        kind = learner_kind(name)
        limit = max_centroids if kind.budgeted else None
        place = PIXELS if kind.pictures else backbone
        yield Run(data, place, name, limit, seed=seed, **fields)


def _cifar(
    learners: Iterable[str], seed: int, backbone: str = MAIN, **protocol: Any
) -> Iterator[Run]:
    protocol = {"max_centroids": BUDGETS[CIFAR]} | protocol
    return runs(CIFAR, backbone, learners, seed=seed, **protocol)


def increments(seed: int) -> Iterator[Run]:
    """CIFAR-100, 2, 5, 10 and 20 classes at a time, all data and few shots: figure 2, table 2."""
    for backbone, increment in product((MAIN, OWN_RESNET34), (2, 5, 10, 20)):
        for shots in SHOTS:
            learners = ("cbcl", "ncm", *(("flb",) if shots else ()))
            yield from _cifar(learners, seed, backbone, increment=increment, shots=shots)


def fearnet(seed: int) -> Iterator[Run]:
    """CIFAR-100, two classes and then one at a time: table S1; and fifty classes first."""
    for shots in SHOTS:
        yield from _cifar(("cbcl", "ncm"), seed, increment=1, base=2, shots=shots)
    yield from _cifar(("cbcl", "ncm"), seed, increment=1, base=50)


def ablation(seed: int) -> Iterator[Run]:
    """CIFAR-100 with one part or the backbone swapped, and small budgets: table 5, figure 5."""
    yield from _cifar(ABLATION, seed)
    for backbone in (VGG, LITE):
        yield from _cifar(("cbcl", "ncm"), seed, backbone)
    for limit in FIGURE_BUDGETS:
        yield from _cifar(("cbcl", "remove-centroids"), seed, max_centroids=limit)


def objects(seed: int) -> Iterator[Run]:
    """Caltech-101 and CUB-200, all data and few shots: tables 3 and 4, sections 4.4 and 4.5."""
    for data, backbone in OBJECTS:
        for shots in SHOTS:
            learners = ("cbcl", "ncm", *(("flb",) if shots else FIXED_RADII))
            limit = BUDGETS[data]
            yield from runs(data, backbone, learners, seed=seed, shots=shots, max_centroids=limit)


def words(seed: int) -> Iterator[Run]:
    """Caltech-101 through visual words: table S2."""
    limit = BUDGETS[CALTECH]
    yield from runs(CALTECH, WORDS, ("cbcl", "ncm"), seed=seed, max_centroids=limit)


def default(seed: int) -> Iterator[Run]:
    """CBCL's default and its nearest peers, in as many orders as the paper's learner."""
    for data, backbone in PAIRS.items():
        for shots in SHOTS:
            yield from runs(data, backbone, DEFAULT_AND_PEERS, seed=seed, shots=shots)
    yield from _cifar(("discriminant",), seed, increment=1, base=50)


def radii(seed: int) -> Iterator[Run]:
    """CBCL with fixed radii, to compare the tuned one with."""
    yield from _everywhere(FIXED_RADII, seed)
    yield from _cifar(("radius-1.25",), seed, increment=1, base=2)


def peers(seed: int) -> Iterator[Run]:
    """Learners that a user could pick instead."""
    yield from _everywhere(PEERS, seed)


def vote(seed: int) -> Iterator[Run]:
    """CBCL without a budget, where more than one may vote: n tuned, and 1 to 10."""
    learners = (*VOTES, *(f"voters-{n}" for n in VOTERS))
    for data, backbone in PAIRS.items():
        for shots in SHOTS:
            yield from runs(data, backbone, learners, seed=seed, shots=shots)


def few_shot_sessions(seed: int) -> Iterator[Run]:
    """Few-shot class-incremental learning: many classes, then a few of five pictures each."""
    five: dict[str, Any] = {"shots": 5, "whole_base": True, "seed": seed}
    for backbone in (MAIN, LITE):
        yield from runs(CIFAR, backbone, FEW_SHOT_LEARNERS, base=60, increment=5, **five)
    birds: dict[str, Any] = {"base": 100, "increment": 10, "classes": 200}
    yield from runs(OFFICIAL_CUB, LITE, FEW_SHOT_LEARNERS, **birds, **five)


def networks(seed: int) -> Iterator[Run]:
    """Rivals trained on CIFAR-100, ten classes at a time and all at once: figure 2, section 4.3."""
    yield from runs(CIFAR, PIXELS, NETWORKS, seed=seed)
    for shots in SHOTS:
        yield from runs(CIFAR, PIXELS, JOINT, seed=seed, increment=CLASSES, shots=shots)


def network_increments(seed: int) -> Iterator[Run]:
    """Rivals trained on CIFAR-100, 2, 5 and 20 classes at a time: figure 2."""
    for increment in (2, 5, 20):
        yield from runs(CIFAR, PIXELS, NETWORKS, seed=seed, increment=increment)


def usual_order(seed: int) -> Iterator[Run]:
    """CBCL and the rivals on CIFAR-100, ten classes at a time, in the one order of many papers."""
    learners = ("cbcl", "discriminant", "ncm", *NETWORKS)
    yield from _cifar(learners, seed, usual_order=True)


def fearnet_rivals(seed: int) -> Iterator[Run]:
    """FearNet, and the perceptron trained on all vectors at once that it is compared with: S1."""
    for base in (2, 50):
        yield from runs(CIFAR, MAIN, ("fearnet",), seed=seed, increment=1, base=base)
    yield from runs(CIFAR, MAIN, ("mlp",), seed=seed, increment=CLASSES)


def _everywhere(learners: Iterable[str], seed: int) -> Iterator[Run]:
    for data, backbone in [*OBJECTS, (CIFAR, MAIN)]:
        for shots in SHOTS:
            limit = BUDGETS[data]
            yield from runs(data, backbone, learners, seed=seed, shots=shots, max_centroids=limit)


# Experiments, and the most orders of each.
PAPER: dict[Callable[[int], Iterator[Run]], int] = dict.fromkeys(
    (increments, fearnet, ablation, objects, words), ORDERS
)
EXPERIMENTS: dict[Callable[[int], Iterator[Run]], int] = {
    **PAPER,
    **dict.fromkeys((default, radii, peers, vote, few_shot_sessions), ORDERS),
    **dict.fromkeys((networks, fearnet_rivals), TRAINED_ORDERS),
    **dict.fromkeys((network_increments, usual_order), 1),
}
