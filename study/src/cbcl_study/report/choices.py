"""Beyond the paper: learners side by side on the same vectors, and the tuner against fixed radii.

D as in the paper.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from cbcl_study.experiments import CIFAR, FIXED_RADII, MAIN, OBJECTS, SHOTS
from cbcl_study.learners import LOGISTIC
from cbcl_study.paper import BUDGETS
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    RunGroup,
    count_orders,
    describe_learner,
    format_number,
    in_common_orders,
    mean_of,
    name_of,
    runs_of,
)
from cbcl_study.report.rendering import BoldText, RowGroup, Section, Table
from cbcl_study.report.significance import format_difference, paired

CHOICES = (
    *("discriminant", "cbcl", "ncm", "knn", "slda", "slda-roots", "ranpac", "ranpac-10000"),
    *("flb", "probe", LOGISTIC),
)
PAIRS = [(CIFAR, MAIN), *OBJECTS]
TOLERANCE = 0.5  # points that the tuner may lose against the best radius
COSTS = {
    "last": aggregate.last,
    "forgetting": aggregate.forgetting,
    "MB": aggregate.megabytes,
    "seconds": aggregate.seconds,
}


def pairs(records: Records) -> list[tuple[str, str]]:
    """Return data and backbone of the paper's comparisons, and others with several learners."""
    learners = defaultdict(set)
    for record in aggregate.select(records, increment=10, base=None):
        run = record["run"]
        if run["learner"] in CHOICES and run["data"] in BUDGETS:
            learners[run["data"], run["backbone"]].add(run["learner"])
    several = sorted(pair for pair, names in learners.items() if len(names) > 2)
    return [*PAIRS, *(pair for pair in several if pair not in PAIRS)]


def _group(data: str, backbone: str, learner: str, shots: int | None) -> RunGroup:
    return RunGroup(data, backbone, learner, shots=shots, max_centroids=BUDGETS[data])


def side_by_side(records: Records) -> Section:
    text = [
        "What a user could pick instead, on the same vectors, ten classes at a time: average "
        "incremental accuracy from all, 5 and 10 pictures of each class; the other columns are of "
        "all pictures. Forgetting is the loss, in points, on the classes of an increment since it "
        "was at its best; MB is the size of a file with all that is needed to go on, seconds are "
        "those of learning. Each column has the orders that all learners share.",
    ]
    details = [compare_learners(records, data, backbone) for data, backbone in pairs(records)]
    return Section("The learners side by side", text, details=details)


def compare_learners(records: Records, data: str, backbone: str) -> Table:
    """Return the learners that were run, each column in the orders that all of them share."""
    learners = [
        name
        for name in CHOICES
        if any(runs_of(records, _group(data, backbone, name, shots)) for shots in SHOTS)
    ]
    columns = [
        column(records, [_group(data, backbone, name, shots) for name in learners])
        for shots in SHOTS
    ]
    groups = [_group(data, backbone, name, None) for name in learners]
    shared = in_common_orders(records, groups)
    for score in COSTS.values():
        costs = [mean_of(shared, group, score).mean for group in groups]
        columns.append([*(format_number(cost, 1) for cost in costs), DASH])
    names = [*map(name_of, learners), "orders"]
    rows = [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]
    heads = ("learner", *(f"{shots} shots" if shots else "all" for shots in SHOTS), *COSTS)
    caption = f"{DATA[data]}, {backbone}, K = {BUDGETS[data]}"
    notes = [f"{name_of(name)}: {describe_learner(name)}." for name in learners]
    return Table(caption, heads, [RowGroup(None, rows)], notes)


def column(records: Records, groups: Sequence[RunGroup]) -> list[str]:
    """Return the average of each group, the best in bold, and in how many orders: those of all."""
    shared = in_common_orders(records, groups)
    means = [mean_of(shared, group, aggregate.average).mean for group in groups]
    best = max((mean for mean in means if not math.isnan(mean)), default=math.nan)
    shown = [
        BoldText(format_number(mean, 1)) if mean == best else format_number(mean, 1)
        for mean in means
    ]
    return [*shown, str(count_orders(shared) or DASH)]


def tuner_section(records: Records) -> Section:
    text = (
        "CBCL chooses D from its training vectors, by a rule that cross-validation may overrule. "
        "Here it is compared with every D that is fixed in advance, in units of the vectors' "
        "spread (infinite: NCM), the best of which is known only from the test pictures. The "
        "constants of the rule were chosen on the first orders of these same data sets: it is no "
        "independent test."
    )
    return Section("Is the tuner good enough?", [text], details=[tuner(records)])


def tuner(records: Records) -> Table:
    """Return the average with the radius that CBCL chose, beside the best and the worst fixed."""
    rows = []
    for data, backbone in pairs(records):
        for shots in SHOTS:
            fixed = [_group(data, backbone, learner, shots) for learner in ("ncm", *FIXED_RADII)]
            run = [group for group in fixed if runs_of(records, group)]
            if run:
                tuned = _group(data, backbone, "cbcl", shots)
                shown = _compare_radii(records, tuned, run)
                rows.append([DATA[data], backbone, str(shots or "all"), *shown])
    columns = ["data", "backbone", "shots", "tuned", "best fixed", "at", "worst fixed", "at "]
    columns += ["tuned less best (p)", "orders"]
    caption = "Average incremental accuracy (%) with D tuned, and with the best and worst fixed D"
    return Table(caption, columns, [RowGroup(None, rows)], heads=3, words=("at", "at "))


def _compare_radii(records: Records, tuned: RunGroup, fixed: list[RunGroup]) -> list[str]:
    groups = [tuned, *fixed]
    shared = in_common_orders(records, groups)
    means = {group: mean_of(shared, group, aggregate.average).mean for group in groups}
    best = max(fixed, key=means.__getitem__)
    worst = min(fixed, key=means.__getitem__)
    gap = paired(shared, tuned, best)
    less = format_difference(gap)
    return [
        format_number(means[tuned]),
        format_number(means[best]),
        _radius(best.learner),
        format_number(means[worst]),
        _radius(worst.learner),
        BoldText(f"{less} (!)") if gap.mean < -TOLERANCE else less,
        str(count_orders(shared)),
    ]


def _radius(learner: str) -> str:
    return "∞" if learner == "ncm" else learner.removeprefix("radius-")
