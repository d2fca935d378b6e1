"""Draw the figure of docs/scale.md, and write its tables, from large_memories.jsonl."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
TABLES = ("many_centroids", "many_classes", "many_labels")
LINES = {  # what is drawn, with its colour
    "scikit-learn": ("scikit-learn", "#9a9a9a"),
    "faiss flat": ("faiss, flat", "#b4602c"),
    "exact": ("cbcl, exact", "#2c6bb4"),
}


def main() -> None:
    tables = runpy.run_path(str(ROOT / "study" / "benchmarks" / "tables.py"))
    page = ROOT / "docs" / "scale.md"
    text = page.read_text()
    for name in TABLES:
        made = f"<!-- {name} -->\n{tables[name]()}\n<!-- /{name} -->"
        before, _, rest = text.partition(f"<!-- {name} -->")
        text = before + made + rest.partition(f"<!-- /{name} -->")[2]
    page.write_text(text)
    lines = (ROOT / "study" / "results" / "large_memories.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    draw([record for record in records if record["head"] == "vote"])


def draw(records: list[dict[str, Any]]) -> None:
    """Draw milliseconds over centroids: a query alone, and among 256."""
    mpl.rcParams.update({"svg.hashsalt": "cbcl", "font.size": 9.0, "svg.fonttype": "none"})
    figure = Figure(figsize=(8.2, 3.4), layout="constrained")
    sizes = [record["centroids"] for record in records]
    for number, kind in enumerate(("a query", "of 256")):
        axes = figure.add_subplot(1, 2, number + 1)
        for name, (label, colour) in LINES.items():
            times = [1e3 * find(record["seconds"], name, kind) for record in records]
            axes.loglog(sizes, times, "o-", color=colour, label=label, markersize=4.0)
            axes.annotate(
                label, (sizes[-1], times[-1]), (6, -3), textcoords="offset points", color=colour
            )
        axes.set(xlabel="centroids", ylabel="milliseconds a query")
        axes.set_title("one at a time" if kind == "a query" else "256 at a time", loc="left")
        axes.grid(color="#e4e4e4")
        axes.set_xlim(sizes[0] / 1.5, sizes[-1] * 8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "figures" / "centroids.svg", metadata={"Date": None})


def find(seconds: dict[str, float], name: str, kind: str) -> float:
    """Return the last figure of a kind whose name begins so."""
    return [value for key, value in seconds.items() if key.startswith(name) and kind in key][-1]


if __name__ == "__main__":
    main()
