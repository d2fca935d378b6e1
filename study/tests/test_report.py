"""The report: its numbers are those of the records and the paper, or a dash."""

from __future__ import annotations

import hashlib
import math
import re
import statistics
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cbcl.errors import DataError
from cbcl_study.experiments import LITE, MAIN, NETWORKS
from cbcl_study.paper import CLAIMS, OWN_RESNET34
from cbcl_study.report import (
    ablation,
    aggregate,
    budgets,
    choices,
    comparison,
    confusion,
    default,
    fearnet,
    fscil,
    origins,
    report,
    rivals,
    summary,
    votes,
)
from cbcl_study.report.aggregate import DASH, MINUS, RunGroup
from cbcl_study.report.label_places import spread_out
from cbcl_study.report.looks import LOOKS, look_of
from cbcl_study.report.rendering import BoldText, RowGroup, Table, markdown_table
from cbcl_study.report.significance import difference, format_difference, paired
from cbcl_study.scores import Summary, encode_confusion

VOTE = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)


def recorded(
    cell: RunGroup, seed: int = 0, *, level: float = 0.6, classes: int = 100, **changes: Any
) -> dict[str, Any]:
    """A record that might be: accuracy falls as classes come, to about the level."""
    rng = np.random.default_rng(
        [seed, int(hashlib.sha256(repr(cell).encode()).hexdigest()[:8], 16)]
    )
    first = cell.base or cell.increment
    ends = [*range(first, classes, cell.increment), classes]
    sizes = np.diff(ends, prepend=0).tolist()
    tested = rng.integers(5, 40, classes)
    hard = rng.normal(0.0, 0.05, classes)
    right = []
    for seen in ends:
        chance = np.clip(1.0 - (1.0 - level - hard[:seen]) * (seen / classes) ** 0.4, 0.0, 1.0)
        right.append(rng.binomial(tested[:seen], chance).tolist())
    confusion = np.diag(right[-1])
    confusion[:, 0] += tested - right[-1]
    budgeted = aggregate.is_budgeted(cell.learner)
    limit = cell.max_centroids if budgeted else None
    counted = budgeted or cell.learner == "ncm"
    return {
        "run": {**cell._asdict(), "max_centroids": limit, "classes": classes, "seed": seed},
        "inputs": {
            **{
                name: hashlib.sha256(f"{name} {cell.data} {cell.backbone}".encode()).hexdigest()
                for name in DIGESTS
            },
            "preprocessing": {"size": 224, "mean": [127.0, 127.0, 127.0], "filter": "bicubic"},
        },
        "classes": [f"class {number}" for number in range(classes)],
        "increments": sizes,
        "tested": tested.tolist(),
        "right": right,
        "confusion": encode_confusion(confusion),
        "centroids": ends if counted else None,
        "tunings": [[0.5, 1]] * len(ends) if budgeted else None,
        "bytes": 4_000_000,
        "seconds": {"learning": 1.25, "all": 36.0},
        "commit": "0123abc",
        "version": "0.1.0",
        "machine": "a processor, 2 cores, Linux",
        "versions": {"python": "3.12.1", "numpy": "2.0.0"},
        **changes,
    }


DIGESTS = ("vectors", "pictures", "weights")
SOME = [
    *(VOTE._replace(increment=size, shots=shots) for size in (2, 10) for shots in (None, 5, 10)),
    *(
        VOTE._replace(learner=name)
        for name in ("ncm", "slda", "k-means", "remove-centroids", "single-centroid")
    ),
    *(RunGroup("cifar100", MAIN, name, 10, None, 5) for name in ("flb", "probe", "ncm", "knn")),
    *(VOTE._replace(learner=name, max_centroids=3000) for name in ("cbcl", "remove-centroids")),
    *(VOTE._replace(learner=f"radius-{scale}") for scale in ("1.25", "0")),
    VOTE._replace(increment=1, base=2),
    *(RunGroup("caltech101", backbone, "cbcl", max_centroids=1100) for backbone in (MAIN, LITE)),
    RunGroup("caltech101", "visual-words", "cbcl", max_centroids=1100),
    RunGroup("cub200", MAIN, "cbcl", shots=10, max_centroids=800),
    *(
        RunGroup("caltech101", LITE, name, shots=5)
        for name in ("cbcl", "discriminant", "logistic-0.1", "logistic-1")
    ),
    *(RunGroup("cifar100", "pixels", name) for name in ("icarl", "bic")),
    RunGroup("cifar100", "pixels", "joint", 100),
    *(RunGroup("cifar100", MAIN, f"voters-{n}") for n in (1, 2)),
    *(RunGroup("cifar100", MAIN, name, 1, 2) for name in ("fearnet", "mlp")),
    RunGroup("cifar100", MAIN, "ncm", 5, 60, 5, whole_base=True),
]


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return [recorded(cell, seed) for cell in SOME for seed in range(3)]


@pytest.fixture(scope="module")
def page(records: list[dict[str, Any]]) -> str:
    pytest.importorskip("matplotlib")
    return report.html(records)


