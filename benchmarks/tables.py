"""The tables of docs/results.md, made from the records in results/."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"


def speed() -> str:
    return ratios("speed.jsonl")


def seeing() -> str:
    return ratios("seeing.jsonl")


def ratios(name: str) -> str:
    runs = [json.loads(line)["results"] for line in (RESULTS / name).read_text().splitlines()]
    rows = [f"| work | median of {len(runs)} runs | least to most | wanted |", "|---|---|---|---|"]
    for same in zip(*runs, strict=True):
        if "ratio" in same[0]:
            found = [result["ratio"] for result in same]
            spread = f"{min(found):.2f} to {max(found):.2f}"
            rows.append(f"| {same[0]['work']} | {np.median(found):.2f} | {spread} | {same[0]['target']} |")
    return "\n".join(rows)


def unknown() -> str:
    rows = [
        "| data | backbone | known | photos each | first guess right | known refused | unknown found | area |"
        " calibration error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in (RESULTS / "unknown.jsonl").read_text().splitlines():
        record = json.loads(line)
        found, how = record["results"][0], record["protocol"]
        shares = " | ".join(f"{100 * found[name]:.1f}" for name in ("right", "refused", "found"))
        last = f"{found['area']:.3f} | {found['calibration_error']:.3f}"
        about = f"{record['about']} | {record['backbone'].split()[0]}"
        rows.append(f"| {about} | {how['known']} | {how['shots']} | {shares} | {last} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(speed(), seeing(), unknown(), sep="\n\n")
