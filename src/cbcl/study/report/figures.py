"""The study's figures as SVG to stand in a page: colours and fonts are the page's, and the same data is the same text.

T increments, t classes, K the most centroids. matplotlib comes with the extra `study`.
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

Tone: TypeAlias = Literal["ink", "quiet", "rule", "blue", "orange", "green", "purple"]

# A colour is drawn as a number that means nothing, and written as a variable of the page's style sheet.
TONES: dict[Tone, str] = {tone: f"#0102{place:02x}" for place, tone in enumerate(get_args(Tone))}
WIDTH = 4.7  # inches, so that text of 8 points can be read on a phone
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # to measure with: it comes with matplotlib, so it is the same everywhere
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
    "text.color": TONES["ink"],
    "axes.edgecolor": TONES["quiet"],
    "axes.labelcolor": TONES["ink"],
    "xtick.color": TONES["quiet"],
    "xtick.labelcolor": TONES["ink"],
    "ytick.color": TONES["quiet"],
    "ytick.labelcolor": TONES["ink"],
    "grid.color": TONES["rule"],
    "grid.linewidth": 0.5,
}
GAP = 5.0  # between two labels, as a share of the axis in per cent


class Line(NamedTuple):
    """A learner's curve, in per cent."""

    name: str
    curve: Curve
    average: float
    tone: Tone
    dashes: str = "-"


class Mark(NamedTuple):
    """A number of the paper, beside the curves."""

    name: str
    value: float
    shape: str


class Budgets(NamedTuple):
    """A learner's average accuracy for each K, in per cent."""

    name: str
    limits: Sequence[int]
    means: Sequence[float]
    deviations: Sequence[float]
    tone: Tone
    stated: Mapping[int, float]  # the paper's


def curves(title: str, lines: Sequence[Line], marks: Sequence[Mark], lowest: float) -> str:
    """One panel: accuracy over the number of classes seen, a band of one standard deviation, labels at the lines."""

    def draw(figure: Figure, axes: Axes) -> None:
        axes.set(
            title=title,
            xlabel="classes seen",
            ylabel="accuracy (%)",
            xlim=(0, 100),
            ylim=(lowest, 100),
        )
        for line in lines:
            seen, mean, band = (
                line.curve.classes_seen,
                100.0 * line.curve.mean,
                100.0 * np.nan_to_num(line.curve.std),
            )
            axes.fill_between(
                seen, mean - band, mean + band, color=TONES[line.tone], alpha=0.18, linewidth=0.0
            )
            axes.plot(seen, mean, line.dashes, color=TONES[line.tone], linewidth=1.3)
        for mark in marks:
            axes.plot(
                [100], [mark.value], mark.shape, color=TONES["ink"], fillstyle="none", clip_on=False
            )
        if not lines:
            axes.text(50, (lowest + 100) / 2, "not run", ha="center", color=TONES["quiet"])
        labels = [
            (100.0 * line.curve.mean[-1], f"{line.name} ({line.average:.1f})", line.tone)
            for line in lines
        ]
        _label(axes, [*labels, *((mark.value, mark.name, "ink") for mark in marks)], 103.5, lowest)
        figure.subplots_adjust(left=0.1, right=0.66, bottom=0.14, top=0.92)

    return _drawn(f"CIFAR-100, {title}: accuracy over classes seen", 3.3, draw)


def budgets(lines: Sequence[Budgets], title: str) -> str:
    """Average accuracy over K with error bars, and hollow points where the paper states a number."""

    def draw(figure: Figure, axes: Axes) -> None:
        axes.set(xlabel="most centroids, K", ylabel="average incremental accuracy (%)")
        for line in lines:
            bars: dict[str, Any] = {
                "capsize": 2.5,
                "elinewidth": 0.8,
                "marker": "o",
                "markersize": 4,
                "color": TONES[line.tone],
            }
            axes.errorbar(
                line.limits, line.means, np.nan_to_num(line.deviations), label=line.name, **bars
            )
            if not line.stated:
                continue
            there: dict[str, Any] = {
                "linestyle": "",
                "marker": "D",
                "fillstyle": "none",
                "color": TONES[line.tone],
            }
            axes.plot(
                list(line.stated), list(line.stated.values()), label=f"{line.name}, paper", **there
            )
        axes.margins(x=0.06)
        found, names = axes.get_legend_handles_labels()
        handles = dict(zip(names, found, strict=True))
        shown = [
            name for line in lines for name in (line.name, f"{line.name}, paper") if name in handles
        ]
        axes.legend([handles[name] for name in shown], shown, frameon=False, loc="lower right")
        figure.subplots_adjust(left=0.12, right=0.98, bottom=0.15, top=0.97)

    return _drawn(title, 3.0, draw)


def matrix(counts: Int64s, title: str) -> str:
    """How often vectors of each class (row) are given each label (column), in the order in which classes came."""
    shares = 100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # (t, t)

    def draw(figure: Figure, axes: Axes) -> None:
        from matplotlib.colors import PowerNorm

        axes.grid(visible=False)
        # By the square root, since most of what is seen beside the diagonal is below one per cent.
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

    return _drawn(title, 4.0, draw)


def _label(axes: Axes, labels: Sequence[tuple[float, str, Tone]], x: float, lowest: float) -> None:
    """Each label as near to its height as the others allow."""
    from sklearn.isotonic import isotonic_regression

    ordered = sorted(labels)
    steps = GAP / 100.0 * (100.0 - lowest) * np.arange(len(ordered))
    wanted = np.array([height for height, _, _ in ordered])
    # A step apart at least, and as close as can be to what is wanted.
    heights = isotonic_regression(wanted - steps) + steps if ordered else wanted
    for y, (_, text, tone) in zip(heights.tolist(), ordered, strict=True):
        axes.text(x, y, text, color=TONES[tone], va="center", fontsize=7.5)


def _drawn(title: str, height: float, draw: Callable[[Figure, Axes], None]) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError('figures need matplotlib: pip install "cbcl[study]".') from error
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
    return _for_a_page(file.getvalue(), title)


def _for_a_page(text: str, title: str) -> str:
    """An SVG less all that is of no use, or harm, inside a page: names, fonts, numbers of six digits, outer links."""
    size = re.search(r'viewBox="([^"]*)"', text)
    inside = text[
        text.index("</defs>") + len("</defs>") :
    ]  # past the metadata, and a style that would be the page's
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
    for tone, colour in TONES.items():
        inside = inside.replace(colour, f"var(--{tone})")
    box = size.group(1) if size else ""
    return f'<svg role="img" aria-label="{escape(title)}" viewBox="{box}">{inside.strip()}'