def every_table(records: list[dict[str, Any]]) -> list[Table]:
    _, sections = report.compose(records)
    parts = [part for section in sections for part in section.parts]
    return [part for part in parts if isinstance(part, Table)]


def rows_of(table: Table) -> list[dict[str, str]]:
    return [
        dict(zip(table.columns, row, strict=True)) for group in table.groups for row in group.rows
    ]


def find(table: Table, **wanted: str) -> dict[str, str]:
    """The one row with these texts; an underscore in a name is a space."""
    rows = [
        row
        for row in rows_of(table)
        if all(row[k.replace("_", " ")] == text for k, text in wanted.items())
    ]
    assert len(rows) == 1, rows
    return rows[0]


def at_level(cell: RunGroup, *levels: float, **changes: Any) -> list[dict[str, Any]]:
    """Runs of a cell, one order a level, each of which is right about so often."""
    made = []
    for seed, level in enumerate(levels):
        run = recorded(cell, seed, **changes)
        right = [[round(100 * level)] * len(row) for row in run["right"]]
        made.append({**run, "tested": [100] * len(run["tested"]), "right": right})
    return made


# The whole


def test_the_same_records_give_the_same_text_in_whatever_order_they_come(
    records: list[dict[str, Any]], page: str
) -> None:
    shuffled = [records[place] for place in np.random.default_rng(0).permutation(len(records))]
    assert report.html(shuffled) == page
    assert report.markdown(shuffled) == report.markdown(records)
    assert report.standings(shuffled) == report.standings(records)


def test_every_number_of_the_paper_is_somewhere(records: list[dict[str, Any]]) -> None:
    text = report.markdown(records)
    for claim in CLAIMS:
        assert re.search(rf"(?<![\d.]){re.escape(aggregate.format_claim(claim))}(?!\d)", text), (
            claim
        )


def test_without_any_run_there_is_no_number_of_ours() -> None:
    sections = report.sections(aggregate.deduplicate([]))
    tables = [part for section in sections for part in section.parts if isinstance(part, Table)]
    assert len(tables) > 10
    for table in tables:
        for row in rows_of(table):
            if re.match("paper|published", next(iter(row.values()))):
                continue
            ours = [
                text
                for name, text in [*row.items()][table.heads :]
                if not re.search("paper|published", name) and name not in table.words
            ]
            assert set(ours) <= {DASH}, (table.caption, row)


def test_what_was_not_run_is_named_once_in_one_place(records: list[dict[str, Any]]) -> None:
    text = report.markdown(records)
    [table] = [table for table in every_table(records) if table.caption == "Not run"]
    assert text.count("not run:") == 0
    row = find(table, **{"data,_backbone": "CIFAR-100, pixels", "protocol": "10 at a time"})
    assert row["learners"] == "FT; LwF-MC; LwM; EEIL"
    assert "Trad-Agg" not in row["learners"]
    assert any("trad-agg" in row["learners"] for row in rows_of(table))
    assert not any("offline MLP" in row["learners"] for row in rows_of(table))
    few = find(
        table, **{"data,_backbone": f"CIFAR-100, {MAIN}", "protocol": "60 + 5 at a time, 5 shots"}
    )
    assert few["learners"] == "CBCL, default; CBCL, vote; SLDA"
    assert not any("k-means" in row["learners"] for row in rows_of(table))


@pytest.mark.parametrize("orders", [0, 1, 3])
def test_nothing_is_none_or_nan(orders: int, records: list[dict[str, Any]]) -> None:
    some = [record for record in records if record["run"]["seed"] < orders]
    text = report.markdown(some) + report.standings(some)
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|\{|\}", text)


def test_no_conclusion_is_drawn_from_the_records(records: list[dict[str, Any]]) -> None:
    empty, full = (
        {section.title: section.text for section in report.sections(aggregate.deduplicate(some))}
        for some in ([], records)
    )
    changed = {title for title, text in empty.items() if full[title] != text}
    assert changed == {"Figure S2: confusion"}
    assert full["Figure S2: confusion"] == []


def test_a_learner_that_is_not_in_the_list_is_called_by_its_name() -> None:
    assert aggregate.describe_learner("slda-9") == aggregate.name_of("slda-9") == "slda-9"
    cell = RunGroup("folder things", LITE, "slda-9")
    assert "slda-9" in report.markdown([recorded(cell)])


def test_rows_of_a_markdown_table_have_as_many_cells_as_its_head(
    records: list[dict[str, Any]],
) -> None:
    blocks = [block for block in report.markdown(records).split("\n\n") if block.startswith("|")]
    assert len(blocks) == len(every_table(records))
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_what_markdown_would_take_for_a_sign_is_escaped() -> None:
    table = Table("a_b", ["x|y"], [RowGroup(None, [["2 * 3 < 7"]])], ["One.", "Two."])
    assert markdown_table(table) == (
        "**a\\_b**\n\n| x\\|y |\n|---|\n| 2 \\* 3 \\< 7 |\n\nOne. Two."
    )


