"""Runs behind a number of the report: their mean and spread, how it is written, and tables of such.

A run group is the runs that differ in their seed alone. Accuracies are in per cent here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from cbcl.study.learners import LEARNERS, LOGISTIC
from cbcl.study.records import RunRecord
from cbcl.study.report import scores
from cbcl.study.report.paper import STATISTICS, Claim, Measure
from cbcl.study.report.scores import Summary, summary

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
NO_RUNS = Summary(math.nan, math.nan, 0)


class RunGroup(NamedTuple):
    """The runs of one learner in several orders of the classes."""

    data: str
    backbone: str
    learner: str
    increment: int = 10
    base: int | None = None
    shots: int | None = None
    max_centroids: int | None = None  # ignored for a learner without a budget

    @property
    def who(self) -> str:
        """Data, backbone and learner, in words."""
        return f"{DATA.get(self.data, self.data)}, {self.backbone}, {self.learner}"

    @property
    def how(self) -> str:
        """Increments, shots and budget, in words."""
        words = f"{self.base}, then {self.increment}" if self.base else f"{self.increment}"
        words += " an increment"
        if self.shots:
            words += f", {self.shots} shots"
        if self.max_centroids and is_budgeted(self.learner):
            words += f", K = {self.max_centroids}"
        return words


class BoldText(str):
    """A text in bold."""

    __slots__ = ()


class RowGroup(NamedTuple):
    """Some rows of a table, under a title of their own or none."""

    title: str | None
    rows: Sequence[Sequence[str]]


class Table(NamedTuple):
    """Rows of texts; the first columns name the row, the others are mostly numbers."""

    caption: str
    columns: Sequence[str]
    groups: Sequence[RowGroup]
    notes: Sequence[str] = ()
    heads: int = 1  # columns that name the row
    words: Sequence[str] = ()  # other columns that hold no numbers


def is_budgeted(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS[learner].budgeted


def describe_learner(learner: str) -> str:
    if learner == LOGISTIC:
        return (
            "joint logistic regression on all data so far, solved to convergence, its penalty the "
            "best on the test pictures"
        )
    return LEARNERS[learner].words if learner in LEARNERS else learner


def select(records: Iterable[RunRecord], **fields: Any) -> list[RunRecord]:
    """Return the records whose run has these fields.

    >>> records = [{"n": 1, "run": {"seed": 0}}, {"n": 2, "run": {"seed": 1}}]
    >>> [record["n"] for record in select(records, seed=1)]
    [2]
    """
    wanted = fields.items()
    return [record for record in records if wanted <= record["run"].items()]


def runs_of(records: Iterable[RunRecord], group: RunGroup) -> list[RunRecord]:
    """Return the runs of a group: one for each order, with as many classes as the paper has."""
    fields = group._asdict()
    if not is_budgeted(group.learner):
        fields["max_centroids"] = None
    runs = select(records, **fields)
    if group.data not in STATISTICS:
        return runs
    # Not of a part of the data set, or of pictures that only bear its name.
    classes = STATISTICS[group.data].classes
    return [record for record in runs if len(record["classes"]) == classes]


def in_common_orders(records: Records, groups: Iterable[RunGroup]) -> list[RunRecord]:
    """Return the records whose order of classes was run in every group that has runs."""
    seeds = [{run["run"]["seed"] for run in runs_of(records, group)} for group in groups]
    shared = set.intersection(*filter(None, seeds)) if any(seeds) else set()
    return [record for record in records if record["run"]["seed"] in shared]


def group_of(claim: Claim, backbone: str) -> RunGroup:
    """Return the runs for a claim of the paper, with a backbone of ours."""
    setting = claim.protocol
    if setting.learner is None or setting.increment is None:
        raise ValueError(
            f"{claim.what} ({claim.where}) is not run here: "
            "give a claim whose protocol has a learner."
        )
    rest = setting.increment, setting.base, setting.shots, setting.max_centroids
    return RunGroup(setting.data, backbone, setting.learner, *rest)


def deduplicate(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return each run once, as it was recorded last, in an order that does not depend on theirs."""
    runs = {json.dumps(record["run"], sort_keys=True): record for record in records}
    return [runs[run] for run in sorted(runs)]


