"""The README says what the records say. (Its examples run as doctests.)"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("table", ["speed", "accuracy"])
def test_the_tables_are_those_of_the_records(table: str) -> None:
    made = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))[table]()
    assert made in (ROOT / "README.md").read_text()


def test_the_demos_output_is_what_it_prints(capfd: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "demo.py"))["main"]()
    printed = [line.strip() for line in capfd.readouterr().out.splitlines() if line.strip()]
    shown = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    assert printed[-7:] == [line for line in shown if line in printed[-7:]]
    assert len(printed) >= 7
