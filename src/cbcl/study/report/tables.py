"""The paper's tables with our numbers beside them.

K as in the paper: the most centroids. What was not run is a dash, and a note below the table says what that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cbcl.study.learners import LEARNERS
from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import (
    DASH,
    MEASURES,
    Cell,
    Group,
    Records,
    Table,
    of_claim,
    stated,
)
from cbcl.study.report.explanations import measured
from cbcl.study.report.paper import ABLATION, BUDGETS, CLAIMS, ENOUGH, STATISTICS, Claim, Measure
from cbcl.study.report.paper import LEARNERS as HYBRIDS
from cbcl.study.report.scores import summary

CIFAR, MAIN = (
    "cifar100",
    "resnet50-keras",
)  # the data and the backbone of most of the paper's comparisons
LIMIT = BUDGETS[CIFAR]
SHOTS = (5, 10)
FEW = {"FLB": "flb", "FLB, well tuned": "probe", "NCM": "ncm", "CBCL": "cbcl"}
REDUCED = {"cbcl": "CBCL", "remove-centroids": "Remove-Centroids", "merge-evenly": "merged evenly"}
MORE = ("merge-evenly", "cbcl-rank")  # hybrids that have no row in the paper


class Kind(NamedTuple):
    """A column of the paper's few-shot results, and the backbones that we hold against it."""

    name: str
    data: str
    increment: int
    backbones: tuple[str, ...]


FEW_CIFAR = [
    Kind(f"{size} at a time", CIFAR, size, (MAIN,)) for size in STATISTICS[CIFAR].increments
]
FEW_OTHERS = [
    Kind(aggregate.DATA[data], data, 10, (MAIN, "efficientnet-lite0"))
    for data in ("caltech101", "cub200")
]


def named(
    method: str,
    measure: Measure,
    data: str,
    *,
    increment: int = 10,
    shots: int | None = None,
    where: str = "",
) -> Claim | None:
    """The first claim on these, if there is one."""
    wanted = (method, measure, data, increment, shots)
    for claim in CLAIMS:
        setting = claim.protocol
        there = (claim.method, claim.measure, setting.data, setting.increment, setting.shots)
        if there == wanted and claim.where.startswith(where):
            return claim
    return None


def unrun(claims: Iterable[Claim]) -> Iterator[str]:
    """A line on those of the claims that are not run here."""
    there = [
        f"{_whose(claim)}, {MEASURES[claim.measure]}: {stated(claim)} ({claim.where})"
        for claim in claims
        if claim.protocol.learner is None
    ]
    if there:
        yield f"The paper also has, not run here: {'; '.join(there)}."


def _whose(claim: Claim) -> str:
    return claim.what if claim.what.startswith(claim.method) else f"{claim.method}, {claim.what}"


def doubts(claims: Iterable[Claim | None]) -> Iterator[str]:
    """A line on each reason why some of the claims may not be what they are said to be."""
    whose: dict[str, list[str]] = {}
    for claim in claims:
        if claim is not None and claim.suspect:
            before = whose.setdefault(claim.suspect, [])
            is_named = any(text.startswith(claim.method) for text in before)
            before.append(stated(claim) if is_named else f"{claim.method} {stated(claim)}")
    for suspect, those in whose.items():
        yield f"On the paper's {', '.join(dict.fromkeys(those))}: {suspect}."


def cifar(records: Records) -> Table:
    """CIFAR-100 with all the data, CBCL beside nearest class mean."""
    wanted, rows = [], []
    for size in STATISTICS[CIFAR].increments:
        pair = [
            Cell(CIFAR, MAIN, learner, size, max_centroids=LIMIT) for learner in ("cbcl", "ncm")
        ]
        ours = [
            aggregate.mean(records, cell, score)
            for score in (aggregate.lasts, aggregate.averages)
            for cell in pair
        ]
        rows.append(
            [
                str(size),
                stated(named("CBCL", "last", CIFAR, increment=size)),
                *map(aggregate.spread, ours),
            ]
        )
        wanted += pair
    columns = (
        "classes at a time",
        "paper: CBCL, last",
        "CBCL, last",
        "NCM, last",
        "CBCL, average",
        "NCM, average",
    )
    beside = [claim for claim in CLAIMS if claim.where in ("section 4.3", "section 6.3")]
    caption = f"CIFAR-100, all the data, {MAIN}, K = {LIMIT}: accuracy (%) after the last increment and on the average"
    return Table(
        caption, columns, [Group(None, rows)], (*aggregate.notes(records, wanted), *unrun(beside))
    )


