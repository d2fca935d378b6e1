"""Beyond the paper: the learners side by side, whether the tuner is good enough, and how the numbers were made."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import numpy as np

from cbcl.method.arrays import Int64s
from cbcl.study.learners import RADIUS_SCALES
from cbcl.study.records import RunRecord
from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import DASH, DATA, Cell, Group, Records, Strong, Table
from cbcl.study.report.paper import BUDGETS, STAND_INS, STATISTICS
from cbcl.study.report.scores import confusion

CHOICES = ("cbcl", "cbcl-rank", "ncm", "knn", "slda", "ranpac", "ranpac-10000", "flb", "probe")
VARIANTS = ("cbcl-rank", "ranpac-10000")  # of others: shown only where they were run
PAIRS = [
    ("cifar100", "resnet50-keras"),
    *((data, backbone) for data in ("caltech101", "cub200") for backbone in STAND_INS["resnet18"]),
]
SHOTS = (None, 5, 10)
CONFUSED = Cell("cifar100", "resnet50-keras", "cbcl", max_centroids=BUDGETS["cifar100"])
TOLERATED = 0.5  # points that the tuner may lose against the best radius
DIGITS = 12  # of a fingerprint
ACCURACIES = {
    "average": aggregate.averages,
    "after the last": aggregate.lasts,
    "mean over classes": aggregate.last_class_means,
    "forgetting": aggregate.forgettings,
}
COSTS = {"megabytes": aggregate.megabytes, "seconds of learning": aggregate.seconds}


def pairs(records: Records) -> list[tuple[str, str]]:
    """Data and backbone: those of the paper's comparisons, and any other on which several learners were run."""
    learners = defaultdict(set)
    for record in aggregate.select(records, increment=10, base=None):
        run = record["run"]
        if run["learner"] in CHOICES and run["data"] in BUDGETS:
            learners[run["data"], run["backbone"]].add(run["learner"])
    several = sorted(pair for pair, names in learners.items() if len(names) > 2)
    return [*PAIRS, *(pair for pair in several if pair not in PAIRS)]


def learners(records: Records, data: str, backbone: str) -> Table:
    """What a user could pick instead, on the same vectors; the best average stands out."""
    asked = _asked(aggregate.select(records, data=data, backbone=backbone, increment=10, base=None))
    groups: list[Group] = []
    wanted: list[Cell] = []
    notes: list[str] = []
    for shots in SHOTS:
        here = [
            Cell(data, backbone, learner, shots=shots, max_centroids=BUDGETS[data])
            for learner in asked
        ]
        shared = aggregate.common(records, here)
        best = max(
            (aggregate.mean(shared, cell, aggregate.averages).mean for cell in here), key=_or_least
        )
        rows = [[cell.learner, *_compared(shared, cell, best)] for cell in here]
        groups.append(Group(f"{shots} shots" if shots else "all the data", rows))
        notes += aggregate.orders(shared, here)
        wanted += here
    caption = f"{DATA[data]}, {backbone}, 10 classes at a time, K = {BUDGETS[data]}"
    said = (*dict.fromkeys(notes), *aggregate.not_run(records, wanted))
    return Table(caption, ("learner", *ACCURACIES, *COSTS), groups, said)


def _compared(records: Records, cell: Cell, best: float) -> list[str]:
    found = [aggregate.mean(records, cell, score) for score in ACCURACIES.values()]
    first, *others = (aggregate.spread(one, 1) for one in found)
    costs = (
        aggregate.number(aggregate.mean(records, cell, score).mean) for score in COSTS.values()
    )
    return [Strong(first) if found[0].mean == best else first, *others, *costs]


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def explained(records: Records) -> str:
    """The learners in words."""
    return "; ".join(f"{one}: {aggregate.described(one)}" for one in _asked(records)) + "."


def _asked(records: Records) -> list[str]:
    return [one for one in CHOICES if one not in VARIANTS or aggregate.select(records, learner=one)]


def tuner(records: Records) -> Table:
    """The radius that CBCL chose by itself, held against every fixed one."""
    fixed = ["ncm", *(f"radius-{scale:g}" for scale in RADIUS_SCALES)]
    rows: list[list[str]] = []
    wanted: list[Cell] = []
    for data, backbone in pairs(records):
        for shots in SHOTS:
            cell = Cell(data, backbone, "cbcl", shots=shots, max_centroids=BUDGETS[data])
            here = [cell, *(cell._replace(learner=learner) for learner in fixed)]
            shared = aggregate.common(records, here)
            tuned, *others = (aggregate.mean(shared, one, aggregate.averages).mean for one in here)
            best = max(others, key=_or_least)
            gap = aggregate.signed(tuned - best)
            shown = [
                Strong(aggregate.number(mean)) if mean == best else aggregate.number(mean)
                for mean in others
            ]
            known = fixed[others.index(best)] if not math.isnan(best) else DASH
            last = Strong(f"{gap} (!)") if tuned - best < -TOLERATED else gap
            orders = str(len(aggregate.behind(shared, cell)) or DASH)
            rows.append(
                [
                    DATA[data],
                    backbone,
                    str(shots or "all"),
                    orders,
                    aggregate.number(tuned),
                    *shown,
                    known,
                    last,
                ]
            )
            wanted += here
    names = ["∞ (NCM)", *(f"{scale:g}" for scale in RADIUS_SCALES)]
    columns = ("data", "backbone", "shots", "orders", "tuned", *names, "best", "tuned less best")
    caption = "Average incremental accuracy (%) with D tuned, and with D fixed at so many times the vectors' spread"
    said = tuple(aggregate.not_run(records, wanted))
    return Table(caption, columns, [Group(None, rows)], said, heads=3, words=("best",))


