"""The report: Markdown tables, and one HTML page with figures.

Everything in it is computed from the records of runs and from the paper's claims; the same records
give the same text.
"""

from __future__ import annotations

from collections.abc import Iterable

from cbcl_study.records import RunRecord
from cbcl_study.report import (
    ablation,
    aggregate,
    budgets,
    by_increment,
    choices,
    comparison,
    confusion,
    default,
    fearnet,
    few_shots,
    fscil,
    origins,
    rivals,
    summary,
    votes,
)
from cbcl_study.report.aggregate import Records
from cbcl_study.report.reasons import GENERAL
from cbcl_study.report.rendering import Section, markdown_table, to_html, to_markdown
from cbcl_study.report.significance import LEVEL

TITLE = "CBCL: the paper's experiments, run again"
PAGE = "../study/results/report.html"


def markdown(records: Iterable[RunRecord]) -> str:
    """Return the tables, with a sentence or two on each."""
    runs = aggregate.deduplicate(records)
    text = to_markdown(TITLE, introduction(runs), sections(runs))
    return text.replace("in the page:", f"in [the page]({PAGE}):")


def html(records: Iterable[RunRecord]) -> str:
    """Return the tables and the figures, as one page."""
    runs = aggregate.deduplicate(records)
    return to_html(TITLE, introduction(runs), sections(runs))


def standings(records: Iterable[RunRecord]) -> str:
    """Return the table of the summary, for docs/results.md."""
    return markdown_table(summary.standings(default.pick_penalties(aggregate.deduplicate(records))))


def introduction(records: Records) -> list[str]:
    spent = sum(origins.total_seconds(record["seconds"]) for record in records) / 3600.0
    return [
        f"{len(records)} runs, {spent:.1f} hours. Accuracy is top-1 over the test pictures of all "
        "classes seen so far; the average is over increments.",
    ]


def sections(records: Records) -> list[Section]:
    """Return the sections of the report, in their order."""
    picked = default.pick_penalties(records)
    caltech, cub, words = by_increment.sections(records)
    shown = [
        summary.section(picked),
        default.section(picked),
        reading(records),
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
        *choices.others(records),
    ]
    wanted = [group for section in shown for group in section.wanted]
    return [*shown, *origins.not_run(picked, wanted), origins.section(records)]


def reading(records: Records) -> Section:
    """Return how to read the comparisons, and how many of them differ."""
    tested = comparison.tested(records)
    clear = [one for one in tested if one.gap.is_clear]
    above = sum(one.gap.mean > 0 for one in clear)
    text = [
        "The sections that follow are the paper's tables, figures and numbered results, ours "
        "beside them. Ours are mean ± standard deviation over random orders of the classes, as "
        "the paper's; a difference is ± its standard error, with p of a two-sided t-test in "
        "parentheses. Where the paper gives a deviation over its ten orders it is Welch's test; "
        "elsewhere the paper's number is taken as exact, so that p is too small if its own error "
        "was as large as ours. Two of our learners are compared order by order, in the orders that "
        "both were run in. "
        f"Of {len(tested)} differences to the paper that can be tested, {len(clear)} are clear "
        f"(p < {LEVEL:g}; one in twenty would be by chance): ours is above in {above} and below "
        f"in {len(clear) - above}.",
        f"Reasons that may hold for all of them, none measured by itself: {GENERAL} Others stand "
        "below their tables.",
        "Table 1 (the sizes of the data sets), Figure 1 (a drawing of the method) and Figure 3 (a "
        "drawing of FLB) have no counterpart: they report no result. The data are as in Table 1, "
        "but that which classes take part is drawn.",
    ]
    return Section("The paper and ours: how to read", text)