def few_shots(records: Records, kinds: Sequence[Kind], caption: str) -> Table:
    """Average incremental accuracy from a few vectors of each class."""
    methods = {
        name: one
        for name, one in FEW.items()
        if one in LEARNERS or aggregate.select(records, learner=one)
    }
    wanted: list[Cell] = []
    claims: list[Claim | None] = []
    groups = []
    for shots in SHOTS:
        rows = []
        for method, learner in methods.items():
            row = [method]
            for kind in kinds:
                limit = BUDGETS[kind.data]
                here = [
                    Cell(kind.data, one, learner, kind.increment, None, shots, limit)
                    for one in kind.backbones
                ]
                claims.append(
                    named(method, "average", kind.data, increment=kind.increment, shots=shots)
                )
                row.append(stated(claims[-1]))
                row += [
                    aggregate.spread(aggregate.mean(records, cell, aggregate.averages))
                    for cell in here
                ]
                wanted += here
            rows.append(row)
        groups.append(Group(f"{shots} shots", rows))
    columns = [f"{kind.name}: {one}" for kind in kinds for one in ("paper", *_ours(kind))]
    return Table(
        caption, ["method", *columns], groups, (*aggregate.notes(records, wanted), *doubts(claims))
    )


def _ours(kind: Kind) -> tuple[str, ...]:
    return kind.backbones if len(kind.backbones) > 1 else ("ours",)


def increments(records: Records, where: str, text: str, caption: str) -> Table:
    """A table by increments from where it is in the paper, and the averages and decreases that its text states."""
    theirs = [claim for claim in CLAIMS if claim.where == where]
    example = theirs[-1]
    data, backbones = example.protocol.data, example.protocol.ours
    pairs = [
        (of_claim(example, backbone), of_claim(example, backbone)._replace(learner="ncm"))
        for backbone in backbones
    ]
    wanted = [cell for pair in pairs for cell in pair]
    runs = [aggregate.behind(records, cell) for cell in wanted]
    rows, used = [], []
    for seen in sorted({claim.classes_seen or 0 for claim in theirs}):
        row = [claim for claim in theirs if claim.classes_seen == seen]  # FT, LWM, CBCL
        ours = [summary([measured(row[-1], run) for run in some]) for some in runs]
        rows.append([str(seen), *map(stated, row), *map(aggregate.spread, ours)])
    for measure in ("average", "drop"):
        there = [named(method, measure, data, where=text) for method in ("FT", "LWM", "CBCL")]
        ours = [summary([measured(example, run, measure) for run in some]) for some in runs]
        rows.append([MEASURES[measure], *map(stated, there), *map(aggregate.spread, ours)])
        used += there
    columns = ["classes", *(f"paper: {one}" for one in ("FT", "LWM", "CBCL"))]
    columns += [f"{learner}: {one}" for one in backbones for learner in ("CBCL", "NCM")]
    return Table(
        caption, columns, [Group(None, rows)], (*aggregate.notes(records, wanted), *doubts(used))
    )


def omegas(records: Records) -> Table:
    """FearNet's measures, CBCL beside nearest class mean."""
    claims = [claim for claim in CLAIMS if claim.where == "Table S1, FearNet"]
    theirs = {claim.measure: claim for claim in claims if claim.method == "FearNet"}
    groups, wanted = [], []
    for shots in (None, *SHOTS):
        rows = []
        for claim in claims:
            if claim.method == "CBCL" and claim.protocol.shots == shots:
                cell = of_claim(claim, MAIN)
                here = [cell, cell._replace(learner="ncm")]
                ours = [
                    summary([measured(claim, run) for run in aggregate.behind(records, one)])
                    for one in here
                ]
                there = [stated(None if shots else theirs[claim.measure]), stated(claim)]
                rows.append(
                    [MEASURES[claim.measure], *there, *(aggregate.spread(one, 3) for one in ours)]
                )
                wanted += here
        groups.append(Group(f"{shots} shots" if shots else "all the data", rows))
    beside = unrun(claim for claim in CLAIMS if claim.where == "section 6.2")
    setting = claims[0].protocol
    steps = f"{setting.base} classes and then {setting.increment} at a time"
    caption = f"FearNet's measures on CIFAR-100, {steps}, {MAIN}, K = {LIMIT}"
    columns = ("measure", "paper: FearNet", "paper: CBCL", "CBCL", "NCM")
    return Table(
        caption, columns, groups, (*aggregate.notes(records, wanted), *doubts(claims), *beside)
    )


