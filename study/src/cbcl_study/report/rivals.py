"""Figure 2 and section 4.3: CIFAR-100 as classes are learned, CBCL beside the paper's rivals."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from cbcl_study.experiments import CIFAR, JOINT, MAIN, NETWORKS, PIXELS
from cbcl_study.paper import (
    BUDGETS,
    OWN_RESNET34,
    PUBLISHED,
    STATISTICS,
    claims_at,
    find_claims,
    only,
    published,
)
from cbcl_study.report import aggregate, figures
from cbcl_study.report.aggregate import (
    DASH,
    Records,
    RunGroup,
    count_orders,
    format_claim,
    format_error,
    format_number,
    format_spread,
    in_common_orders,
    mean_of,
    name_of,
    runs_of,
)
from cbcl_study.report.comparison import backbones_for, compare, comparisons
from cbcl_study.report.default import DEFAULT, VOTE
from cbcl_study.report.figures import Level, Line, Look
from cbcl_study.report.looks import DOTS, look_of
from cbcl_study.report.reasons import reasons
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.significance import difference, format_difference, paired
from cbcl_study.scores import Summary, curve

SIZES = STATISTICS[CIFAR].increments
AT_ONCE = 100  # classes at a time
OURS = (VOTE, DEFAULT)  # on vectors
HYBRID = "icarl-hybrid1"  # shown where it was run


def section(records: Records) -> Section:
    caption = (
        "Figure 2 again: accuracy on CIFAR-100 as 2, 5, 10 and 20 classes at a time are learned, "
        "means over orders with a band of one standard deviation; in parentheses our average "
        "incremental accuracy, then the published one where it is known. Level lines: a network "
        "trained on all classes at once. CBCL answers from the vectors of a network that has seen "
        "ImageNet; the others are trained on CIFAR-100 alone."
    )
    text = (
        "The paper quotes its rivals from their papers. Here they are run: networks trained from "
        "scratch on the pixels of CIFAR-100 (ResNet-32), 2,000 kept pictures where a method keeps "
        "any."
    )
    figure = Drawing(caption, partial(draw, records))
    wanted = [_group(learner, size) for size in SIZES for learner in (*OURS, *NETWORKS)]
    wanted += [_group(learner, AT_ONCE) for learner in JOINT]
    parts: list[Table | Drawing] = [figure, sizes_table(records)]
    parts += [rivals_table(records), last_table(records)]
    return Section("Figure 2 and section 4.3: CIFAR-100 and the rivals", [text], parts, wanted)


def _group(learner: str, size: int) -> RunGroup:
    """Return the runs of a learner, so many classes at a time: of vectors, or of pixels."""
    if learner in OURS:
        return RunGroup(CIFAR, MAIN, learner, size, max_centroids=BUDGETS[CIFAR])
    return RunGroup(CIFAR, PIXELS, learner, size)


def draw(records: Records) -> list[str]:
    return [draw_panel(records, size, "CIFAR-100") for size in SIZES]


def draw_panel(records: Records, size: int, about: str) -> str:
    """Draw all curves of so many classes at a time."""
    papers = _group(VOTE, size)._replace(backbone=OWN_RESNET34)
    vectors = [_group(learner, size) for learner in OURS]
    networks = [_group(learner, size) for learner in NETWORKS]
    lines = [line for group in (*vectors, papers, *networks) for line in _line(records, group)]
    title = f"{size} classes at a time"
    return figures.draw_curves(title, lines, _levels(records), about=about)


def _line(records: Records, group: RunGroup) -> list[Line]:
    name = name_of(group.learner)
    look = look_of(group.learner)
    if group.backbone == OWN_RESNET34:
        name = "vote, ResNet-34"
        look = look._replace(dashes=DOTS, is_hollow=True)
    return curve_of(records, group, f"{name} ({_averages(records, group)})", look)


def curve_of(records: Records, group: RunGroup, name: str, look: Look) -> list[Line]:
    """Return the accuracy of a group as classes are learned, if it has runs."""
    return curve_of_runs(runs_of(records, group), name, look)


def curve_of_runs(runs: Records, name: str, look: Look) -> list[Line]:
    if not runs:
        return []
    seen, mean, std, _ = curve(runs)
    return [Line(name, seen.tolist(), (100.0 * mean).tolist(), look, (100.0 * std).tolist())]


def _averages(records: Records, group: RunGroup) -> str:
    """Return our average, and the published one after a semicolon."""
    ours = mean_of(records, group, aggregate.average).mean
    stated = _published_average(group.learner, group.increment)
    return f"{ours:.1f}" if stated is None else f"{ours:.1f}; {stated:g}"


def _published_average(learner: str, size: int) -> float | None:
    if learner == VOTE:
        return only("CBCL", "average", CIFAR, where="Table 5").value if size == 10 else None
    found = published(learner, CIFAR, size)
    return found.average if found else None


def _levels(records: Records) -> list[Level]:
    """Return the accuracies of networks trained on all classes at once: ours, or the paper's."""
    levels = []
    for learner in JOINT:
        mean = mean_of(records, _group(learner, AT_ONCE), aggregate.last)
        if mean.n:
            label = f"{name_of(learner)} ({mean.mean:.1f}; {_published_last(learner):g})"
            levels.append(Level(label, mean.mean, look_of(learner)))
    if levels:
        return levels
    stated = _published_last("joint-resnet34")
    return [Level(f"paper: all at once ({stated:g})", stated, Look("ink", DOTS))]


