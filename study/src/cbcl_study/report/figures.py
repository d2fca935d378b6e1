"""The study's figures as SVG for a page: colours and fonts are the page's.

Lines differ by dashes and markers, too, so that a figure can be read in grey, and their names stand
beside them. The same data gives the same text. They need matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cbcl.errors import DataError
from cbcl.method.arrays import Int64s
from cbcl_study.report.label_places import place_beside_points, spread_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour: TypeAlias = Literal["ink", "quiet", "rule", "blue", "orange", "green", "purple"]
Box: TypeAlias = tuple[float, float, float, float]  # left, bottom, width, height of axes

# Colours to draw with, each replaced by a variable of the page's style sheet afterwards.
COLOURS: dict[Colour, str] = {
    name: f"#0102{place:02x}" for place, name in enumerate(get_args(Colour))
}
WIDTH = 4.7  # inches, so that text of 8 points can be read on a phone
LABEL_SIZE = 7.5
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # to measure text with: matplotlib brings it along
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.6,
    "lines.markeredgewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["quiet"],
    "axes.labelcolor": COLOURS["ink"],
    "xtick.color": COLOURS["quiet"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.color": COLOURS["quiet"],
    "ytick.labelcolor": COLOURS["ink"],
    "grid.color": COLOURS["rule"],
    "grid.linewidth": 0.5,
}
MARKERS_ON_A_LINE = 10


class Look(NamedTuple):
    """Colour, dashes (matplotlib's) and marker of a line, which tell it from others in grey."""

    colour: Colour
    dashes: Any = "-"
    marker: str = ""
    is_hollow: bool = False
    width: float = 1.2


class Line(NamedTuple):
    """A line with its name at its right end; `spread` is half the height of the band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    spread: Sequence[float] = ()


class Level(NamedTuple):
    """A horizontal line with its name."""

    name: str
    y: float
    look: Look


class CostPoint(NamedTuple):
    """A learner or a backbone: what it costs, and its average accuracy in per cent."""

    name: str
    cost: float
    accuracy: float
    colour: Colour
    shape: str


def draw_curves(
    title: str,
    lines: Sequence[Line],
    levels: Sequence[Level] = (),
    *,
    about: str,
    classes: int = 100,
) -> str:
    """Draw accuracy over classes seen, each curve with its name at its end."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, (0.1, 0.12, 0.52, 0.79))
        axes.set(title=title, xlabel="classes seen", ylabel="accuracy (%)")
        axes.set(xlim=(0, classes), ylim=(0, 100))
        axes.locator_params(axis="x", integer=True)
        for line in lines:
            _plot(axes, line)
        for level in levels:
            axes.axhline(level.y, **_stroke(level.look))
        if not lines:
            axes.text(50, 50, "not run", ha="center", color=COLOURS["quiet"])
        _label_ends(
            axes, [*lines, *(Line(one.name, [classes], [one.y], one.look) for one in levels)]
        )

    return _draw(f"{about}, {title}: accuracy over classes seen", 3.6, draw)


def draw_budgets(
    lines: Sequence[Line], stated: Sequence[Line], gaps: Sequence[Line], title: str
) -> str:
    """Draw average accuracy over K, the paper's numbers hollow; below, the paired differences."""

    def draw(figure: Figure) -> None:
        upper = _axes(figure, (0.12, 0.47, 0.56, 0.5))
        lower = _axes(figure, (0.12, 0.12, 0.56, 0.26))
        upper.set(ylabel="average accuracy (%)")
        lower.set(xlabel="most centroids, K", ylabel="difference")
        for line in lines:
            _plot(upper, line)
        for line in stated:
            upper.plot(line.x, line.y, **_stroke(line.look))
        lower.axhline(0.0, color=COLOURS["quiet"], linewidth=0.6)
        for line in gaps:
            bars: dict[str, Any] = {"capsize": 2.5, "elinewidth": 0.8}
            lower.errorbar(line.x, line.y, line.spread, **_stroke(line.look), **bars)
        for axes, drawn in ((upper, [*lines, *stated]), (lower, gaps)):
            axes.margins(x=0.05, y=0.12)
            _label_ends(axes, drawn)

    return _draw(title, 3.9, draw)


def draw_costs(title: str, cost: str, points: Sequence[CostPoint]) -> str:
    """Draw accuracy over cost, on a logarithmic scale, a name at each point: upper left is best."""

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        axes = _axes(figure, (0.11, 0.13, 0.86, 0.78))
        axes.set(title=title, xlabel=cost, ylabel="average incremental accuracy (%)")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        for point in points:
            look: dict[str, Any] = {"color": COLOURS[point.colour], "markersize": 5.0}
            axes.plot([point.cost], [point.accuracy], point.shape, **look)
        axes.margins(x=0.16, y=0.1)
        names = [(point.name, COLOURS[point.colour]) for point in points]
        place_beside_points(axes, [(one.cost, one.accuracy) for one in points], names, LABEL_SIZE)

    return _draw(f"{title}: accuracy over {cost}", 3.3, draw)


def draw_confusion(counts: Int64s, title: str) -> str:
    """Draw a confusion matrix, its classes in the order in which they came, in shades of grey."""
    shares = 100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # (t, t)

    def draw(figure: Figure) -> None:
        from matplotlib.colors import PowerNorm

        axes = _axes(figure, (0.1, 0.1, 0.78, 0.83))
        axes.grid(visible=False)
        # By the square root, since most numbers beside the diagonal are below one per cent.
        scale = PowerNorm(0.5, 0.0, 100.0)
        sides = (0, len(counts), len(counts), 0)
        image = axes.imshow(shares, cmap="Greys", norm=scale, interpolation="none", extent=sides)
        axes.set(title=title, xlabel="class answered, by when it was learned")
        axes.set(ylabel="class asked about, by when it was learned")
        ticks = [0, 1, 5, 20, 50, 100]
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, ticks=ticks)
        bar.ax.set_title("%", loc="center")

    return _draw(f"Confusion of classes on CIFAR-100: {title}", 4.2, draw)


