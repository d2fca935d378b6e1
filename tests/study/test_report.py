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

from cbcl.errors import DataError
from cbcl.study.report import (
    aggregate,
    comparison,
    default,
    explanations,
    extras,
    report,
    tables,
)
from cbcl.study.report.aggregate import DASH, RunGroup, Table
from cbcl.study.report.paper import CLAIMS
from cbcl.study.report.rendering import markdown_table
from cbcl.study.report.scores import encode_confusion

MAIN, LITE = "resnet50-keras", "efficientnet-lite0"
RERUN = [
    (claim, backbone)
    for claim in CLAIMS
    if claim.protocol.learner
    for backbone in claim.protocol.ours
]


def recorded(
    cell: RunGroup, seed: int = 0, *, level: float = 0.6, **changes: Any
) -> dict[str, Any]:
    """A record that might be: accuracy falls as classes come, to about the level."""
    rng = np.random.default_rng(
        [seed, int(hashlib.sha256(repr(cell).encode()).hexdigest()[:8], 16)]
    )
    first = cell.base or cell.increment
    ends = [*range(first, 100, cell.increment), 100]
    sizes = np.diff(ends, prepend=0).tolist()
    tested = rng.integers(5, 40, 100)
    hard = rng.normal(0.0, 0.05, 100)
    right = []
    for seen in ends:
        chance = np.clip(1.0 - (1.0 - level - hard[:seen]) * (seen / 100.0) ** 0.4, 0.0, 1.0)
        right.append(rng.binomial(tested[:seen], chance).tolist())
    confusion = np.diag(right[-1])
    confusion[:, 0] += tested - right[-1]
    limit = cell.max_centroids if aggregate.is_budgeted(cell.learner) else None
    return {
        "run": {**cell._asdict(), "max_centroids": limit, "classes": 100, "seed": seed},
        "inputs": {
            **{
                name: hashlib.sha256(f"{name} {cell.data} {cell.backbone}".encode()).hexdigest()
                for name in DIGESTS
            },
            "preprocessing": {"size": 224, "mean": [127.0, 127.0, 127.0], "filter": "bicubic"},
        },
        "classes": [f"class {number}" for number in range(100)],
        "increments": sizes,
        "tested": tested.tolist(),
        "right": right,
        "confusion": encode_confusion(confusion),
        "centroids": ends if aggregate.is_budgeted(cell.learner) or cell.learner == "ncm" else None,
        "tunings": None,
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
    *(
        RunGroup("cifar100", MAIN, "cbcl", size, None, shots, 7500)
        for size in (2, 10)
        for shots in (None, 5, 10)
    ),
    *(
        RunGroup("cifar100", MAIN, name, 10, None, None, 7500)
        for name in ("ncm", "slda", "k-means", "remove-centroids")
    ),
    *(RunGroup("cifar100", MAIN, name, 10, None, 5) for name in ("flb", "probe", "ncm", "knn")),
    *(
        RunGroup("cifar100", MAIN, name, 10, None, None, 3000)
        for name in ("cbcl", "remove-centroids")
    ),
    *(
        RunGroup("cifar100", MAIN, f"radius-{scale}", 10, None, None, 7500)
        for scale in ("1.25", "0")
    ),
    RunGroup("cifar100", MAIN, "cbcl", 1, 2, None, 7500),
    *(RunGroup("caltech101", backbone, "cbcl", max_centroids=1100) for backbone in (MAIN, LITE)),
    RunGroup("cub200", MAIN, "cbcl", shots=10, max_centroids=800),
    *(
        RunGroup("caltech101", LITE, name, shots=5)
        for name in ("discriminant", "logistic-0.1", "logistic-1")
    ),
]


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return [recorded(cell, seed) for cell in SOME for seed in range(3)]


@pytest.fixture(scope="module")
def page(records: list[dict[str, Any]]) -> str:
    pytest.importorskip("matplotlib")
    return report.html(records)


def every_table(records: list[dict[str, Any]]) -> list[Table]:
    found = aggregate.deduplicate(records)
    parts = [part for section in report.sections(found) for part in section.parts]
    return [comparison.short_table(found), *(part for part in parts if isinstance(part, Table))]


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


def test_the_same_records_give_the_same_text_in_whatever_order_they_come(
    records: list[dict[str, Any]], page: str
) -> None:
    shuffled = [records[place] for place in np.random.default_rng(0).permutation(len(records))]
    assert report.html(shuffled) == page
    assert report.markdown(shuffled) == report.markdown(records)
    assert report.headline(shuffled) == report.headline(records)