def _published_last(learner: str) -> float:
    found = published(learner, CIFAR, AT_ONCE)
    return found.last if found else only("ResNet-34", "last", CIFAR).value


def last_table(records: Records) -> Table:
    """Return section 4.3: accuracies after the last increment, and networks trained at once."""
    claims = claims_at("section 4.3")
    rows = []
    for claim in claims:
        for backbone in backbones_for(records, [claim]):
            one = compare(records, claim, backbone)
            shown = [format_spread(one.ours), format_difference(one.gap), str(one.ours.n or DASH)]
            rows.append([claim.what, backbone, format_claim(claim), *shown])
    columns = ("what", "our backbone", "paper", "ours", "difference (p)", "orders")
    caption = "Section 4.3: accuracy (%) on CIFAR-100 after the last class"
    notes = reasons(claims, [one.backbone for one in comparisons(records, claims)])
    return Table(caption, columns, [RowGroup(None, rows)], notes, heads=2)


def rivals_table(records: Records) -> Table:
    """Return published and our figures of each rival, and how far CBCL's default is above it."""
    groups = [_group(name, 10) for name in (*NETWORKS, HYBRID)]
    rows = [
        _rival_row(records, group)
        for group in groups
        if group.learner in NETWORKS or runs_of(records, group)
    ]
    usual = [group._replace(usual_order=True) for group in groups]
    once = [_rival_row(records, group) for group in usual if runs_of(records, group)]
    joint = [_joint_row(records, _group(learner, AT_ONCE)) for learner in JOINT]
    parts = [RowGroup("10 classes at a time", rows), RowGroup("all classes at once", joint)]
    if once:
        parts.insert(1, RowGroup("10 classes at a time, in the usual order of papers", once))
    columns = ["rival", "published", "ours", "difference of averages (p)", "of last (p)"]
    columns += ["orders", "seconds", "default less it (p)"]
    caption = "The rivals on CIFAR-100: average / last accuracy (%), ours ± standard error"
    bic = find_claims("BiC", "average", CIFAR)[0]
    notes = [
        "Sources of published numbers:",
        *_sources(),
        f"The paper quotes BiC with {format_claim(bic)} ({bic.where}).",
        "No number of LwM's that could be trusted is public.",
        "Seconds are those of learning all classes, by the clock; several runs may share a GPU.",
    ]
    return Table(caption, columns, parts, notes)


def sizes_table(records: Records) -> Table:
    """Return the averages of Figure 2 in its four panels, each in the orders that all share."""
    learners = (*OURS, *NETWORKS, HYBRID)
    columns = {size: _size_column(records, learners, size) for size in SIZES}
    rows = [
        [name, *(columns[size][place] for size in SIZES)]
        for place, name in enumerate([*map(name_of, learners), "orders"])
    ]
    shown = [row for row in rows if any(text != DASH for text in row[1:])]
    caption = "Figure 2: average incremental accuracy (%) on CIFAR-100"
    notes = ["± is a standard error. Each column is of the orders that all of its learners share."]
    names = ["learner", *(f"{size} at a time" for size in SIZES)]
    return Table(caption, names, [RowGroup(None, shown)], notes)


def _size_column(records: Records, learners: Iterable[str], size: int) -> list[str]:
    """Return each learner's average, and the number of orders."""
    groups = [_group(name, size) for name in learners]
    shared = in_common_orders(records, groups)
    means = [mean_of(shared, group, aggregate.average) for group in groups]
    return [*map(format_error, means), str(count_orders(shared) or DASH)]


def _sources() -> list[str]:
    """Return where the published numbers are from, one sentence a source."""
    by_source: dict[str, list[str]] = {}
    for one in PUBLISHED:
        if one.data == CIFAR and one.method in (*NETWORKS, *JOINT):
            setting = "" if one.setting in (10, AT_ONCE) else f" ({one.setting} at a time)"
            by_source.setdefault(one.source, []).append(f"{name_of(one.method)}{setting}")
    return [f"{', '.join(names)}: {source}." for source, names in by_source.items()]


def _rival_row(records: Records, group: RunGroup) -> list[str]:
    average, last = (
        mean_of(records, group, score) for score in (aggregate.average, aggregate.last)
    )
    found = published(group.learner, CIFAR, group.increment)
    stated = (
        f"{format_number(found.average, 1)} / {format_number(found.last, 1)}" if found else DASH
    )
    ours = f"{format_error(average)} / {format_error(last)}" if average.n else DASH
    gaps = [
        _format_gap(average, found.average if found else None),
        _format_gap(last, found.last if found else None),
    ]
    default = group._replace(backbone=MAIN, learner=DEFAULT)
    lead = format_difference(paired(records, default, group))
    return [name_of(group.learner), stated, ours, *gaps, *_cost(records, group), lead]


def _joint_row(records: Records, group: RunGroup) -> list[str]:
    last, stated = mean_of(records, group, aggregate.last), _published_last(group.learner)
    ours = f"{DASH} / {format_error(last)}" if last.n else DASH
    gap = _format_gap(last, stated)
    names = [name_of(group.learner), f"{DASH} / {stated:g}", ours, DASH, gap]
    return [*names, *_cost(records, group), DASH]


def _cost(records: Records, group: RunGroup) -> list[str]:
    """Return the number of orders, and the seconds of one."""
    seconds = mean_of(records, group, aggregate.seconds)
    return [str(seconds.n or DASH), format_number(seconds.mean, 0)]


def _format_gap(ours: Summary, stated: float | None) -> str:
    return DASH if stated is None else format_difference(difference(ours, stated))
