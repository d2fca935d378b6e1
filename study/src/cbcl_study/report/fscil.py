"""Few-shot class-incremental learning: base classes from all pictures, then five of each class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cbcl_study.experiments import CIFAR, LITE, MAIN, OFFICIAL_CUB
from cbcl_study.paper import published
from cbcl_study.records import RunRecord
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    Records,
    RunGroup,
    format_error,
    format_number,
    group_of,
    is_budgeted,
    name_of,
    note_orders,
    summarise,
)
from cbcl_study.report.default import LEARNERS
from cbcl_study.report.rendering import BoldText, RowGroup, Section, Table
from cbcl_study.report.significance import difference, format_difference
from cbcl_study.scores import accuracies


class Benchmark(NamedTuple):
    """The field's own protocol on one data set."""

    title: str
    data: str
    base: int
    increment: int
    classes: int
    rival: str
    backbone: str  # of ours, that is wanted

    @property
    def sessions(self) -> list[int]:
        """The number of classes known after each session."""
        return [*range(self.base, self.classes + 1, self.increment)]


SHOTS = 5
BENCHMARKS = (
    Benchmark("CIFAR-100", CIFAR, 60, 5, 100, "NC-FSCIL", MAIN),
    Benchmark("CUB-200-2011", OFFICIAL_CUB, 100, 10, 200, "SAVC", LITE),
)
WANTED = ("discriminant", "cbcl", "ncm", "slda")


def section(records: Records) -> Section:
    text = (
        "The field's own protocol: the base classes are learned from all their pictures, the "
        f"others a few at a time from {SHOTS} pictures of each. The published rows are of networks "
        "trained on the base classes alone; ours are frozen networks that were trained on "
        "ImageNet. On CIFAR-100 that is other training data, which the published row does not "
        "have; on CUB its network starts from ImageNet, too, and so do ours. Larger pre-trained "
        "networks than either have published higher numbers since."
    )
    wanted = [group for benchmark in BENCHMARKS for group in _missing(records, benchmark)]
    parts = [table(records, benchmark) for benchmark in BENCHMARKS]
    return Section("Few-shot class-incremental learning", [text], parts, wanted)


def _missing(records: Records, benchmark: Benchmark) -> list[RunGroup]:
    """Return the learners that were run with no backbone and no budget."""
    protocol = benchmark.increment, benchmark.base, SHOTS
    run = {group.learner for group in runs_by_learner(records, benchmark)}
    return [
        RunGroup(benchmark.data, benchmark.backbone, learner, *protocol, whole_base=True)
        for learner in WANTED
        if learner not in run
    ]


def runs_by_learner(records: Records, benchmark: Benchmark) -> dict[RunGroup, list[RunRecord]]:
    """Return the runs of a benchmark by learner, backbone and budget, in the orders of all."""
    protocol = {"increment": benchmark.increment, "base": benchmark.base, "shots": SHOTS}
    found: dict[RunGroup, list[RunRecord]] = {}
    for run in aggregate.select(records, data=benchmark.data, whole_base=True, **protocol):
        if len(run["classes"]) == benchmark.classes:
            found.setdefault(group_of(run), []).append(run)

    orders = [{run["run"]["seed"] for run in runs} for runs in found.values()]
    shared = set.intersection(*orders) if orders else set()

    def rank(group: RunGroup) -> tuple[object, ...]:
        known = group.learner in LEARNERS
        place = LEARNERS.index(group.learner) if known else len(LEARNERS)
        return group.backbone, place, group.learner, group.max_centroids or 0

    return {
        group: [run for run in found[group] if run["run"]["seed"] in shared]
        for group in sorted(found, key=rank)
        if shared
    }


def table(records: Records, benchmark: Benchmark) -> Table:
    """Return accuracy after each session, beside the published row."""
    stated = published(benchmark.rival, benchmark.data, benchmark.increment)
    sessions = benchmark.sessions
    between = [DASH] * (len(sessions) - 2)
    rows, counts, sources = [], {}, []
    if stated:
        first, last = (format_number(value, 1) for value in (stated.first, stated.last))
        average = format_number(stated.average, 1)
        rows.append([f"published: {stated.method}", first, *between, last, average, DASH])
        sources.append(f"{stated.method}: {stated.source}.")
    for group, runs in runs_by_learner(records, benchmark).items():
        after = 100.0 * np.mean([accuracies(run) for run in runs], axis=0)
        last_accuracy = summarise(runs, aggregate.last)
        gap = difference(last_accuracy, stated.last) if stated else None
        shown = [format_number(float(value), 1) for value in after[:-1]]
        name = f"{name_of(group.learner)}, {group.backbone}"
        if group.max_centroids and is_budgeted(group.learner):
            name += f", K = {group.max_centroids}"
        average = format_error(summarise(runs, aggregate.average), 1)
        ended = BoldText(format_error(last_accuracy, 1))
        rows.append([name, *shown, ended, average, format_difference(gap, 1) if gap else DASH])
        counts[name] = len(runs)
    caption = (
        f"{benchmark.title}, {benchmark.base} classes, then {benchmark.increment} at a time from "
        f"{SHOTS} pictures: accuracy (%) after so many classes"
    )
    columns = ["learner", *map(str, sessions), "average", "last, less published (p)"]
    notes = [note_orders(counts), "± is a standard error.", *sources]
    return Table(caption, columns, [RowGroup(None, rows)], notes)
