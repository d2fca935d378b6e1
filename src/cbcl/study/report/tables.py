"""The paper's tables with our numbers beside them.

K as in the paper: the largest number of centroids. A number that was not run is a dash, and a note
below the table says which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import (
    DASH,
    DATA,
    MEASURES,
    Records,
    RowGroup,
    RunGroup,
    Table,
    describe_learner,
    format_claim,
    format_mean,
    format_number,
    format_spread,
    group_of,
    mean_of,
    runs_of,
)
from cbcl.study.report.explanations import measure_run
from cbcl.study.report.paper import (
    BUDGETS,
    CLAIMS,
    LEARNERS,
    STATISTICS,
    UNREDUCED,
    Claim,
    Measure,
    claims_at,
    find_claims,
)
from cbcl.study.report.scores import Summary, summary

CIFAR, MAIN_BACKBONE = "cifar100", "resnet50-keras"  # of most of the paper's comparisons
CIFAR_BUDGET = BUDGETS[CIFAR]
SHOTS = (5, 10)
FEW_SHOT_METHODS = {"FLB": "flb", "FLB, well tuned": "probe", "NCM": "ncm", "CBCL": "cbcl"}
REDUCTIONS = {
    "cbcl": "CBCL",
    "remove-centroids": "Remove-Centroids",
    "merge-evenly": "merged evenly",
}
EXTRA_HYBRIDS = ("merge-evenly", "cbcl-rank")  # that have no row in the paper
INCREMENT_METHODS = ("FT", "LWM", "CBCL")


class FewShotColumn(NamedTuple):
    """A column of the paper's few-shot results, and the backbones that we compare with it."""

    name: str
    data: str
    increment: int
    backbones: tuple[str, ...]


FEW_CIFAR = [
    FewShotColumn(f"{size} at a time", CIFAR, size, (MAIN_BACKBONE,))
    for size in STATISTICS[CIFAR].increments
]
FEW_OTHERS = [
    FewShotColumn(DATA[data], data, 10, (MAIN_BACKBONE, "efficientnet-lite0"))
    for data in ("caltech101", "cub200")
]


def find_claim(method: str, measure: Measure, data: str, **where: Any) -> Claim | None:
    """Return the first claim on these, at ten classes at a time unless said, if there is one."""
    return next(iter(find_claims(method, measure, data, **{"increment": 10, **where})), None)


def unrun_notes(claims: Iterable[Claim]) -> Iterator[str]:
    """Yield a line on those of the claims that are not run here."""
    unrun = []
    for claim in claims:
        if claim.protocol.learner is None:
            named = claim.what.startswith(claim.method)
            what = claim.what if named else f"{claim.method}, {claim.what}"
            measure = MEASURES[claim.measure]
            unrun.append(f"{what}, {measure}: {format_claim(claim)} ({claim.where})")
    if unrun:
        yield f"The paper also has, not run here: {'; '.join(unrun)}."


def suspect_notes(claims: Iterable[Claim | None]) -> Iterator[str]:
    """Yield a line for each reason to doubt some of the claims, with the numbers it concerns."""
    numbers: dict[str, dict[str, list[str]]] = {}  # by reason and method
    for claim in claims:
        if claim is not None and claim.suspect:
            methods = numbers.setdefault(claim.suspect, {})
            methods.setdefault(claim.method, []).append(format_claim(claim))
    for suspect, methods in numbers.items():
        stated = (f"{method} {', '.join(dict.fromkeys(of))}" for method, of in methods.items())
        yield f"On the paper's {', '.join(stated)}: {suspect}."


def cifar(records: Records) -> Table:
    """CIFAR-100 with all the data, CBCL beside nearest class mean."""
    groups, rows = [], []
    for size in STATISTICS[CIFAR].increments:
        pair = [
            RunGroup(CIFAR, MAIN_BACKBONE, name, size, max_centroids=CIFAR_BUDGET)
            for name in ("cbcl", "ncm")
        ]
        ours = [
            format_mean(records, group, score)
            for score in (aggregate.last, aggregate.average)
            for group in pair
        ]
        stated = format_claim(find_claim("CBCL", "last", CIFAR, increment=size))
        rows.append([str(size), stated, *ours])
        groups += pair
    ours_columns = ("CBCL, last", "NCM, last", "CBCL, average", "NCM, average")
    columns = ("classes at a time", "paper: CBCL, last", *ours_columns)
    caption = (
        f"CIFAR-100, all the data, {MAIN_BACKBONE}, K = {CIFAR_BUDGET}: "
        "accuracy (%) after the last increment and on the average"
    )
    unrun = unrun_notes(claims_at("section 4.3", "section 6.3"))
    notes = (*aggregate.notes(records, groups), *unrun)
    return Table(caption, columns, [RowGroup(None, rows)], notes)


