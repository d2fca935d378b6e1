"""The study's figures as SVG for a page: colours and fonts are the page's.

The same data gives the same text. T increments, t classes, K the largest number of centroids.
matplotlib comes with the extra `study`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cbcl.errors import DataError
from cbcl.method.arrays import Int64s
from cbcl.study.report.scores import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Colour: TypeAlias = Literal["ink", "quiet", "rule", "blue", "orange", "green", "purple"]

# Colours to draw with, each replaced by a variable of the page's style sheet afterwards.
COLOURS: dict[Colour, str] = {
    name: f"#0102{place:02x}" for place, name in enumerate(get_args(Colour))
}
WIDTH = 4.7  # inches, so that text of 8 points can be read on a phone
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # to measure text with: matplotlib brings it along
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 5.0,
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
LABEL_GAP = 5.0  # between two labels, as a share of the axis in per cent


class AccuracyLine(NamedTuple):
    """A learner's curve, in per cent."""

    name: str
    curve: Curve
    average: float
    colour: Colour
    dashes: str = "-"


class PaperMark(NamedTuple):
    """A number of the paper, beside the curves."""

    name: str
    value: float
    shape: str


class BudgetLine(NamedTuple):
    """A learner's average accuracy for each K, in per cent."""

    name: str
    limits: Sequence[int]
    means: Sequence[float]
    deviations: Sequence[float]
    colour: Colour
    stated: Mapping[int, float]  # the paper's


class CostPoint(NamedTuple):
    """A learner or a backbone: what it costs, and its average accuracy in per cent."""

    name: str
    cost: float
    accuracy: float
    colour: Colour
    shape: str


def draw_curves(
    title: str, lines: Sequence[AccuracyLine], marks: Sequence[PaperMark], lowest: float
) -> str:
    """Draw a panel: accuracy over classes seen, a band of one deviation, labels at the lines."""

    def draw(figure: Figure, axes: Axes) -> None:
        axes.set(
            title=title,
            xlabel="classes seen",
            ylabel="accuracy (%)",
            xlim=(0, 100),
            ylim=(lowest, 100),
        )
        for line in lines:
            seen, colour = line.curve.classes_seen, COLOURS[line.colour]
            mean, band = 100.0 * line.curve.mean, 100.0 * np.nan_to_num(line.curve.std)
            axes.fill_between(
                seen, mean - band, mean + band, color=colour, alpha=0.18, linewidth=0.0
            )
            axes.plot(seen, mean, line.dashes, color=colour, linewidth=1.3)
        for mark in marks:
            axes.plot(
                [100],
                [mark.value],
                mark.shape,
                color=COLOURS["ink"],
                fillstyle="none",
                clip_on=False,
            )
        if not lines:
            axes.text(50, (lowest + 100) / 2, "not run", ha="center", color=COLOURS["quiet"])
        labels = [
            (100.0 * line.curve.mean[-1], f"{line.name} ({line.average:.1f})", line.colour)
            for line in lines
        ]
        _label(axes, [*labels, *((mark.value, mark.name, "ink") for mark in marks)], 103.5, lowest)
        figure.subplots_adjust(left=0.1, right=0.66, bottom=0.14, top=0.92)

    return _draw(f"CIFAR-100, {title}: accuracy over classes seen", 3.3, draw)


def draw_budgets(lines: Sequence[BudgetLine], title: str) -> str:
    """Draw average accuracy over K with error bars, and hollow points for the paper's numbers."""

    def draw(figure: Figure, axes: Axes) -> None:
        axes.set(xlabel="most centroids, K", ylabel="average incremental accuracy (%)")
        for line in lines:
            bars: dict[str, Any] = {"capsize": 2.5, "elinewidth": 0.8}
            points: dict[str, Any] = {"marker": "o", "markersize": 4}
            paper: dict[str, Any] = {"linestyle": "", "marker": "D", "fillstyle": "none"}
            colour, deviations = COLOURS[line.colour], np.nan_to_num(line.deviations)
            about: dict[str, Any] = {"label": line.name, "color": colour, **bars, **points}
            axes.errorbar(line.limits, line.means, deviations, **about)
            if line.stated:
                limits, values = [*line.stated], [*line.stated.values()]
                axes.plot(limits, values, label=f"{line.name}, paper", color=colour, **paper)
        axes.margins(x=0.06)
        handles, names = axes.get_legend_handles_labels()
        wanted = [name for line in lines for name in (line.name, f"{line.name}, paper")]
        shown = sorted(names, key=wanted.index)
        by_name = dict(zip(names, handles, strict=True))
        axes.legend([by_name[name] for name in shown], shown, frameon=False, loc="lower right")
        figure.subplots_adjust(left=0.12, right=0.98, bottom=0.15, top=0.97)

    return _draw(title, 3.0, draw)


def draw_costs(title: str, cost: str, points: Sequence[CostPoint]) -> str:
    """Draw accuracy over cost, on a logarithmic scale: the upper left is best."""

    def draw(figure: Figure, axes: Axes) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        axes.set(title=title, xlabel=cost, ylabel="average incremental accuracy (%)")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        for point in points:
            look: dict[str, Any] = {"color": COLOURS[point.colour], "label": point.name}
            axes.plot([point.cost], [point.accuracy], point.shape, **look)
        axes.margins(0.1)
        if points:
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.subplots_adjust(left=0.12, right=0.58, bottom=0.15, top=0.91)

    return _draw(f"{title}: accuracy over {cost}", 3.0, draw)


def draw_confusion(counts: Int64s, title: str) -> str:
    """Draw a confusion matrix, its classes in the order in which they came."""
    shares = 100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # (t, t)

    def draw(figure: Figure, axes: Axes) -> None:
        from matplotlib.colors import PowerNorm

        axes.grid(visible=False)
        # By the square root, since most numbers beside the diagonal are below one per cent.
        scale = PowerNorm(0.5, 0.0, 100.0)
        sides = (0, len(counts), len(counts), 0)
        image = axes.imshow(shares, cmap="cividis", norm=scale, interpolation="none", extent=sides)
        axes.set(
            xlabel="class answered, by when it was learned",
            ylabel="class asked about, by when it was learned",
        )
        bar = figure.colorbar(
            image, ax=axes, fraction=0.046, pad=0.03, ticks=[0, 1, 5, 20, 50, 100]
        )
        bar.ax.set_title("%")
        figure.subplots_adjust(left=0.1, right=0.92, bottom=0.12, top=0.95)

    return _draw(title, 4.0, draw)


def _label(
    axes: Axes, labels: Sequence[tuple[float, str, Colour]], x: float, lowest: float
) -> None:
    """Write each label as near to its height as the others allow."""
    from sklearn.isotonic import isotonic_regression

    ordered = sorted(labels)
    steps = LABEL_GAP / 100.0 * (100.0 - lowest) * np.arange(len(ordered))
    wanted = np.array([height for height, _, _ in ordered])
    # A step apart at least, and as close as can be to what is wanted.
    heights = isotonic_regression(wanted - steps) + steps if ordered else wanted
    for y, (_, text, colour) in zip(heights.tolist(), ordered, strict=True):
        axes.text(x, y, text, color=COLOURS[colour], va="center", fontsize=7.5)


def _draw(title: str, height: float, draw: Callable[[Figure, Axes], None]) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError("figures", "need matplotlib", 'pip install "cbcl[study]"') from error
    file = io.StringIO()
    style: Any = {**STYLE, "svg.hashsalt": title}
    # Names inside the SVG are made from the salt: no two figures of a page may have the same.
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_subplot()
        axes.grid(axis="y")
        draw(figure, axes)
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
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
