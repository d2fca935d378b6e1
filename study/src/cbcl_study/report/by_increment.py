"""Tables 3, 4 and S2: accuracy after every ten classes, with what the text says beside them."""

from __future__ import annotations

from functools import partial

from cbcl_study.paper import Claim, claims_at
from cbcl_study.report import figures
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    RunGroup,
    format_claim,
    format_spread,
    note_orders,
    runs_of,
)
from cbcl_study.report.comparison import backbones_for, claim_group, compare, measure_claim
from cbcl_study.report.default import DEFAULT
from cbcl_study.report.figures import Line, Look
from cbcl_study.report.looks import DASHES, DOTS, LOOKS, look_of
from cbcl_study.report.reasons import reasons
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.rivals import curve_of
from cbcl_study.report.significance import format_difference

METHODS = ("FT", "LWM", "CBCL")
WORDS = {"average": "average", "drop": "decrease"}
PAPER_LOOKS = {
    "FT": Look("quiet", DOTS, "x"),
    "LWM": Look("quiet", DASHES, "D", is_hollow=True),
    "CBCL": Look("ink", "-", "o", is_hollow=True),
}


def section(records: Records, table: str, text: str, title: str) -> Section:
    """Return a table of the paper with the numbers of its section `text`, and its curves."""
    claims = claims_at(table)
    stated = [claim for claim in claims_at(text) if claim.measure in WORDS]
    ours = next(claim for claim in claims if claim.protocol.learner)
    first, *others = backbones_for(records, [ours])
    name = table.partition(",")[0]
    caption = f"{name}: accuracy (%) on {title}, ten classes at a time"
    shown = compare_increments(records, claims, stated, first, caption)
    details = [
        compare_increments(records, claims, stated, backbone, f"{caption}, {backbone}")
        for backbone in others
    ]
    figure = Drawing(
        f"Accuracy on {title} as classes are learned, ten at a time: ours with a band of one "
        "standard deviation over orders, and the paper's numbers.",
        partial(draw, records, claims, [first, *others], title),
    )
    wanted = [claim_group(ours, backbone) for backbone in ours.protocol.ours]
    return Section(f"{name}: {title}", [], [shown, figure], wanted, details)


def compare_increments(
    records: Records, claims: list[Claim], stated: list[Claim], backbone: str, caption: str
) -> Table:
    """Return the paper's rows with our column of one backbone, and what may explain differences."""
    ours = [claim for claim in claims if claim.protocol.learner]
    rows = [_row(records, group, backbone) for group in _by_classes(claims)]
    rows += [_row(records, group, backbone) for group in _by_words(stated)]
    if not any(claim.measure == "average" for claim in stated):
        mean = measure_claim(records, ours[-1], backbone, "average")
        rows.append(["average", *[DASH] * len(METHODS), format_spread(mean), DASH])
    columns = ["classes", *(f"paper: {method}" for method in METHODS), backbone, "difference (p)"]
    orders = len(runs_of(records, claim_group(ours[0], backbone)))
    # On FLB, see Table 2.
    explained = [claim for claim in (*ours, *stated) if claim.method != "FLB"]
    notes = [note_orders({backbone: orders}), *reasons(explained, [backbone])]
    return Table(caption, columns, [RowGroup(None, rows)], notes)


def _by_classes(claims: list[Claim]) -> list[list[Claim]]:
    seen = sorted({claim.classes_seen or 0 for claim in claims})
    return [[claim for claim in claims if claim.classes_seen == number] for number in seen]


def _by_words(claims: list[Claim]) -> list[list[Claim]]:
    """Return the claims of a section, those of the same measure and shots together."""
    groups: dict[tuple[object, ...], list[Claim]] = {}
    for claim in claims:
        shots = claim.protocol.shots
        alone = claim.method if claim.method == "FLB" else ""
        groups.setdefault((claim.measure, shots, alone), []).append(claim)
    return [*groups.values()]


def _row(records: Records, claims: list[Claim], backbone: str) -> list[str]:
    example = claims[-1]
    run = next((claim for claim in claims if claim.protocol.learner), None)
    by_method = {claim.method: format_claim(claim) for claim in claims}
    stated = [by_method.get(method, DASH) for method in METHODS]
    if example.method == "FLB":
        stated[-1] = by_method["FLB"]
    if run is None:
        return [_name(example), *stated, DASH, DASH]
    one = compare(records, run, backbone)
    return [_name(example), *stated, format_spread(one.ours), format_difference(one.gap)]


def _name(claim: Claim) -> str:
    if claim.classes_seen:
        return str(claim.classes_seen)
    words = WORDS[claim.measure]
    if claim.method == "FLB":
        words += " of FLB"
    return words + (f", {claim.protocol.shots} shots" if claim.protocol.shots else "")


def draw(records: Records, claims: list[Claim], backbones: list[str], title: str) -> list[str]:
    """Draw the paper's curves and ours: CBCL by vote with each backbone, and the default."""
    lines = []
    for method in METHODS:
        points = [(c.classes_seen or 0, c.value) for c in claims if c.method == method]
        x, y = zip(*points, strict=True)
        lines.append(Line(f"paper: {method}", x, y, PAPER_LOOKS[method]))
    example = next(claim for claim in claims if claim.protocol.learner)
    for place, backbone in enumerate(backbones):
        look = LOOKS["cbcl"]._replace(dashes=("-", DASHES)[place % 2])
        lines += curve_of(records, claim_group(example, backbone), f"vote, {backbone}", look)
        default = RunGroup(example.protocol.data, backbone, DEFAULT)
        lines += curve_of(records, default, f"default, {backbone}", look_of(DEFAULT))
    return [figures.draw_curves("10 classes at a time", lines, about=title)]


def sections(records: Records) -> list[Section]:
    return [
        section(records, "Table 3, Caltech-101", "section 4.4", DATA["caltech101"]),
        section(records, "Table 4, CUB-200-2011", "section 4.5", DATA["cub200"]),
        section(records, "Table S2, visual words", "section 7.1", "Caltech-101 by visual words"),
    ]
