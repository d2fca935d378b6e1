"""Table 5: CBCL with one part swapped."""

from __future__ import annotations

from cbcl_study.experiments import CIFAR, MAIN
from cbcl_study.paper import BUDGETS, Claim, claims_at, only
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    Records,
    RunGroup,
    describe_learner,
    format_claim,
    format_number,
    format_spread,
    mean_of,
    note_orders,
)
from cbcl_study.report.comparison import claim_group, compare, comparisons
from cbcl_study.report.reasons import reasons
from cbcl_study.report.rendering import RowGroup, Section, Table
from cbcl_study.report.significance import format_difference, paired

EXTRA = "merge-evenly"  # has no row in the paper


def section(records: Records) -> Section:
    claims = claims_at("Table 5, ablation")
    rows, counts, wanted = [], {}, []
    for claim in claims:
        run = [one.backbone for one in comparisons(records, [claim])]
        for backbone in run or claim.protocol.ours[:1]:
            rows.append(_row(records, claim, backbone))
            counts[f"{claim.method}, {backbone}"] = compare(records, claim, backbone).ours.n
        wanted.append(claim_group(claim, claim.protocol.ours[0]))
    extra = RunGroup(CIFAR, MAIN, EXTRA, max_centroids=BUDGETS[CIFAR])
    rows += _extra_rows(records, extra)
    columns = ["hybrid", "our backbone", "paper", "ours", "difference (p)", "ours, last"]
    columns += ["paper, less CBCL", "ours, less CBCL (p)"]
    caption = "Table 5: average incremental accuracy (%) on CIFAR-100 with one part of CBCL swapped"
    notes = [
        note_orders(counts),
        f"Less CBCL: with the same backbone, order by order; VGG-16: less CBCL with {MAIN}.",
        "Single-Centroid-Pred: with a limit K, CBCL has one voter by itself; the two are the same "
        "learner by construction, and the row shows the runs of CBCL.",
        f"{EXTRA}, no row of the paper's: {describe_learner(EXTRA)}.",
        *reasons(claims, [MAIN, "vgg16"]),
    ]
    table = Table(caption, columns, [RowGroup(None, rows)], notes, heads=2)
    return Section("Table 5: ablation", [], [table], [*wanted, extra])


def _row(records: Records, claim: Claim, backbone: str) -> list[str]:
    one, group = compare(records, claim, backbone), claim_group(claim, backbone)
    whole = only("CBCL", "average", CIFAR, where="Table 5")
    base = claim_group(whole, MAIN if backbone == "vgg16" else backbone)
    theirs = format_number(claim.value - whole.value, sign="+") if claim != whole else DASH
    last = mean_of(records, group, aggregate.last)
    shown = [format_spread(one.ours), format_difference(one.gap), format_spread(last)]
    return [
        claim.method,
        backbone,
        format_claim(claim),
        *shown,
        theirs,
        _less(records, group, base),
    ]


def _extra_rows(records: Records, group: RunGroup) -> list[list[str]]:
    mean = mean_of(records, group, aggregate.average)
    if not mean.n:
        return []
    last = mean_of(records, group, aggregate.last)
    gap = _less(records, group, group._replace(learner="cbcl"))
    shown = [format_spread(mean), DASH, format_spread(last), DASH, gap]
    return [[group.learner, group.backbone, DASH, *shown]]


def _less(records: Records, group: RunGroup, base: RunGroup) -> str:
    gap = paired(records, group, base)
    return format_difference(gap) if group != base else DASH
