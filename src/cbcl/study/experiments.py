"""The paper's experiments as runs: learners on streams of data sets, seen through backbones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cbcl.study.learners import FIXED_RADIUS_SCALES, learner_kind
from cbcl.study.records import Run
from cbcl.study.report.default import PAIRS
from cbcl.study.report.paper import BUDGETS, ORDERS

EXTRA_ORDERS = 3  # for what the paper does not have
CLASSES = 100
FIGURE_BUDGETS = (3000, 5000, 7000, 9000)  # K of figure 5
SHOTS = (None, 5, 10)

RESNET, LITE, VGG, WORDS = "resnet50-keras", "efficientnet-lite0", "vgg16", "visual-words"
PIXELS = "pixels"
FIXED_RADII = tuple(f"radius-{scale:g}" for scale in FIXED_RADIUS_SCALES)
ABLATION = ("trad-agg", "k-means", "remove-centroids", "single-centroid", "merge-evenly")
RANK = "cbcl-rank"  # with a budget there is one voter, and how votes are weighed does not matter
PEERS = ("knn", "slda", "ranpac", "probe")
DEFAULT_AND_PEERS = ("discriminant", "slda", "slda-roots", "ranpac")


def paper(orders: int = ORDERS) -> list[Run]:
    """Return the paper's experiments, then what goes beyond it in fewer orders; no run twice."""
    runs: dict[Run, None] = {}
    for experiments, seeds in ((EXPERIMENTS, orders), (BEYOND, min(orders, EXTRA_ORDERS))):
        for seed in range(seeds):
            for experiment in experiments:
                runs |= dict.fromkeys(experiment(seed))
    return [*runs]


def runs(
    data: str,
    backbone: str,
    learners: Iterable[str],
    *,
    seed: int,
    increment: int = 10,
    base: int | None = None,
    shots: int | None = None,
    classes: int = CLASSES,
    max_centroids: int | None = None,
) -> Iterator[Run]:
    """Yield one run a learner; the limit on centroids is for those to which it means something.

    Learners of pictures are given pixels, whatever the backbone.
    """
    for name in learners:
        kind = learner_kind(name)
        limit = max_centroids if kind.budgeted else None
        through = PIXELS if kind.pictures else backbone
        yield Run(data, through, name, limit, increment, base, shots, classes, seed)


def _cifar(
    learners: Iterable[str], seed: int, backbone: str = RESNET, **protocol: Any
) -> Iterator[Run]:
    protocol = {"max_centroids": BUDGETS["cifar100"]} | protocol
    return runs("cifar100", backbone, learners, seed=seed, **protocol)


def increments(seed: int) -> Iterator[Run]:
    """CIFAR-100, 2, 5, 10 and 20 classes at a time, all data and few shots: figure 2, table 2."""
    for increment in (2, 5, 10, 20):
        for shots in SHOTS:
            learners = ("cbcl", "ncm", *(("flb",) if shots else ()))
            yield from _cifar(learners, seed, increment=increment, shots=shots)


def fearnet(seed: int) -> Iterator[Run]:
    """CIFAR-100, two classes and then one at a time: table S1."""
    for shots in SHOTS:
        yield from _cifar(("cbcl", "ncm"), seed, increment=1, base=2, shots=shots)


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
    limit = BUDGETS["caltech101"]
    yield from runs("caltech101", WORDS, ("cbcl", "ncm"), seed=seed, max_centroids=limit)


def default(seed: int) -> Iterator[Run]:
    """CBCL's default and its nearest peers, in as many orders as the paper's learner."""
    for data, backbone in PAIRS.items():
        for shots in SHOTS:
            yield from runs(data, backbone, DEFAULT_AND_PEERS, seed=seed, shots=shots)


def radii(seed: int) -> Iterator[Run]:
    """CBCL with fixed radii, to compare the tuned one with."""
    yield from _everywhere(FIXED_RADII, seed)
    yield from _cifar(("radius-1.25",), seed, increment=1, base=2)


def peers(seed: int) -> Iterator[Run]:
    """Learners that a user could pick instead."""
    yield from _cifar((RANK,), seed)
    yield from _everywhere(PEERS, seed)


def _everywhere(learners: Iterable[str], seed: int) -> Iterator[Run]:
    for data, backbone in [*OBJECTS, ("cifar100", RESNET)]:
        for shots in SHOTS:
            limit = BUDGETS[data]
            yield from runs(data, backbone, learners, seed=seed, shots=shots, max_centroids=limit)


OBJECTS = [(data, backbone) for data in ("caltech101", "cub200") for backbone in (RESNET, LITE)]
EXPERIMENTS = (increments, fearnet, ablation, objects, words, default)
BEYOND = (radii, peers)
