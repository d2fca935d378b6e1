"""The summary of the report: five sentences, a table and a figure, all computed from the records.

K as in the paper: the largest number of centroids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from cbcl_study.experiments import CIFAR, NETWORKS, PAIRS, PIXELS, SHOTS
from cbcl_study.learners import LOGISTIC
from cbcl_study.paper import BUDGETS, Claim, find_claims, only
from cbcl_study.report import aggregate, comparison
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    RunGroup,
    count_orders,
    format_claim,
    format_number,
    in_common_orders,
    mean_of,
    name_of,
)
from cbcl_study.report.comparison import claim_group
from cbcl_study.report.default import (
    DEFAULT,
    LEARNERS,
    VOTE,
    group_for,
)
from cbcl_study.report.rendering import BoldText, Drawing, RowGroup, Section, Table
from cbcl_study.report.rivals import draw_panel
from cbcl_study.report.significance import LEVEL, format_gap, paired


def section(records: Records) -> Section:
    caption = (
        "Accuracy on CIFAR-100 as classes are learned, ten at a time: means over orders, in "
        "parentheses the average incremental accuracy, then the published one."
    )
    figure = Drawing(caption, lambda: [draw_panel(records, 10, "Summary, CIFAR-100")])
    return Section("Summary", sentences(records), [standings(records), figure])


def sentences(records: Records) -> list[str]:
    """Return the five sentences; one whose runs are missing says so."""
    return [
        reproduction(records),
        ablation(records),
        default(records),
        rivals(records),
        memory(records),
    ]


def reproduction(records: Records) -> str:
    """Say how CBCL by vote compares with the paper."""
    parts = []
    for data in PAIRS:
        claim = _average_claim(data)
        ours = mean_of(records, group_for(VOTE, data, None), aggregate.average)
        if ours.n:
            parts.append(f"{ours.mean:.1f} % on {DATA[data]} (paper: {claim.value:g})")
    if not parts:
        return "CBCL by vote, the paper's learner, has not been run."
    tested = comparison.tested(records)
    clear = [one for one in tested if one.gap.is_clear]
    above = sum(one.gap.mean > 0 for one in clear)
    return (
        f"CBCL by vote, the paper's learner, reaches on the average {_list(parts)}, with other "
        f"networks than the paper's; of {len(tested)} comparisons with a number of the paper, "
        f"{len(clear)} differ at p < {LEVEL:g}, ours above in {above} and below in "
        f"{len(clear) - above}."
    )


def ablation(records: Records) -> str:
    """Say what CBCL's clustering gains over the plainest alternatives."""
    ours = only("CBCL", "average", CIFAR, where="Table 5")
    parts = []
    for method in ("NCM", "K-means"):
        other = only(method, "average", CIFAR, where="Table 5")
        one, two = (claim_group(claim, PAIRS[CIFAR]) for claim in (ours, other))
        gap = paired(records, one, two)
        if gap.n:
            stated = format_number(ours.value - other.value, sign="+")
            parts.append(f"{format_gap(gap)} points over {method} (paper: {stated})")
    if not parts:
        return "The paper's ablation has not been run."
    return f"On CIFAR-100 its clustering gains {_list(parts)}."


def default(records: Records) -> str:
    """Say how the default compares with the vote and with batch learning, in all cells."""
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    against = {}
    for other in (VOTE, LOGISTIC):
        pairs = ((group_for(DEFAULT, *cell), group_for(other, *cell)) for cell in cells)
        against[other] = [gap for one, two in pairs if (gap := paired(records, one, two)).n]
    vote, batch = against[VOTE], against[LOGISTIC]
    if not vote or not batch:
        return "CBCL's default has not been compared with the vote and with batch learning."
    gains = [gap.mean for gap in vote]
    better = [gap.mean for gap in batch if gap.is_clear and gap.mean > 0]
    worse = [gap.mean for gap in batch if gap.is_clear and gap.mean < 0]
    level = len(batch) - len(better) - len(worse)
    return (
        f"CBCL's default is {_range(gains)} points above the vote; against batch learning, a "
        f"linear layer solved on all the data so far, it is better in {len(better)} of "
        f"{len(batch)} cells{_up_to(better)}, level in {level} and worse in "
        f"{len(worse)}{_up_to(worse)}."
    )


def rivals(records: Records) -> str:
    """Say how the networks trained from scratch compare, ten classes at a time."""
    means = {
        learner: mean_of(records, RunGroup(CIFAR, PIXELS, learner), aggregate.average)
        for learner in NETWORKS
    }
    run = {learner: mean for learner, mean in means.items() if mean.n}
    if not run:
        return (
            f"Of the networks that the paper compares with ({', '.join(map(name_of, NETWORKS))}), "
            "none has been run here."
        )
    best = max(run, key=lambda learner: run[learner].mean)
    bests = RunGroup(CIFAR, PIXELS, best)
    gaps = []
    for learner in (VOTE, DEFAULT):
        gap = paired(records, group_for(learner, CIFAR, None), bests)
        if gap.n:
            side = "above" if gap.mean > 0 else "below"
            error = "" if math.isnan(gap.error) else f" ± {gap.error:.1f}"
            gaps.append(f"{name_of(learner)} is {abs(gap.mean):.1f}{error} points {side} it")
    told = f"; {_list(gaps)}, with a network that has seen ImageNet" if gaps else ""
    return (
        f"Of the paper's rivals that are trained from scratch on CIFAR-100, {name_of(best)} is the "
        f"best of {len(run)} run here with {run[best].mean:.1f} % on the average{told}."
    )


