"""Draw the figure of docs/unknown.md: what decides "unknown" in a memory of the demo's things."""

from __future__ import annotations

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cbcl import Recognizer
from cbcl.method.discriminant.forecast import UnknownReport

ROOT = Path(__file__).parent.parent
KNOWN, STRANGE, LIMIT = "#2c6bb4", "#b4602c", "#444444"
NAMES = {
    "often": (1.02, 4, "left"),
    "sometimes": (1.12, 0, "center"),
    "rarely": (1.02, -4, "right"),
}


def main() -> None:
    with TemporaryDirectory() as folder:
        reports = learn(Path(folder))
    draw(reports).savefig(ROOT / "docs" / "figures" / "unknown.svg", metadata={"Date": None})


def learn(folder: Path) -> dict[str, UnknownReport]:
    """Teach the ten things of `make demo`; return what decides by each setting."""
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    reports = {}
    with Recognizer(folder / "things.cbcl", cache=False) as things:
        for name in demo["TAUGHT"]:
            demo["make_photos"](name, folder / name)
            things.learn(name, sorted((folder / name).glob("taught-*")))
        for setting in NAMES:
            things.expect_strangers(setting)  # type: ignore[arg-type]
            report = things.snapshot().unknown()
            assert report is not None
            reports[setting] = report
    return reports


def draw(reports: dict[str, UnknownReport]) -> Figure:
    """Draw both distributions, the photos that they come from, and the limits."""
    mpl.rcParams.update({"svg.hashsalt": "cbcl", "font.size": 9.0, "svg.fonttype": "none"})
    figure = Figure(figsize=(7.4, 3.3), layout="constrained")
    axes = figure.add_subplot()
    report = reports["sometimes"]
    draw_hypothesis(axes, report.strange, report.strange_scores, STRANGE, "photos of strangers")
    draw_hypothesis(axes, report.known, report.known_scores, KNOWN, "photos of known things")
    top = axes.get_ylim()[1]
    # The three limits are close to each other: each has its name on another side.
    for setting, (height, away, side) in NAMES.items():
        limit = reports[setting].limit
        line = "-" if setting == report.strangers else (0, (3, 3))
        axes.vlines(limit, 0.0, 1.1 * top, color=LIMIT, linewidth=0.9, linestyle=line)
        axes.annotate(
            setting,
            (limit, height * top),
            (away, 0),
            textcoords="offset points",
            color=LIMIT,
            ha=side,
        )
    axes.set_ylim(-0.2 * top, 1.24 * top)
    axes.set(xlabel="score", yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def draw_hypothesis(
    axes: Axes, curve: tuple[float, float], scores: list[float], colour: str, name: str
) -> None:
    mean, deviation = curve
    places = np.linspace(mean - 3.5 * deviation, mean + 3.5 * deviation, 200)
    density = np.exp(-0.5 * ((places - mean) / deviation) ** 2) / deviation
    axes.fill_between(places, density, color=colour, alpha=0.15, linewidth=0)
    axes.plot(places, density, color=colour, linewidth=1.4)
    axes.annotate(
        name, (mean, density.max()), (0, 4), textcoords="offset points", color=colour, ha="center"
    )
    axes.plot(scores, np.full(len(scores), -0.9), "|", color=colour, markersize=9.0)


if __name__ == "__main__":
    main()