# Runs behind a number


def test_runs_of_other_budgets_shots_or_classes_are_not_taken() -> None:
    near = [
        VOTE._replace(max_centroids=3000),
        VOTE._replace(shots=5),
        VOTE._replace(base=2),
        VOTE._replace(increment=5),
        VOTE._replace(base=60, shots=5, whole_base=True),
        VOTE._replace(usual_order=True),
    ]
    few = {**recorded(VOTE), "classes": recorded(VOTE)["classes"][:20]}
    assert aggregate.runs_of([*map(recorded, near), few], VOTE) == []
    assert aggregate.runs_of([recorded(VOTE)], VOTE) == [recorded(VOTE)]


def test_a_record_of_before_there_was_a_whole_base_is_one_without() -> None:
    record = recorded(VOTE._replace(base=60, shots=5))
    del record["run"]["whole_base"]
    group = aggregate.group_of(record)
    assert group == VOTE._replace(base=60, shots=5)
    assert aggregate.runs_of([record], group) == [record]
    assert aggregate.runs_of([record], group._replace(whole_base=True)) == []


def test_runs_of_fewer_classes_than_the_paper_has_stand_behind_no_number() -> None:
    whole = recorded(VOTE)
    part = {**recorded(VOTE, 1), "classes": whole["classes"][:40]}
    assert aggregate.runs_of([whole, part], VOTE) == [whole]
    assert aggregate.mean_of([whole, part], VOTE, aggregate.average).n == 1
    own = RunGroup("folder things", LITE, "cbcl")
    few = {**recorded(own), "classes": ["cup", "key"]}
    assert aggregate.runs_of([few], own) == [few]  # the paper knows nothing of it


def test_a_budget_means_nothing_to_a_learner_without_one() -> None:
    record = recorded(RunGroup("cifar100", MAIN, "ncm"))
    assert record["run"]["max_centroids"] is None
    assert aggregate.runs_of([record], VOTE._replace(learner="ncm")) == [record]


def test_a_run_that_was_made_again_counts_once_and_as_made_last() -> None:
    old, new = recorded(VOTE, level=0.2), recorded(VOTE, level=0.7)
    assert aggregate.deduplicate([old, new]) == [new]
    assert aggregate.deduplicate([new, old]) == [old]


def test_only_orders_that_all_groups_with_runs_have_are_compared() -> None:
    ncm, slda = (VOTE._replace(learner=name) for name in ("ncm", "slda"))
    runs = [recorded(VOTE, seed) for seed in range(4)]
    runs += [recorded(ncm, seed) for seed in range(1, 3)]
    shared = aggregate.in_common_orders(runs, [VOTE, ncm, slda])
    assert Counter(run["run"]["learner"] for run in shared) == {"cbcl": 2, "ncm": 2}
    assert {run["run"]["seed"] for run in shared} == {1, 2}
    assert aggregate.in_common_orders([], [VOTE]) == []


# Differences and their tests

NUMBERS = st.lists(st.integers(0, 1000), min_size=3, max_size=10).filter(lambda v: len({*v}) > 1)


def summed(values: list[int]) -> Summary:
    return Summary(statistics.mean(values), statistics.stdev(values), len(values))


@given(NUMBERS, st.integers(0, 1000))
def test_a_stated_number_without_deviation_is_tested_by_one_sample(
    values: list[int], stated: int
) -> None:
    gap, found = difference(summed(values), stated), stats.ttest_1samp(values, stated)
    assert gap.p == pytest.approx(found.pvalue)
    assert gap.mean == pytest.approx(statistics.mean(values) - stated)
    assert gap.error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))


@given(NUMBERS, st.integers(0, 1000), st.floats(0.5, 500.0))
def test_a_stated_number_with_deviation_is_tested_by_welch(
    values: list[int], stated: int, std: float
) -> None:
    ours = summed(values)
    gap = difference(ours, stated, std)
    found = stats.ttest_ind_from_stats(*ours, stated, std, 10, equal_var=False)
    assert gap.p == pytest.approx(found.pvalue)


def test_two_learners_are_tested_by_pairs_of_the_same_order() -> None:
    ncm = VOTE._replace(learner="ncm")
    one, other = [0.7, 0.8, 0.72, 0.1], [0.6, 0.75, 0.7]
    runs = [*at_level(VOTE, *one), *at_level(ncm, *other)]
    gap, found = paired(runs, VOTE, ncm), stats.ttest_rel(one[:3], other)
    assert gap.n == 3
    assert gap.p == pytest.approx(found.pvalue)
    assert gap.mean == pytest.approx(100 * (0.1 + 0.05 + 0.02) / 3)


def test_one_order_has_a_difference_but_no_error_and_the_same_everywhere_no_p() -> None:
    assert format_difference(difference(Summary(60.0, math.nan, 1), 58.0)) == "+2.00"
    same = difference(Summary(60.0, 0.0, 10), 58.0)
    assert math.isnan(same.p)
    assert format_difference(same) == "+2.00 ± 0.00"


