"""Beyond the paper: learners side by side, the tuner against fixed radii, and the runs' origins."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import numpy as np

from cbcl.method.arrays import Int64s
from cbcl.study.learners import FIXED_RADIUS_SCALES, LOGISTIC
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
    format_mean,
    format_number,
    mean_of,
)
from cbcl.study.report.paper import BUDGETS, STAND_INS, STATISTICS
from cbcl.study.report.scores import confusion

VARIANTS = ("discriminant", "cbcl-rank", "slda-roots", "ranpac-10000", LOGISTIC)  # where run
CHOICES = (
    *("discriminant", "cbcl", "cbcl-rank", "ncm", "knn", "slda", "slda-roots"),
    *("ranpac", "ranpac-10000", "flb", "probe", LOGISTIC),
)
PAIRS = [
    ("cifar100", "resnet50-keras"),
    *((data, backbone) for data in ("caltech101", "cub200") for backbone in STAND_INS["resnet18"]),
]
SHOTS = (None, 5, 10)
CONFUSION_RUNS = RunGroup("cifar100", "resnet50-keras", "cbcl", max_centroids=BUDGETS["cifar100"])
TOLERANCE = 0.5  # points that the tuner may lose against the best radius
FINGERPRINT_DIGITS = 12
ACCURACIES = {
    "average": aggregate.average,
    "after the last": aggregate.last,
    "mean over classes": aggregate.last_class_mean,
    "forgetting": aggregate.forgetting,
}
COSTS = {"megabytes": aggregate.megabytes, "seconds of learning": aggregate.seconds}


def pairs(records: Records) -> list[tuple[str, str]]:
    """Return data and backbone of the paper's comparisons, and others with several learners."""
    learners = defaultdict(set)
    for record in aggregate.select(records, increment=10, base=None):
        run = record["run"]
        if run["learner"] in CHOICES and run["data"] in BUDGETS:
            learners[run["data"], run["backbone"]].add(run["learner"])
    several = sorted(pair for pair, names in learners.items() if len(names) > 2)
    return [*PAIRS, *(pair for pair in several if pair not in PAIRS)]


def compare_learners(records: Records, data: str, backbone: str) -> Table:
    """Return what a user could pick instead, on the same vectors; the best average is bold."""
    learners = _choices(
        aggregate.select(records, data=data, backbone=backbone, increment=10, base=None)
    )
    rows: list[RowGroup] = []
    wanted: list[RunGroup] = []
    notes: list[str] = []
    for shots in SHOTS:
        groups = [
            RunGroup(data, backbone, learner, shots=shots, max_centroids=BUDGETS[data])
            for learner in learners
        ]
        shared = aggregate.in_common_orders(records, groups)
        best = _largest([mean_of(shared, group, aggregate.average).mean for group in groups])
        of_shots = [[group.learner, *_compare(shared, group, best)] for group in groups]
        rows.append(RowGroup(f"{shots} shots" if shots else "all the data", of_shots))
        notes += aggregate.order_notes(shared, groups)
        wanted += groups
    caption = f"{DATA[data]}, {backbone}, 10 classes at a time, K = {BUDGETS[data]}"
    all_notes = (*dict.fromkeys(notes), *aggregate.missing_notes(records, wanted))
    return Table(caption, ("learner", *ACCURACIES, *COSTS), rows, all_notes)


def _compare(records: Records, group: RunGroup, best: float) -> list[str]:
    first, *others = (format_mean(records, group, score, 1) for score in ACCURACIES.values())
    if mean_of(records, group, aggregate.average).mean == best:
        first = BoldText(first)
    costs = (mean_of(records, group, score).mean for score in COSTS.values())
    return [first, *others, *map(format_number, costs)]


