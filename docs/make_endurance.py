"""Write the tables of docs/endurance.md from study/results/endurance.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE, RECORD = ROOT / "docs" / "endurance.md", ROOT / "study" / "results" / "endurance.json"


def main() -> None:
    place = re.compile(r"(?<=<!-- endurance -->\n).*?(?=<!-- /endurance -->)", re.DOTALL)
    PAGE.write_text(place.sub(lambda _: tables(), PAGE.read_text()))


def tables() -> str:
    """Return the outcome of each trial, and the figures, as of the record."""
    trials: list[dict[str, Any]] = json.loads(RECORD.read_text())["trials"]
    tried = sum(trial["tried"] for trial in trials)
    found = sum(len(trial["found"]) for trial in trials)
    lost = sum(trial["lost"] for trial in trials)
    seconds = sum(trial["seconds"] for trial in trials)
    lines = [
        "The latest run of each trial, on " + _all(trials, "machine") + ".",
        "",
        "| trial | how many | found | lost | seconds | seed | commit |",
        "|---|---:|---:|---:|---:|---:|---|",
        *(
            f"| {trial['trial']} | {trial['tried']:,} {trial['unit']} | {len(trial['found'])}"
            f" | {trial['lost']} | {trial['seconds']:,.0f} | {trial['seed']} | {trial['commit']} |"
            for trial in trials
        ),
        f"| **all** | **{tried:,}** | **{found}** | **{lost}** | **{seconds:,.0f}** | | |",
        "",
        "| trial | figure | value |",
        "|---|---|---:|",
        *(
            f"| {trial['trial']} | {name} | {value:,g} |"
            for trial in trials
            for name, value in trial["figures"].items()
        ),
    ]
    return "\n".join([*lines, ""])


def _all(trials: list[dict[str, Any]], name: str) -> str:
    return "; ".join(sorted({str(trial[name]) for trial in trials}))


if __name__ == "__main__":
    main()