def test_most_that_was_called_within_the_spread_is_a_clear_difference() -> None:
    """Twice both deviations, the limit of before, are six errors of a mean of ten."""
    ours, stated, std = Summary(95.66, 2.48, 10), 92.58, 2.08  # Caltech-101, 30 classes
    assert abs(ours.mean - stated) < 2.0 * math.hypot(ours.std, std)
    assert difference(ours, stated, std).p < 0.05


# The paper's tables


def two_runs() -> list[dict[str, Any]]:
    """Ten classes at a time, four test vectors of each: accuracies fall from 3/4 and from 4/4."""
    made = []
    for seed, first in enumerate((3, 4)):
        right = [[first] * 10, *([2] * seen for seen in range(20, 101, 10))]
        made.append(recorded(VOTE, seed, tested=[4] * 100, right=right))
    return made


def test_numbers_are_those_that_one_computes_by_hand() -> None:
    averages = [(75.0 + 9 * 50.0) / 10, (100.0 + 9 * 50.0) / 10]
    mean, deviation = statistics.mean(averages), statistics.stdev(averages)
    [table] = ablation.section(two_runs()).parts
    assert isinstance(table, Table)
    row = find(table, hybrid="CBCL")
    assert row["ours"] == f"{mean:.2f} ± {deviation:.2f}" == "53.75 ± 1.77"
    p = stats.ttest_1samp(averages, 69.85).pvalue
    shown = f"{MINUS}{69.85 - mean:.2f} ± {deviation / math.sqrt(2):.2f} ({p:.3f})"
    assert row["difference (p)"] == shown.replace("(0.", "(.")
    assert row["ours, last"] == "50.00 ± 0.00"
    row = find(rivals.last_table(two_runs()), what="CBCL, 10 an increment")
    assert row["ours"] == "50.00 ± 0.00"
    assert row["orders"] == "2"
    # Forgetting: ten classes fell from 75 or 100 to 50, eighty did not.
    row = find(choices.compare_learners(two_runs(), "cifar100", MAIN), learner="CBCL, vote")
    assert [*row.values()] == ["CBCL, vote", "53.8", DASH, DASH, "50.0", "4.2", "4.0", "1.2"]


def test_every_claim_that_was_run_is_compared_with_each_backbone_it_was_run_with() -> None:
    rerun = [
        (claim, backbone)
        for claim in CLAIMS
        if claim.protocol.learner
        for backbone in claim.protocol.ours
    ]
    runs = [recorded(comparison.claim_group(*pair), seed) for pair in rerun for seed in range(2)]
    found = comparison.comparisons(aggregate.deduplicate(runs))
    assert [(one.claim, one.backbone) for one in found] == rerun
    assert comparison.comparisons([]) == []


def test_a_backbone_of_the_papers_has_a_column_where_it_was_run() -> None:
    runs = [recorded(VOTE._replace(shots=5), seed) for seed in range(2)]
    more = [{**run, "run": {**run["run"], "backbone": OWN_RESNET34}} for run in runs]
    for some, shown in ((runs, False), ([*runs, *more], True)):
        [table] = [one for one in every_table(some) if one.caption.startswith("Table 2")]
        assert (OWN_RESNET34 in table.columns) == shown


def test_budgets_that_are_not_in_the_paper_are_marked_as_ours(
    records: list[dict[str, Any]],
) -> None:
    more = [recorded(VOTE._replace(max_centroids=5000), seed) for seed in range(3)]
    table = budgets.table([*records, *more])
    whose = {row["K"]: row["whose K"] for row in rows_of(table)}
    papers = dict.fromkeys(("3000", "7500", "9000"), "the paper's")
    assert whose == {**papers, "5000": "ours"}
    gap = paired(
        records, budgets.group_at("cbcl", 3000), budgets.group_at("remove-centroids", 3000)
    )
    assert find(table, K="3000")["CBCL less Remove-Centroids (p)"] == format_difference(gap)
    assert find(table, K="5000")["CBCL less Remove-Centroids (p)"] == DASH


# The vote


def test_voters_are_compared_with_one_voter_in_the_same_orders() -> None:
    cells = [RunGroup("cifar100", MAIN, f"voters-{n}") for n in (1, 3)]
    runs = [*at_level(cells[0], 0.6, 0.7, 0.8), *at_level(cells[1], 0.58, 0.69)]
    table = votes.table(runs, "cifar100")
    assert find(table, voters="n = 1, no K")["average"].startswith("65.00")
    row = find(table, voters="n = 3, no K")
    assert row["average less one voter's (p)"].startswith(f"{MINUS}1.50 ± 0.50")
    assert table.notes == ["Orders: 2, the same for all."]


# The rivals


