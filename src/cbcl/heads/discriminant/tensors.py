"""Statistics of many classes as a few arrays, for the exchange format, and back.

The rows of all classes stand one after the other; the counts of each class tell which are its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.discriminant.blob import check_statistics, kinds_of_numbers
from cbcl.method.arrays import read_only
from cbcl.method.discriminant.coding import CodedRows
from cbcl.method.discriminant.statistics import NO_SKETCHES, ClassStatistics, ViewSummary

COUNTS = ("n", "views", "sketches", "folded", "fine", "coarse")


def count_rows(statistics: ClassStatistics) -> dict[str, int]:
    """Return how many vectors, views, sketches, folded vectors and axes a class has."""
    summary = statistics.summary
    folded = (0, 0, 0) if summary is None else (summary.n, len(summary.fine), len(summary.coarse))
    counts = (statistics.n, len(statistics.views), len(statistics.sketches), *folded)
    return dict(zip(COUNTS, counts, strict=True))


def as_tensors(classes: Sequence[ClassStatistics], d: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of all classes, of d features."""
    codes, means, rests = kinds_of_numbers(d)
    summaries = [known.summary for known in classes if known.summary is not None]
    return {
        **_join("view", [known.views for known in classes], d, codes),
        **_join("mean", [summary.mean for summary in summaries], d, means),
        **_join("fine", [summary.fine for summary in summaries], d, codes),
        **_join("coarse", [summary.coarse for summary in summaries], d, codes),
        "rests": np.array([summary.rest for summary in summaries], rests).reshape(-1, d),
        "sketches": np.concatenate([NO_SKETCHES, *(known.sketches for known in classes)]),
    }


def _join(
    name: str, parts: Iterable[CodedRows], d: int, kind: np.dtype[Any]
) -> dict[str, NDArray[Any]]:
    joined = CodedRows(np.empty((0, d), kind), np.empty(0, np.float32))
    rows = [joined, *parts]
    return {
        f"{name}_codes": np.concatenate([part.codes for part in rows]),
        f"{name}_scales": np.concatenate([part.scales for part in rows]),
    }


def from_tensors(
    counts: Iterable[Mapping[str, int]], tensors: Mapping[str, NDArray[Any]], d: int
) -> list[ClassStatistics]:
    """Return the classes of d features; ValueError: the counts or the arrays cannot be."""
    reader = TensorReader(tensors)
    classes = []
    for given in counts:
        n, views, sketches, folded, fine, coarse = (_as_count(given[name]) for name in COUNTS)
        statistics = ClassStatistics(
            n, reader.take_rows("view", views), reader.take("sketches", sketches)
        )
        if folded:
            summary = ViewSummary(
                folded,
                reader.take_rows("mean", 1),
                reader.take_rows("fine", fine),
                reader.take_rows("coarse", coarse),
                reader.take("rests", 1).reshape(d),
            )
            statistics = ClassStatistics(n, statistics.views, statistics.sketches, summary)
        check_statistics(statistics, d)
        classes.append(statistics)
    reader.check_finished()
    return classes


def _as_count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


class TensorReader:
    """Arrays that are read once, from the first row to the last."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._tensors = tensors
        self._next: dict[str, int] = defaultdict(int)

    def take(self, name: str, n: int) -> NDArray[Any]:
        """Return the next n rows."""
        start = self._next[name]
        self._next[name] += n
        return read_only(self._tensors[name][start : start + n].copy())

    def take_rows(self, name: str, n: int) -> CodedRows:
        """Return the next n rows and their scales."""
        return CodedRows(self.take(f"{name}_codes", n), self.take(f"{name}_scales", n))

    def check_finished(self) -> None:
        """Raise ValueError where there are more rows, or fewer, than were read."""
        for name, array in self._tensors.items():
            if len(array) != self._next[name]:
                raise ValueError(f"there are {len(array)} rows of {name}, not {self._next[name]}")
