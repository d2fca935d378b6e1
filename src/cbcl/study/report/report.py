"""The report: Markdown tables, one HTML page with figures, and the main table for a README.

Everything in it is computed from the records of runs and from the paper's claims; the same records
give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from cbcl.study.records import RunRecord
from cbcl.study.report import aggregate, comparison, default, extras, figures, tables
from cbcl.study.report.aggregate import Records, RunGroup
from cbcl.study.report.figures import AccuracyLine, BudgetLine, Colour, PaperMark
from cbcl.study.report.paper import STATISTICS
from cbcl.study.report.rendering import Drawing, Section, markdown_table, to_html, to_markdown
from cbcl.study.report.scores import curve
from cbcl.study.report.tables import CIFAR, CIFAR_BUDGET, MAIN_BACKBONE

TITLE = "CBCL: the paper's experiments, run again"
PAGE = "../results/report.html"

# Name, learner, shots, colour, line.
LINES: tuple[tuple[str, str, int | None, Colour, str], ...] = (
    ("CBCL, all", "cbcl", None, "blue", "-"),
    ("NCM, all", "ncm", None, "purple", "--"),
    ("CBCL, 10 shots", "cbcl", 10, "orange", "-"),
    ("CBCL, 5 shots", "cbcl", 5, "green", "-"),
    ("FLB, 10 shots", "flb", 10, "orange", ":"),
    ("FLB, 5 shots", "flb", 5, "green", ":"),
)
REDUCTION_COLOURS: dict[str, Colour] = {
    "cbcl": "blue",
    "remove-centroids": "orange",
    "merge-evenly": "green",
}


def markdown(records: Iterable[RunRecord]) -> str:
    """Return the tables, with a sentence or two on each."""
    runs = aggregate.deduplicate(records)
    text = to_markdown(TITLE, _introduction(runs), sections(runs))
    return text.replace("in the page:", f"in [the page]({PAGE}):")


def html(records: Iterable[RunRecord]) -> str:
    """Return the tables and the figures, as one page."""
    runs = aggregate.deduplicate(records)
    return to_html(TITLE, _introduction(runs), sections(runs))


def headline(records: Iterable[RunRecord]) -> str:
    """Return the default beside other learners, and the most telling claims, as Markdown tables."""
    runs = aggregate.deduplicate(records)
    beside = default.standings(default.pick_penalties(runs))
    shown = (markdown_table(table) for table in (beside, comparison.short_table(runs)))
    return "\n\n".join(shown) + "\n"


def _introduction(records: Records) -> list[str]:
    spent = sum(extras.total_seconds(record["seconds"]) for record in records) / 3600.0
    return [
        f"{len(records)} runs, {spent:.1f} hours. Accuracy is top-1 over the test pictures of all "
        "classes seen so far; the average is over increments. Where several orders of the classes "
        "were run, a number is the mean ± the sample's standard deviation over them. "
        f"{aggregate.DASH}: there is no such number.",
    ]


def sections(records: Records) -> list[Section]:
    """Return the sections of the report, in their order."""
    picked = default.pick_penalties(records)
    return [
        _default(picked),
        _claims(records),
        _curves(records),
        *_tables(records),
        _ablations(records),
        _choices(picked),
        _tuner(records),
        _confusion(records),
        *_others(records),
        _origins(records),
    ]


def _default(records: Records) -> Section:
    text = (
        "What CBCL does by default, from statistics of each class, beside the paper's learner and "
        "others on the same vectors, and beside batch learning, which keeps all of them. Nothing "
        "about the default was chosen on these orders, 0 to 9: its constants were looked at on "
        "orders 20 and above, and once on orders 0 and 1 before any choice was made. They come "
        "from independent runs on two orders, drawn otherwise, of the same data sets. Megabytes "
        "are the size of a file with all that is needed to go on."
    )
    caption = (
        "Accuracy over the size of all that is kept, on the same vectors: few bytes are on the "
        "left. Batch learning keeps all vectors."
    )
    figure = Drawing(caption, partial(default.draw_sizes, records))
    return Section("CBCL by default", [text], [default.standings(records), figure])


def _claims(records: Records) -> Section:
    text = (
        "Every number of the paper that is run here, in the paper's order, beside ours with each "
        "backbone that stands in for the paper's. Accuracies and decreases are in per cent, "
        "differences in points. A difference of at most twice both deviations together is within "
        "the spread of orders."
    )
    return Section("Paper, ours, difference, why", [text], [comparison.full_table(records)])


def _curves(records: Records) -> Section:
    text = (
        f"CIFAR-100 with {MAIN_BACKBONE}: all the data, and a few pictures of each class. NCM is "
        "nearest class mean, one centroid a class; FLB is the paper's baseline, which is trained "
        "anew on all data so far."
    )
    caption = (
        "Accuracy on CIFAR-100 as classes are learned, a few or more at a time: mean and one "
        "standard deviation over orders, and in parentheses the average incremental accuracy. "
        "Marks on the right: the paper's accuracy after the last class, and its upper bound, a "
        "network trained on all the data at once."
    )
    figure = Drawing(caption, partial(_draw_curves, records))
    return Section("CIFAR-100", [text], [figure, tables.cifar(records)])


def _draw_curves(records: Records) -> list[str]:
    panels = {size: _lines(records, size) for size in STATISTICS[CIFAR].increments}
    curves = [line.curve for lines in panels.values() for line in lines]
    floors = [(mean.mean - np.nan_to_num(mean.std)).min() for mean in curves]
    # The lowest of all panels, for one scale.
    lowest = 10.0 * math.floor(10.0 * max(0.0, min(floors, default=0.0)))
    bound = tables.find_claim("ResNet-34", "last", CIFAR, increment=100)
    drawn = []
    for size, lines in panels.items():
        final = tables.find_claim("CBCL", "last", CIFAR, increment=size)
        marks = []
        if final:
            marks.append(PaperMark(f"paper: {final.value:g}", final.value, "D"))
        if bound:
            marks.append(PaperMark(f"paper, all at once: {bound.value:g}", bound.value, "_"))
        drawn.append(figures.draw_curves(f"{size} classes at a time", lines, marks, lowest))
    return drawn


def _lines(records: Records, size: int) -> list[AccuracyLine]:
    lines = []
    for name, learner, shots, colour, dashes in LINES:
        group = RunGroup(CIFAR, MAIN_BACKBONE, learner, size, None, shots, CIFAR_BUDGET)
        if runs := aggregate.runs_of(records, group):
            average = aggregate.mean_of(records, group, aggregate.average).mean
            lines.append(AccuracyLine(name, curve(runs), average, colour, dashes))
    return lines


def _tables(records: Records) -> list[Section]:
    shots = " and from ".join(map(str, tables.SHOTS))
    few = f"Average incremental accuracy from {shots} pictures of each class, beside the paper's."
    few_tables = [
        tables.few_shots(
            records,
            tables.FEW_CIFAR,
            f"CIFAR-100, {MAIN_BACKBONE}: average incremental accuracy (%)",
        ),
        tables.few_shots(
            records, tables.FEW_OTHERS, "Caltech-101 and CUB: average incremental accuracy (%)"
        ),
    ]
    rows = (
        "Accuracy as classes are learned, 10 at a time, beside the paper's; the decrease is from "
        "the first to the last."
    )
    by_increments = [
        tables.increments(records, where, text, f"{data}, 10 classes at a time: accuracy (%)")
        for where, text, data in (
            ("Table 3, Caltech-101", "section 4.4", "Caltech-101"),
            ("Table 4, CUB-200-2011", "section 4.5", "CUB-200-2011"),
            ("Table S2, visual words", "section 7.1", "Caltech-101 by visual words"),
        )
    ]
    measures = (
        "The paper divides by the accuracy of a network trained on all the data at once; above 1 "
        "is better than that."
    )
    return [
        Section("Few shots", [few], few_tables),
        Section("Increment by increment", [rows], by_increments),
        Section("FearNet's measures", [measures], [tables.omegas(records)]),
    ]


def _ablations(records: Records) -> Section:
    text = "CBCL with one part of it swapped, and with smaller limits on centroids."
    caption = (
        "Average incremental accuracy on CIFAR-100 for every limit on centroids: mean and one "
        "standard deviation over orders. Hollow: the paper's numbers."
    )
    figure = Drawing(caption, partial(_draw_budgets, records))
    ablation, budgets = tables.ablation(records), tables.budgets(records)
    return Section("Ablation and memory", [text], [ablation, figure, budgets])


def _draw_budgets(records: Records) -> list[str]:
    lines = []
    for learner in tables.reductions(records):
        name = tables.REDUCTIONS[learner]
        means = {k: mean for k, mean in tables.budget_means(records, learner).items() if mean.n}
        stated = {
            limit: claim.value
            for claim in tables.budget_claims()
            if claim.method == name and (limit := claim.protocol.max_centroids)
        }
        averages, deviations = [m.mean for m in means.values()], [m.std for m in means.values()]
        colour = REDUCTION_COLOURS[learner]
        lines.append(BudgetLine(name, [*means], averages, deviations, colour, stated))
    title = "Average incremental accuracy on CIFAR-100 over the most centroids"
    return [figures.draw_budgets(lines, title)]


def _choices(records: Records) -> Section:
    text = [
        "What a user could pick instead, on the same vectors. The mean over classes is of their "
        "accuracies, each by itself, after the last increment; forgetting is the loss, in points, "
        "on the classes of an increment since it was at its best; megabytes are the size of a file "
        "with all that is needed to go on. The best average is in bold.",
        f"The learners: {extras.describe_learners(records)}",
    ]
    pairs = extras.pairs(records)
    parts = [extras.compare_learners(records, data, backbone) for data, backbone in pairs]
    return Section("The learners side by side", text, parts)


def _tuner(records: Records) -> Section:
    text = (
        "CBCL chooses D from its training vectors, by a rule that cross-validation may overrule. "
        "Here it is compared with every D that is fixed in advance, in units of the vectors' "
        "spread, the best of which is known only from the test pictures. (!) marks where the tuner "
        f"is more than {extras.TOLERANCE:g} points behind. The constants of the rule were chosen "
        "on the first orders of these same data sets: it is no independent test."
    )
    return Section("Is the tuner good enough?", [text], [extras.tuner(records)])


def _confusion(records: Records) -> Section:
    runs = aggregate.runs_of(records, extras.CONFUSION_RUNS)
    counts = extras.confusion_by_position(runs)
    if counts is None:
        return Section("Confusion", [*aggregate.missing_notes(records, [extras.CONFUSION_RUNS])])
    many = f"{len(runs)} orders" if len(runs) > 1 else "one order"
    caption = (
        "CBCL's answer (column) and the true class (row) after the last increment, CIFAR-100, "
        f"{MAIN_BACKBONE}, 10 classes at a time, K = {CIFAR_BUDGET}; in per cent of each row. "
        f"Classes are in the order in which they were learned, and those of {many} are added up "
        "place by place: a place is when a class was learned, not which class it is."
    )
    title = "Confusion of classes on CIFAR-100, in the order in which they were learned"
    figure = Drawing(caption, lambda: [figures.draw_confusion(counts, title)])
    return Section("Confusion", [extras.describe_bias(counts)], [figure])


def _others(records: Records) -> list[Section]:
    table = extras.others(records)
    if table is None:
        return []
    return [Section("Other runs", ["On data that the paper does not have."], [table])]


def _origins(records: Records) -> Section:
    text = (
        "Fingerprints are the first digits of a SHA-256: of the pictures with their labels, of the "
        "network's numbers, and of the vectors. Hours are the sum over all runs."
    )
    parts = [extras.origins(records), extras.surroundings(records)]
    return Section("Data, software and machines", [text], parts)