@pytest.mark.parametrize("count", [0, 1])
def test_every_claim_that_is_run_has_one_row_for_each_backbone(
    count: int, records: list[dict[str, Any]]
) -> None:
    found = comparison.comparisons(records[: count * len(records)])
    assert [(one.claim, one.backbone) for one in found] == RERUN
    rows = rows_of(comparison.full_table(records[: count * len(records)]))
    shown = Counter((row["our backbone"], row["paper"]) for row in rows)
    assert shown == Counter((backbone, aggregate.format_claim(claim)) for claim, backbone in RERUN)


def test_the_headline_in_short_is_some_of_its_rows(records: list[dict[str, Any]]) -> None:
    rows = [
        (row["our backbone"], row["paper"], row["ours"], row["difference"])
        for row in rows_of(comparison.short_table(records))
    ]
    everything = rows_of(comparison.full_table(records))
    assert 8 <= len(rows) <= 10
    assert set(rows) <= {
        (row["our backbone"], row["paper"], row["ours"], row["difference"]) for row in everything
    }


def test_every_number_of_the_paper_is_somewhere(records: list[dict[str, Any]]) -> None:
    text = report.markdown(records)
    for claim in CLAIMS:
        assert re.search(rf"(?<![\d.]){re.escape(aggregate.format_claim(claim))}(?!\d)", text), (
            claim
        )


def test_without_any_run_there_is_no_number_of_ours() -> None:
    for table in every_table([]):
        for row in rows_of(table):
            ours = [
                text
                for name, text in [*row.items()][table.heads :]
                if name != "why" and "paper" not in name
            ]
            assert set(ours) <= {DASH}, (table.caption, row)
    assert all(row["why"] == "not run here" for row in rows_of(comparison.full_table([])))


def test_a_cell_that_was_not_run_is_a_dash_and_named_below(records: list[dict[str, Any]]) -> None:
    table = tables.ablation(records)
    assert find(table, hybrid="K-means")["average"] != DASH
    row = find(table, hybrid="Trad-Agg")
    assert [row[name] for name in ("average", "after the last", "centroids", "megabytes")] == [
        DASH
    ] * 4
    assert "not run: CIFAR-100, resnet50-keras, trad-agg: 10 an increment, K = 7500." in table.notes
    assert not any("k-means:" in note for note in table.notes)


def test_runs_of_other_budgets_shots_or_classes_are_not_taken() -> None:
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    near = [
        cell._replace(max_centroids=3000),
        cell._replace(shots=5),
        cell._replace(base=2),
        cell._replace(increment=5),
    ]
    few = recorded(cell, classes=recorded(cell)["classes"][:20])
    assert aggregate.runs_of([*map(recorded, near), few], cell) == []
    assert aggregate.runs_of([recorded(cell)], cell) == [recorded(cell)]


def test_runs_of_fewer_classes_than_the_paper_has_stand_behind_no_number() -> None:
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    whole = recorded(cell)
    part = recorded(cell, 1, classes=whole["classes"][:40])
    assert aggregate.runs_of([whole, part], cell) == [whole]
    assert aggregate.mean_of([whole, part], cell, aggregate.average).n == 1
    own = RunGroup("folder things", LITE, "cbcl")
    few = recorded(own, classes=["cup", "key"])
    assert aggregate.runs_of([few], own) == [few]  # the paper knows nothing of it


def test_a_budget_means_nothing_to_a_learner_without_one() -> None:
    record = recorded(RunGroup("cifar100", MAIN, "ncm"))
    assert record["run"]["max_centroids"] is None
    assert aggregate.runs_of([record], RunGroup("cifar100", MAIN, "ncm", max_centroids=7500)) == [
        record
    ]


def two_runs() -> list[dict[str, Any]]:
    """Ten classes at a time, four test vectors of each: accuracies fall from 3/4 and from 4/4."""
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    made = []
    for seed, first in enumerate((3, 4)):
        right = [[first] * 10, *([2] * seen for seen in range(20, 101, 10))]
        made.append(recorded(cell, seed, tested=[4] * 100, right=right))
    return made


def test_numbers_are_those_that_one_computes_by_hand() -> None:
    averages = [(75.0 + 9 * 50.0) / 10, (100.0 + 9 * 50.0) / 10]
    mean, deviation = statistics.mean(averages), statistics.stdev(averages)
    row = find(
        comparison.full_table(two_runs()),
        what="CBCL, 10 an increment",
        measure="average",
        paper="69.85",
    )
    assert row["ours"] == f"{mean:.2f} ± {deviation:.2f}" == "53.75 ± 1.77"
    assert row["difference"] == f"\N{MINUS SIGN}{69.85 - mean:.2f}"
    assert row["orders"] == "2"
    table = tables.cifar(two_runs())
    assert find(table, classes_at_a_time="10")["CBCL, average"] == "53.75 ± 1.77"
    assert find(table, classes_at_a_time="10")["CBCL, last"] == "50.00 ± 0.00"
    assert find(table, classes_at_a_time="10")["NCM, last"] == DASH
    [all_data, *_] = extras.compare_learners(two_runs(), "cifar100", MAIN).groups
    # Forgetting: ten classes fell from 75 or 100 to 50, eighty did not.
    assert list(all_data.rows[0]) == [
        "cbcl",
        "53.8 ± 1.8",
        "50.0 ± 0.0",
        "50.0 ± 0.0",
        "4.2 ± 2.0",
        "4.00",
        "1.25",
    ]


