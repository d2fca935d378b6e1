"""Places for names in a figure: beside their lines or points, and not upon each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

# Where a name may stand beside its point, best first: alignment, and distance in points.
PLACES = (
    ("left", "center", 5.0, 0.0),
    ("right", "center", -5.0, 0.0),
    ("center", "bottom", 0.0, 4.0),
    ("center", "top", 0.0, -4.5),
    ("left", "bottom", 3.0, 3.0),
    ("left", "top", 3.0, -3.5),
    ("right", "bottom", -3.0, 3.0),
    ("right", "top", -3.0, -3.5),
    ("left", "bottom", 6.0, 9.0),
    ("left", "top", 6.0, -9.5),
)
POINT = 3.5  # half the side of a point's mark, in points


def spread_out(wanted: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Return heights a step apart at least, as near as can be to those wanted, in their order.

    They stay between the limits, if there is room.

    >>> spread_out([10.0, 10.0, 50.0], 4.0, 0.0, 100.0)
    [8.0, 12.0, 50.0]
    >>> spread_out([99.0, 100.0], 4.0, 0.0, 100.0)
    [96.0, 100.0]
    """
    from sklearn.isotonic import isotonic_regression

    if not wanted:
        return []
    steps = step * np.arange(len(wanted))
    # Without the steps, the heights may not fall: the nearest such are an isotonic regression.
    heights = isotonic_regression(np.asarray(wanted) - steps, y_min=low, y_max=high - steps[-1])
    return [float(height) for height in heights + steps]


def place_beside_points(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    names: Sequence[tuple[str, str]],
    size: float,
) -> None:
    """Write each name (with its colour) where it covers least of other names and points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    figure = axes.get_figure()
    if not isinstance(figure, Figure) or not points:
        return
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # fixes the limits of the axes
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    scale = figure.dpi / 72.0
    marks = axes.transData.transform(points)
    taken = [Bbox([mark - POINT * scale, mark + POINT * scale]) for mark in marks]
    inside = axes.get_window_extent(renderer)
    for place in np.argsort(-marks[:, 1], kind="stable"):
        name, colour = names[place]
        own = taken[place]
        best: tuple[float, int, Bbox] | None = None
        texts = []
        for rank, (across, along, right, up) in enumerate(PLACES):
            text = axes.annotate(
                name,
                points[place],
                (right, up),
                textcoords="offset points",
                ha=across,
                va=along,
                color=colour,
                fontsize=size,
            )
            texts.append(text)
            box = text.get_window_extent(renderer)
            covered = sum(_overlap(box, other) for other in taken if other is not own)
            cost = covered + 2.0 * (box.width * box.height - _overlap(box, inside))
            if best is None or cost < best[0] - 1e-6:
                best = cost, rank, box
        for rank, text in enumerate(texts):
            if best and rank != best[1]:
                text.remove()
        if best:
            taken.append(best[2])


def _overlap(one: Bbox, other: Bbox) -> float:
    """Return the area that two boxes share."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(width, 0.0) * max(height, 0.0))
