"""The README's tables, made from the records in results/: `python benchmarks/tables.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"


def speed() -> str:
    runs = [json.loads(line)["results"] for line in (RESULTS / "speed.jsonl").read_text().splitlines()]
    rows = [f"| work | median of {len(runs)} runs | least to most | wanted |", "|---|---|---|---|"]
    for same in zip(*runs, strict=True):
        if "ratio" in same[0]:
            ratios = [result["ratio"] for result in same]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append(f"| {same[0]['work']} | {np.median(ratios):.2f} | {spread} | {same[0]['target']} |")
    return "\n".join(rows)


def accuracy() -> str:
    records = [json.loads(line) for line in (RESULTS / "tuning.jsonl").read_text().splitlines()]
    choices = list(dict.fromkeys(record["choice"] for record in records))
    cells: dict[tuple[str, ...], dict[str, list[list[float]]]] = {}
    for record in records:
        shots, increment = record["protocol"]["shots"] or "all", record["protocol"]["increment"]
        row = (record["about"].split(",")[0].split(" without")[0], str(shots), str(increment))
        cells.setdefault(row, {}).setdefault(record["choice"], []).append(record["accuracies"])
    rows = [f"| data | shots | at a time | orders | {' | '.join(choices)} |", "|---" * (4 + len(choices)) + "|"]
    for labels, found in cells.items():
        numbers = [
            f"{100 * np.mean([np.mean(run) for run in found[choice]]):.1f} / "
            f"{100 * np.mean([run[-1] for run in found[choice]]):.1f}"
            for choice in choices
        ]
        rows.append(f"| {' | '.join(labels)} | {len(found[choices[0]])} | {' | '.join(numbers)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(speed(), accuracy(), sep="\n\n")