def test_a_rivals_row_has_the_published_figures_ours_and_the_defaults_lead() -> None:
    icarl = RunGroup("cifar100", "pixels", "icarl")
    ours = RunGroup("cifar100", MAIN, "discriminant")
    runs = [*at_level(icarl, 0.62, 0.64, 0.66), *at_level(ours, 0.82, 0.83)]
    row = find(rivals.rivals_table(runs), rival="iCaRL")
    error = 2.0 / math.sqrt(3)
    assert row["published"] == "63.3 / 47.9"
    assert row["ours"] == f"64.00 ± {error:.2f} / 64.00 ± {error:.2f}"
    assert row["difference of averages (p)"].startswith(f"+0.70 ± {error:.2f}")
    assert (row["orders"], row["seconds"]) == ("3", "1")
    assert row["default less it (p)"].startswith("+19.50 ± 0.50")


def test_averages_of_figure_2_are_of_the_orders_that_all_share() -> None:
    icarl = RunGroup("cifar100", "pixels", "icarl")
    table = rivals.sizes_table([*at_level(icarl, 0.62), *at_level(VOTE, 0.7, 0.8)])
    shown = {row["learner"]: row["10 at a time"] for row in rows_of(table)}
    assert shown == {"CBCL, vote": "70.00", "iCaRL": "62.00", "orders": "1"}


def test_curves_of_all_rivals_are_drawn_and_can_be_told_apart_in_grey() -> None:
    pytest.importorskip("matplotlib")
    cells = [RunGroup("cifar100", "pixels", name) for name in NETWORKS]
    cells += [VOTE, RunGroup("cifar100", MAIN, "discriminant")]
    joint = RunGroup("cifar100", "pixels", "joint", 100)
    svg = rivals.draw_panel([recorded(cell) for cell in (*cells, joint)], 10, "test")
    for cell in cells:
        average = aggregate.average(recorded(cell))
        assert f"{aggregate.name_of(cell.learner)} ({average:.1f}" in svg
    assert f"joint ({aggregate.last(recorded(joint)):.1f}; 66)" in svg
    strokes = [look_of(cell.learner)[1:4] for cell in cells]
    assert len({str(stroke) for stroke in strokes}) == len(cells)


def test_every_look_is_another_without_its_colour() -> None:
    assert len({str(look[1:4]) for look in LOOKS.values()}) == len(LOOKS)


# FearNet, and few-shot class-incremental learning


def test_omega_is_divided_by_the_papers_accuracy_and_by_ours() -> None:
    cell, mlp = VOTE._replace(increment=1, base=2), RunGroup("cifar100", MAIN, "mlp", 1, 2)
    table = fearnet.table([*at_level(cell, 0.6, 0.6), *at_level(mlp, 0.8, 0.8)])
    row = find(table, learner="CBCL, vote")
    assert row["Ω all"] == f"{0.6 / 0.699:.3f} ± 0.000"
    assert row["Ω all, our MLP"] == f"{0.6 / 0.8:.3f} ± 0.000"
    without = fearnet.table(at_level(cell, 0.6))
    row = find(without, learner="CBCL, vote")
    assert row["Ω all, our MLP"] == DASH


def test_fifty_classes_first_stand_apart_and_beside_no_figure_of_the_paper() -> None:
    cell = VOTE._replace(increment=1, base=50)
    parts = {part.title: part.rows for part in fearnet.table(at_level(cell, 0.6)).groups}
    assert [row[0] for row in parts["all the data, 50 classes first (ours)"]] == ["CBCL, vote"]
    assert "CBCL, vote" not in {row[0] for row in parts["all the data"]}


def test_sessions_of_few_shots_stand_beside_the_published_row() -> None:
    benchmark = fscil.BENCHMARKS[1]
    cell = RunGroup(benchmark.data, LITE, "ncm", 10, 100, 5, whole_base=True)
    runs = at_level(cell, 0.7, 0.72, classes=200)
    table = fscil.table(runs, benchmark)
    published = find(table, learner="published: SAVC")
    assert [published[name] for name in ("100", "110", "200")] == ["81.8", DASH, "62.5"]
    row = find(table, learner=f"NCM, {LITE}")
    assert [row[name] for name in ("100", "190", "200")] == ["71.0", "71.0", "71.0 ± 1.0"]
    assert row["last, less published (p)"].startswith("+8.5 ± 1.0")
    more = at_level(cell._replace(learner="slda"), 0.6, classes=200)
    row = find(fscil.table([*runs, *more], benchmark), learner=f"NCM, {LITE}")
    assert row["200"] == "70.0"  # the order that both have
    half = [recorded(cell._replace(whole_base=False), classes=200)]
    assert len(rows_of(fscil.table(half, benchmark))) == 1


# The summary


def test_learners_are_ranked_in_the_orders_that_all_share() -> None:
    ncm, slda = (VOTE._replace(learner=name) for name in ("ncm", "slda"))
    runs = [*at_level(VOTE, 0.6, 0.9), *at_level(ncm, 0.7), *at_level(slda, 0.65, 0.1)]
    table = summary.standings(runs)
    column = {row["learner"]: row["CIFAR-100, all"] for row in rows_of(table)}
    assert (column["CBCL, vote"], column["NCM"], column["SLDA"]) == ("60.0", "70.0", "65.0")
    assert column["orders"] == "1"
    assert isinstance(column["NCM"], BoldText)
    assert column["paper: CBCL, other networks"] == "69.85"


