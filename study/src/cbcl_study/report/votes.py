"""The vote's worth: CBCL with n voters, without a budget; n, D and K as in the paper."""

from __future__ import annotations

from cbcl_study.experiments import CIFAR, PAIRS
from cbcl_study.paper import BUDGETS, only
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
from cbcl_study.report.significance import format_difference, format_gap, paired

SAME_WITH_ONE_VOTER = ("single-centroid", "cbcl-rank")
ONE = "voters-1"


def section(records: Records) -> Section:
    stated = only("CBCL", "average", CIFAR, where="Table 5").value
    single = only("Single-Centroid-Pred", "average", CIFAR, where="Table 5").value
    text = [
        f"The paper's vote of the n nearest centroids gains {stated - single:.2f} points over one "
        "centroid (Table 5, Single-Centroid-Pred). Here the limit K fixes n at 1, so that gain "
        f"can only be tested without a limit. {one_voter(records)}{worth(records)}"
    ]
    with_runs = [data for data in PAIRS if _was_run(records, data)]
    parts = [table(records, data) for data in with_runs or [CIFAR]]
    return Section("The vote's worth", text, parts, _groups(CIFAR))


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
        less = format_difference(gap) if gap.n and group != base else DASH
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


def worth(records: Records) -> str:
    """Say what the vote gains without a limit: with the best n, and with n tuned."""
    one = RunGroup(CIFAR, PAIRS[CIFAR], ONE)
    gaps = {
        describe(group): gap
        for group in _groups(CIFAR)
        if group != one and not group.max_centroids and (gap := paired(records, group, one)).n
    }
    fixed = {name: gap for name, gap in gaps.items() if name.startswith("n = ")}
    if not fixed:
        return " Without a limit it has not been run."
    best = max(fixed, key=lambda name: fixed[name].mean)
    told = f" Without a limit, the best fixed number of several voters ({best.split(',')[0]}) is "
    told += f"{format_gap(fixed[best])} points above one voter"
    tuned = gaps.get("n tuned, no K")
    return told + (f", and n tuned {format_gap(tuned)}." if tuned else ".")


def one_voter(records: Records) -> str:
    """Say how often n was 1 under a budget, and which learners then answered alike."""
    budgeted = [
        record
        for record in aggregate.select(records, learner="cbcl")
        if record["run"]["max_centroids"] and record["tunings"]
    ]
    if not budgeted:
        return "No run of CBCL under a limit is recorded."
    alone = sum(all(n == 1 for _, n in record["tunings"]) for record in budgeted)
    sentence = f"Under a limit n was 1 throughout in {alone} of {len(budgeted)} runs of CBCL"
    alike = [text for learner in SAME_WITH_ONE_VOTER if (text := _alike(records, learner))]
    names = "Single-Centroid-Pred and the vote weighed by rank then equal CBCL bit for bit"
    return f"{sentence}; {names} ({', '.join(alike)})." if alike else f"{sentence}."


def _alike(records: Records, learner: str) -> str:
    """Say in how many orders a learner's answers were CBCL's, all of them."""
    group = RunGroup(CIFAR, PAIRS[CIFAR], "cbcl", max_centroids=BUDGETS[CIFAR])
    answers = [
        {run["run"]["seed"]: (run["right"], run["confusion"]) for run in runs_of(records, one)}
        for one in (group, group._replace(learner=learner))
    ]
    both = {*answers[0]} & {*answers[1]}
    same = sum(answers[0][seed] == answers[1][seed] for seed in both)
    return f"{learner}: in {same} of {len(both)} orders" if both else ""
