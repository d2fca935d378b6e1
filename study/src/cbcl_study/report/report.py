"""The report: Markdown tables, and one HTML page with figures.

Every number in it is computed from the records of runs, or is the paper's; the same records give
the same text. What follows from ours is written by hand, in docs/results.md and docs/study.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from cbcl_study.paper import RADII
from cbcl_study.records import RunRecord
from cbcl_study.report import (
    ablation,
    aggregate,
    budgets,
    by_increment,
    choices,
    confusion,
    default,
    fearnet,
    few_shots,
    fscil,
    origins,
    own,
    rivals,
    summary,
    votes,
)
from cbcl_study.report.aggregate import Records
from cbcl_study.report.rendering import Section, Table, markdown_table, to_html, to_markdown

TITLE = "CBCL: the paper's experiments, run again"
OWN_TITLE = "Learners compared, a few classes at a time"
READING = Section(
    "The paper and ours: how to read",
    [
        "The sections that follow are the paper's tables, figures and numbered results, ours "
        "beside them. Ours are mean ± standard deviation over random orders of the classes, as "
        "the paper's; a difference is ± its standard error, with p of a two-sided t-test in "
        "parentheses. Where the paper gives a deviation over its ten orders it is Welch's test; "
        "elsewhere the paper's number is taken as exact, so that p is too small if its own error "
        "was as large as ours. Two of our learners are compared order by order, in the orders that "
        "both were run in.",
        "Reasons that may hold for all of them, none measured by itself: How pictures were scaled "
        "and cropped is not said there. D is chosen by the spread and the number of the vectors "
        f"here, from {RADII[0]:g} to {RADII[-1]:g} there. In a full memory a centroid counts for "
        "the vectors behind it here, and once in the published code. How the few-shot numbers were "
        "made is not known: the published code overwrites the shots that it draws with all the "
        "data. Others stand below their tables.",
        "Table 1 (the sizes of the data sets), Figure 1 (a drawing of the method) and Figure 3 (a "
        "drawing of FLB) have no counterpart: they report no result. The data are as in Table 1, "
        "but that which classes take part is drawn.",
    ],
)


def markdown(records: Iterable[RunRecord]) -> str:
    """Return the tables, with a sentence or two on how to read each, and a title."""
    title, shown = compose(records)
    return f"# {title}\n\n{to_markdown(shown)}"


def body(records: Iterable[RunRecord]) -> str:
    """Return what is below the title."""
    return to_markdown(compose(records)[1])


def html(records: Iterable[RunRecord]) -> str:
    """Return the tables and the figures, as one page."""
    return to_html(*compose(records))


def standings(records: Iterable[RunRecord]) -> str:
    """Return the table of the summary, for docs/results.md."""
    return markdown_table(summary.standings(default.pick_penalties(aggregate.deduplicate(records))))


def compose(records: Iterable[RunRecord]) -> tuple[str, list[Section]]:
    """Return the title and the sections: one's own data first, and of the paper's what was run."""
    named = own.name_by_digest([*records], "data", "pictures")
    runs = aggregate.deduplicate(own.name_by_digest(named, "backbone", "vectors"))
    papers = aggregate.IndexedRuns(run for run in runs if not own.is_own(run))
    beside_paper = sections(papers)
    shown = [
        section
        for section, empty in zip(beside_paper, sections(aggregate.IndexedRuns()), strict=True)
        if section is READING or _has_results(section, empty)
    ]
    if runs and shown == [READING]:
        return OWN_TITLE, [*own.sections(runs), origins.section(runs)]
    owns = [run for run in runs if own.is_own(run)]
    wanted = [group for section in beside_paper for group in section.wanted]
    missing = origins.not_run(default.pick_penalties(papers), wanted)
    return TITLE, [*own.sections(owns), *shown, *missing, origins.section(runs)]


def _has_results(section: Section, empty: Section) -> bool:
    """Return whether a section differs from what it is without records."""
    return section.text != empty.text or _tables(section) != _tables(empty)


def _tables(section: Section) -> list[Table]:
    return [part for part in (*section.parts, *section.details) if isinstance(part, Table)]


def sections(records: Records) -> list[Section]:
    """Return what there is to compare with the paper and beyond it, in its order."""
    picked = default.pick_penalties(records)
    caltech, cub, words = by_increment.sections(records)
    return [
        summary.section(picked),
        default.section(picked),
        READING,
        rivals.section(records),
        few_shots.section(records),
        caltech,
        cub,
        ablation.section(records),
        votes.section(records),
        budgets.section(records),
        confusion.section(records),
        fearnet.section(records),
        words,
        fscil.section(records),
        choices.side_by_side(picked),
        choices.tuner_section(records),
    ]
