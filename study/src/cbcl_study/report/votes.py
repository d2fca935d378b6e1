"""The vote's worth: CBCL with n voters, without a budget; n, D and K as in the paper."""

from __future__ import annotations

from cbcl_study.experiments import CIFAR, PAIRS
from cbcl_study.paper import BUDGETS
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    RunGroup,
    count_orders,
    format_number,
    format_spread,
    in_common_orders,
    mean_of,
    runs_of,
)
from cbcl_study.report.rendering import RowGroup, Section, Table
from cbcl_study.report.significance import format_difference, paired

ONE = "voters-1"


def section(records: Records) -> Section:
    text = (
        "The paper's vote of the n nearest centroids gains 1.15 points over one centroid (Table 5, "
        "Single-Centroid-Pred). Here the limit K fixes n at 1, so that gain can only be tested "
        "without a limit."
    )
    with_runs = [data for data in PAIRS if _was_run(records, data)]
    parts = [table(records, data) for data in with_runs or [CIFAR]]
    return Section("The vote's worth", [text], parts, _groups(CIFAR))


def _groups(data: str) -> list[RunGroup]:
    """Return one voter first, then the others, then the vote with n tuned, and with a budget."""
    free = [f"voters-{n}" for n in range(1, 11)] + ["cbcl", "cbcl-rank", "single-centroid"]
    groups = [RunGroup(data, PAIRS[data], learner) for learner in free]
    return [*groups, RunGroup(data, PAIRS[data], "cbcl", max_centroids=BUDGETS[data])]


def _was_run(records: Records, data: str) -> bool:
    *free, _ = _groups(data)
    return any(runs_of(records, group) for group in free)


def table(records: Records, data: str) -> Table:
    """Return accuracy with each number of voters, and less that with one, in common orders."""
    groups = [group for group in _groups(data) if runs_of(records, group)]
    shared = in_common_orders(records, groups)
    base = RunGroup(data, PAIRS[data], ONE)
    rows = []
    for group in groups:
        scores = (aggregate.average, aggregate.last)
        shown = [format_spread(mean_of(shared, group, score)) for score in scores]
        gap = paired(shared, group, base)
        less = format_difference(gap) if group != base else DASH
        kept = format_number(mean_of(shared, group, aggregate.centroids).mean, 0)
        rows.append([describe(group), *shown, less, kept])
    caption = (
        f"{DATA[data]}, {PAIRS[data]}, ten classes at a time: accuracy (%) by number of voters"
    )
    columns = ("voters", "average", "last", "average less one voter's (p)", "centroids kept")
    notes = [f"Orders: {count_orders(shared) or DASH}, the same for all."]
    return Table(caption, columns, [RowGroup(None, rows)], notes)


def describe(group: RunGroup) -> str:
    """Return a row's name."""
    if group.max_centroids:
        return f"n = 1, K = {group.max_centroids}"
    words = {
        "cbcl": "n tuned, no K",
        "cbcl-rank": "n tuned, weighed by rank, no K",
        "single-centroid": "Single-Centroid-Pred, no K",
    }
    return words.get(group.learner, f"n = {group.learner.removeprefix('voters-')}, no K")
