"""Figure S2: the confusion matrix of CBCL on CIFAR-100, of one order and of all."""

from __future__ import annotations

from functools import partial

import numpy as np

from cbcl.method.arrays import Int64s
from cbcl_study.experiments import CIFAR, MAIN
from cbcl_study.paper import BUDGETS
from cbcl_study.report.aggregate import Records, RunGroup, runs_of
from cbcl_study.report.figures import draw_confusion
from cbcl_study.report.rendering import Drawing, Section
from cbcl_study.scores import confusion

RUNS = RunGroup(CIFAR, MAIN, "cbcl", max_centroids=BUDGETS[CIFAR])


def section(records: Records) -> Section:
    runs = sorted(runs_of(records, RUNS), key=lambda run: int(run["run"]["seed"]))
    title = "Figure S2: confusion"
    if not runs:
        return Section(title, ["CBCL on CIFAR-100 has not been run."], wanted=[RUNS])
    summed = sum_by_position(runs)
    caption = (
        f"CBCL's answer (column) and the true class (row) after the last increment, {RUNS.backbone}"
        f", {RUNS.how}; in per cent of each row. Left: one order, as the paper has it. Right: "
        f"{len(runs)} orders added up place by place, where a place is when a class was learned, "
        "not which class it is."
    )
    panels = partial(draw, confusion(runs[0]), summed, len(runs))
    return Section(title, [], [Drawing(caption, panels)], [RUNS])


def draw(one: Int64s, summed: Int64s, orders: int) -> list[str]:
    return [draw_confusion(one, "one order"), draw_confusion(summed, f"sum of {orders} orders")]


def sum_by_position(records: Records) -> Int64s:
    """Return the sum of the confusion matrices; a row is when a class was learned, not which."""
    total: Int64s = np.sum([confusion(record) for record in records], axis=0)
    return total