def few_shots(records: Records, kinds: Sequence[FewShotColumn], caption: str) -> Table:
    """Average incremental accuracy from a few vectors of each class."""
    groups: list[RunGroup] = []
    claims: list[Claim | None] = []
    rows = []
    for shots in SHOTS:
        of_shots = []
        for method, learner in FEW_SHOT_METHODS.items():
            row = [method]
            for column in kinds:
                _, data, increment, backbones = column
                claim = find_claim(method, "average", data, increment=increment, shots=shots)
                rest = learner, increment, None, shots, BUDGETS[data]
                ours = [RunGroup(data, backbone, *rest) for backbone in backbones]
                row += [format_claim(claim), *(format_mean(records, group) for group in ours)]
                claims.append(claim)
                groups += ours
            of_shots.append(row)
        rows.append(RowGroup(f"{shots} shots", of_shots))
    columns = ["method"]
    for column in kinds:
        ours_names = column.backbones if len(column.backbones) > 1 else ("ours",)
        columns += [f"{column.name}: {name}" for name in ("paper", *ours_names)]
    notes = (*aggregate.notes(records, groups), *suspect_notes(claims))
    return Table(caption, columns, rows, notes)


def increments(records: Records, where: str, text: str, caption: str) -> Table:
    """Return a table by increments, with the averages and decreases that section `text` states."""
    theirs = claims_at(where)
    example = theirs[-1]
    data, backbones = example.protocol.data, example.protocol.ours
    groups = []
    for backbone in backbones:
        group = group_of(example, backbone)
        groups += [group, group._replace(learner="ncm")]
    runs = [runs_of(records, group) for group in groups]

    def ours(claim: Claim, measure: Measure | None = None) -> list[str]:
        values = (summary([measure_run(claim, run, measure) for run in some]) for some in runs)
        return [format_spread(value) for value in values]

    rows, suspects = [], []
    for seen in sorted({claim.classes_seen or 0 for claim in theirs}):
        row = [claim for claim in theirs if claim.classes_seen == seen]  # FT, LWM, CBCL
        rows.append([str(seen), *map(format_claim, row), *ours(row[-1])])
    for measure in ("average", "drop"):
        stated = [find_claim(method, measure, data, where=text) for method in INCREMENT_METHODS]
        rows.append([MEASURES[measure], *map(format_claim, stated), *ours(example, measure)])
        suspects += stated
    columns = ["classes", *(f"paper: {method}" for method in INCREMENT_METHODS)]
    columns += [f"{name}: {backbone}" for backbone in backbones for name in ("CBCL", "NCM")]
    notes = (*aggregate.notes(records, groups), *suspect_notes(suspects))
    return Table(caption, columns, [RowGroup(None, rows)], notes)


def omegas(records: Records) -> Table:
    """FearNet's measures, CBCL beside nearest class mean."""
    claims = claims_at("Table S1, FearNet")
    fearnet = {claim.measure: claim for claim in claims if claim.method == "FearNet"}
    tables: dict[str, list[list[str]]] = {}
    groups = []
    for shots in (None, *SHOTS):
        rows = tables.setdefault(f"{shots} shots" if shots else "all the data", [])
        for claim in claims:
            if (claim.method, claim.protocol.shots) != ("CBCL", shots):
                continue
            group = group_of(claim, MAIN_BACKBONE)
            pair = [group, group._replace(learner="ncm")]
            ours = (
                summary([measure_run(claim, run) for run in runs_of(records, one)]) for one in pair
            )
            stated = [format_claim(None if shots else fearnet[claim.measure]), format_claim(claim)]
            spreads = (format_spread(value, 3) for value in ours)
            rows.append([MEASURES[claim.measure], *stated, *spreads])
            groups += pair
    setting = claims[0].protocol
    steps = f"{setting.base} classes and then {setting.increment} at a time"
    caption = f"FearNet's measures on CIFAR-100, {steps}, {MAIN_BACKBONE}, K = {CIFAR_BUDGET}"
    columns = ("measure", "paper: FearNet", "paper: CBCL", "CBCL", "NCM")
    unrun = unrun_notes(claims_at("section 6.2"))
    notes = (*aggregate.notes(records, groups), *suspect_notes(claims), *unrun)
    return Table(caption, columns, [RowGroup(*item) for item in tables.items()], notes)


