"""docs/results.md says in short what the records say."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = " ".join((ROOT / "docs" / "results.md").read_text().split())


@cache
def records(name: str) -> list[Any]:
    lines = (ROOT / "study" / "results" / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def seeing(work: str) -> float:
    runs = [record["results"] for record in records("seeing")]
    ratios = [result["ratio"] for run in runs for result in run if result["work"] == work]
    return float(median(ratios))


def photos_per_second(way: str) -> float:
    return float(median(64 / record["results"][0]["seconds"][way] for record in records("seeing")))


def taught(things: int, share: str = "50 %") -> float:
    work = f"from teaching a photo to the changed answer, {things} things known"
    results = records("serving")[-1]["results"]
    return float(next(row["milliseconds"][share] for row in results if row["work"] == work))


def strangers() -> str:
    judged = runpy.run_path(str(ROOT / "study" / "benchmarks" / "tables.py"))["judged"]

    def shares(row: dict[str, float], *names: str) -> str:
        return " and ".join(f"{row[name]:.0%}".replace("%", " %") for name in names)

    now = judged("Caltech-101")
    two, ten, fifty = now["2x3"], now["10x3"], now["50x5"]
    before = judged("Caltech-101", commit="4038319")["2x3"]
    bird = judged("CUB-200, classes 101-200")["2x3"]
    worst = max(row["calibration_error"] for row in now.values())
    return (
        f"{shares(two, 'found')} of strangers are unknown, {shares(two, 'worst')} in the worst of "
        f"twelve draws, and {shares(two, 'refused')} of the things' other photos; by the rule "
        f"before {shares(before, 'found', 'worst')}. Ten things: "
        f"{shares(ten, 'found', 'refused')}; fifty, from five photos each: "
        f"{shares(fifty, 'found', 'refused')}. Confidence, strangers included, is off by "
        f"{100 * worst:.1f} % at most. Two birds among birds: "
        f"{shares(bird, 'found', 'refused')}"
    )


def speed() -> str:
    from_files = f"{seeing('from JPEG files: inference alone / all of it'):.0%}".replace("%", " %")
    again = seeing("from JPEG files: first run / second run")
    eager = seeing("Lite0, batches of 1: PyTorch eager / cbcl")
    growth = seeing("teaching 5 photos: memory of 1,000 classes / of 10")
    return (
        f"{photos_per_second('cbcl'):.0f} photos a second "
        f"({photos_per_second('int8'):.0f} in 8 bits), {eager:.1f} times PyTorch's eager mode; "
        f"from JPEG files {from_files} of that; a photo seen before is {again:.0f} times as fast. "
        f"Teaching five photos with 1,000 classes known takes {growth:.2f} times as long "
        "as with 10."
    )


def serving() -> str:
    load = next(row for row in records("serving")[-1]["results"] if "statuses" in row)
    requests = sum(load["statuses"].values())
    assert set(load["statuses"]) == {"recognize 200", "learn 200"}  # no error
    assert 4 * load["statuses"]["learn 200"] == requests  # a quarter of them teaching
    assert load["examples known"] == load["examples in the file"]  # no lost example
    assert f"with 32 clients: {requests:,} requests" in PLAIN
    return (
        f"{load['requests a second']:.0f} requests a second. From teaching a photo to the changed "
        f"answer it takes {taught(10):.0f} ms, 19 times of 20 at most {taught(10, '95 %'):.0f}; "
        f"with 1,000 things known {taught(1000, '95 %'):.0f} ms."
    )


def teaching() -> str:
    before, *_, after = records("person")
    rows = [row for row in after["results"] if row.get("against_single_snaps") is not None]
    lost = max(abs(row["against_single_snaps"]) for row in rows)
    was = [
        row["right"] for row in before["results"] if (row.get("against_single_snaps") or 0) < -0.1
    ]
    as_met = after["results"][-1]
    share = {name: f"{100 * value:.1f} %" for name, value in as_met["as_met"].items()}
    return (
        f"within {100 * lost:.1f} points. Before, such a memory answered "
        f"{100 * min(was):.0f} to {100 * max(was):.0f} % of them. Of ten household things, known "
        f"from three photos each, {share['right']} of other photos are right, {share['refused']} "
        f"refused and {share['wrong']} wrong, and {share['strangers_found']} of strangers are "
        f"unknown, {100 * as_met['worst_strangers_found']:.1f} % in the worst of five draws; the "
        f"confidence is off by {share['calibration_error']} on average"
    )


def solving() -> str:
    rows = {row["work"]: row["seconds"] for row in records("heads")[-1]["results"]}
    work = "one more view to the changed answer, {} known"
    seconds = [
        next(s["teach and ask"] for name, s in rows.items() if name.startswith(work.format(count)))
        for count in ("10", "100", "1,000")
    ]
    ten, hundred, thousand = (f"{1000 * value:.0f} ms" for value in seconds)
    return f"{ten} with 10 things known, {hundred} with 100, {thousand} with 1,000."


CLAIMS = [teaching, solving, strangers, speed, serving]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_sentence_has_the_figures_of_the_records(claim: Callable[[], str]) -> None:
    assert claim() in PLAIN


def test_every_sentence_with_a_figure_is_compared() -> None:
    """Take away what is compared: no figure is left but those of names and of the test suite."""
    results = PLAIN.split("## In short")[1].split("How the default came about")[0]
    for claim in CLAIMS:
        results = results.replace(claim(), "")
    names = r"33 frames|300 times|CIFAR-100|Caltech-101|CUB-200|1,000|32 clients"
    names += r"|20,000 requests|19 times of 20|200 processes|4038319"
    assert re.findall(r"\d[\d.,]*", re.sub(names, "", results)) == []