def summarise(records: Iterable[RunRecord], score: Score) -> Summary:
    """Return mean and deviation of a score over some runs."""
    return summary([score(record) for record in records])


def mean_of(records: Iterable[RunRecord], group: RunGroup, score: Score) -> Summary:
    """Return mean and deviation of a score over the orders of a group."""
    return summarise(runs_of(records, group), score)


def average(record: RunRecord) -> float:
    return 100.0 * scores.average(record)


def last(record: RunRecord) -> float:
    return 100.0 * scores.last(record)


def last_class_mean(record: RunRecord) -> float:
    return 100.0 * float(scores.class_means(record)[-1])


def forgetting(record: RunRecord) -> float:
    return 100.0 * scores.forgetting(record)


def megabytes(record: RunRecord) -> float:
    return float(record["bytes"] / 1e6)


def seconds(record: RunRecord) -> float:
    return float(record["seconds"]["learning"])


def centroids(record: RunRecord) -> float:
    return float(record["centroids"][-1]) if record["centroids"] else math.nan


def format_number(value: float | None, digits: int = 2, *, sign: str = "") -> str:
    """Return a number in digits, or a dash where there is none; `sign` "+" shows both signs.

    >>> format_number(12.345), format_number(math.nan), format_number(None)
    ('12.35', '—', '—')
    >>> format_number(1.5, sign="+"), format_number(-0.001, sign="+")
    ('+1.50', '+0.00')
    """
    if value is None or math.isnan(value):
        return DASH
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{sign}.{digits}f}".replace("-", MINUS)


def format_spread(values: Summary, digits: int = 2) -> str:
    """Return a mean and its deviation, where there is one.

    >>> format_spread(Summary(69.4, 0.351, 10)), format_spread(Summary(69.4, math.nan, 1))
    ('69.40 ± 0.35', '69.40')
    >>> format_spread(NO_RUNS)
    '—'
    """
    deviation = "" if math.isnan(values.std) else f" ± {values.std:.{digits}f}"
    return format_number(values.mean, digits) + deviation


def format_mean(records: Records, group: RunGroup, score: Score = average, digits: int = 2) -> str:
    """Return the mean and the deviation of a score over the orders of a group, in digits."""
    return format_spread(mean_of(records, group, score), digits)


def format_claim(claim: Claim | None) -> str:
    """Return a number of the paper with the digits that it has there, as far as known."""
    if claim is None:
        return DASH
    if claim.measure.startswith("omega"):
        return f"{claim.value:.3f}"
    if claim.std is not None:
        return f"{claim.value:.2f} ± {claim.std:.2f}"
    return str(claim.value)


def missing_notes(records: Records, groups: Iterable[RunGroup]) -> Iterator[str]:
    """Yield a line for each learner with groups that were not run."""
    missing: dict[str, list[str]] = {}
    for group in dict.fromkeys(groups):
        if not runs_of(records, group):
            missing.setdefault(group.who, []).append(group.how)
    for who, hows in missing.items():
        yield f"not run: {who}: {'; '.join(hows)}."


def order_notes(records: Records, groups: Iterable[RunGroup]) -> Iterator[str]:
    """Yield a line on how many orders of the classes are behind the numbers, if any are."""
    counts = sorted({len(runs) for group in groups if (runs := runs_of(records, group))})
    if counts == [1]:
        yield "Ours: one order of the classes."
    elif counts:
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        yield f"Ours: mean ± standard deviation over {many} orders of the classes."


def notes(records: Records, groups: Sequence[RunGroup]) -> tuple[str, ...]:
    return (*order_notes(records, groups), *missing_notes(records, groups))
