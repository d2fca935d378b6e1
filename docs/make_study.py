"""Write docs/study.md, report.html and a part of docs/results.md from the records."""

from __future__ import annotations

import re
from pathlib import Path

from cbcl_study.records import read
from cbcl_study.report import report

ROOT = Path(__file__).parent.parent


def main() -> None:
    records = read(ROOT / "study" / "results")
    (ROOT / "docs" / "study.md").write_text(report.markdown(records))
    (ROOT / "study" / "results" / "report.html").write_text(report.html(records))
    page = ROOT / "docs" / "results.md"
    table = re.compile(r"(?<=<!-- study -->\n).*?(?=<!-- /study -->)", re.DOTALL)
    standings = f"{report.standings(records)}\n"
    page.write_text(table.sub(lambda _: standings, page.read_text()))


if __name__ == "__main__":
    main()
