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
    "cbcl": "CBCL, by the paper's vote",
    "ncm": "nearest class mean",
    "slda": "streaming LDA",
    "ranpac": "RanPAC (2,000 random features, ridge)",
    LOGISTIC: "batch: logistic regression on all data kept",
    DEFAULT: "CBCL, by default",
}
PENALTY_NOTE = "Batch: solved to convergence, its penalty the best on the test pictures"


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
    """Return the average of each learner on each data set; the best of ours is bold."""
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    groups = {learner: [_group(learner, *cell) for cell in cells] for learner in NAMES}
    claims = [find_claim("CBCL", "average", data, shots=shots) for data, shots in cells]
    means = {
        learner: [mean_of(records, group, aggregate.average) for group in row]
        for learner, row in groups.items()
    }
    best = [max(_known(row[place].mean for row in means.values())) for place in range(len(cells))]
    rows = [["CBCL in the paper, other networks", *map(format_claim, claims), DASH]]
    for learner, name in NAMES.items():
        shown = [_mark(mean, best[place]) for place, mean in enumerate(means[learner])]
        rows.append([name, *shown, _sizes(records, learner)])
    leads = [lead(records, *cell) for cell in cells]
    rows.append(["default less batch, order by order", *map(_format_lead, leads), DASH])
    columns = [f"{DATA[data]}, {shots or 'all'}" for data, shots in cells]
    notes = (
        f"Backbones: {'; '.join(f'{DATA[data]}: {name}' for data, name in PAIRS.items())}.",
        *_order_notes(records, groups),
        f"{PENALTY_NOTE}{_penalties(records, groups[LOGISTIC])}.",
        "The last row is the mean difference ± its standard error.",
        *aggregate.missing_notes(records, [group for row in groups.values() for group in row]),
    )
    caption = "Average incremental accuracy (%), ten classes at a time, 100 classes, and megabytes"
    sizes = f"megabytes, all the data: {' / '.join(DATA[data] for data in PAIRS)}"
    return Table(caption, ("learner", *columns, sizes), [RowGroup(None, rows)], notes)


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


def _words(shots: int | None) -> str:
    return f"{shots} shots" if shots else "all"


def _known(values: Iterable[float]) -> list[float]:
    """Return the numbers; minus infinity if there is none."""
    return [value for value in values if not math.isnan(value)] or [-math.inf]


def _mark(mean: Summary, best: float) -> str:
    text = format_spread(mean, 1)
    return BoldText(text) if mean.mean == best else text


def _format_lead(difference: Summary) -> str:
    if difference.n < 2:
        return format_number(difference.mean, sign="+")
    error = difference.std / math.sqrt(difference.n)
    return f"{format_number(difference.mean, sign='+')} ± {format_number(error)}"


def _sizes(records: Records, learner: str) -> str:
    groups = (_group(learner, data, None) for data in PAIRS)
    sizes = (mean_of(records, group, aggregate.megabytes).mean for group in groups)
    return " / ".join(format_number(size, 1) for size in sizes)


def _penalties(records: Records, groups: Iterable[RunGroup]) -> str:
    """Return the penalties that were picked, in words."""
    picked = []
    for group in groups:
        penalties = sorted({float(run["penalty"]) for run in runs_of(records, group)})
        named = f"{DATA[group.data]}, {_words(group.shots)}"
        picked += [f"{penalty:g} ({named})" for penalty in penalties]
    return f": {', '.join(picked)}" if picked else ""


def _order_notes(records: Records, groups: dict[str, list[RunGroup]]) -> list[str]:
    """Return how many orders there are, and where there are fewer."""
    counts = {
        group: n for row in groups.values() for group in row if (n := len(runs_of(records, group)))
    }
    if not counts:
        return []
    most = max(counts.values())
    fewer = [f"{group.who}, {group.how}: {n}" for group, n in counts.items() if n < most]
    note = f"Ours: mean ± standard deviation over {most} orders of the classes"
    return [f"{note}; {'; '.join(fewer)}." if fewer else f"{note}."]
