"""The report: from records of runs, Markdown tables, one HTML page with figures, and the headline for a README.

Everything in it is computed from the records and from the paper's claims; the same records give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from cbcl.study.records import RunRecord
from cbcl.study.report import aggregate, extras, figures, tables
from cbcl.study.report import comparison as heading
from cbcl.study.report.aggregate import Cell, Records
from cbcl.study.report.figures import Budgets, Line, Mark, Tone
from cbcl.study.report.paper import STATISTICS
from cbcl.study.report.rendering import Drawing, Section, markdown_table, to_html, to_markdown
from cbcl.study.report.scores import curve
from cbcl.study.report.tables import CIFAR, LIMIT, MAIN

TITLE = "CBCL: the paper's experiments, run again"
PAGE = "../results/report.html"

# Name, learner, shots, colour, line.
LINES: tuple[tuple[str, str, int | None, Tone, str], ...] = (
    ("CBCL, all", "cbcl", None, "blue", "-"),
    ("NCM, all", "ncm", None, "purple", "--"),
    ("CBCL, 10 shots", "cbcl", 10, "orange", "-"),
    ("CBCL, 5 shots", "cbcl", 5, "green", "-"),
    ("FLB, 10 shots", "flb", 10, "orange", ":"),
    ("FLB, 5 shots", "flb", 5, "green", ":"),
)
REDUCTIONS: dict[str, Tone] = {
    "cbcl": "blue",
    "remove-centroids": "orange",
    "merge-evenly": "green",
}


def markdown(records: Iterable[RunRecord]) -> str:
    """The tables, with a sentence or two on each."""
    found = aggregate.settled(records)
    return to_markdown(TITLE, _lead(found), sections(found)).replace(
        "in the page:", f"in [the page]({PAGE}):"
    )


def html(records: Iterable[RunRecord]) -> str:
    """The tables and the figures, as one page."""
    found = aggregate.settled(records)
    return to_html(TITLE, _lead(found), sections(found))


def headline(records: Iterable[RunRecord]) -> str:
    """The most telling rows, as a Markdown table."""
    return markdown_table(heading.short(aggregate.settled(records))) + "\n"


def _lead(records: Records) -> list[str]:
    spent = sum(extras.total(record["seconds"]) for record in records) / 3600.0
    return [
        f"{len(records)} runs, {spent:.1f} hours. Accuracy is top-1 over the test pictures of all classes "
        "seen so far; the average is over increments. Where several orders of the classes were run, a number is the "
        f"mean ± the sample's standard deviation over them. {aggregate.DASH}: there is no such number.",
    ]


def sections(records: Records) -> list[Section]:
    """What the report holds, in its order."""
    return [
        _claims(records),
        _curves(records),
        *_tables(records),
        _ablations(records),
        _choices(records),
        _tuner(records),
        _confusion(records),
        *_others(records),
        _making(records),
    ]


def _claims(records: Records) -> Section:
    text = (
        "Every number of the paper that is run here, beside what was found with each backbone that stands in for the "
        "paper's. Accuracies and decreases are in per cent, differences in points. What is no further from the "
        "paper's number than twice both deviations together is within the spread of orders."
    )
    return Section("Paper, ours, difference, why", [text], [heading.headline(records)])


def _curves(records: Records) -> Section:
    text = (
        f"CIFAR-100 with {MAIN}: all the data, and a few pictures of each class. NCM is nearest class mean, one "
        "centroid a class; FLB is the paper's baseline, which is trained anew on all data so far."
    )
    caption = (
        "Accuracy on CIFAR-100 as classes are learned, a few or more at a time: mean and one standard deviation over "
        "orders, and in parentheses the average incremental accuracy. Marks on the right: the paper's accuracy after "
        "the last class, and its upper bound, a network trained on all the data at once."
    )
    return Section(
        "CIFAR-100", [text], [Drawing(caption, partial(_panels, records)), tables.cifar(records)]
    )


def _panels(records: Records) -> list[str]:
    sizes = STATISTICS[CIFAR].increments
    panels = {size: _lines(records, size) for size in sizes}
    floors = [
        (line.curve.mean - np.nan_to_num(line.curve.std)).min()
        for lines in panels.values()
        for line in lines
    ]
    lowest = 10.0 * math.floor(
        10.0 * max(0.0, min(floors, default=0.0))
    )  # of all panels, for one scale
    bound = tables.named("ResNet-34", "last", CIFAR, increment=100)
    drawn = []
    for size, lines in panels.items():
        final = tables.named("CBCL", "last", CIFAR, increment=size)
        marks = [Mark(f"paper: {final.value:g}", final.value, "D")] if final else []
        marks += [Mark(f"paper, all at once: {bound.value:g}", bound.value, "_")] if bound else []
        drawn.append(figures.curves(f"{size} classes at a time", lines, marks, lowest))
    return drawn


def _lines(records: Records, size: int) -> list[Line]:
    found = []
    for name, learner, shots, tone, dashes in LINES:
        cell = Cell(CIFAR, MAIN, learner, size, None, shots, LIMIT)
        if runs := aggregate.behind(records, cell):
            found.append(
                Line(
                    name,
                    curve(runs),
                    aggregate.mean(records, cell, aggregate.averages).mean,
                    tone,
                    dashes,
                )
            )
    return found


def _tables(records: Records) -> list[Section]:
    shots = " and from ".join(map(str, tables.SHOTS))
    few = f"Average incremental accuracy from {shots} pictures of each class, beside the paper's."
    rows = "Accuracy as classes are learned, 10 at a time, beside the paper's; the decrease is from the first to the last."
    measures = "The paper divides by the accuracy of a network trained on all the data at once; above 1 is better than that."
    cifar, others = (
        f"CIFAR-100, {MAIN}: average incremental accuracy (%)",
        "Caltech-101 and CUB: average incremental accuracy (%)",
    )
    caption = "{}, 10 classes at a time: accuracy (%)"
    caltech, cub, words = "Table 3, Caltech-101", "Table 4, CUB-200-2011", "Table S2, visual words"
    return [
        Section(
            "Few shots",
            [few],
            [
                tables.few_shots(records, tables.FEW_CIFAR, cifar),
                tables.few_shots(records, tables.FEW_OTHERS, others),
            ],
        ),
        Section(
            "Increment by increment",
            [rows],
            [
                tables.increments(records, caltech, "section 4.4", caption.format("Caltech-101")),
                tables.increments(records, cub, "section 4.5", caption.format("CUB-200-2011")),
                tables.increments(
                    records, words, "section 7.1", caption.format("Caltech-101 by visual words")
                ),
            ],
        ),
        Section("FearNet's measures", [measures], [tables.omegas(records)]),
    ]


def _ablations(records: Records) -> Section:
    text = (
        "What becomes of CBCL when one part of it is another, and when it may keep fewer centroids."
    )
    caption = (
        "Average incremental accuracy on CIFAR-100 for every limit on centroids: mean and one standard deviation over "
        "orders. Hollow: what the paper states."
    )
    figure = Drawing(caption, partial(_budgets, records))
    return Section(
        "Ablation and memory", [text], [tables.ablation(records), figure, tables.budgets(records)]
    )


def _budgets(records: Records) -> list[str]:
    lines = []
    for learner in tables.reductions(records):
        name = tables.REDUCED[learner]
        limits = tables.limits(records)
        found = [
            aggregate.mean(
                records, Cell(CIFAR, MAIN, learner, max_centroids=limit), aggregate.averages
            )
            for limit in limits
        ]
        there = [(limit, one) for limit, one in zip(limits, found, strict=True) if one.n]
        stated = {
            claim.protocol.max_centroids: claim.value
            for claim in tables.budget_claims()
            if claim.method == name and claim.protocol.max_centroids
        }
        means, deviations = [one.mean for _, one in there], [one.std for _, one in there]
        lines.append(
            Budgets(
                name, [limit for limit, _ in there], means, deviations, REDUCTIONS[learner], stated
            )
        )
    return [
        figures.budgets(lines, "Average incremental accuracy on CIFAR-100 over the most centroids")
    ]


def _choices(records: Records) -> Section:
    text = [
        "What a user could pick instead, on the same vectors. The mean over classes is of their accuracies, each by "
        "itself, after the last increment; forgetting is what is lost, in points, on the classes of an increment since "
        "it was at its best; megabytes are of a file of all that is needed to go on. The best average is in bold.",
        f"The learners: {extras.explained(records)}",
    ]
    parts = [extras.learners(records, data, backbone) for data, backbone in extras.pairs(records)]
    return Section("The learners side by side", text, parts)


def _tuner(records: Records) -> Section:
    text = (
        "CBCL chooses D from what it is given, by a rule that cross-validation may overrule. Here it is held against "
        "every D that is fixed in advance, in units of the vectors' spread, the best of which is known only from the "
        f"test pictures. (!) marks where the tuner is more than {extras.TOLERATED:g} points behind. The constants of "
        "the rule were chosen on the first orders of these same data sets: it is no independent test."
    )
    return Section("Is the tuner good enough?", [text], [extras.tuner(records)])


def _confusion(records: Records) -> Section:
    runs = aggregate.behind(records, extras.CONFUSED)
    counts = extras.by_position(runs)
    if counts is None:
        return Section("Confusion", [*aggregate.not_run(records, [extras.CONFUSED])])
    many = f"{len(runs)} orders" if len(runs) > 1 else "one order"
    caption = (
        f"What CBCL answers (column) to what is asked (row) after the last increment, CIFAR-100, {MAIN}, 10 classes at "
        f"a time, K = {LIMIT}; in per cent of each row. Classes are in the order in which they were learned, and those "
        f"of {many} are added up place by place: a place is when a class was learned, not which class it is."
    )
    title = "Confusion of classes on CIFAR-100, in the order in which they were learned"
    figure = Drawing(caption, lambda: [figures.matrix(counts, title)])
    return Section("Confusion", [extras.bias(counts)], [figure])


def _others(records: Records) -> list[Section]:
    table = extras.others(records)
    return (
        []
        if table is None
        else [Section("Other runs", ["On data that the paper does not have."], [table])]
    )


def _making(records: Records) -> Section:
    text = (
        "Fingerprints are the first digits of a SHA-256: of the pictures with their labels, of the network's numbers, "
        "and of the vectors. Hours are of all runs, one after another."
    )
    return Section(
        "How it was made", [text], [extras.origins(records), extras.surroundings(records)]
    )
