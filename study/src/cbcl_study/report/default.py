"""CBCL's default beside other learners in the same orders, and against batch learning.

Batch learning is joint logistic regression, whose penalty is picked for each data set, backbone and
number of shots by its accuracy on the test pictures: an upper bound of what it can do.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

from cbcl_study.experiments import CIFAR, NETWORKS, PAIRS, PIXELS, SHOTS
from cbcl_study.learners import LOGISTIC, logistic_penalty
from cbcl_study.paper import BUDGETS
from cbcl_study.records import RunRecord
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DATA,
    Records,
    RunGroup,
    describe_learner,
    format_error,
    mean_of,
    name_of,
    note_orders,
)
from cbcl_study.report.figures import CostPoint, draw_costs
from cbcl_study.report.looks import look_of
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.significance import format_difference, paired

DEFAULT, VOTE = "discriminant", "cbcl"
LEARNERS = (VOTE, DEFAULT, "ncm", "slda", "slda-roots", "ranpac", "ranpac-10000", LOGISTIC)
AGAINST = (VOTE, "slda", "slda-roots", "ranpac-10000", LOGISTIC)


def pick_penalties(records: Iterable[RunRecord]) -> aggregate.IndexedRuns:
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
    return aggregate.IndexedRuns(picked)


def _rename(record: RunRecord, penalty: float) -> dict[str, Any]:
    return {**record, "run": {**record["run"], "learner": LOGISTIC}, "penalty": penalty}


def group_for(learner: str, data: str, shots: int | None) -> RunGroup:
    """Return the runs of a learner ten classes at a time, with the data's backbone and K."""
    return RunGroup(data, PAIRS[data], learner, shots=shots, max_centroids=BUDGETS[data])


def section(records: Records) -> Section:
    """Return the default against the paper's learner, streaming LDA and batch learning."""
    text = (
        "What CBCL does by default, from statistics of each class, less the paper's vote, less "
        "other learners on the same vectors, and less batch learning, which keeps all of them: "
        "mean differences, order by order. Nothing about the default was chosen on orders "
        "0 to 9: its constants were looked at on orders 20 and above, and once on orders 0 and 1 "
        "before any choice was made; they come from independent runs on two orders, drawn "
        "otherwise, of the same data sets."
    )
    caption = (
        "Average incremental accuracy over the size of all that is kept to go on: few bytes are on "
        "the left. Batch learning keeps all vectors; networks that were trained on the pictures "
        "keep their weights and pictures, and know no other data."
    )
    figure = Drawing(caption, partial(draw_sizes, records))
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    wanted = [group_for(learner, *cell) for cell in cells for learner in LEARNERS]
    return Section("CBCL by default", [text], [leads(records), figure], wanted)


def leads(records: Records) -> Table:
    """Return by how much the default is above others, order by order."""
    parts = []
    counts: dict[str, dict[str, int]] = {}  # orders by learner and data, then by shots
    for data, backbone in PAIRS.items():
        rows = []
        for shots in SHOTS:
            ours = group_for(DEFAULT, data, shots)
            row = [str(shots or "all"), format_error(mean_of(records, ours, aggregate.average))]
            for other in AGAINST:
                gap = paired(records, ours, group_for(other, data, shots))
                row.append(format_difference(gap))
                where = f"{name_of(other)} on {DATA[data]}"
                counts.setdefault(where, {})[f"{where}, {shots or 'all'}"] = gap.n
            rows.append(row)
        parts.append(RowGroup(f"{DATA[data]}, {backbone}", rows))
    caption = "The default's average incremental accuracy (% ± standard error), and less others'"
    columns = ["pictures of each class", "default"]
    columns += [f"less {name_of(other)} (p)" for other in AGAINST]
    merged: dict[str, int] = {}
    for where, by_shots in counts.items():
        alike = len({*by_shots.values()}) == 1
        merged |= {where: next(iter(by_shots.values()))} if alike else by_shots
    notes = [note_orders(merged), f"Batch: {describe_learner(LOGISTIC)}."]
    return Table(caption, columns, parts, notes)


def draw_sizes(records: Records, numbers: Iterable[int | None] = SHOTS) -> list[str]:
    """Draw accuracy over megabytes, a panel for each number of shots and data set."""
    panels = []
    for shots in numbers:
        for data in PAIRS:
            groups = [group_for(learner, data, shots) for learner in LEARNERS]
            groups += [group_for(learner, data, shots) for learner in ("probe", "knn")]
            if data == CIFAR:
                groups += [RunGroup(data, PIXELS, name, shots=shots) for name in NETWORKS]
            points = [point for group in groups for point in _point(records, group)]
            what = f"{shots} pictures of each class" if shots else "all pictures"
            panels.append(draw_costs(f"{DATA[data]}, {what}", "megabytes", points))
    return panels


def _point(records: Records, group: RunGroup) -> list[CostPoint]:
    """Return a group's point, if it has runs."""
    accuracy = mean_of(records, group, aggregate.average)
    if not accuracy.n:
        return []
    size, look = mean_of(records, group, aggregate.megabytes).mean, look_of(group.learner)
    shape = look.marker or "o"
    return [CostPoint(name_of(group.learner), size, accuracy.mean, look.colour, shape)]
