"""Scores of a run: what its record says about accuracy, forgetting and confusion, and the spread over several runs.

T increments, t classes. All accuracies are shares, from 0 to 1; what there is no data for is NaN, never 0 or 1.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from zlib import compress, decompress

import numpy as np
from numpy.typing import ArrayLike

from cbcl.method.arrays import Float64s, Int64s

Record: TypeAlias = Mapping[
    str, Any
]  # of one run: here "increments", "tested", "right" and "confusion" are read

OFFLINE = (
    0.699  # the accuracy that the paper divides Omega by: FearNet's offline perceptron on CIFAR-100
)
MOST = np.iinfo(np.uint16).max  # that a cell of an encoded confusion matrix can hold


class Omega(NamedTuple):
    """FearNet's three measures, as shares of the accuracy of a network that saw all the data at once."""

    base: float
    new: float
    all: float


class Summary(NamedTuple):
    """The mean of n values and their sample standard deviation."""

    mean: float
    std: float
    n: int


class Curve(NamedTuple):
    """The accuracy after each increment, over n runs."""

    classes_seen: Int64s  # (T,)
    mean: Float64s  # (T,)
    std: Float64s  # (T,)
    n: int


def accuracies(record: Record) -> Float64s:
    """Top-1 over all test vectors of the classes seen so far, after each increment: (T,).

    >>> run = {"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]}
    >>> accuracies(run).tolist()
    [0.9, 0.5]
    """
    return np.array(
        [_share(sum(right), sum(record["tested"][: len(right)])) for right in record["right"]]
    )


def average(record: Record) -> float:
    """The average incremental accuracy: the mean over increments of the accuracy after each.

    >>> average({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.7
    """
    return _mean(accuracies(record))


def last(record: Record) -> float:
    """The accuracy after the last increment.

    >>> last({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.5
    """
    return float(accuracies(record)[-1])


def drop(record: Record) -> float:
    """The accuracy after the first increment less that after the last, which the paper calls the decrease.

    >>> drop({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.4
    """
    found = accuracies(record)
    return float(found[0] - found[-1])


def class_means(record: Record) -> Float64s:
    """The mean of the accuracies of each class by itself, after each increment: (T,).

    It is another number than top-1 where some classes have more test vectors than others. A class without any is
    left out of the mean.

    >>> run = {"increments": [1, 2], "tested": [4, 16, 0], "right": [[3], [3, 4, 0]]}
    >>> class_means(run).tolist()
    [0.75, 0.5]
    """
    return np.array(
        [
            _mean(list(map(_share, right, record["tested"][: len(right)])))
            for right in record["right"]
        ]
    )


def groups(record: Record) -> Float64s:
    """The accuracy after each increment (row) on the classes of each increment (column), NaN before they came: (T, T).

    >>> run = {"increments": [1, 2], "tested": [10, 10, 10], "right": [[9], [8, 6, 4]]}
    >>> groups(run).tolist()
    [[0.9, nan], [0.8, 0.5]]
    """
    ends = np.cumsum(record["increments"])
    parts = [slice(end - size, end) for end, size in zip(ends, record["increments"], strict=True)]
    found = np.full((len(parts), len(parts)), math.nan)
    for row, right in enumerate(record["right"]):
        for column, part in enumerate(parts[: row + 1]):
            found[row, column] = _share(sum(right[part]), sum(record["tested"][part]))
    return found


def forgetting(record: Record) -> float:
    """How much accuracy is lost on the classes of an increment since it was at its best, on average (Chaudhry et al.).

    The best is over all increments but the last, and the mean over all groups of classes but the last. Below 0, old
    classes have gained. One increment has nothing to forget: NaN.

    >>> forgetting({"increments": [1, 2], "tested": [8, 8, 8], "right": [[7], [5, 6, 4]]})
    0.25
    """
    matrix = groups(record)
    lost = [_best(matrix[:-1, column]) - matrix[-1, column] for column in range(len(matrix) - 1)]
    return _mean(lost)


