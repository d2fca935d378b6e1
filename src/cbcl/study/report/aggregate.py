"""Cells of the study: which runs stand behind a number, their mean and spread, how it is written, and tables of such.

A cell is all that a run is but its seed. Accuracies are in per cent here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from cbcl.study.learners import LEARNERS
from cbcl.study.records import RunRecord
from cbcl.study.report.paper import STATISTICS, Claim, Measure
from cbcl.study.report.scores import (
    Summary,
    average,
    class_means,
    forgetting,
    last,
    summary,
)

Records: TypeAlias = Sequence[RunRecord]
Score: TypeAlias = Callable[[RunRecord], float]

DASH, MINUS = "—", "\N{MINUS SIGN}"
DATA = {"cifar100": "CIFAR-100", "caltech101": "Caltech-101", "cub200": "CUB-200-2011"}
MEASURES: dict[Measure, str] = {
    "average": "average",
    "last": "after the last",
    "after": "after",
    "drop": "decrease",
    "omega_base": "Ω base",
    "omega_new": "Ω new",
    "omega_all": "Ω all",
    "megabytes": "megabytes",
}
NOTHING = Summary(math.nan, math.nan, 0)


class Cell(NamedTuple):
    """What is run in several orders of the classes."""

    data: str
    backbone: str
    learner: str
    increment: int = 10
    base: int | None = None
    shots: int | None = None
    max_centroids: int | None = None  # of no account to a learner without a budget

    @property
    def who(self) -> str:
        """Data, backbone and learner, in words."""
        return f"{DATA.get(self.data, self.data)}, {self.backbone}, {self.learner}"

    @property
    def how(self) -> str:
        """All the rest, in words."""
        step = f"{self.base}, then {self.increment}" if self.base else f"{self.increment}"
        limit = (
            f", K = {self.max_centroids}"
            if self.max_centroids and is_budgeted(self.learner)
            else ""
        )
        return f"{step} an increment" + (f", {self.shots} shots" if self.shots else "") + limit


class Strong(str):
    """A text that stands out in its table."""

    __slots__ = ()


class Group(NamedTuple):
    """Some rows of a table, under a title of their own or none."""

    title: str | None
    rows: Sequence[Sequence[str]]


class Table(NamedTuple):
    """Rows of texts; the first columns say what a row is about, the others are mostly numbers."""

    caption: str
    columns: Sequence[str]
    groups: Sequence[Group]
    notes: Sequence[str] = ()
    heads: int = 1  # columns that say what a row is about
    words: Sequence[str] = ()  # other columns that hold no numbers


def is_budgeted(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS[learner].budgeted


def described(learner: str) -> str:
    """A learner in words."""
    return LEARNERS[learner].words if learner in LEARNERS else learner


def select(records: Iterable[RunRecord], **fields: Any) -> list[RunRecord]:
    """The records whose run has these fields.

    >>> [found["n"] for found in select([{"n": 1, "run": {"seed": 0}}, {"n": 2, "run": {"seed": 1}}], seed=1)]
    [2]
    """
    return [
        record
        for record in records
        if all(record["run"][name] == value for name, value in fields.items())
    ]


def behind(records: Iterable[RunRecord], cell: Cell) -> list[RunRecord]:
    """The runs of a cell: one for each order, with as many classes as the paper has."""
    fields = cell._asdict()
    if not is_budgeted(cell.learner):
        fields["max_centroids"] = None
    found = select(records, **fields)
    if (
        cell.data in STATISTICS
    ):  # and not of some part of it, or of pictures that only bear its name
        found = [
            record for record in found if len(record["classes"]) == STATISTICS[cell.data].classes
        ]
    return found


def common(records: Iterable[RunRecord], cells: Iterable[Cell]) -> list[RunRecord]:
    """The records of those orders in which all of the cells were run, but for cells that were not run at all."""
    kept = list(records)
    seeds = [{record["run"]["seed"] for record in behind(kept, cell)} for cell in cells]
    shared = set.intersection(*(some for some in seeds if some)) if any(seeds) else set()
    return [record for record in kept if record["run"]["seed"] in shared]


def of_claim(claim: Claim, backbone: str) -> Cell:
    """What is run for a claim of the paper, with a backbone of ours."""
    setting = claim.protocol
    if setting.learner is None or setting.increment is None:
        raise ValueError(
            f"{claim.what} ({claim.where}) is not run here: give a claim whose protocol has a learner."
        )
    limit, shots = setting.max_centroids, setting.shots
    return Cell(
        setting.data, backbone, setting.learner, setting.increment, setting.base, shots, limit
    )


def settled(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Each run once, as it was recorded last, in an order that does not depend on theirs."""
    found = {json.dumps(record["run"], sort_keys=True): record for record in records}
    return [found[run] for run in sorted(found)]


