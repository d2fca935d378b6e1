"""Write report.html, and what is generated of docs/study.md and docs/results.md, from the records.

The text outside the markers is written by hand; tests/project/test_conclusions.py compares its
numbers with the records.
"""

from __future__ import annotations

import re
from pathlib import Path

from cbcl_study.records import read
from cbcl_study.report import report

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(?<=<!-- study -->\n).*?(?=<!-- /study -->)", re.DOTALL)
PAGE = "[the page](../study/results/report.html)"


def pages() -> dict[Path, str]:
    """Return the pages as they are by the records."""
    records = read(ROOT / "study" / "results")
    study, results = ROOT / "docs" / "study.md", ROOT / "docs" / "results.md"
    tables = report.body(records).replace("in the page:", f"in {PAGE}:")
    standings = f"{report.standings(records)}\n"
    return {
        study: MARKED.sub(lambda _: tables, study.read_text()),
        results: MARKED.sub(lambda _: standings, results.read_text()),
        ROOT / "study" / "results" / "report.html": report.html(records),
    }


def main() -> None:
    for path, text in pages().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