def _axes(figure: Figure, box: Box) -> Axes:
    axes = figure.add_axes(box)
    axes.grid(axis="y")
    return axes


def _stroke(look: Look) -> dict[str, Any]:
    colour = COLOURS[look.colour]
    fill = "none" if look.is_hollow else colour
    return {
        "color": colour,
        "linestyle": look.dashes,
        "linewidth": look.width,
        "marker": look.marker,
        "markerfacecolor": fill,
    }


def _plot(axes: Axes, line: Line) -> None:
    x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
    if len(line.spread):
        band = np.nan_to_num(line.spread)
        shade: dict[str, Any] = {
            "color": COLOURS[line.look.colour],
            "alpha": 0.15,
            "linewidth": 0.0,
        }
        axes.fill_between(x, y - band, y + band, **shade)
    every = max(1, len(x) // MARKERS_ON_A_LINE)
    axes.plot(x, y, markevery=every, **_stroke(line.look))


def _label_ends(axes: Axes, lines: Sequence[Line]) -> None:
    """Write names right of the axes, as near to the ends of the lines as the others allow."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    points = axes.get_window_extent().height / axes.figure.dpi * 72.0
    ordered = sorted(lines, key=lambda line: (line.y[-1], line.x[-1], line.name))
    step = 1.25 * LABEL_SIZE / points * (high - low)
    heights = spread_out([line.y[-1] for line in ordered], step, low, high)
    gap = 0.02 * (right - left)
    for line, y in zip(ordered, heights, strict=True):
        colour = COLOURS[line.look.colour]
        leader: dict[str, Any] = {"color": colour, "linewidth": 0.5, "clip_on": False}
        ends = [line.y[-1], line.y[-1], y]
        axes.plot([line.x[-1], right, right + 2.2 * gap], ends, **leader)
        axes.text(right + 2.7 * gap, y, line.name, color=colour, va="center", fontsize=LABEL_SIZE)
    axes.set(xlim=(left, right), ylim=(low, high))


def _draw(title: str, height: float, draw: Callable[[Figure], None]) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError("figures", "need matplotlib", "pip install matplotlib") from error
    file = io.StringIO()
    # Names inside the SVG are made from the salt: no two figures of a page may have the same.
    style: Any = {**STYLE, "svg.hashsalt": title}
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, height))
        draw(figure)
        unknown = {"Date": None, "Creator": None}
        figure.savefig(file, format="svg", transparent=True, metadata=unknown)
    return _clean_svg(file.getvalue(), title)


def _clean_svg(text: str, title: str) -> str:
    """Return an SVG without names, fonts, long numbers and outer links, to stand inside a page."""
    size = re.search(r'viewBox="([^"]*)"', text)
    # Past the metadata, and a style that would be the page's.
    inside = text[text.index("</defs>") + len("</defs>") :]
    for pattern, put in (
        (r'<(g|image)( [^>]*?)?\s?\bid="[^"]*"', r"<\1\2"),
        (r"font-family: [^;]*; ", ""),
        (r' transform="rotate\(-0 [^)]*\)"', ""),
        (r"(?<=[ (])(-?\d+\.\d{2})\d+(?=[ ),])", r"\1"),
        (r'(?<=[xy]=")(-?\d+\.\d{2})\d+', r"\1"),
        (r"xlink:href", "href"),
        (r"\s+", " "),
        (r"(?<=>) (?=<)| (?=>)", ""),
    ):
        inside = re.sub(pattern, put, inside)
    for name, colour in COLOURS.items():
        inside = inside.replace(colour, f"var(--{name})")
    box = size.group(1) if size else ""
    return f'<svg role="img" aria-label="{escape(title)}" viewBox="{box}">{inside.strip()}'