# The page


class Reader(HTMLParser):
    """Notes what is opened and closed, and every attribute."""

    VOID = frozenset({"meta", "br", "hr", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_the_page_has_no_none_or_nan(page: str) -> None:
    inside = page[page.index("</style>") :]
    assert not re.search(r"\bNone\b|\bnan\b|\{|\}", inside)


def test_the_page_is_closed_where_it_was_opened_and_small(read: Reader, page: str) -> None:
    assert read.open == []
    assert len(page.encode()) < 1_500_000


def test_the_page_needs_nothing_beside_itself(read: Reader, page: str) -> None:
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in read.tags}
    assert "http" not in page
    assert "@import" not in page
    for _, attributes in read.tags:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))


def test_names_in_the_page_are_given_once_and_lead_somewhere(read: Reader, page: str) -> None:
    names = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = [
        attributes["href"]
        for _, attributes in read.tags
        if (attributes.get("href") or "").startswith("#")
    ]
    clips = re.findall(r"url\(#([^)]*)\)", page)
    assert {(link or "")[1:] for link in links} | set(clips) <= set(names)


def test_headings_go_down_one_step_at_a_time(read: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_what_cannot_be_seen_is_said(read: Reader) -> None:
    assert all(
        attributes.get("scope") in ("col", "row", "rowgroup") for attributes in read.all("th")
    )
    assert len(read.all("caption")) == len(read.all("table"))
    assert len(read.all("figcaption")) == len(read.all("figure")) == 8
    drawings = read.all("svg")
    assert len({attributes["aria-label"] for attributes in drawings}) == len(drawings) == 20
    assert all(attributes["role"] == "img" for attributes in drawings)


def test_colours_are_the_pages_so_that_dark_is_dark(page: str) -> None:
    inside = page[page.index("</style>") :]
    assert not re.search(
        r"#0102\d\d|(fill|stroke): #",
        re.sub(r"<image[^>]*>", "", inside).replace("fill: #ffffff", ""),
    )
    assert {f"--{tone}" for tone in re.findall(r"var\(--(\w+)\)", inside)} <= set(
        re.findall(r"--\w+(?=:)", page)
    )


def test_a_page_can_be_made_of_nothing() -> None:
    pytest.importorskip("matplotlib")
    assert "not run" in report.html([])


def test_without_matplotlib_there_are_tables_and_a_word_on_what_to_install(
    records: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report.markdown(records)
    with pytest.raises(DataError, match="need matplotlib: pip install matplotlib"):
        report.html(records)


# The default, the tuner, origins


def shots_at_level(learner: str, *levels: float) -> list[dict[str, Any]]:
    return at_level(RunGroup("caltech101", LITE, learner, shots=5), *levels)


def test_the_penalty_is_the_best_on_the_average_of_those_with_all_orders() -> None:
    runs = [
        *shots_at_level("logistic-0.1", 0.5, 0.7),
        *shots_at_level("logistic-1", 0.6, 0.62),
        *shots_at_level("logistic-0.01", 0.9),  # one order is no evidence
        *shots_at_level("ncm", 0.4),
    ]
    picked = default.pick_penalties(runs)
    names = Counter(run["run"]["learner"] for run in picked)
    assert names == {"logistic": 2, "ncm": 1}
    chosen = [run for run in picked if run["run"]["learner"] == "logistic"]
    assert {run["penalty"] for run in chosen} == {1.0}
    assert [aggregate.average(run) for run in chosen] == pytest.approx([60.0, 62.0])


def test_each_number_of_shots_has_its_own_penalty() -> None:
    runs = [*shots_at_level("logistic-0.1", 0.5), *shots_at_level("logistic-1", 0.6)]
    more = [
        {**run, "run": {**run["run"], "shots": 10}} for run in shots_at_level("logistic-0.1", 0.4)
    ]
    picked = default.pick_penalties([*runs, *more])
    assert {run["run"]["shots"]: run["penalty"] for run in picked} == {5: 1.0, 10: 0.1}


def test_the_lead_of_the_default_is_taken_order_by_order() -> None:
    runs = [
        *shots_at_level("discriminant", 0.7, 0.9, 0.1),
        *shots_at_level("logistic-1", 0.6, 0.88),
        *shots_at_level("slda", 0.5, 0.5, 0.5),
    ]
    table = default.leads(default.pick_penalties(runs))
    row = next(row for row in rows_of(table) if row["default"] != DASH)
    error = statistics.stdev([10.0, 2.0]) / math.sqrt(2)
    assert row["less batch (p)"].startswith(f"+6.00 ± {error:.2f}")
    assert table.notes[0] == "Over 3 orders of the classes (batch on Caltech-101, 5: 2)."


def test_the_tuner_is_marked_where_it_is_behind_by_more_than_half_a_point() -> None:
    right = [[2] * seen for seen in range(10, 101, 10)]
    better = [[3] * 10, *right[1:]]  # by 0.25 in one increment of ten: 2.5 points

    def gap(tuned: list[list[int]], fixed: list[list[int]]) -> str:
        other = VOTE._replace(learner="radius-1.25")
        runs = [
            recorded(one, right=hits, tested=[4] * 100)
            for one, hits in ((VOTE, tuned), (other, fixed))
        ]
        return find(choices.tuner(runs), data="CIFAR-100", shots="all")["tuned less best (p)"]

    assert gap(right, better) == f"{MINUS}2.50 (!)"
    assert isinstance(gap(right, better), BoldText)
    assert gap(better, right) == "+2.50"
    assert gap(right, right) == "+0.00"


def test_the_best_and_the_worst_of_the_fixed_radii_are_named() -> None:
    runs = [*at_level(VOTE, 0.6), *at_level(VOTE._replace(learner="ncm"), 0.4)]
    runs += at_level(VOTE._replace(learner="radius-0"), 0.7)
    row = find(choices.tuner(runs), data="CIFAR-100", shots="all")
    assert (row["best fixed"], row["at"]) == ("70.00", "0")
    assert (row["worst fixed"], row["at "]) == ("40.00", "∞")


def test_confusions_are_added_up_by_when_a_class_was_learned() -> None:
    runs = [
        {"confusion": encode_confusion(matrix)} for matrix in ([[3, 1], [0, 4]], [[2, 2], [1, 3]])
    ]
    counts = confusion.sum_by_position(runs)
    assert counts.tolist() == [[5, 3], [1, 7]]


def test_how_it_was_made_adds_up(records: list[dict[str, Any]]) -> None:
    for table in (origins.inputs(records), origins.surroundings(records)):
        assert sum(int(row["runs"]) for row in rows_of(table)) == len(records)
        hours = sum(float(row["hours"]) for row in rows_of(table))
        assert hours == pytest.approx(len(records) * 36.0 / 3600.0, abs=0.01 * len(rows_of(table)))
    row = find(origins.inputs(records), data="Caltech-101", backbone=LITE)
    assert row["weights"] == hashlib.sha256(f"weights caltech101 {LITE}".encode()).hexdigest()[:8]


def test_a_run_outside_a_repository_has_no_commit() -> None:
    [row] = rows_of(origins.surroundings([recorded(SOME[0], commit=None)]))
    assert row["commits"] == DASH
    assert not math.isnan(float(row["hours"]))


def test_a_note_on_vectors_is_shown_with_the_learners_that_saw_them() -> None:
    record = recorded(SOME[0])
    assert not origins.inputs([record]).notes
    record["inputs"]["preprocessing"] = {"note": "rounded to 8 bits"}
    [note] = origins.inputs([record]).notes
    assert "rounded to 8 bits; seen by " in note
    assert aggregate.name_of(SOME[0].learner) in note


def test_the_gpu_and_torch_of_a_run_are_shown() -> None:
    device = {"name": "a GPU", "torch": "2.11"}
    [row] = rows_of(origins.surroundings([recorded(SOME[0], device=device)]))
    assert row["machine"].endswith(", a GPU")
    assert "torch 2.11" in row["libraries"]


# One's own data

OWN = RunGroup("folder photos", LITE, "ncm", 1, shots=5)


def own_runs(learner: str, *levels: float, pictures: str = "a", **changes: Any) -> list[Any]:
    """Runs on three classes of one's own, one order a level."""
    runs = at_level(OWN._replace(learner=learner, **changes), *levels, classes=3)
    inputs = {**runs[0]["inputs"], "pictures": pictures * 64}
    return [{**run, "inputs": inputs} for run in runs]


def titles(records: list[Any]) -> list[str]:
    return [section.title for section in report.compose(records)[1]]


def test_a_report_on_ones_own_data_is_about_nothing_else() -> None:
    runs = [*own_runs("mine:Net", 0.5, 0.6), *own_runs("ncm", 0.8, 0.9)]
    text = report.markdown(runs)
    assert text.startswith(f"# {report.OWN_TITLE}\n\n## Results: folder photos\n")
    data = "Data, software and machines"
    assert titles(runs) == ["Results: folder photos", "How to read", data]
    assert not re.search(rf"CIFAR|Caltech|paper's experiments|Not run|\| {DASH} ", text)
    table = every_table(runs)[0]
    assert table.caption == "Accuracy (%) on 3 classes, 1 at a time, 5 shots"
    assert [row["learner"] for row in rows_of(table)] == ["ncm", "mine:Net"]  # the best first
    row = find(table, learner="ncm")
    expected = (LITE, "85.00 ± 7.07", "85.00 ± 7.07", "85.00 ± 7.07", "4", "1.25", "2")
    assert tuple(row.values())[1:] == expected


def test_every_data_and_protocol_has_a_table_of_its_own() -> None:
    runs = [
        *own_runs("ncm", 0.5),
        *own_runs("ncm", 0.6, shots=2),
        *own_runs("cbcl", 0.7, max_centroids=9),
        *own_runs("ncm", 0.8, data="digits"),
        *at_level(OWN, 0.9, classes=2),
    ]
    captions = sorted(table.caption for table in every_table(runs)[:-1])
    assert captions == [
        "Accuracy (%) on 2 classes, 1 at a time, 5 shots",
        "Accuracy (%) on 3 classes, 1 at a time, 2 shots",
        "Accuracy (%) on 3 classes, 1 at a time, 5 shots",
        "Accuracy (%) on 3 classes, 1 at a time, 5 shots",
    ]
    learners = {row["learner"] for table in every_table(runs)[:-1] for row in rows_of(table)}
    assert learners == {"ncm", "cbcl, K = 9"}


def test_learners_on_other_pictures_of_the_same_name_are_not_compared() -> None:
    runs = [*own_runs("ncm", 0.5), *own_runs("ncm", 0.9, pictures="b"), *own_runs("slda", 0.7)]
    named = [f"Results: folder photos, pictures {digit * 8}" for digit in "ab"]
    assert titles(runs)[:2] == named
    first, second, inputs = every_table(runs)
    assert [row["learner"] for row in rows_of(first)] == ["slda", "ncm"]
    assert [row["average"] for row in rows_of(second)] == ["90.00"]
    assert len(rows_of(inputs)) == 2
    assert titles(own_runs("ncm", 0.5))[0] == "Results: folder photos"


def test_a_backbone_whose_vectors_changed_is_named_with_their_digest() -> None:
    runs = [*own_runs("ncm", 0.5), *own_runs("ncm", 0.9)]
    runs[1] = {**runs[1], "inputs": {**runs[1]["inputs"], "vectors": "c" * 64}}
    backbones = [row["backbone"] for row in rows_of(every_table(runs)[0])]
    assert backbones[0] == f"{LITE}, vectors cccccccc"
    assert backbones[1].startswith(f"{LITE}, vectors ")


def test_learners_in_other_orders_are_told() -> None:
    same = [*own_runs("ncm", 0.5, 0.6), *own_runs("slda", 0.7, 0.8)]
    assert "the same orders" not in str(every_table(same)[0].notes)
    assert "the same orders" in str(every_table(same[:3])[0].notes)


def test_ones_own_data_come_before_what_was_run_of_the_paper() -> None:
    few = [*own_runs("ncm", 0.5), *at_level(RunGroup("caltech101", LITE, "ncm", shots=5), 0.5)]
    assert report.markdown(few).startswith(f"# {report.TITLE}\n\n## Results: folder photos\n")
    shown = titles(few)
    assert shown[:2] == ["Results: folder photos", "How to read"]
    assert "Summary" in shown
    assert "Table 5: ablation" not in shown


def test_runs_that_no_table_of_the_paper_asks_for_are_shown_as_ones_own() -> None:
    part = at_level(RunGroup("cifar100", LITE, "ncm", 1), 0.5, classes=3)
    odd = at_level(RunGroup("cifar100", LITE, "ncm", 50), 0.5)
    for runs in (part, odd):
        assert titles(runs)[0] == "Results: CIFAR-100"


def test_the_curves_of_ones_own_data_end_at_the_number_of_classes() -> None:
    pytest.importorskip("matplotlib")
    page = report.html([*own_runs("ncm", 0.5, 0.6), *own_runs("mine:Net", 0.7, 0.8)])
    names = texts_of(page)
    assert names[:4] == ["0", "1", "2", "3"]
    assert {"ncm", "mine:Net"} <= {*names}
    assert len(re.findall("<svg", page)) == 1
    once = report.html(own_runs("ncm", 0.5, increment=10))
    assert "<svg" not in once  # a curve of one point is none


# Places of names in a figure


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=12), st.floats(0.1, 8.0))
def test_names_at_lines_keep_their_order_and_a_step_between_them(
    wanted: list[float], step: float
) -> None:
    places = spread_out(sorted(wanted), step, 0.0, 100.0)
    assert all(after - before >= step - 1e-6 for before, after in pairwise(places))
    assert places[0] >= -1e-6
    assert places[-1] <= 100.0 + 1e-6


@given(st.lists(st.integers(0, 10), min_size=1, max_size=8, unique=True))
def test_names_that_are_far_enough_apart_stay_where_they_are(wanted: list[int]) -> None:
    heights = [10.0 * height for height in sorted(wanted)]
    assert spread_out(heights, 5.0, 0.0, 100.0) == pytest.approx(heights)


def texts_of(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_every_point_of_a_cost_figure_has_its_name_once() -> None:
    pytest.importorskip("matplotlib")
    runs = at_level(VOTE, 0.6) + at_level(VOTE._replace(learner="ncm"), 0.601)
    runs += at_level(RunGroup("cifar100", "pixels", "bic"), 0.6)
    panel = default.draw_sizes(runs, [None])[0]
    names = Counter(texts_of(panel))
    assert [names[name] for name in ("CBCL, vote", "NCM", "BiC", "SLDA")] == [1, 1, 1, 0]