def omega(record: Record, offline: float = OFFLINE) -> Omega:
    """FearNet's measures, each a mean over all increments but the first, divided by the offline accuracy.

    base: accuracy on the classes of the first increment; new: on those of the increment just learned; all: on all
    seen so far. The paper's formula for new lacks the division; but the caption of its table says that all three are
    normalised, and a value above 1 in it could not be an accuracy. So it is divided here.

    >>> omega({"increments": [1, 1], "tested": [8, 8], "right": [[7], [4, 2]]}, offline=0.5)
    Omega(base=1.0, new=0.5, all=0.75)
    """
    if not offline > 0.0:
        raise ValueError(f"offline={offline!r} cannot be divided by: give an accuracy above 0.")
    matrix = groups(record)
    means = _mean(matrix[1:, 0]), _mean(np.diagonal(matrix)[1:]), _mean(accuracies(record)[1:])
    return Omega(*(mean / offline for mean in means))


def confusion(record: Record) -> Int64s:
    """How often vectors of each class (row) were given each label (column), after the last increment: (t, t).

    >>> confusion({"confusion": encode_confusion([[9, 1], [0, 10]])}).tolist()
    [[9, 1], [0, 10]]
    """
    cells = np.frombuffer(decompress(b64decode(record["confusion"])), dtype="<u2")
    side = math.isqrt(len(cells))
    if side * side != len(cells):
        raise ValueError(
            f"the confusion of the record is broken: {len(cells)} cells are no square."
        )
    return cells.reshape(side, side).astype(np.int64)


def encode_confusion(matrix: ArrayLike) -> str:
    """A confusion matrix as a record holds it: base64 of zlib of its cells, two bytes each, the lower first."""
    cells = np.asarray(matrix)
    if cells.ndim != 2 or cells.shape[0] != cells.shape[1]:
        raise ValueError(f"a confusion matrix is a square: got an array of shape {cells.shape}.")
    if cells.dtype.kind not in "iu" or (
        cells.size and not (cells.min() >= 0 and cells.max() <= MOST)
    ):
        raise ValueError(f"a confusion matrix holds whole numbers from 0 to {MOST}: got others.")
    # zlib's level is given, so that the same matrix is the same text.
    return b64encode(compress(cells.astype("<u2").tobytes(), 9)).decode("ascii")


def summary(values: Iterable[float]) -> Summary:
    """The mean and the sample standard deviation (divided by n - 1) of the values that are not NaN.

    The paper reports a deviation over ten runs and does not say which. The sample's is the one that estimates what
    other orders of the classes would give; over ten runs it is 5 % larger than the population's. One value has none.

    >>> summary([0.5, 0.75, 1.0])
    Summary(mean=0.75, std=0.25, n=3)
    >>> summary([0.5])
    Summary(mean=0.5, std=nan, n=1)
    """
    there = np.array([value for value in values if not math.isnan(value)])
    return Summary(
        _mean(there), float(there.std(ddof=1)) if len(there) > 1 else math.nan, len(there)
    )


def curve(records: Sequence[Record]) -> Curve:
    """Mean and sample standard deviation of the accuracy after each increment, over runs of the same increments.

    >>> runs = [{"increments": [1, 1], "tested": [4, 4], "right": right} for right in ([[4], [3, 3]], [[3], [2, 2]])]
    >>> found = curve(runs)
    >>> found.classes_seen.tolist(), found.mean.tolist()
    ([1, 2], [0.875, 0.625])
    """
    if len(kinds := {tuple(record["increments"]) for record in records}) != 1:
        raise ValueError(
            f"runs of {len(kinds)} kinds of increments make no curve: give at least one run, all alike."
        )
    points = [summary(column) for column in np.array([accuracies(record) for record in records]).T]
    means, stds, _ = (np.array(part, dtype=np.float64) for part in zip(*points, strict=True))
    return Curve(np.cumsum(kinds.pop()), means, stds, len(records))


def _share(right: int, tested: int) -> float:
    return right / tested if tested else math.nan


def _mean(values: ArrayLike) -> float:
    """The mean of those that are not NaN; NaN if there are none (numpy's nanmean would warn of it)."""
    array = np.asarray(values, dtype=np.float64)
    there = array[~np.isnan(array)]
    return float(there.mean()) if len(there) else math.nan


def _best(values: Float64s) -> float:
    there = values[~np.isnan(values)]
    return float(there.max()) if len(there) else math.nan
