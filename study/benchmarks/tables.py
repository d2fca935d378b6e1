"""Tables of docs/results.md, onnx.md, app.md and backbones.md, made from the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"
CHOSEN = "worth_asking, at once"
RESIZED_BY = {
    "Pillow": "Pillow, as cbcl does",
    "the graph": "the graph, `--any-size`",
    "ONNX's Resize": "ONNX's antialiased cubic `Resize`",
}


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


BEFORE = "4038319"  # the last commit of the rule before, by which the same draws were judged
SMALL = "efficientnet-lite0@2views"


def judged(about: str, **wanted: str) -> dict[str, dict[str, float]]:
    """Return the latest results of a data set by cell, of a commit, setting and backbone."""
    found = {}
    for line in (RESULTS / "unknown.jsonl").read_text().splitlines():
        record = json.loads(line)
        made = {
            "commit": BEFORE if record["commit"] == BEFORE else "now",
            "strangers": record["protocol"].get("strangers", "sometimes"),
            "backbone": record["backbone"].split()[0],
        }
        usual = {"commit": "now", "strangers": "sometimes", "backbone": SMALL}
        if record["about"] == about and made == {**usual, **wanted}:
            found = {row["cell"]: row for row in record["results"]}
    return found


def per_cent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def unknown() -> str:
    rows = [
        "| data | things x photos | refused | found (worst) | siblings | background | error |"
        " before: refused | found (worst) | error |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = dict.fromkeys(
        json.loads(line)["about"] for line in (RESULTS / "unknown.jsonl").read_text().splitlines()
    )
    for about in names:
        old = judged(about, commit=BEFORE)
        for cell, now in judged(about).items():
            others = f"{per_cent(now['siblings_found'])} | {per_cent(now['background_found'])}"
            row = f"{_found(now, others)} | {_found(old[cell])}"
            rows.append(f"| {about} | {cell.replace('x', ' x ')} | {row} |")
    return "\n".join(rows)


def _found(row: dict[str, float], *others: str) -> str:
    found = f"{per_cent(row['found'])} ({per_cent(row['worst'])})"
    return " | ".join(
        [per_cent(row["refused"]), found, *others, per_cent(row["calibration_error"])]
    )


def _beside(ways: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return a table of what several ways refuse and find, a row for each cell."""
    titles = " | ".join(f"{name}: refused | found (worst)" for name in ways)
    rows = [f"| things x photos | {titles} |", "|---" * (1 + 2 * len(ways)) + "|"]
    for cell in next(iter(ways.values())):
        parts = []
        for results in ways.values():
            row = results[cell]
            found = f"{per_cent(row['found'])} ({per_cent(row['worst'])})"
            parts.append(f"{per_cent(row['refused'])} | {found}")
        rows.append(f"| {cell.replace('x', ' x ')} | {' | '.join(parts)} |")
    return "\n".join(rows)


def unknown_settings() -> str:
    settings = ("often", "sometimes", "rarely")
    return _beside({how: judged("Caltech-101", strangers=how) for how in settings})


def unknown_backbones() -> str:
    names = ("efficientnet-lite0", SMALL, "efficientnet-lite0@whole+efficientnet-lite2@centre")
    return _beside({name: judged("Caltech-101", backbone=name) for name in names})


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


def workers() -> str:
    """Return the table of the latest run."""
    record = json.loads((RESULTS / "workers.jsonl").read_text().splitlines()[-1])
    rows = [
        "| workers | seconds | processor time a photo, of the driver | of all, with their start |",
        "|---|---|---|---|",
    ]
    for result in record["results"]:
        name = (
            f"{result['jobs']} of {result['engine']}" if result["engine"] else "none, two threads"
        )
        times = [
            1000 * result[who] / record["photos"] for who in ("driver", "all") if who in result
        ]
        cells = [f"{time:.0f} ms" for time in times] + ["not known"] * (2 - len(times))
        rows.append(f"| {name} | {result['seconds']:.1f} | {' | '.join(cells)} |")
    part = 1000 * record["driver_per_photo"]
    loads = [result["load"] for result in record["results"]]
    busy = f"load of {min(loads):.1f} to {max(loads):.1f} on {record['machine']}"
    last = f"{record['photos']} photos of {record['about']}, {record['labels']} labels; a {busy}."
    return "\n".join(
        [*rows, "", f"{last} Without its start, the driver needs {part:.2f} ms a photo."]
    )


