"""The docs say what the records say, and their links lead somewhere. (Examples are doctests.)"""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize(
    ("page", "table"),
    [
        *(("results", name) for name in ("speed", "seeing", "unknown", "asking", "serving")),
        *(("onnx", name) for name in ("agreement", "resizing")),
        ("app", "app"),
        *(("scale", name) for name in ("workers", "many_centroids", "many_classes", "many_labels")),
        ("backbones", "backbones"),
    ],
)
def test_the_tables_are_those_of_the_records(page: str, table: str) -> None:
    made = runpy.run_path(str(ROOT / "study" / "benchmarks" / "tables.py"))[table]()
    assert made in (ROOT / "docs" / f"{page}.md").read_text()


def test_the_study_is_that_of_the_records() -> None:
    pytest.importorskip("matplotlib")
    made = runpy.run_path(str(ROOT / "docs" / "make_study.py"))["pages"]()
    assert {path.name for path in made} == {"study.md", "results.md", "report.html"}
    for path, text in made.items():
        stored, by_the_records = (
            # Lines of a figure are those of one version of matplotlib.
            re.sub(r"<svg.*?</svg>", "", one, flags=re.DOTALL)
            for one in (path.read_text(), text)
        )
        assert stored == by_the_records, path


def test_the_endurance_is_that_of_the_record() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_endurance.py"))["tables"]()
    assert made in (ROOT / "docs" / "endurance.md").read_text()


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_functions_of_the_method_are_where_its_page_says() -> None:
    table = (ROOT / "docs" / "method.md").read_text().split("| section |")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        *_, modules, functions = row.strip("|").split("|")
        rooms = [import_module(f"cbcl.method.{name}") for name in re.findall(r"`(.+?)`", modules)]
        for function in re.findall(r"`(\w+)", functions):
            assert any(hasattr(room, function) for room in rooms), row
