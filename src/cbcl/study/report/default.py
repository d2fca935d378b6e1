"""CBCL's default beside other learners in the same ten orders, and against batch learning.

Batch learning is joint logistic regression, whose penalty is picked for each data set, backbone and
number of shots by its accuracy on the test pictures: an upper bound of what it can do.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from cbcl.study.learners import LOGISTIC, logistic_penalty
from cbcl.study.records import RunRecord
from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import (
    DASH,
    DATA,
    BoldText,
    Records,
    RowGroup,
    RunGroup,
    Table,
    format_claim,
    format_number,
    format_spread,
    mean_of,
    runs_of,
)
from cbcl.study.report.figures import Colour, CostPoint, draw_costs
from cbcl.study.report.paper import BUDGETS
from cbcl.study.report.scores import Summary, summary
from cbcl.study.report.tables import find_claim

DEFAULT = "discriminant"
# The backbones of the paper's comparison on CIFAR-100, and one that `pip install` brings.
PAIRS = {
    "cifar100": "resnet50-keras",
    "caltech101": "efficientnet-lite0",
    "cub200": "efficientnet-lite0",
}
SHOTS = (None, 5, 10)
NAMES = {
    "cbcl": "CBCL, vote",
    "ncm": "NCM",
    "slda": "SLDA",
    "slda-roots": "SLDA of roots",
    "ranpac": "RanPAC",
    LOGISTIC: "batch",
    DEFAULT: "CBCL, default",
}
LOOKS: dict[str, tuple[Colour, str]] = {  # of a point: colour and shape
    "cbcl": ("orange", "o"),
    "ncm": ("green", "v"),
    "slda": ("purple", "s"),
    "slda-roots": ("purple", "X"),
    "ranpac": ("quiet", "D"),
    LOGISTIC: ("ink", "P"),
    DEFAULT: ("blue", "^"),
}
PENALTY_NOTE = (
    "Batch: logistic regression on all data so far, solved to convergence, its penalty the best on "
    "the test pictures"
)


def pick_penalties(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the records with logistic regression under one penalty, the best of those tried.

    It is the best by its mean average over orders, among the penalties with the most orders; the
    learner of its records is then "logistic".
    """
    picked: list[RunRecord] = []
    tried: dict[str, dict[float, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        penalty = logistic_penalty(record["run"]["learner"])
        if penalty is None:
            picked.append(record)
            continue
        others = {name: value for name, value in record["run"].items() if name != "seed"}
        cell = json.dumps({**others, "learner": LOGISTIC}, sort_keys=True)
        tried[cell][penalty].append(record)
    for penalties in tried.values():
        most = max(map(len, penalties.values()))
        whole = {penalty: runs for penalty, runs in penalties.items() if len(runs) == most}
        best = max(whole, key=lambda one: aggregate.summarise(whole[one], aggregate.average).mean)
        picked += [_rename(record, best) for record in whole[best]]
    return picked


def _rename(record: RunRecord, penalty: float) -> dict[str, Any]:
    return {**record, "run": {**record["run"], "learner": LOGISTIC}, "penalty": penalty}


def standings(records: Records) -> Table:
    """Return the average of each learner on each data set, and its bytes; the best is bold."""
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    groups = {cell: [_group(learner, *cell) for learner in NAMES] for cell in cells}
    parts = []
    for data, backbone in PAIRS.items():
        rows = [_row(records, data, shots, groups[data, shots]) for shots in SHOTS]
        sizes = (mean_of(records, one, aggregate.megabytes).mean for one in groups[data, None])
        shown = (format_number(size, 1) for size in sizes)
        rows.append(["megabytes, all pictures", DASH, *shown, DASH])
        parts.append(RowGroup(f"{DATA[data]}, {backbone}", rows))
    every = [group for row in groups.values() for group in row]
    notes = (
        *_order_notes(records, every),
        f"{PENALTY_NOTE}{_penalties(records, every)}.",
        "The default, batch and SLDA of roots see the vectors' square roots, scaled to unit "
        "length; the others see the vectors.",
        "Default less batch: the mean difference, order by order, ± its standard error.",
        *aggregate.missing_notes(records, every),
    )
    caption = "Average incremental accuracy (%), ten classes at a time, 100 classes"
    columns = ("pictures of each class", "paper: CBCL, other networks", *NAMES.values())
    return Table(caption, (*columns, "default less batch"), parts, notes)


def _row(records: Records, data: str, shots: int | None, groups: Iterable[RunGroup]) -> list[str]:
    means = [mean_of(records, group, aggregate.average) for group in groups]
    best = max((mean.mean for mean in means if mean.n), default=math.nan)
    shown = []
    for mean in means:
        text = format_spread(mean, 1)
        shown.append(BoldText(text) if mean.mean == best else text)
    stated = format_claim(find_claim("CBCL", "average", data, shots=shots))
    return [str(shots or "all"), stated, *shown, _format_lead(lead(records, data, shots))]


def draw_sizes(records: Records, numbers: Iterable[int | None] = SHOTS) -> list[str]:
    """Draw accuracy over megabytes, a panel for each number of shots and data set."""
    panels = []
    for shots in numbers:
        for data in PAIRS:
            points = []
            for learner, name in NAMES.items():
                group = _group(learner, data, shots)
                accuracy = mean_of(records, group, aggregate.average)
                size = mean_of(records, group, aggregate.megabytes)
                if accuracy.n:
                    points.append(CostPoint(name, size.mean, accuracy.mean, *LOOKS[learner]))
            what = f"{shots} pictures of each class" if shots else "all pictures"
            panels.append(draw_costs(f"{DATA[data]}, {what}", "megabytes", points))
    return panels


def lead(records: Records, data: str, shots: int | None) -> Summary:
    """Return by how much the default is above batch learning, order by order, in points."""
    averages = [
        {run["run"]["seed"]: aggregate.average(run) for run in runs_of(records, group)}
        for group in (_group(DEFAULT, data, shots), _group(LOGISTIC, data, shots))
    ]
    ours, batch = averages
    return summary([ours[seed] - batch[seed] for seed in sorted({*ours} & {*batch})])


def _group(learner: str, data: str, shots: int | None) -> RunGroup:
    return RunGroup(data, PAIRS[data], learner, shots=shots, max_centroids=BUDGETS[data])


def _format_lead(difference: Summary) -> str:
    if difference.n < 2:
        return format_number(difference.mean, sign="+")
    error = difference.std / math.sqrt(difference.n)
    return f"{format_number(difference.mean, sign='+')} ± {format_number(error)}"


def _penalties(records: Records, groups: Iterable[RunGroup]) -> str:
    """Return the penalties that were picked, in words."""
    picked = []
    for group in (group for group in groups if group.learner == LOGISTIC):
        penalties = sorted({float(run["penalty"]) for run in runs_of(records, group)})
        named = f"{DATA[group.data]}, {group.shots or 'all'}"
        picked += [f"{penalty:g} ({named})" for penalty in penalties]
    return f": {', '.join(picked)}" if picked else ""


def _order_notes(records: Records, groups: Iterable[RunGroup]) -> list[str]:
    """Return how many orders there are, and where there are fewer."""
    counts = {group: n for group in groups if (n := len(runs_of(records, group)))}
    if not counts:
        return []
    most = max(counts.values())
    fewer: dict[str, None] = {}
    for group, n in counts.items():
        if n < most:
            fewer[f"{group.learner} on {DATA[group.data]}: {n}"] = None
    note = f"Ours: mean ± standard deviation over {most} orders of the classes"
    return [f"{note}; {'; '.join(fewer)}." if fewer else f"{note}."]