def many_centroids() -> str:
    """Return milliseconds by size of the vote's memories."""
    records = [record for record in _large_memories() if record["head"] == "vote"]
    sizes = [f"{record['centroids']:,}" for record in records]
    rows = [f"| centroids | {' | '.join(sizes)} |", "|---" * (1 + len(records)) + "|"]
    for name in (
        "exact: first answer",
        "exact: a query",
        "exact: of 256",
        "faiss flat: a query",
        "faiss flat: of 256",
        "BLAS: of 256",
        "scikit-learn: of 256",
    ):
        cells = [_milliseconds(record["seconds"].get(name)) for record in records]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    cells = [f"{record['bytes']['memory'] / 1e6:,.0f} MB" for record in records]
    rows.append(f"| size of the memory | {' | '.join(cells)} |")
    return "\n".join(rows)


def many_classes() -> str:
    """Return milliseconds by size of the default head's memories."""
    rows = [
        "| classes | open | first answer | a query | of 256 | size |",
        "|---|---|---|---|---|---|",
    ]
    for record in _large_memories():
        if record["head"] == "discriminant":
            seconds = record["seconds"]
            names = ("open", "first answer", "a query", "of 256")
            cells = [_milliseconds(seconds[name]) for name in names]
            size = f"{record['bytes']['memory'] / 1e6:.1f} MB"
            rows.append(f"| {record['classes']:,} | {' | '.join(cells)} | {size} |")
    return "\n".join(rows)


def many_labels() -> str:
    """Return the time to learn one more class, by how many are known, beside that among ten."""
    rows = ["| classes known | vote, 100 centroids a class | default |", "|---|---|---|"]
    cells: dict[int, list[str]] = {}
    for record in _large_memories("learning_many.jsonl"):
        time = _milliseconds(record["seconds"]["learn one class"])
        cells.setdefault(record["classes"], []).append(f"{time}, {record['ratio']:.2f} times")
    rows += [f"| {classes:,} | {' | '.join(own)} |" for classes, own in cells.items()]
    return "\n".join(rows)


def _large_memories(name: str = "large_memories.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "—"
    if seconds >= 10.0:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


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
            f"- Pictures taught: {loaded['examples acknowledged']:,}; known in the end, without "
            f"near-copies: {loaded['examples known']:,}; in the file: "
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


def resizing() -> str:
    """Of the latest run of the app."""
    record, rows = _latest_app(), ["| resized by | same label | confidences differ by at most "]
    rows[0] += "| by more than 0.01 | right | other pixels | processor time |"
    rows.append("|---|---|---|---|---|---|---|")
    asked = record["protocol"]["asked"]
    for result in record["results"]:
        if "resized by" in result:
            cells = [
                RESIZED_BY[result["resized by"]],
                f"{result['same label']} of {asked}",
                f"{result['confidences apart']:.1g}",
                result["apart by more than 0.01"],
                result["right"],
                f"{result['other pixels']:.1g}",
                f"{result['ms']:.1f} ms",
            ]
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def app() -> str:
    """Of the latest run of the app: answers, speed and sizes."""
    record = _latest_app()
    runs = [result for result in record["results"] if "app" in result]
    asked = record["protocol"]["asked"]
    cells: dict[str, list[str]] = {
        "": [f"`{run['app']}`" for run in runs],
        "the same label as in Python": [f"{run['same label']} of {asked}" for run in runs],
        "confidences differ by at most": [f"{run['confidences apart']:.1g}" for run in runs],
        "right, of those asked": [f"{run['right']} of {asked}" for run in runs],
        "answers a second": [f"{run['answers a second']:.1f}" for run in runs],
        "processor time an answer": [
            f"{1000 * run['processor seconds an answer']:.0f} ms" for run in runs
        ],
        "until it can answer": [f"{run['seconds to load']:.1f} s" for run in runs],
        "the first answer": [f"{run['seconds to the first answer']:.1f} s" for run in runs],
    }
    for part in ("model", "runtime", "thumbnails", "page"):
        sizes = [[size / 1e6 for size in run["sizes"][part]] for run in runs]
        cells[f"{part}, and compressed"] = [f"{raw:.1f}, {small:.1f} MB" for raw, small in sizes]
    rows = [f"| {name} | {' | '.join(values)} |" for name, values in cells.items()]
    return "\n".join([rows[0], f"|{'---|' * (len(runs) + 1)}", *rows[1:]])


def _latest_app() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / "app.jsonl").read_text().splitlines()[-1])
    return record


if __name__ == "__main__":
    tables = [speed(), seeing(), unknown(), asking(), serving(), agreement(), backbones()]
    tables += [resizing(), app()]
    print(*tables, sep="\n\n")
