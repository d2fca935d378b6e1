"""Table S1: FearNet's measures on CIFAR-100, two classes and then one at a time; and 50 first."""

from __future__ import annotations

from functools import partial

from cbcl_study import scores
from cbcl_study.experiments import CIFAR, MAIN
from cbcl_study.paper import BUDGETS, Claim, Measure, claims_at
from cbcl_study.records import RunRecord
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    Records,
    RunGroup,
    format_claim,
    format_spread,
    mean_of,
    name_of,
    note_orders,
    runs_of,
)
from cbcl_study.report.comparison import compare
from cbcl_study.report.reasons import reasons
from cbcl_study.report.rendering import RowGroup, Section, Table
from cbcl_study.report.significance import format_difference
from cbcl_study.scores import OFFLINE_ACCURACY, Summary, summary

OFFLINE = "mlp"
LEARNERS = ("fearnet", "cbcl", "ncm", "discriminant")
MEASURES: dict[Measure, str] = {
    "omega_base": "Ω base",
    "omega_new": "Ω new",
    "omega_all": "Ω all",
}
PARTS = {  # title: how many classes come first, and shots
    "all the data": (2, None),
    "5 shots": (2, 5),
    "10 shots": (2, 10),
    "all the data, 50 classes first (ours)": (50, None),
}


def section(records: Records) -> Section:
    text = (
        "Means over all increments but the first, divided by the accuracy of a perceptron that was "
        "trained on all the data at once: 69.9 % in FearNet's paper and in CBCL's. Above 1 is "
        "better than that. Not run here: ResNet-50 trained at once on 5 shots (8.49 %) and 10 "
        "shots (12.21 %)."
    )
    learners = (*LEARNERS, *([] if offline_accuracy(records).n else [OFFLINE]))
    wanted = [group_for(learner) for learner in learners]
    return Section("Table S1: FearNet", [text], [table(records)], wanted)


def group_for(learner: str, shots: int | None = None, base: int = 2) -> RunGroup:
    return RunGroup(CIFAR, MAIN, learner, 1, base, shots, BUDGETS[CIFAR])


def offline_accuracy(records: Records) -> Summary:
    """Return the accuracy (%) of our offline perceptron on all classes, however they came."""
    runs = aggregate.select(records, data=CIFAR, backbone=MAIN, learner=OFFLINE, shots=None)
    by_order = {run["run"]["seed"]: aggregate.last(run) for run in runs}
    return summary(by_order.values())


def table(records: Records) -> Table:
    """Return the three measures of each learner, against the paper's denominator and ours."""
    claims = claims_at("Table S1, FearNet")
    offline = offline_accuracy(records)
    parts, counts = [], {}
    for title, (base, shots) in PARTS.items():
        rows = []
        for learner in LEARNERS:
            stated = {
                claim.measure: claim
                for claim in claims
                if (claim.protocol.learner, claim.protocol.shots) == (learner, shots)
                and claim.protocol.base == base
            }
            group = group_for(learner, shots, base)
            rows += _rows(records, group, stated, offline)
            counts[f"{name_of(learner)}, {title.removesuffix(' (ours)')}"] = len(
                runs_of(records, group)
            )
        parts.append(RowGroup(title, rows))
    names = [*MEASURES.values()]
    columns = ["learner", *names, *(f"{name}, our MLP" for name in names)]
    caption = f"Table S1: FearNet's measures on CIFAR-100, 2 classes and then 1 at a time, {MAIN}"
    notes = [
        note_orders(counts),
        "The first three columns divide by the paper's accuracy, the others by our offline MLP's.",
        *reasons(claims, [MAIN]),
    ]
    return Table(caption, columns, parts, notes)


def _rows(
    records: Records, group: RunGroup, stated: dict[Measure, Claim], offline: Summary
) -> list[list[str]]:
    """Return the paper's row, ours and the difference, as far as there are such."""
    name, rows = name_of(group.learner), []
    nothing = [DASH] * len(MEASURES)
    if stated:
        shown = [format_claim(stated[measure]) for measure in MEASURES]
        rows.append([f"paper: {name}", *shown, *nothing])
    if not runs_of(records, group):
        return rows
    ours = [mean_of(records, group, partial(_omega, measure=measure)) for measure in MEASURES]
    own = nothing
    if offline.n:
        divisor = offline.mean / 100.0
        own = [
            format_spread(
                mean_of(records, group, partial(_omega, measure=measure, offline=divisor)), 3
            )
            for measure in MEASURES
        ]
    rows.append([name, *(format_spread(mean, 3) for mean in ours), *own])
    if stated:
        gaps = [compare(records, stated[measure], group.backbone).gap for measure in MEASURES]
        rows.append(["difference (p)", *(format_difference(gap, 3) for gap in gaps), *nothing])
    return rows


def _omega(record: RunRecord, measure: Measure, offline: float = OFFLINE_ACCURACY) -> float:
    return float(getattr(scores.omega(record, offline), measure.removeprefix("omega_")))