def _largest(values: list[float]) -> float:
    """Return the largest number; NaN if there is none."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def describe_learners(records: Records) -> str:
    described = (f"{name}: {aggregate.describe_learner(name)}" for name in _choices(records))
    return "; ".join(described) + "."


def _choices(records: Records) -> list[str]:
    return [
        name for name in CHOICES if name not in VARIANTS or aggregate.select(records, learner=name)
    ]


def tuner(records: Records) -> Table:
    """Return the average with the radius that CBCL chose, beside every fixed one."""
    rows: list[list[str]] = []
    wanted: list[RunGroup] = []
    learners = ["cbcl", "ncm", *(f"radius-{scale:g}" for scale in FIXED_RADIUS_SCALES)]
    for data, backbone in pairs(records):
        for shots in SHOTS:
            groups = [
                RunGroup(data, backbone, learner, shots=shots, max_centroids=BUDGETS[data])
                for learner in learners
            ]
            shared = aggregate.in_common_orders(records, groups)
            orders = str(len(aggregate.runs_of(shared, groups[0])) or DASH)
            means = {
                group.learner: mean_of(shared, group, aggregate.average).mean for group in groups
            }
            rows.append([DATA[data], backbone, str(shots or "all"), orders, *_tuner_row(means)])
            wanted += groups
    names = ["∞ (NCM)", *(f"{scale:g}" for scale in FIXED_RADIUS_SCALES)]
    columns = ("data", "backbone", "shots", "orders", "tuned", *names, "best", "tuned less best")
    caption = (
        "Average incremental accuracy (%) with D tuned, and with D fixed at so many times the "
        "vectors' spread"
    )
    notes = tuple(aggregate.missing_notes(records, wanted))
    return Table(caption, columns, [RowGroup(None, rows)], notes, heads=3, words=("best",))


def _tuner_row(means: dict[str, float]) -> list[str]:
    """Return the tuned average, the fixed ones, the best radius, and the difference."""
    fixed = {learner: mean for learner, mean in means.items() if learner != "cbcl"}
    tuned, best = means["cbcl"], _largest([*fixed.values()])
    shown = []
    for mean in fixed.values():
        text = format_number(mean)
        shown.append(BoldText(text) if mean == best else text)
    best_learner = next((learner for learner, mean in fixed.items() if mean == best), DASH)
    gap = format_number(tuned - best, sign="+")
    last = BoldText(f"{gap} (!)") if tuned - best < -TOLERANCE else gap
    return [format_number(tuned), *shown, best_learner, last]


def others(records: Records) -> Table | None:
    """Return the runs on data that the paper does not have, if there are any."""
    runs = [record["run"] for record in records if record["run"]["data"] not in STATISTICS]
    groups = [RunGroup(**{name: run[name] for name in RunGroup._fields}) for run in runs]
    rows = []
    for group in dict.fromkeys(groups):
        shown = (format_mean(records, group, score, 1) for score in ACCURACIES.values())
        orders = str(mean_of(records, group, aggregate.average).n)
        rows.append([group.data, group.backbone, group.learner, group.how, *shown, orders])
    if not rows:
        return None
    columns = ("data", "backbone", "learner", "protocol", *ACCURACIES, "orders")
    return Table("Accuracy (%) on other data", columns, [RowGroup(None, rows)], heads=4)


def confusion_by_position(records: Records) -> Int64s | None:
    """Return the sum of the confusion matrices; a row is when a class was learned, not which."""
    matrices = [confusion(record) for record in records]
    return np.sum(matrices, axis=0) if matrices else None


def describe_bias(matrix: Int64s) -> str:
    """Return in words whether answers favour the classes learned first or last."""
    half = len(matrix) // 2
    first, last = slice(None, half), slice(-half, None)
    asked, answers, right = matrix.sum(axis=1), matrix.sum(axis=0), np.diagonal(matrix)
    old, new = (100.0 * answers[part].sum() / answers.sum() for part in (first, last))
    due = 100.0 * asked[last].sum() / asked.sum()
    old_right, new_right = (100.0 * right[part].sum() / asked[part].sum() for part in (first, last))
    return (
        f"{new:.1f} % of the answers name one of the {half} classes learned last, which "
        f"{due:.1f} % of the questions are about; {old:.1f} % name one of the {half} learned "
        f"first. Of the first, {old_right:.1f} % are labelled rightly, "
        f"of the last, {new_right:.1f} %."
    )


def origins(records: Records) -> Table:
    """Return data and backbones, with short fingerprints."""
    runs: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        inputs, run = record["inputs"], record["run"]
        digests = (inputs[name] for name in ("pictures", "weights", "vectors"))
        short = (str(digest)[:FINGERPRINT_DIGITS] for digest in digests)
        key = run["data"], run["backbone"], *short, describe_preprocessing(inputs["preprocessing"])
        runs[key].append(record)
    rows = [[DATA.get(key[0], key[0]), *key[1:], *_amount(runs[key])] for key in sorted(runs)]
    columns = ["data", "backbone", "pictures", "weights", "vectors", "preprocessing"]
    columns += ["runs", "hours"]
    return Table("Data and backbones", columns, [RowGroup(None, rows)], heads=2, words=columns[2:6])


def surroundings(records: Records) -> Table:
    """Return commits, machines and versions."""
    runs: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        versions = sorted(record["versions"].items())
        libraries = ", ".join(f"{name} {number}" for name, number in versions)
        key = record["commit"] or DASH, record["version"], record["machine"], libraries
        runs[key].append(record)
    rows = [[*key, *_amount(runs[key])] for key in sorted(runs)]
    columns = ("commit", "cbcl", "machine", "libraries", "runs", "hours")
    return Table("Software and machines", columns, [RowGroup(None, rows)], words=columns[1:4])


def _amount(records: Records) -> list[str]:
    """Return the number of runs, and the hours of all of them."""
    spent = sum(total_seconds(record["seconds"]) for record in records)
    return [str(len(records)), f"{spent / 3600.0:.2f}"]


def total_seconds(seconds: dict[str, float]) -> float:
    """Return all that a run took: as recorded, or the sum of its parts."""
    return seconds["all"] if "all" in seconds else sum(seconds.values())


def describe_preprocessing(description: dict[str, Any]) -> str:
    """Return the preprocessing in a line.

    >>> describe_preprocessing({"size": 224, "filter": "bicubic", "mean": [127, 127, 127]})
    'size 224, filter bicubic, mean 127 127 127'
    """
    return ", ".join(f"{name} {_as_text(value)}" for name, value in description.items()) or DASH


def _as_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_as_text, value))
    return value if isinstance(value, str) else json.dumps(value)
