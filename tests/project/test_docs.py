"""The docs say what the records say, and the README what the demo prints. (Their examples run as doctests.)"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from cbcl.study.records import read
from cbcl.study.report import report

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("table", ["speed", "seeing", "unknown", "asking", "serving"])
def test_the_tables_are_those_of_the_records(table: str) -> None:
    made = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))[table]()
    assert made in (ROOT / "docs" / "results.md").read_text()


def test_the_agreement_of_the_interfaces_is_that_of_the_record() -> None:
    made = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))["agreement"]()
    assert made in (ROOT / "docs" / "onnx.md").read_text()


def test_the_study_is_that_of_the_records() -> None:
    records = read(ROOT / "results")
    assert (ROOT / "docs" / "study.md").read_text() == report.markdown(records)
    assert report.headline(records) in (ROOT / "README.md").read_text()


def test_the_demos_output_is_what_it_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(ROOT / "examples" / "demo.py"))["main"](tmp_path)
    printed = [line for line in capfd.readouterr().out.splitlines() if line][
        :-2
    ]  # less where the files are
    shown = (ROOT / "README.md").read_text().split("```text\n")[1].split("\n```")[0].splitlines()
    # Another build of a JPEG library may move a picture across the limit: the shares are not compared.
    assert [re.sub(r"[\d.]+%|\d of", "", line) for line in printed] == [
        re.sub(r"[\d.]+%|\d of", "", line) for line in shown
    ]


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