def mean(records: Iterable[RunRecord], cell: Cell, score: Score) -> Summary:
    """The mean of a score over the orders of a cell, and its deviation."""
    return summary([score(record) for record in behind(records, cell)])


def averages(record: RunRecord) -> float:
    return 100.0 * average(record)


def lasts(record: RunRecord) -> float:
    return 100.0 * last(record)


def last_class_means(record: RunRecord) -> float:
    return 100.0 * float(class_means(record)[-1])


def forgettings(record: RunRecord) -> float:
    return 100.0 * forgetting(record)


def megabytes(record: RunRecord) -> float:
    return float(record["bytes"] / 1e6)


def seconds(record: RunRecord) -> float:
    return float(record["seconds"]["learning"])


def centroids(record: RunRecord) -> float:
    return float(record["centroids"][-1]) if record["centroids"] else math.nan


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none.

    >>> number(12.345), number(math.nan), number(None)
    ('12.35', '—', '—')
    """
    if value is None or math.isnan(value):
        return DASH
    return f"{round(value, digits) + 0.0:.{digits}f}".replace(
        "-", MINUS
    )  # + 0.0: no minus before a zero


def signed(value: float, digits: int = 2) -> str:
    """A difference.

    >>> signed(1.5), signed(-0.001), signed(math.nan)
    ('+1.50', '+0.00', '—')
    """
    return (
        DASH
        if math.isnan(value)
        else f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", MINUS)
    )


def spread(found: Summary, digits: int = 2) -> str:
    """A mean and its deviation, where there is one.

    >>> spread(Summary(69.4, 0.351, 10)), spread(Summary(69.4, math.nan, 1)), spread(NOTHING)
    ('69.40 ± 0.35', '69.40', '—')
    """
    deviation = "" if math.isnan(found.std) else f" ± {found.std:.{digits}f}"
    return number(found.mean, digits) + deviation


def stated(claim: Claim | None) -> str:
    """A number of the paper with the digits that it has there, as far as they can be known."""
    if claim is None:
        return DASH
    if claim.measure.startswith("omega"):
        return f"{claim.value:.3f}"
    if claim.std is not None:
        return f"{claim.value:.2f} ± {claim.std:.2f}"
    return str(claim.value)


def not_run(records: Records, cells: Iterable[Cell]) -> Iterator[str]:
    """A line on the cells without any run, for each learner that lacks some."""
    missing: dict[str, list[str]] = {}
    for cell in dict.fromkeys(cells):
        if not behind(records, cell):
            missing.setdefault(cell.who, []).append(cell.how)
    for who, hows in missing.items():
        yield f"not run: {who}: {'; '.join(hows)}."


def orders(
    records: Records, cells: Iterable[Cell], shown: str = "mean ± standard deviation"
) -> Iterator[str]:
    """A line on how many orders of the classes stand behind the numbers of these cells, if any do."""
    counts = sorted({len(found) for cell in cells if (found := behind(records, cell))})
    if counts == [1]:
        yield "Ours: one order of the classes."
    elif counts:
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        yield f"Ours: {shown} over {many} orders of the classes."


def notes(records: Records, cells: Sequence[Cell]) -> tuple[str, ...]:
    return (*orders(records, cells), *not_run(records, cells))
