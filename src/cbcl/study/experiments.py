"""The paper's experiments as runs: which learner, on which stream of which data, seen through which backbone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cbcl.study.learners import RADIUS_SCALES, learner_kind
from cbcl.study.records import Run
from cbcl.study.report.paper import BUDGETS

ORDERS = 10  # random orders of the classes, as in the paper
FEWER = 3  # orders for what the paper does not have
CLASSES = 100
MEMORIES = (3000, 5000, 7000, 9000)  # K of figure 5
SHOTS = (None, 5, 10)
USUAL = "radius-1.25"
FIXED = tuple(f"radius-{scale:g}" for scale in RADIUS_SCALES)

RESNET, LITE, VGG, WORDS = "resnet50-keras", "efficientnet-lite0", "vgg16", "visual-words"
ABLATION = ("trad-agg", "k-means", "remove-centroids", "single-centroid", "merge-evenly")
RANK = "cbcl-rank"  # with a budget there is one voter, and how votes are weighed does not matter
PEERS = ("knn", "slda", "ranpac", "probe")


def paper(orders: int = ORDERS) -> list[Run]:
    """Every experiment of the paper, each in so many orders, then what goes beyond it in fewer; none twice."""
    first = (
        run for seed in range(orders) for experiment in EXPERIMENTS for run in experiment(seed)
    )
    then = (
        run
        for seed in range(min(orders, FEWER))
        for experiment in BEYOND
        for run in experiment(seed)
    )
    return [*dict.fromkeys([*first, *then])]


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
    """One run a learner; the limit on centroids is for those to which it means something."""
    for name in learners:
        limit = max_centroids if learner_kind(name).budgeted else None
        yield Run(data, backbone, name, limit, increment, base, shots, classes, seed)


def increments(seed: int) -> Iterator[Run]:
    """CIFAR-100, 2, 5, 10 and 20 classes at a time, all data and few shots: figure 2, table 2."""
    for increment in (2, 5, 10, 20):
        for shots in SHOTS:
            learners = ("cbcl", "ncm", *(("flb",) if shots else ()))
            yield from runs(
                "cifar100",
                RESNET,
                learners,
                seed=seed,
                increment=increment,
                shots=shots,
                max_centroids=BUDGETS["cifar100"],
            )


def fearnet(seed: int) -> Iterator[Run]:
    """CIFAR-100, two classes and then one at a time: table S1."""
    for shots in SHOTS:
        yield from runs(
            "cifar100",
            RESNET,
            ("cbcl", "ncm"),
            seed=seed,
            increment=1,
            base=2,
            shots=shots,
            max_centroids=BUDGETS["cifar100"],
        )


def ablation(seed: int) -> Iterator[Run]:
    """CIFAR-100 with one part swapped at a time, other backbones among them, and little memory: table 5, figure 5."""
    limit = BUDGETS["cifar100"]
    yield from runs("cifar100", RESNET, ABLATION, seed=seed, max_centroids=limit)
    for backbone in (VGG, LITE):
        yield from runs("cifar100", backbone, ("cbcl", "ncm"), seed=seed, max_centroids=limit)
    for limit in MEMORIES:
        yield from runs(
            "cifar100", RESNET, ("cbcl", "remove-centroids"), seed=seed, max_centroids=limit
        )


def objects(seed: int) -> Iterator[Run]:
    """Caltech-101 and CUB-200, ten classes at a time, all data and few shots: tables 3 and 4, sections 4.4 and 4.5."""
    for data in ("caltech101", "cub200"):
        for backbone in (RESNET, LITE):
            for shots in SHOTS:
                learners = ("cbcl", "ncm", *(("flb",) if shots else FIXED))
                yield from runs(
                    data, backbone, learners, seed=seed, shots=shots, max_centroids=BUDGETS[data]
                )


def words(seed: int) -> Iterator[Run]:
    """Caltech-101 through visual words: table S2."""
    yield from runs(
        "caltech101", WORDS, ("cbcl", "ncm"), seed=seed, max_centroids=BUDGETS["caltech101"]
    )


def radii(seed: int) -> Iterator[Run]:
    """D fixed, to hold the tuned one against."""
    yield from _everywhere(FIXED, seed)
    limit = BUDGETS["cifar100"]
    yield from runs(
        "cifar100", RESNET, (USUAL,), seed=seed, increment=1, base=2, max_centroids=limit
    )


def peers(seed: int) -> Iterator[Run]:
    """What a user could pick instead."""
    yield from runs("cifar100", RESNET, (RANK,), seed=seed, max_centroids=BUDGETS["cifar100"])
    yield from _everywhere(PEERS, seed)


def _everywhere(learners: Iterable[str], seed: int) -> Iterator[Run]:
    others = [(data, backbone) for data in ("caltech101", "cub200") for backbone in (RESNET, LITE)]
    for data, backbone in [*others, ("cifar100", RESNET)]:
        for shots in SHOTS:
            yield from runs(
                data, backbone, learners, seed=seed, shots=shots, max_centroids=BUDGETS[data]
            )


EXPERIMENTS = (increments, fearnet, ablation, objects, words)
BEYOND = (radii, peers)
