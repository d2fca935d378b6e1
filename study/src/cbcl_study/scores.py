"""Scores of a run, from its record: accuracy, forgetting, confusion; and the spread over runs.

T increments, t classes. All accuracies are shares, from 0 to 1; what there is no data for is NaN,
never 0 or 1. Of a record, "increments", "tested", "right" and "confusion" are read.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import compress, decompress

import numpy as np
from numpy.typing import ArrayLike

from cbcl.method.arrays import Float64s, Int64s
from cbcl_study.records import RunRecord

# The accuracy that the paper divides Omega by: FearNet's offline perceptron on CIFAR-100.
OFFLINE_ACCURACY = 0.699
MAX_CONFUSION = np.iinfo(np.uint16).max  # of a cell of an encoded matrix


class Omega(NamedTuple):
    """FearNet's measures, relative to a network trained on all the data at once."""

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


def accuracies(record: RunRecord) -> Float64s:
    """Return top-1 over all test vectors of the classes seen so far, after each increment: (T,).

    >>> run = {"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]}
    >>> accuracies(run).tolist()
    [0.9, 0.5]
    """
    return np.array(
        [_share(sum(right), sum(record["tested"][: len(right)])) for right in record["right"]]
    )


def average(record: RunRecord) -> float:
    """Return the average incremental accuracy: the mean over increments of the accuracy after each.

    >>> average({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.7
    """
    return _mean(accuracies(record))


def last(record: RunRecord) -> float:
    """Return the accuracy after the last increment.

    >>> last({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.5
    """
    return float(accuracies(record)[-1])


def drop(record: RunRecord) -> float:
    """Return the accuracy after the first increment less that after the last (the "decrease").

    >>> drop({"increments": [1, 1], "tested": [10, 30], "right": [[9], [8, 12]]})
    0.4
    """
    after = accuracies(record)
    return float(after[0] - after[-1])


def class_means(record: RunRecord) -> Float64s:
    """Return the mean of the accuracies of each class by itself, after each increment: (T,).

    It is another number than top-1 where some classes have more test vectors than others. A class
    without any is left out of the mean.

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


def groups(record: RunRecord) -> Float64s:
    """Return the accuracy after each increment (row) on the classes of each (column): (T, T).

    It is NaN before they came.

    >>> run = {"increments": [1, 2], "tested": [10, 10, 10], "right": [[9], [8, 6, 4]]}
    >>> groups(run).tolist()
    [[0.9, nan], [0.8, 0.5]]
    """
    starts = np.cumsum([0, *record["increments"][:-1]])
    tested = np.add.reduceat(record["tested"], starts)
    matrix = np.full((len(starts), len(starts)), math.nan)
    for row, right in enumerate(record["right"]):
        known = row + 1  # groups
        rights = np.add.reduceat(right, starts[:known])
        matrix[row, :known] = np.divide(
            rights, tested[:known], out=matrix[row, :known], where=tested[:known] > 0
        )
    return matrix


def forgetting(record: RunRecord) -> float:
    """Return the mean loss of accuracy on the classes of an increment since its best (Chaudhry).

    The best is over all increments but the last, and the mean over all groups of classes but the
    last. Below 0, old classes have gained. One increment has nothing to forget: NaN.

    >>> forgetting({"increments": [1, 2], "tested": [8, 8, 8], "right": [[7], [5, 6, 4]]})
    0.25
    """
    matrix = groups(record)
    lost = [_best(matrix[:-1, column]) - matrix[-1, column] for column in range(len(matrix) - 1)]
    return _mean(lost)


def omega(record: RunRecord, offline: float = OFFLINE_ACCURACY) -> Omega:
    """Return FearNet's measures: means over all increments but the first, divided by `offline`.

    base: accuracy on the classes of the first increment; new: on those of the increment just
    learned; all: on all seen so far. The paper's formula for new lacks the division; but the
    caption of its table says that all three are normalised, and a value above 1 in it could not be
    an accuracy. So it is divided here.

    >>> omega({"increments": [1, 1], "tested": [8, 8], "right": [[7], [4, 2]]}, offline=0.5)
    Omega(base=1.0, new=0.5, all=0.75)
    """
    if not offline > 0.0:
        raise ValueError(f"offline={offline!r} cannot be divided by: give an accuracy above 0.")
    matrix = groups(record)
    means = _mean(matrix[1:, 0]), _mean(np.diagonal(matrix)[1:]), _mean(accuracies(record)[1:])
    return Omega(*(mean / offline for mean in means))


def confusion(record: RunRecord) -> Int64s:
    """Return how often vectors of a class (row) got a label (column), after the last increment.

    The matrix is (t, t).

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
    """Return a confusion matrix for a record: base64 of zlib of its cells, little-endian uint16."""
    cells = np.asarray(matrix)
    if cells.ndim != 2 or cells.shape[0] != cells.shape[1]:
        raise ValueError(f"a confusion matrix is a square: got an array of shape {cells.shape}.")
    if cells.dtype.kind not in "iu" or (
        cells.size and not (cells.min() >= 0 and cells.max() <= MAX_CONFUSION)
    ):
        raise ValueError(
            f"a confusion matrix holds whole numbers from 0 to {MAX_CONFUSION}: got others."
        )
    # zlib's level is given, so that the same matrix is the same text.
    return b64encode(compress(cells.astype("<u2").tobytes(), 9)).decode("ascii")


def summary(values: Iterable[float]) -> Summary:
    """Return mean and sample standard deviation (divided by n - 1) of the values that are not NaN.

    The paper reports a deviation over ten runs and does not say which. The sample's is the one that
    estimates what other orders of the classes would give; over ten runs it is 5 % larger than the
    population's. One value has none.

    >>> summary([0.5, 0.75, 1.0])
    Summary(mean=0.75, std=0.25, n=3)
    >>> summary([0.5])
    Summary(mean=0.5, std=nan, n=1)
    """
    numbers = np.array([value for value in values if not math.isnan(value)])
    std = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
    return Summary(_mean(numbers), std, len(numbers))


def curve(records: Sequence[RunRecord]) -> Curve:
    """Return the accuracy after each increment, over runs of the same increments.

    >>> run = {"increments": [1, 1], "tested": [4, 4]}
    >>> mean = curve([{**run, "right": [[4], [3, 3]]}, {**run, "right": [[3], [2, 2]]}])
    >>> mean.classes_seen.tolist(), mean.mean.tolist()
    ([1, 2], [0.875, 0.625])
    """
    sizes = {tuple(record["increments"]) for record in records}
    if len(sizes) != 1:
        raise ValueError(
            f"runs of {len(sizes)} kinds of increments make no curve: "
            "give at least one run, all alike."
        )
    points = [summary(column) for column in np.array([accuracies(record) for record in records]).T]
    means, stds, _ = (np.array(part, dtype=np.float64) for part in zip(*points, strict=True))
    return Curve(np.cumsum(sizes.pop()), means, stds, len(records))


def _share(right: int, tested: int) -> float:
    return right / tested if tested else math.nan


def _mean(values: ArrayLike) -> float:
    """Return the mean of those that are not NaN; NaN if there are none (nanmean would warn)."""
    array = np.asarray(values, dtype=np.float64)
    numbers = array[~np.isnan(array)]
    return float(numbers.mean()) if len(numbers) else math.nan


def _best(values: Float64s) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.max()) if len(numbers) else math.nan