def ablation(records: Records) -> Table:
    """One part of CBCL swapped at a time."""
    claims = claims_at("Table 5, ablation")
    hybrids = [
        (claim.method, claim.protocol.ours[0], format_claim(claim), LEARNERS[claim.method])
        for claim in claims
    ]
    hybrids += [(learner, MAIN_BACKBONE, DASH, learner) for learner in EXTRA_HYBRIDS]
    pairs = {(backbone, learner) for _, backbone, _, learner in hybrids}
    others = _run_elsewhere(records) - pairs
    hybrids += [(learner, backbone, DASH, learner) for backbone, learner in sorted(others)]
    rows, groups = [], []
    for method, backbone, stated, learner in hybrids:
        group = RunGroup(CIFAR, backbone, learner, max_centroids=CIFAR_BUDGET)
        accuracy = [
            format_mean(records, group, score) for score in (aggregate.average, aggregate.last)
        ]
        orders = str(len(runs_of(records, group)) or DASH)
        kept = format_number(mean_of(records, group, aggregate.centroids).mean, 0)
        size = format_number(mean_of(records, group, aggregate.megabytes).mean)
        rows.append([method, backbone, stated, *accuracy, orders, kept, size])
        groups.append(group)
    columns = ["hybrid", "our backbone", "paper", "average", "after the last"]
    columns += ["orders", "centroids", "megabytes"]
    caption = (
        f"Ablation on CIFAR-100, 10 classes at a time, K = {CIFAR_BUDGET}: accuracy (%) and memory"
    )
    extra = (
        f"{learner}, no row of the paper's: {describe_learner(learner)}."
        for learner in EXTRA_HYBRIDS
    )
    notes = (*aggregate.notes(records, groups), *extra, *suspect_notes(claims))
    return Table(caption, columns, [RowGroup(None, rows)], notes, heads=2)


def _run_elsewhere(records: Records) -> set[tuple[str, str]]:
    """Return backbones other than the main one, and the learners that were run on them."""
    runs = aggregate.select(records, data=CIFAR, increment=10, base=None, shots=None)
    pairs = {(record["run"]["backbone"], record["run"]["learner"]) for record in runs}
    return {pair for pair in pairs if pair[0] != MAIN_BACKBONE}


def limits(records: Records) -> list[int]:
    """Return the values of K that were run or that the paper mentions."""
    runs = aggregate.select(
        records, data=CIFAR, backbone=MAIN_BACKBONE, increment=10, base=None, shots=None
    )
    run = {one["run"]["max_centroids"] for one in runs if one["run"]["learner"] in REDUCTIONS}
    stated = {claim.protocol.max_centroids for claim in budget_claims()}
    return sorted(limit for limit in {CIFAR_BUDGET, UNREDUCED, *stated, *run} if limit is not None)


def budget_claims() -> list[Claim]:
    """Return the paper's average accuracies under a budget, with the backbone compared here."""
    claims = claims_at("Table 5, ablation", "sections 4.6 and 6.3")
    return [claim for claim in claims if claim.method in REDUCTIONS.values()]


def reductions(records: Records) -> list[str]:
    """Return the ways to make room that are compared: the paper's, and others with several K."""
    stated = {claim.method for claim in budget_claims()}
    learners = []
    for learner, name in REDUCTIONS.items():
        runs = aggregate.select(records, learner=learner)
        if name in stated or len({one["run"]["max_centroids"] for one in runs}) > 1:
            learners.append(learner)
    return learners


def budget_means(records: Records, learner: str) -> dict[int, Summary]:
    """Return the average incremental accuracy for each K."""
    return {
        limit: mean_of(
            records, RunGroup(CIFAR, MAIN_BACKBONE, learner, max_centroids=limit), aggregate.average
        )
        for limit in limits(records)
    }


def budgets(records: Records) -> Table:
    """Average incremental accuracy for every K."""
    stated = {(claim.method, claim.protocol.max_centroids): claim for claim in budget_claims()}
    learners = reductions(records)
    names = [REDUCTIONS[learner] for learner in learners]
    means = [budget_means(records, learner) for learner in learners]
    rows, groups = [], []
    for limit in limits(records):
        here = [
            RunGroup(CIFAR, MAIN_BACKBONE, learner, max_centroids=limit) for learner in learners
        ]
        paper = [format_claim(stated.get((name, limit))) for name in names[:2]]
        ours = [mean[limit] for mean in means]
        gap = format_number(ours[0].mean - ours[1].mean, sign="+")
        orders = str(min(one.n for one in ours) or DASH)
        kept = format_number(mean_of(records, here[0], aggregate.centroids).mean, 0)
        rows.append([str(limit), *paper, *map(format_spread, ours), gap, orders, kept])
        groups += here
    columns = ["K", *(f"paper: {name}" for name in names[:2]), *names]
    columns += ["CBCL less Remove-Centroids", "orders", "centroids of CBCL"]
    beside = [claim for claim in CLAIMS if claim.measure == "megabytes"]
    caption = (
        f"CIFAR-100 under memory budgets, 10 classes at a time, {MAIN_BACKBONE}: "
        "average incremental accuracy (%)"
    )
    notes = (*aggregate.notes(records, groups), *unrun_notes(beside), *suspect_notes(beside))
    return Table(caption, columns, [RowGroup(None, rows)], notes)
