"""Section 4.2 and Figure S1: what is stored, and accuracy under smaller limits on centroids, K."""

from __future__ import annotations

import math
from functools import partial

from cbcl.vision.backbones.catalogue import network_catalogue
from cbcl_study.experiments import CIFAR, MAIN
from cbcl_study.paper import BUDGETS, CLAIMS, OWN_RESNET34, UNREDUCED, Claim, claims_at
from cbcl_study.report import aggregate, figures
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    RunGroup,
    format_claim,
    format_number,
    format_spread,
    mean_of,
    note_orders,
)
from cbcl_study.report.comparison import backbones_for, compare
from cbcl_study.report.figures import Line, Look
from cbcl_study.report.looks import look_of
from cbcl_study.report.reasons import suspicions
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.significance import Difference, format_difference, paired

NAMES = {"cbcl": "CBCL", "remove-centroids": "Remove-Centroids"}


def section(records: Records) -> Section:
    caption = (
        "Above: average incremental accuracy on CIFAR-100 for every K with one standard deviation "
        "over orders, hollow: the paper's numbers. Below: CBCL less Remove-Centroids, order by "
        "order, with its standard error."
    )
    wanted = [group_at(learner, limit) for limit in limits(records) for learner in NAMES]
    parts: list[Table | Drawing] = [sizes(records), table(records)]
    parts.append(Drawing(caption, partial(draw, records)))
    return Section("Section 4.2 and Figure S1: memory", [], parts, wanted)


def group_at(learner: str, limit: int) -> RunGroup:
    return RunGroup(CIFAR, MAIN, learner, max_centroids=limit)


def stated() -> dict[tuple[str, int], Claim]:
    """Return the paper's averages under a limit, by method and K."""
    claims = claims_at("Table 5, ablation", "sections 4.6 and 6.3")
    found = {}
    for claim in claims:
        limit = claim.protocol.max_centroids
        if claim.method in NAMES.values() and limit:
            found[claim.method, limit] = claim
    return found


def limits(records: Records) -> list[int]:
    """Return the values of K that were run or that the paper mentions."""
    runs = aggregate.select(records, data=CIFAR, backbone=MAIN, increment=10, base=None, shots=None)
    run = {one["run"]["max_centroids"] for one in runs if one["run"]["learner"] in NAMES}
    named = {limit for _, limit in stated()} | {BUDGETS[CIFAR], UNREDUCED}
    return sorted(limit for limit in {*named, *run} if limit is not None)


def table(records: Records) -> Table:
    """Return average incremental accuracy for every K, and the paired difference."""
    claims, rows, counts = stated(), [], {}
    for limit in limits(records):
        groups = [group_at(learner, limit) for learner in NAMES]
        shared = aggregate.in_common_orders(records, groups)
        row = [str(limit), whose(limit)]
        for group in groups:
            mean = mean_of(shared, group, aggregate.average)
            row += [format_claim(claims.get((NAMES[group.learner], limit))), format_spread(mean)]
        gap = paired(records, groups[0], groups[1])
        row.append(format_difference(gap))
        row.append(format_number(mean_of(shared, groups[0], aggregate.centroids).mean, 0))
        rows.append(row)
        counts[f"K = {limit}"] = gap.n
    names = [text for name in NAMES.values() for text in (f"paper: {name}", name)]
    columns = ["K", "whose K", *names, "CBCL less Remove-Centroids (p)", "centroids kept"]
    caption = f"Figure S1: average incremental accuracy (%) on CIFAR-100 under limits, {MAIN}"
    notes = [
        note_orders(counts),
        f"At K = {UNREDUCED} the paper says that nothing needs to be removed, without a number.",
    ]
    return Table(caption, columns, [RowGroup(None, rows)], notes, words=("whose K",))


def whose(limit: int) -> str:
    """Say whether a K is the paper's, or was added here."""
    named = {number for _, number in stated()} | {UNREDUCED}
    return "the paper's" if limit in named else "ours"


def sizes(records: Records) -> Table:
    """Return section 4.2: megabytes of the centroids, ours as a file of all that is needed."""
    claims = [claim for claim in CLAIMS if claim.measure == "megabytes"]
    rows = []
    for claim in claims:
        what = f"{DATA[claim.protocol.data]}: {claim.what}"
        if claim.protocol.learner is None:
            rows.append([f"{what} ({claim.method})", format_claim(claim), DASH, DASH])
            continue
        for backbone in backbones_for(records, [claim]):
            ours = compare(records, claim, backbone).ours
            known = "resnet34" if backbone == OWN_RESNET34 else backbone
            numbers = f"{backbone}, {network_catalogue()[known].dimension} numbers a centroid"
            rows.append([what, format_claim(claim), numbers, format_number(ours.mean, 1)])
    columns = ("what", "paper", "our backbone", "ours")
    caption = "Section 4.2: megabytes, ours as a file with all that is needed, in float32"
    words = ("our backbone",)
    return Table(caption, columns, [RowGroup(None, rows)], suspicions(claims), words=words)


def draw(records: Records) -> list[str]:
    claims, lines, theirs = stated(), [], []
    for learner, name in NAMES.items():
        means = {
            k: mean_of(records, group_at(learner, k), aggregate.average) for k in limits(records)
        }
        run = {k: mean for k, mean in means.items() if mean.n}
        look = look_of(learner)
        if run:
            averages, spreads = [m.mean for m in run.values()], [m.std for m in run.values()]
            lines.append(Line(name, [*run], averages, look, spreads))
        points = {limit: claim.value for (method, limit), claim in claims.items() if method == name}
        hollow = look._replace(is_hollow=True, width=0.6)
        theirs.append(
            Line(f"paper: {name}", sorted(points), [points[k] for k in sorted(points)], hollow)
        )
    ours, other = NAMES
    gaps = {k: paired(records, group_at(ours, k), group_at(other, k)) for k in limits(records)}
    shown = {k: gap for k, gap in gaps.items() if gap.n}
    differences = [_gap_line(shown)] if shown else []
    title = "Average incremental accuracy on CIFAR-100 over the most centroids"
    return [figures.draw_budgets(lines, theirs, differences, title)]


def _gap_line(gaps: dict[int, Difference]) -> Line:
    errors = [0.0 if math.isnan(gap.error) else gap.error for gap in gaps.values()]
    name = "CBCL less Remove-C."
    return Line(name, [*gaps], [gap.mean for gap in gaps.values()], Look("ink", "-", "o"), errors)
