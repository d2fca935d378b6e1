"""The summary of the report: a table and a figure, computed from the records."""

from __future__ import annotations

from cbcl_study.experiments import CIFAR, PAIRS, SHOTS
from cbcl_study.paper import find_claims
from cbcl_study.report import aggregate
from cbcl_study.report.aggregate import (
    DASH,
    DATA,
    Records,
    format_claim,
    format_number,
    mean_of,
    name_of,
)
from cbcl_study.report.choices import column
from cbcl_study.report.default import LEARNERS, group_for
from cbcl_study.report.rendering import Drawing, RowGroup, Section, Table
from cbcl_study.report.rivals import draw_panel


def section(records: Records) -> Section:
    caption = (
        "Accuracy on CIFAR-100 as classes are learned, ten at a time: means over orders, in "
        "parentheses the average incremental accuracy, then the published one."
    )
    figure = Drawing(caption, lambda: [draw_panel(records, 10, "Summary, CIFAR-100")])
    text = (
        "Accuracy is top-1 over the test pictures of all classes seen so far; the average is over "
        "increments."
    )
    return Section("Summary", [text], [standings(records), figure])


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
    where = "" if shots or data != CIFAR else "Table 5"
    claim = find_claims("CBCL", "average", data, increment=10, shots=shots, where=where)[0]
    groups = [group_for(learner, data, shots) for learner in LEARNERS]
    return [format_claim(claim), *column(records, groups)]