def test_what_a_number_may_be_instead_stands_beside_the_reasons() -> None:
    runs = [recorded(RunGroup("cifar100", MAIN, "ncm"), seed) for seed in range(3)]
    row = find(comparison.full_table(runs), what="NCM, 10 an increment")
    last = aggregate.format_spread(
        aggregate.mean_of(runs, RunGroup("cifar100", MAIN, "ncm"), aggregate.last)
    )
    assert row["why"].endswith(f"; ours after the last: {last}")


def test_reasons_are_letters_and_every_letter_is_explained(records: list[dict[str, Any]]) -> None:
    for table in (comparison.full_table(records), comparison.short_table(records)):
        given = {
            letter for row in rows_of(table) for letter in re.findall(r"\b[a-z]\b", row["why"])
        }
        explained = {
            note.partition(":")[0] for note in table.notes if re.match(r"[a-z]+: ", note)
        } - {"not run"}
        assert given == explained != set()


def test_the_reasons_of_a_claim_can_be_taken_apart() -> None:
    for claim, backbone in RERUN:
        named = explanations.explain(claim, backbone, 1e6, 0.0).candidates
        assert named == tuple(explanations._candidates(claim, backbone))


@pytest.mark.parametrize("orders", [0, 1, 3])
def test_nothing_is_none_or_nan(orders: int, records: list[dict[str, Any]]) -> None:
    text = report.markdown([record for record in records if record["run"]["seed"] < orders])
    text += report.headline([record for record in records if record["run"]["seed"] < orders])
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|\{|\}", text)


def test_the_page_has_no_none_or_nan(page: str) -> None:
    inside = page[page.index("</style>") :]
    assert not re.search(r"\bNone\b|\bnan\b|\{|\}", inside)


def test_rows_of_a_markdown_table_have_as_many_cells_as_its_head(
    records: list[dict[str, Any]],
) -> None:
    blocks = [block for block in report.markdown(records).split("\n\n") if block.startswith("|")]
    assert len(blocks) == len(every_table(records)) - 1  # less the short one
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_what_markdown_would_take_for_a_sign_is_escaped() -> None:
    table = Table("a_b", ["x|y"], [aggregate.RowGroup(None, [["2 * 3 < 7"]])])
    assert markdown_table(table) == "**a\\_b**\n\n| x\\|y |\n|---|\n| 2 \\* 3 \\< 7 |"


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
    assert len(read.all("figcaption")) == len(read.all("figure")) == 4
    drawings = read.all("svg")
    assert len({attributes["aria-label"] for attributes in drawings}) == len(drawings) == 15
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
    with pytest.raises(DataError, match=r'pip install "cbcl\[study\]"'):
        report.html(records)


def test_a_run_that_was_made_again_counts_once_and_as_made_last() -> None:
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    old, new = recorded(cell, level=0.2), recorded(cell, level=0.7)
    assert aggregate.deduplicate([old, new]) == [new]
    assert aggregate.deduplicate([new, old]) == [old]


def test_the_tuner_is_marked_where_it_is_behind_by_more_than_half_a_point() -> None:
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    right = [[2] * seen for seen in range(10, 101, 10)]
    better = [[3] * 10, *right[1:]]  # by 0.25 in one increment of ten: 2.5 points

    def gap(tuned: list[list[int]], fixed: list[list[int]]) -> str:
        other = cell._replace(learner="radius-1.25")
        runs = [
            recorded(one, right=hits, tested=[4] * 100)
            for one, hits in ((cell, tuned), (other, fixed))
        ]
        return find(extras.tuner(runs), data="CIFAR-100", shots="all")["tuned less best"]

    assert gap(right, better) == "\N{MINUS SIGN}2.50 (!)"
    assert isinstance(gap(right, better), aggregate.BoldText)
    assert gap(better, right) == "+2.50"
    assert gap(right, right) == "+0.00"


def test_the_best_of_the_fixed_radii_is_named() -> None:
    cell = RunGroup("cifar100", MAIN, "cbcl", max_centroids=7500)
    runs = [recorded(cell), recorded(cell._replace(learner="ncm"), level=0.4)]
    runs.append(recorded(cell._replace(learner="radius-0"), level=0.7))
    row = find(extras.tuner(runs), data="CIFAR-100", shots="all")
    assert row["best"] == "radius-0"
    assert isinstance(row["0"], aggregate.BoldText)


