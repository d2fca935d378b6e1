"""The tables of docs/results.md, onnx.md and backbones.md, made from the records in results/."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"
CHOSEN = "worth_asking, at once"


def speed() -> str:
    return compare_ratios("speed.jsonl")


def seeing() -> str:
    return compare_ratios("seeing.jsonl")


def compare_ratios(name: str) -> str:
    runs = [json.loads(line)["results"] for line in (RESULTS / name).read_text().splitlines()]
    rows = [f"| work | median of {len(runs)} runs | least to most | wanted |", "|---|---|---|---|"]
    for same in zip(*runs, strict=True):
        if "ratio" in same[0]:
            work, target = same[0]["work"], same[0]["target"]
            ratios = [result["ratio"] for result in same]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append(f"| {work} | {np.median(ratios):.2f} | {spread} | {target} |")
    return "\n".join(rows)


def unknown() -> str:
    rows = [
        "| data | backbone | known | photos each | first guess right | known refused |"
        " unknown found | area | calibration error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in (RESULTS / "unknown.jsonl").read_text().splitlines():
        record = json.loads(line)
        result, how = record["results"][0], record["protocol"]
        shares = " | ".join(f"{100 * result[name]:.1f}" for name in ("right", "refused", "found"))
        last = f"{result['area']:.3f} | {result['calibration_error']:.3f}"
        about = f"{record['about']} | {record['backbone'].split()[0]}"
        rows.append(f"| {about} | {how['known']} | {how['shots']} | {shares} | {last} |")
    return "\n".join(rows)


def asking() -> str:
    rows = [
        "| data | known + new | photos each | strangers | right at first |"
        " with ten at random | with ten chosen | worth at random |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in (RESULTS / "asking.jsonl").read_text().splitlines():
        record = json.loads(line)
        how = record["protocol"]
        results = {result["order"]: result for result in record["results"]}
        orders = ("nothing", "random 10", CHOSEN)
        right = " | ".join(f"{100 * results[order]['right']:.1f}" for order in orders)
        classes = f"{how['known']} + {how['new']} | {how['shots']} | {how['strangers']}"
        worth = f"{results[CHOSEN]['worth']:.0f} labels"
        rows.append(f"| {record['about']} | {classes} | {right} | {worth} |")
    return "\n".join(rows)


def serving() -> str:
    """Return the table of the latest run."""
    record = json.loads((RESULTS / "serving.jsonl").read_text().splitlines()[-1])
    taught = [result for result in record["results"] if result.get("target") == "< 500"]
    loaded = next(result for result in record["results"] if "statuses" in result)
    rows = ["| milliseconds | half of the time | 19 times of 20 | always |", "|---|---|---|---|"]
    timed = {result["work"]: result["milliseconds"] for result in taught}
    timed |= {f"under load: {kind}": times for kind, times in loaded["milliseconds"].items()}
    for work, times in timed.items():
        rows.append(
            f"| {work} | {times['50 %']:.0f} | {times['95 %']:.0f} | {times['100 %']:.0f} |"
        )
    megabytes = ", ".join(f"{when} {size:.0f}" for when, size in loaded["megabytes"].items())
    answers = ", ".join(
        f"{many:,} x {status}" for status, many in sorted(loaded["statuses"].items())
    )
    return "\n".join(
        [
            *rows,
            "",
            f"- Under load: {loaded['work']}; {loaded['requests a second']:.0f} a second.",
            f"- Answers: {answers}.",
            f"- Examples acknowledged: {loaded['examples acknowledged']:,}; in the file: "
            f"{loaded['examples in the file']:,}.",
            f"- Megabytes of the server: {megabytes}.",
        ]
    )


def backbones() -> str:
    lines = (RESULTS / "backbones.jsonl").read_text().splitlines()
    return tabulate_backbones([json.loads(line)["results"] for line in lines])


def tabulate_backbones(runs: Sequence[list[dict[str, Any]]]) -> str:
    """Return the least milliseconds of the runs, and the median, least and most of the ratios."""
    rows = [
        "| backbone | numbers in a vector | one photo | in a folder | one photo, ratio |"
        " in a folder, ratio |",
        "|---|---|---|---|---|---|",
    ]
    for same in zip(*runs, strict=True):
        cells = [f"`{same[0]['backbone']}`", f"{same[0]['dimension']:,}"]
        for work in ("one", "folder"):
            least = min(result["seconds"][work] for result in same)
            cells.append(f"{1e3 * least:.1f} ms")
        for work in ("one", "folder"):
            ratios = [result["ratios"][work] for result in same]
            cells.append(f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


PREPROCESSING = {
    "bilinear": "resized by another filter: bilinear",
    "nearest": "resized without a filter: nearest",
    "squeezed": "the whole picture squeezed into a square",
    "BGR": "colours as BGR, as OpenCV has them",
}


def agreement() -> str:
    """Of the latest run."""
    record = json.loads((RESULTS / "agreement.jsonl").read_text().splitlines()[-1])
    protocol = record["protocol"]
    rows = ["| interface | same label | confidences differ by at most |", "|---|---|---|"]
    for result in record["results"]:
        interface, _, change = result["way"].partition(", but ")
        name = f"{interface}, {PREPROCESSING[change]}" if change else interface
        same = f"{result['same label']} of {protocol['asked']}"
        rows.append(f"| {name} | {same} | {result['confidences apart']:.1g} |")
    known = f"{protocol['known']} of {protocol['classes']} classes"
    about = f"{record['about']}, {known} learned from {protocol['shots']} photos each"
    return "\n".join([f"Compared with Python on {protocol['asked']} photos of {about}:", "", *rows])


if __name__ == "__main__":
    tables = [speed(), seeing(), unknown(), asking(), serving(), agreement(), backbones()]
    print(*tables, sep="\n\n")
