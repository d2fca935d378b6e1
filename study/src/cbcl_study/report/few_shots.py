"""Table 2: CIFAR-100 from a few pictures of each class."""

from __future__ import annotations

from cbcl_study.paper import claims_at
from cbcl_study.report.aggregate import (
    Records,
    format_claim,
    format_spread,
    note_orders,
    runs_of,
)
from cbcl_study.report.comparison import backbones_for, claim_group, compare
from cbcl_study.report.reasons import reasons
from cbcl_study.report.rendering import RowGroup, Section, Table
from cbcl_study.report.significance import format_difference

SHOTS = (5, 10)


def section(records: Records) -> Section:
    claims = claims_at("Table 2, few shots")
    backbones = backbones_for(records, claims)
    parts = []
    for shots in SHOTS:
        rows = []
        for claim in (claim for claim in claims if claim.protocol.shots == shots):
            row = [claim.method, str(claim.protocol.increment), format_claim(claim)]
            for backbone in backbones:
                one = compare(records, claim, backbone)
                row += [format_spread(one.ours), format_difference(one.gap)]
            rows.append(row)
        parts.append(RowGroup(f"{shots} shots", rows))
    columns = ["method", "classes at a time", "paper"]
    columns += [
        name for backbone in backbones for name in (backbone, f"{backbone}: difference (p)")
    ]
    caption = "Table 2: average incremental accuracy (%) on CIFAR-100"
    counts = {
        f"{claim.what}, {backbone}": len(runs_of(records, claim_group(claim, backbone)))
        for claim in claims
        for backbone in backbones
    }
    notes = [note_orders(counts), *reasons(claims, backbones)]
    wanted = [claim_group(claim, claim.protocol.ours[0]) for claim in claims]
    table = Table(caption, columns, parts, notes, heads=2)
    return Section("Table 2: few shots", [], [table], wanted)
