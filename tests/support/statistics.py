"""Statistics of classes, to compare bit by bit, and vectors to learn them from."""

from __future__ import annotations

import numpy as np

from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.coding import CodedRows
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics, unlearn_view


def bits(known: ClassStatistics) -> tuple[object, ...]:
    """Everything that is kept of a class, comparable bit by bit."""
    kept = (known.n, _bits(known.views), known.sketches.tobytes())
    if known.summary is None:
        return kept
    n, mean, fine, coarse, rest = known.summary
    return (*kept, n, _bits(mean), _bits(fine), _bits(coarse), rest.dtype.str, rest.tobytes())


def unlearn(known: ClassStatistics, row: int, view: Float32s | None = None) -> ClassStatistics:
    """Take out a view of a class of several."""
    without = unlearn_view(known, row, view)
    assert without is not None
    return without


def _bits(rows: CodedRows) -> tuple[object, ...]:
    return rows.codes.dtype.str, rows.codes.shape, rows.codes.tobytes(), rows.scales.tobytes()


def draw_classes(
    t: int, n: int, d: int, seed: int = 0, *, spread: float = 0.4
) -> tuple[Float32s, list[Float32s]]:
    """Draw the means of t classes, and n embeddings of each, as directions: all of unit length."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(t, d))
    mixing = rng.normal(size=(d, d)) * np.geomspace(1.0, 0.1, d) / np.sqrt(d)
    draws = [
        centre + spread * (rng.normal(size=(n, d)) @ mixing * 4.0 + rng.normal(size=(n, d)))
        for centre in centres
    ]
    return as_directions(centres), [as_directions(own) for own in draws]


def borders(known: DiscriminantModel, some: Float32s, others: Float32s) -> Float32s:
    """Return vectors between some and others on both sides of a change of label, side by side."""
    first = known.winners(some)
    low = np.zeros((len(some), 1))
    high = np.ones((len(some), 1))
    for _ in range(40):
        middle = (low + high) / 2
        between = ((1.0 - middle) * some + middle * others).astype(np.float32)
        same = (known.winners(between) == first)[:, np.newaxis]
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)
    ends = (((1.0 - at) * some + at * others).astype(np.float32) for at in (low, high))
    return np.concatenate([*ends])
