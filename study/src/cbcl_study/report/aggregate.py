"""Runs behind a number of the report: how they are found, their mean and spread, how it is written.

A run group is the runs that differ in their seed alone. Accuracies are in per cent here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from cbcl_study import scores
from cbcl_study.experiments import CALTECH, CIFAR, CUB, OFFICIAL_CUB
from cbcl_study.learners import LEARNERS, LOGISTIC
from cbcl_study.paper import STATISTICS, Claim
from cbcl_study.records import RunRecord
from cbcl_study.scores import Summary, summary

Records: TypeAlias = Sequence[RunRecord]
Score: TypeAlias = Callable[[RunRecord], float]

DASH, MINUS = "—", "\N{MINUS SIGN}"
DATA = {
    CIFAR: "CIFAR-100",
    CALTECH: "Caltech-101",
    CUB: "CUB-200-2011",
    OFFICIAL_CUB: "CUB-200-2011, official split",
}
NAMES = {  # of learners
    "cbcl": "CBCL, vote",
    "discriminant": "CBCL, default",
    "ncm": "NCM",
    "slda": "SLDA",
    "slda-roots": "SLDA of roots",
    "ranpac": "RanPAC, 2,000",
    "ranpac-10000": "RanPAC, 10,000",
    LOGISTIC: "batch",
    "probe": "linear probe",
    "knn": "10 neighbours",
    "flb": "FLB",
    "fearnet": "FearNet",
    "mlp": "offline MLP",
    "ft": "FT",
    "lwf-mc": "LwF-MC",
    "lwm": "LwM",
    "icarl": "iCaRL",
    "icarl-hybrid1": "iCaRL, hybrid1",
    "eeil": "EEIL",
    "bic": "BiC",
    "joint": "joint",
    "joint-resnet34": "joint, ResNet-34",
}


class RunGroup(NamedTuple):
    """The runs of one learner in several orders of the classes."""

    data: str
    backbone: str
    learner: str
    increment: int = 10
    base: int | None = None
    shots: int | None = None
    max_centroids: int | None = None  # ignored for a learner without a budget
    whole_base: bool = False  # the first increment learns from all its pictures
    usual_order: bool = False  # the one order of many papers

    @property
    def how(self) -> str:
        """Increments, shots and budget, in words."""
        words = f"{self.base} + {self.increment}" if self.base else f"{self.increment}"
        words += " at a time"
        if self.shots:
            words += f", {self.shots} shots"
        if self.max_centroids and is_budgeted(self.learner):
            words += f", K = {self.max_centroids}"
        if self.usual_order:
            words += ", the usual order"
        return words


def is_budgeted(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS[learner].budgeted


def name_of(learner: str) -> str:
    """Return a learner's short name for tables and figures."""
    return NAMES.get(learner, learner)


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


def group_of(record: RunRecord) -> RunGroup:
    """Return the group that a run is of; a field that came after its record has its default."""
    run = record["run"]
    return RunGroup(**{name: run[name] for name in RunGroup._fields if name in run})


class IndexedRuns(list[RunRecord]):
    """Records that stay as they are, with an index: a report asks for thousands of groups."""

    @cached_property
    def by_group(self) -> dict[RunGroup, list[RunRecord]]:
        index: dict[RunGroup, list[RunRecord]] = {}
        for record in self:
            index.setdefault(group_of(record), []).append(record)
        return index


def runs_of(records: Iterable[RunRecord], group: RunGroup) -> list[RunRecord]:
    """Return the runs of a group: one for each order, with as many classes as the paper has."""
    limit = group.max_centroids if is_budgeted(group.learner) else None
    indexed = records if isinstance(records, IndexedRuns) else IndexedRuns(records)
    runs = indexed.by_group.get(group._replace(max_centroids=limit), [])
    if group.data not in STATISTICS:
        return [*runs]
    # Not of a part of the data set, or of pictures that only bear its name.
    classes = STATISTICS[group.data].classes
    return [record for record in runs if len(record["classes"]) == classes]


def in_common_orders(records: Records, groups: Iterable[RunGroup]) -> list[RunRecord]:
    """Return the runs of the groups in the orders of classes that every group with runs has."""
    found = [runs for group in dict.fromkeys(groups) if (runs := runs_of(records, group))]
    seeds = [{run["run"]["seed"] for run in runs} for runs in found]
    shared = set.intersection(*seeds) if seeds else set()
    return [run for runs in found for run in runs if run["run"]["seed"] in shared]


def count_orders(records: Iterable[RunRecord]) -> int:
    return len({record["run"]["seed"] for record in records})


def note_orders(counts: Mapping[str, int]) -> str:
    """Return how many orders are behind the numbers of a table, and where there are fewer.

    >>> note_orders({"NCM": 10, "SLDA": 3, "RanPAC": 3, "batch": 0})
    'Over 10 orders of the classes (SLDA, RanPAC: 3).'
    """
    if not any(counts.values()):
        return ""
    most = max(counts.values())
    fewer: dict[int, list[str]] = {}
    for name, n in counts.items():
        if 0 < n < most:
            fewer.setdefault(n, []).append(name)
    listed = "; ".join(f"{', '.join(names)}: {n}" for n, names in sorted(fewer.items()))
    orders = f"{most} orders" if most > 1 else "one order"
    return f"Over {orders} of the classes{f' ({listed})' if listed else ''}."


def deduplicate(records: Iterable[RunRecord]) -> IndexedRuns:
    """Return each run once, as it was recorded last, in an order that does not depend on theirs."""
    runs = {json.dumps(record["run"], sort_keys=True): record for record in records}
    return IndexedRuns(runs[run] for run in sorted(runs))


def summarise(records: Iterable[RunRecord], score: Score) -> Summary:
    """Return mean and deviation of a score over some runs."""
    return summary([score(record) for record in records])


def mean_of(records: Iterable[RunRecord], group: RunGroup, score: Score) -> Summary:
    """Return mean and deviation of a score over the orders of a group."""
    return summarise(runs_of(records, group), score)


def score_by_order(records: Iterable[RunRecord], group: RunGroup, score: Score) -> dict[int, float]:
    """Return a group's score in each order, by its seed."""
    return {run["run"]["seed"]: score(run) for run in runs_of(records, group)}


def standard_error(values: Summary) -> float:
    return values.std / math.sqrt(values.n) if values.n > 1 else math.nan


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
    >>> format_spread(Summary(math.nan, math.nan, 0))
    '—'
    """
    deviation = "" if math.isnan(values.std) else f" ± {values.std:.{digits}f}"
    return format_number(values.mean, digits) + deviation


def format_error(values: Summary, digits: int = 2) -> str:
    """Return a mean and its standard error, where there is one.

    >>> format_error(Summary(69.4, 0.6, 9)), format_error(Summary(69.4, math.nan, 1))
    ('69.40 ± 0.20', '69.40')
    """
    return format_spread(values._replace(std=standard_error(values)), digits)


def format_claim(claim: Claim | None) -> str:
    """Return a number of the paper with the digits that it has there, as far as known."""
    if claim is None:
        return DASH
    if claim.measure.startswith("omega"):
        return f"{claim.value:.3f}"
    if claim.std is not None:
        return f"{claim.value:.2f} ± {claim.std:.2f}"
    return str(claim.value)