def others(records: Records) -> Table | None:
    """Runs on data that the paper does not have."""
    here = list(
        dict.fromkeys(
            _cell(record) for record in records if record["run"]["data"] not in STATISTICS
        )
    )
    rows = []
    for cell in here:
        found = [aggregate.mean(records, cell, score) for score in ACCURACIES.values()]
        shown = (aggregate.spread(one, 1) for one in found)
        rows.append([cell.data, cell.backbone, cell.learner, cell.how, *shown, str(found[0].n)])
    columns = ("data", "backbone", "learner", "protocol", *ACCURACIES, "orders")
    return (
        Table("Accuracy (%) on other data", columns, [Group(None, rows)], heads=4) if rows else None
    )


def _cell(record: RunRecord) -> Cell:
    return Cell(**{name: record["run"][name] for name in Cell._fields})


def by_position(records: Records) -> Int64s | None:
    """The confusion matrices of some orders added up: a place is when a class was learned, not which it is."""
    found = [confusion(run) for run in records]
    return np.sum(found, axis=0) if found else None


def bias(matrix: Int64s) -> str:
    """In words, whether answers favour the classes learned first or last."""
    half = len(matrix) // 2
    asked, answers = matrix.sum(axis=1), matrix.sum(axis=0)
    right = np.diagonal(matrix)
    shares = [100.0 * part[some].sum() / whole for part, whole, some in (
        (answers, answers.sum(), slice(None, half)),
        (answers, answers.sum(), slice(-half, None)),
        (asked, asked.sum(), slice(-half, None)),
        (right, asked[:half].sum(), slice(None, half)),
        (right, asked[-half:].sum(), slice(-half, None)),
    )]  # fmt: skip
    old, new, due, old_right, new_right = (f"{share:.1f} %" for share in shares)
    return (
        f"{new} of the answers name one of the {half} classes learned last, which {due} of the questions are about; "
        f"{old} name one of the {half} learned first. Of the first, {old_right} are labelled rightly, "
        f"of the last, {new_right}."
    )


def origins(records: Records) -> Table:
    """Data and backbones: what they were, in short fingerprints."""
    found: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        inputs, run = record["inputs"], record["run"]
        digests = (str(inputs[name])[:DIGITS] for name in ("pictures", "weights", "vectors"))
        found[
            run["data"], run["backbone"], *digests, preprocessing(inputs["preprocessing"])
        ].append(record)
    rows = [
        [DATA.get(key[0], key[0]), *key[1:], *_amount(some)] for key, some in sorted(found.items())
    ]
    columns = (
        "data",
        "backbone",
        "pictures",
        "weights",
        "vectors",
        "preprocessing",
        "runs",
        "hours",
    )
    return Table("What was run on", columns, [Group(None, rows)], heads=2, words=columns[2:6])


def surroundings(records: Records) -> Table:
    """Commits, machines and versions."""
    found: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        versions = ", ".join(
            f"{name} {number}" for name, number in sorted(record["versions"].items())
        )
        found[record["commit"] or DASH, record["version"], record["machine"], versions].append(
            record
        )
    rows = [[*key, *_amount(some)] for key, some in sorted(found.items())]
    columns = ("commit", "cbcl", "machine", "libraries", "runs", "hours")
    return Table("What it was run with", columns, [Group(None, rows)], words=columns[1:4])


def _amount(records: Records) -> list[str]:
    """How many runs, and hours of all of them."""
    spent = sum(total(record["seconds"]) for record in records)
    return [str(len(records)), f"{spent / 3600.0:.2f}"]


def total(seconds: dict[str, float]) -> float:
    """All that a run took: as recorded, or the sum of its parts."""
    return seconds["all"] if "all" in seconds else sum(seconds.values())


def preprocessing(description: dict[str, Any]) -> str:
    """What was done to a picture, in a line.

    >>> preprocessing({"size": 224, "filter": "bicubic", "mean": [127, 127, 127]})
    'size 224, filter bicubic, mean 127 127 127'
    """
    return ", ".join(f"{name} {_value(value)}" for name, value in description.items()) or DASH


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_value(one) for one in value)
    return value if isinstance(value, str) else json.dumps(value)