def test_confusions_are_added_up_by_when_a_class_was_learned() -> None:
    runs = [
        {"confusion": encode_confusion(matrix)} for matrix in ([[3, 1], [0, 4]], [[2, 2], [1, 3]])
    ]
    counts = extras.confusion_by_position(runs)
    assert counts is not None
    assert counts.tolist() == [[5, 3], [1, 7]]
    assert extras.confusion_by_position([]) is None
    said = extras.describe_bias(counts)
    assert said.startswith("62.5 % of the answers name one of the 1 classes learned last, which")
    assert "which 50.0 % of the questions" in said
    assert "37.5 % name" in said
    assert "Of the first, 62.5 % are labelled rightly, of the last, 87.5 %." in said


def test_how_it_was_made_adds_up(records: list[dict[str, Any]]) -> None:
    for table in (extras.origins(records), extras.surroundings(records)):
        assert sum(int(row["runs"]) for row in rows_of(table)) == len(records)
        hours = sum(float(row["hours"]) for row in rows_of(table))
        assert hours == pytest.approx(len(records) * 36.0 / 3600.0, abs=0.01 * len(rows_of(table)))
    row = find(extras.origins(records), data="Caltech-101", backbone=LITE)
    assert row["weights"] == hashlib.sha256(f"weights caltech101 {LITE}".encode()).hexdigest()[:12]
    assert row["preprocessing"] == "size 224, mean 127.0 127.0 127.0, filter bicubic"


def test_a_run_outside_a_repository_has_no_commit() -> None:
    [row] = rows_of(extras.surroundings([recorded(SOME[0], commit=None)]))
    assert row["commit"] == DASH
    assert not math.isnan(float(row["hours"]))


def test_runs_on_other_data_have_a_table_of_their_own(records: list[dict[str, Any]]) -> None:
    assert "Other runs" not in report.markdown(records)
    run = {**records[0]["run"], "data": "folder my things", "seed": 7}
    page = report.markdown([*records, {**records[0], "run": run}])
    assert "## Other runs" in page
    assert "| folder my things |" in page


def at_level(learner: str, *levels: float) -> list[dict[str, Any]]:
    """Runs of 5 shots on Caltech-101, one a level, each of which is right about so often."""
    cell = RunGroup("caltech101", LITE, learner, shots=5)
    right = [[[round(100 * level)] * seen for seen in range(10, 101, 10)] for level in levels]
    return [recorded(cell, seed, tested=[100] * 100, right=one) for seed, one in enumerate(right)]


def test_the_penalty_is_the_best_on_the_average_of_those_with_all_orders() -> None:
    runs = [
        *at_level("logistic-0.1", 0.5, 0.7),
        *at_level("logistic-1", 0.6, 0.62),
        *at_level("logistic-0.01", 0.9),  # one order is no evidence
        *at_level("ncm", 0.4),
    ]
    picked = default.pick_penalties(runs)
    names = Counter(run["run"]["learner"] for run in picked)
    assert names == {"logistic": 2, "ncm": 1}
    chosen = [run for run in picked if run["run"]["learner"] == "logistic"]
    assert {run["penalty"] for run in chosen} == {1.0}
    assert [aggregate.average(run) for run in chosen] == pytest.approx([60.0, 62.0])


def test_each_number_of_shots_has_its_own_penalty() -> None:
    runs = [*at_level("logistic-0.1", 0.5), *at_level("logistic-1", 0.6)]
    more = [{**run, "run": {**run["run"], "shots": 10}} for run in at_level("logistic-0.1", 0.4)]
    picked = default.pick_penalties([*runs, *more])
    assert {run["run"]["shots"]: run["penalty"] for run in picked} == {5: 1.0, 10: 0.1}


def test_the_lead_of_the_default_is_taken_order_by_order() -> None:
    runs = [*at_level("discriminant", 0.7, 0.9, 0.1), *at_level("logistic-1", 0.6, 0.88)]
    picked = default.pick_penalties(runs)
    lead = default.lead(picked, "caltech101", 5)
    assert lead.mean == pytest.approx(6.0)
    assert lead.n == 2
    row = find(default.standings(picked), pictures_of_each_class="5", batch="74.0 ± 19.8")
    error = statistics.stdev([10.0, 2.0]) / math.sqrt(2)
    assert row["default less batch"] == f"+6.00 ± {error:.2f}"
    assert row["paper: CBCL, other networks"] == "87.7"
    notes = default.standings(picked).notes
    assert any("picked" in note or "1 (Caltech-101, 5)" in note for note in notes)
    assert any("logistic on Caltech-101: 2" in note for note in notes)