def ablation(records: Records) -> Table:
    """One part of CBCL swapped at a time."""
    claims = [claim for claim in CLAIMS if claim.where == "Table 5, ablation"]
    backbones = {claim.method: claim.protocol.ours[0] for claim in claims}
    hybrids = [
        (method, backbones[method], stated(named(method, "average", CIFAR)), HYBRIDS[method])
        for method in ABLATION
    ]
    hybrids += [(learner, MAIN, DASH, learner) for learner in MORE]
    hybrids += [
        (learner, backbone, DASH, learner) for backbone, learner in _elsewhere(records, hybrids)
    ]
    rows, wanted = [], []
    for method, backbone, paper, learner in hybrids:
        cell = Cell(CIFAR, backbone, learner, max_centroids=LIMIT)
        found = [
            aggregate.spread(aggregate.mean(records, cell, score))
            for score in (aggregate.averages, aggregate.lasts)
        ]
        kept = [
            aggregate.mean(records, cell, score).mean
            for score in (aggregate.centroids, aggregate.megabytes)
        ]
        orders = str(len(aggregate.behind(records, cell)) or DASH)
        rows.append(
            [
                method,
                backbone,
                paper,
                *found,
                orders,
                aggregate.number(kept[0], 0),
                aggregate.number(kept[1]),
            ]
        )
        wanted.append(cell)
    columns = (
        "hybrid",
        "our backbone",
        "paper",
        "average",
        "after the last",
        "orders",
        "centroids",
        "megabytes",
    )
    caption = (
        f"Ablation on CIFAR-100, 10 classes at a time, K = {LIMIT}: accuracy (%) and what is kept"
    )
    ours = (
        f"{learner}, no row of the paper's: {aggregate.described(learner)}." for learner in MORE
    )
    text = (*aggregate.notes(records, wanted), *ours, *doubts(claims))
    return Table(caption, columns, [Group(None, rows)], text, heads=2)


def _elsewhere(
    records: Records, there: Iterable[tuple[str, str, str, str]]
) -> list[tuple[str, str]]:
    """Backbones other than the paper's, and the learners that were run on them."""
    runs = aggregate.select(records, data=CIFAR, increment=10, base=None, shots=None)
    pairs = {
        (run["run"]["backbone"], run["run"]["learner"])
        for run in runs
        if run["run"]["backbone"] != MAIN
    }
    return sorted(pairs - {(backbone, learner) for _, backbone, _, learner in there})


def limits(records: Records) -> list[int]:
    """The values of K that were run or that the paper speaks of."""
    runs = aggregate.select(records, data=CIFAR, backbone=MAIN, increment=10, base=None, shots=None)
    there = {run["run"]["max_centroids"] for run in runs if run["run"]["learner"] in REDUCED}
    return sorted(
        {LIMIT, ENOUGH, *(claim.protocol.max_centroids for claim in budget_claims()), *there}
        - {None}
    )


def budget_claims() -> list[Claim]:
    """What the paper states of average accuracy under a budget, with the backbone that it is compared at."""
    return [
        claim
        for claim in CLAIMS
        if claim.measure == "average"
        and claim.method in REDUCED.values()
        and claim.where.startswith(("Table 5", "sections 4.6"))
    ]


def reductions(records: Records) -> list[str]:
    """The ways to make room that are compared: the paper's two, and any other that was run with several budgets."""
    theirs = {claim.method for claim in budget_claims()}
    return [
        learner
        for learner, name in REDUCED.items()
        if name in theirs
        or len({run["run"]["max_centroids"] for run in aggregate.select(records, learner=learner)})
        > 1
    ]


def budgets(records: Records) -> Table:
    """Average incremental accuracy for every K."""
    stated_at = {(claim.method, claim.protocol.max_centroids): claim for claim in budget_claims()}
    learners = reductions(records)
    rows, wanted = [], []
    for limit in limits(records):
        here = [Cell(CIFAR, MAIN, learner, max_centroids=limit) for learner in learners]
        paper = [stated(stated_at.get((REDUCED[learner], limit))) for learner in learners[:2]]
        ours = [aggregate.mean(records, cell, aggregate.averages) for cell in here]
        kept = aggregate.mean(records, here[0], aggregate.centroids)
        gap = aggregate.signed(ours[0].mean - ours[1].mean)
        orders = str(min(one.n for one in ours) or DASH)
        rows.append(
            [
                str(limit),
                *paper,
                *map(aggregate.spread, ours),
                gap,
                orders,
                aggregate.number(kept.mean, 0),
            ]
        )
        wanted += here
    columns = [
        "K",
        *(f"paper: {REDUCED[one]}" for one in learners[:2]),
        *(REDUCED[one] for one in learners),
    ]
    columns += ["CBCL less Remove-Centroids", "orders", "centroids of CBCL"]
    beside = [claim for claim in CLAIMS if claim.measure == "megabytes"]
    caption = f"CIFAR-100 under memory budgets, 10 classes at a time, {MAIN}: average incremental accuracy (%)"
    text = (*aggregate.notes(records, wanted), *unrun(beside), *doubts(beside))
    return Table(caption, columns, [Group(None, rows)], text)
