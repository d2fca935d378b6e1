"""The output of `make demo` is true, its page is complete in itself, and README shows both."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.demo import DemoRun

README = (Path(__file__).parents[2] / "README.md").read_text()
EMPTY = {"meta", "link", "img", "br"}  # elements without an end


class Page(HTMLParser):
    """A page, parsed: the contents of its elements, which must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.kinds: list[str] = []
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open += [] if tag in EMPTY else [tag]
        held = {name: value or "" for name, value in attrs}
        self.addresses += [
            held[name] for name in ("src", "href", "srcset", "action") if name in held
        ]
        self.kinds += held.get("class", "").split()
        self.ids |= {held["id"]} if "id" in held else set()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data if self.open[-1:] != ["style"] else ""


@pytest.fixture(scope="module")
def run(demo_run: DemoRun) -> DemoRun:
    return demo_run


@pytest.fixture(scope="module")
def page(run: DemoRun) -> Page:
    return Page((run.place / "page.html").read_text(encoding="utf-8"))


def table(run: DemoRun) -> list[dict[str, str]]:
    """Return the rows of the table, by title."""
    return table_in(run.lines, run)


def table_in(lines: list[str], run: DemoRun) -> list[dict[str, str]]:
    titles = run.demo["TITLES"]
    start = next(number for number, line in enumerate(lines) if line.startswith("learned ")) + 1
    count = len(run.demo["TAUGHT"]) // run.demo["AT_A_TIME"]
    rows = [line.rsplit(maxsplit=len(titles) - 1) for line in lines[start : start + count]]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def share(cell: str) -> float:
    return float(cell.removesuffix("%")) / 100


def test_things_are_learned_two_at_a_time(run: DemoRun) -> None:
    assert [row["things"] for row in table(run)] == ["2", "4", "6", "8", "10"]


def test_what_was_learned_is_told_apart_to_the_end(run: DemoRun) -> None:
    assert all(share(row["1st guess"]) >= 0.9 for row in table(run))
    assert share(table(run)[-1]["right"]) >= 0.75


def test_what_was_never_taught_is_unknown(run: DemoRun) -> None:
    assert all(share(row["unknown"]) >= 0.8 for row in table(run))


def test_what_is_not_right_was_refused_or_taken_for_another(run: DemoRun) -> None:
    for row in table(run):
        assert share(row["right"]) + share(row["refused"]) <= 1.001
        assert share(row["right"]) <= share(row["1st guess"])


def test_forgetting_and_undoing_leave_every_other_bit_alone(run: DemoRun) -> None:
    forgot, undid = run.lines[-4:-2]
    assert forgot.startswith("forgot gravel: ")
    assert forgot.endswith("every bit of the other 9 as before: True")
    assert undid.endswith("every bit of all 10 as before: True")


def test_photos_memory_and_page_lie_where_it_says(run: DemoRun) -> None:
    assert run.lines[-2:] == [
        f"photos and memory: {run.place}",
        f"every answer, and why: {run.place / 'page.html'}",
    ]
    assert (run.place / "things.cbcl").is_file()
    things = [*run.demo["TAUGHT"], *run.demo["NEVER_TAUGHT"]]
    assert sorted(folder.name for folder in (run.place / "photos").iterdir()) == sorted(things)
    assert all(len([*(run.place / "photos" / name).iterdir()]) == 9 for name in things)


def test_the_same_seed_makes_the_same_photos(run: DemoRun, tmp_path: Path) -> None:
    run.demo["make_photos"]("cat", tmp_path / "cat")
    for made in (tmp_path / "cat").iterdir():
        assert made.read_bytes() == (run.place / "photos" / "cat" / made.name).read_bytes()


def test_a_second_run_leaves_the_first_alone(run: DemoRun) -> None:
    with pytest.raises(SystemExit, match="is there already: give another folder"):
        run.demo["main"](run.place.parent)


def test_the_page_closes_every_element_that_it_opens(page: Page) -> None:
    assert page.open == []


def test_the_page_needs_nothing_from_elsewhere(run: DemoRun, page: Page) -> None:
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= page.ids
    assert not {"script", "iframe", "object", "embed"} & {*page.tags}
    text = (run.place / "page.html").read_text(encoding="utf-8")
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 3_000_000


def test_the_page_shows_every_view_that_was_asked_about(run: DemoRun, page: Page) -> None:
    things = [*run.demo["TAUGHT"], *run.demo["NEVER_TAUGHT"]]
    assert all(name in page.words for name in things)
    assert page.kinds.count("card") == 6 * len(things)
    assert page.kinds.count("reason") >= 6 * len(things)


def test_the_page_marks_as_right_what_the_table_counts(run: DemoRun, page: Page) -> None:
    last, taught, never = (
        table(run)[-1],
        6 * len(run.demo["TAUGHT"]),
        6 * len(run.demo["NEVER_TAUGHT"]),
    )
    right = round(share(last["right"]) * taught) + round(share(last["unknown"]) * never)
    assert page.words.count("✓ right") == right
    assert page.words.count("? refused") == round(share(last["refused"]) * taught)
    assert (
        page.words.count("✓") + page.words.count("✗") + page.words.count("? refused")
        == taught + never
    )


def test_the_page_escapes_what_it_shows(run: DemoRun) -> None:
    entry = run.demo["entry_of"]("<b>&", [])
    assert "<b>" not in entry
    assert "&lt;b&gt;&amp;" in entry


def test_the_readme_shows_what_it_prints(run: DemoRun) -> None:
    """Compare all words, and shares and counts by views.

    Another build of a JPEG library may move one view across a limit, so each may differ by one.
    """
    shown = README.split("```text\n")[1].split("\n```")[0].splitlines()
    printed = run.lines[:-2]  # less where the files are
    shares = re.compile(r" *[\d.]+%|\d of")
    assert [shares.sub("", line) for line in printed] == [shares.sub("", line) for line in shown]
    for ours, readme in zip(table_in(printed, run), table_in(shown, run), strict=True):
        for title in ("right", "1st guess", "unknown", "refused"):
            views = 6 * (3 if title == "unknown" else int(ours["things"]))
            assert abs(share(ours[title]) - share(readme[title])) * views < 1.1, title
    counts = [re.findall(r"(\d) of its 6 views", "".join(lines)) for lines in (printed, shown)]
    assert abs(int(counts[0][0]) - int(counts[1][0])) <= 1
