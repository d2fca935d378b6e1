"""Write docs/study.md, results/report.html and README.md's table from the records in results/."""

from __future__ import annotations

import re
from pathlib import Path

from cbcl.study.records import read
from cbcl.study.report import report

ROOT = Path(__file__).parent.parent


def main() -> None:
    records = read(ROOT / "results")
    (ROOT / "docs" / "study.md").write_text(report.markdown(records))
    (ROOT / "results" / "report.html").write_text(report.html(records))
    readme = ROOT / "README.md"
    table = re.compile(r"(?<=<!-- study -->\n).*?(?=<!-- /study -->)", re.DOTALL)
    readme.write_text(table.sub(lambda _: report.headline(records), readme.read_text()))


if __name__ == "__main__":
    main()