def memory(records: Records) -> str:
    """Say what is stored, in megabytes."""
    stated = only("CBCL", "megabytes", CIFAR)
    sizes = {
        learner: mean_of(records, group_for(learner, CIFAR, None), aggregate.megabytes)
        for learner in (VOTE, DEFAULT, "slda", LOGISTIC)
    }
    parts = [f"{size.mean:.1f} ({name_of(learner)})" for learner, size in sizes.items() if size.n]
    if not parts:
        return "What is stored of CIFAR-100 has not been measured."
    return (
        f"For CIFAR-100 the paper states {stated.value:g} MB for {BUDGETS[CIFAR]:,} centroids; a "
        f"file with all that is needed to go on takes {_list(parts)} MB."
    )


def standings(records: Records) -> Table:
    """Return the average of each learner on each data set, and its bytes; the best is bold."""
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    columns = [_column(records, *cell) for cell in cells]
    sizes = [
        format_number(mean_of(records, group_for(name, CIFAR, None), aggregate.megabytes).mean, 1)
        for name in LEARNERS
    ]
    names = ["paper: CBCL, other networks", *map(name_of, LEARNERS), "orders"]
    rows = [
        [name, *cells_of, size]
        for name, *cells_of, size in zip(names, *columns, [DASH, *sizes, DASH], strict=True)
    ]
    heads = [f"{DATA[data].partition('-200')[0]}, {shots or 'all'}" for data, shots in cells]
    caption = (
        "Average incremental accuracy (%) from all, 5 and 10 pictures of each class, ten classes "
        "at a time; megabytes for CIFAR-100, all"
    )
    networks = ", ".join(f"{DATA[data]}: {backbone}" for data, backbone in PAIRS.items())
    notes = [
        f"Networks here: {networks}. A column's learners are compared in the orders that all of "
        "them were run in.",
        "The default, batch and SLDA of roots see the vectors' square roots, scaled to unit "
        "length; the others see the vectors.",
    ]
    return Table(caption, ["learner", *heads, "MB"], [RowGroup(None, rows)], notes)


def _column(records: Records, data: str, shots: int | None) -> list[str]:
    """Return the paper's number, each learner's mean, and the number of orders."""
    groups = [group_for(learner, data, shots) for learner in LEARNERS]
    shared = in_common_orders(records, groups)
    means = [mean_of(shared, group, aggregate.average).mean for group in groups]
    best = max((mean for mean in means if not math.isnan(mean)), default=math.nan)
    shown = [
        BoldText(format_number(mean, 1)) if mean == best else format_number(mean, 1)
        for mean in means
    ]
    claim = _average_claim(data, shots)
    return [format_claim(claim), *shown, str(count_orders(shared) or DASH)]


def _average_claim(data: str, shots: int | None = None) -> Claim:
    """Return the paper's average of CBCL, ten classes at a time."""
    where = "" if shots or data != CIFAR else "Table 5"
    return find_claims("CBCL", "average", data, increment=10, shots=shots, where=where)[0]


def unfavourable(records: Records) -> Iterator[str]:
    """Yield the results that speak against CBCL or against our runs of it, as sentences."""
    others = (*(name for name in LEARNERS if name != DEFAULT), "probe", "k-means")
    for data in PAIRS:
        yield from _beaten(records, data, DEFAULT, others)
    yield from _beaten(records, CIFAR, VOTE, others)
    yield from _below_the_paper(records)


def _beaten(records: Records, data: str, ours: str, others: Iterable[str]) -> Iterator[str]:
    """Yield the learners that are ahead of ours with all the data, if there are any."""
    group = group_for(ours, data, None)
    ahead = []
    for learner in others:
        other = group_for(learner, data, None)
        gap = paired(records, other, group)
        if other != group and gap.is_clear and gap.mean > 0:
            size = mean_of(records, other, aggregate.megabytes).mean
            ahead.append(f"{name_of(learner)} by {gap.mean:.1f} ± {gap.error:.1f} ({size:.0f} MB)")
    if ahead:
        own = mean_of(records, group, aggregate.megabytes).mean
        yield (
            f"{DATA[data]}, all pictures: {name_of(ours)} ({own:.0f} MB) is behind {_list(ahead)}."
        )


def _below_the_paper(records: Records) -> Iterator[str]:
    """Yield the accuracies of ours that are clearly below the paper's, in one sentence."""
    found: dict[str, list[float]] = {}
    for one in comparison.tested(records):
        if one.gap.is_clear and one.gap.mean < 0 and one.claim.measure in ("average", "after"):
            place = one.claim.where.partition(",")[0]
            found.setdefault(f"{one.claim.method} ({place}, {one.backbone})", []).append(
                -one.gap.mean
            )
    parts = []
    for what, gaps in found.items():
        by = f"{_range(gaps)} in {len(gaps)} numbers" if len(gaps) > 1 else f"{gaps[0]:.1f}"
        parts.append(f"{what} by {by}")
    if parts:
        yield f"Below the paper's accuracies (p < {LEVEL:g}): {_list(parts)}."


def _list(parts: list[str]) -> str:
    """Return parts joined as in a sentence.

    >>> _list(["a", "b", "c"]), _list(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([*filter(None, [", ".join(parts[:-1])]), *parts[-1:]])


def _range(values: list[float]) -> str:
    return f"{format_number(min(values), 1)} to {format_number(max(values), 1)}"


def _up_to(values: list[float]) -> str:
    """Return the largest of some differences, in parentheses, if there are any."""
    return f" (by up to {max(map(abs, values)):.1f} points)" if values else ""
