"""Runs on data that the paper does not have: one table, best first, for each data and protocol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from cbcl_study.experiments import OFFICIAL_CUB
from cbcl_study.paper import STATISTICS
from cbcl_study.records import RunRecord
from cbcl_study.report import aggregate, figures
from cbcl_study.report.aggregate import DATA, Records, describe_learner, format_spread, summarise
from cbcl_study.report.looks import look_of
from cbcl_study.report.origins import FINGERPRINT_DIGITS
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.rivals import curve_of_runs

Groups: TypeAlias = dict[tuple[str, ...], list[RunRecord]]

SCORES = ("average", "last", "last, mean of classes", "MB", "s learning", "orders")
READING = Section(
    "How to read",
    [
        "After each increment a learner is tested on the test pictures of all classes seen so far. "
        "Average is the mean of these accuracies, last the one after the last increment; the mean "
        "of classes gives each class the same weight. MB is the size of a file with all that the "
        "learner needs to go on; seconds are those of learning. Numbers are mean ± standard "
        "deviation over random orders of the classes; each order has a split and shots of its own, "
        "the same for all learners.",
    ],
)
CURVES = "Accuracy as classes are learned: means over orders, with a band of one deviation."


def is_own(record: RunRecord) -> bool:
    """Return whether a run is on data that the paper does not have, or on a part of its data."""
    run = record["run"]
    if run["data"] == OFFICIAL_CUB:
        return not run.get("whole_base")
    known = STATISTICS.get(run["data"])
    return known is None or len(record["classes"]) != known.classes


def name_by_digest(records: Records, field: str, kind: str) -> list[RunRecord]:
    """Return the records with the digest of a kind of input where a name stands for several."""
    digests = defaultdict(set)
    for record in records:
        digests[record["run"]["data"], record["run"][field]].add(record["inputs"][kind])
    named: list[RunRecord] = []
    for record in records:
        run = record["run"]
        if is_own(record) and len(digests[run["data"], run[field]]) > 1:
            digest = record["inputs"][kind][:FINGERPRINT_DIGITS]
            run = {**run, field: f"{run[field]}, {kind} {digest}"}
        named.append({**record, "run": run})
    return named


def sections(records: Records) -> list[Section]:
    """Return a section for each data, and how to read them."""
    shown = []
    for (data,), runs in _divide(records, lambda record: (record["run"]["data"],)).items():
        parts: list[Table | Drawing] = []
        for (protocol,), compared in _divide(runs, _protocol).items():
            learners = _divide(compared, _learner)
            parts.append(_table(learners, f"Accuracy (%) on {protocol}"))
            if len(compared[0]["increments"]) > 1:
                parts.append(Drawing(CURVES, partial(_draw, learners, protocol)))
        shown.append(Section(f"Results: {DATA.get(data, data)}", [], parts))
    return [*shown, READING] if shown else []


def _divide(records: Records, key: Callable[[RunRecord], tuple[str, ...]]) -> Groups:
    groups: Groups = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _protocol(record: RunRecord) -> tuple[str]:
    group = aggregate.group_of(record)
    words = f"{len(record['classes'])} classes, {group._replace(max_centroids=None).how}"
    return (f"{words}, the first from all their pictures" if group.whole_base else words,)


def _learner(record: RunRecord) -> tuple[str, str]:
    run = record["run"]
    budget = f", K = {run['max_centroids']}" if run["max_centroids"] else ""
    return run["learner"] + budget, run["backbone"]


def _table(learners: Groups, caption: str) -> Table:
    ranked = sorted(learners, key=lambda one: -summarise(learners[one], aggregate.average).mean)
    rows = [[*learner, *scores(learners[learner])] for learner in ranked]
    orders = {frozenset(run["run"]["seed"] for run in runs) for runs in learners.values()}
    uneven = "Not all were run in the same orders: compare those that were."
    names = dict.fromkeys(learners[learner][0]["run"]["learner"] for learner in ranked)
    words = [f"{name}: {describe_learner(name)}." for name in names if ":" not in name]
    notes = [uneven if len(orders) > 1 else "", *words]
    return Table(caption, ["learner", "backbone", *SCORES], [RowGroup(None, rows)], notes, heads=2)


def scores(records: Records) -> list[str]:
    """Return the cells of a learner's runs, as in SCORES."""
    accuracies = (aggregate.average, aggregate.last, aggregate.last_class_mean)
    spreads = [format_spread(summarise(records, score)) for score in accuracies]
    size = summarise(records, aggregate.megabytes).mean
    seconds = summarise(records, aggregate.seconds).mean
    return [*spreads, f"{size:.3g}", f"{seconds:.3g}", str(aggregate.count_orders(records))]


def _draw(learners: Groups, protocol: str) -> Sequence[str]:
    several = len({backbone for _, backbone in learners}) > 1
    lines = []
    for (name, backbone), runs in learners.items():
        look = look_of(runs[0]["run"]["learner"])
        lines += curve_of_runs(runs, f"{name}, {backbone}" if several else name, look)
    data, classes = runs[0]["run"]["data"], len(runs[0]["classes"])
    return [figures.draw_curves(protocol, lines, about=data, classes=classes)]
