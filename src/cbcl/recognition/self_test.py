"""How well a memory knows its own things: its examples are asked about, each by what the others teach.

t labels, n examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from cbcl.memory.rows import Settings
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.budget import reduce
from cbcl.method.concepts import cluster
from cbcl.method.confidence import Scale, Spread, spread_of
from cbcl.method.knowledge import Knowledge
from cbcl.recognition.answer import answers

NumberedVectors: TypeAlias = Sequence[
    tuple[int, Float32s]
]  # of one label: numbers and vectors, in the order learned

FOLDS = 5
MAX_ASKED = 5000  # examples of all labels together, at most; the rest are learned from only
MAX_MEASURED = 5000  # examples, about, to find out from how far is too far
ROWS = 1024  # examples to ask about at a time


class Misclassified(NamedTuple):
    """An example that was not recognized."""

    example: int
    label: str
    answer: str | None  # None: unknown


class SelfTestResult(NamedTuple):
    """What became of the examples: for each label, what they were taken for."""

    labels: tuple[str, ...]
    matrix: (
        Int64s  # (t, t + 1): a row for each label, a column for each answer, the last for "unknown"
    )
    wrong: tuple[Misclassified, ...]
    problem: str | None = None  # why there was nothing to ask about

    @property
    def asked(self) -> int:
        return int(self.matrix.sum())

    @property
    def right(self) -> int:
        return int(np.trace(self.matrix))

    @property
    def unknown(self) -> int:
        """The examples that were called so, wrongly."""
        return int(self.matrix[:, -1].sum())


def examine(
    examples: Mapping[str, NumberedVectors],
    settings: Settings,
    *,
    at_first: float = math.inf,
    seed: int = 0,
) -> SelfTestResult:
    """Ask about each example, by what is learned from others: each label's numbered vectors, in the order learned.

    The examples are divided into five parts, at random; each part is asked about by what is learned from the other four
    alone, as the memory learns: with its radius, its voters and its limit, and what is too far for them (`at_first` is
    for `Scale.of`). A label with fewer than five examples always keeps all but one; one with a single example is
    learned, but not asked about. Of more than 5,000 examples a sample is asked about, as many of each label as can be.

    >>> cups, keys = ([np.array([x, y], dtype=np.float32) for x in (1.0, 1.1)] for y in (1.0, 9.0))
    >>> examined = examine({"cup": [*enumerate(cups)], "key": [*enumerate(keys, 2)]}, Settings())
    >>> examined.matrix.tolist()
    [[2, 0, 0], [0, 2, 0]]
    """
    labels = tuple(sorted(label for label, some in examples.items() if len(some)))
    matrix = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    problem = _problem([len(examples[label]) for label in labels])
    if problem is not None:
        return SelfTestResult(labels, matrix, (), problem)
    kept = [examples[label] for label in labels]
    folds = _folds([len(some) for some in kept], seed)
    columns: dict[str | None, int] = {
        None: len(labels),
        **{label: number for number, label in enumerate(labels)},
    }
    wrong = []
    for fold in range(FOLDS):
        knowledge, spreads = _learned(labels, kept, folds, fold, settings)
        scale = Scale.of(spreads, knowledge.index, at_first)
        for row, number, answer in _asked(kept, folds, fold, knowledge, scale):
            matrix[row, columns[answer]] += 1
            if answer != labels[row]:
                wrong.append(Misclassified(number, labels[row], answer))
    return SelfTestResult(
        labels, matrix, tuple(sorted(wrong, key=lambda missed: (missed.label, missed.example)))
    )


def _problem(counts: Sequence[int]) -> str | None:
    if not counts:
        return "there are no examples to ask about: nothing is learned yet, or the memory is private and keeps none."
    if max(counts) < 2:
        return "there is one example of each label, and to hold one back takes two: show more of something."
    return None


def _folds(counts: Sequence[int], seed: int) -> list[Int64s]:
    """The part in which each example is asked about, label by label; -1 for those that are only learned."""
    rng = np.random.default_rng(seed)
    most = max(1, MAX_ASKED // len(counts))
    folds = [np.full(count, -1, dtype=np.int64) for count in counts]
    dealt = 0
    for some in folds:
        if len(some) > 1:
            asked = rng.permutation(len(some))[:most]
            some[asked] = (
                dealt + np.arange(len(asked))
            ) % FOLDS  # as cards are dealt: all parts get as many
            dealt += len(asked)
    return folds


def _learned(
    labels: Sequence[str],
    kept: Sequence[NumberedVectors],
    folds: Sequence[Int64s],
    fold: int,
    settings: Settings,
) -> tuple[Knowledge, list[Spread]]:
    """What is known without the examples of a fold, and the spreads of its labels; of many labels, those of some."""
    step = -(-sum(len(some) for some in kept) // MAX_MEASURED)
    concepts, spreads = [], []
    for row, (some, parts) in enumerate(zip(kept, folds, strict=True)):
        vectors = np.stack(
            [vector for (_, vector), part in zip(some, parts, strict=True) if part != fold]
        )
        concepts.append(cluster(vectors, None, settings.radius))
        if row % step == 0:
            spreads.append(spread_of(vectors, settings.radius))
    if settings.max_centroids is not None:
        concepts = reduce(concepts, settings.max_centroids)
    return Knowledge(
        dict(zip(labels, concepts, strict=True)), settings.radius, settings.n_voters
    ), spreads


def _asked(
    kept: Sequence[NumberedVectors],
    folds: Sequence[Int64s],
    fold: int,
    knowledge: Knowledge,
    scale: Scale,
) -> Iterator[tuple[int, int, str | None]]:
    """The examples of a fold: the number of its label, its own, and the answer."""
    held = [
        (row, number, vector)
        for row, (some, parts) in enumerate(zip(kept, folds, strict=True))
        for (number, vector), part in zip(some, parts, strict=True)
        if part == fold
    ]
    for start in range(0, len(held), ROWS):
        some = held[start : start + ROWS]
        given = answers(np.stack([vector for _, _, vector in some]), knowledge, scale)
        for (row, number, _), answer in zip(some, given, strict=True):
            yield row, number, answer.label
