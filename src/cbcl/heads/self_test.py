"""Self-test: cross-validation on the examples of a memory.

t labels, n examples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from cbcl.memory.rows import Settings
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.centroids.budget import reduce
from cbcl.method.centroids.concepts import cluster
from cbcl.method.centroids.confidence import Scale, Spread, spread_of
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.recognition.answer import answers

# Of one label: numbers and vectors of its examples, in the order learned.
NumberedVectors: TypeAlias = Sequence[tuple[int, Float32s]]

SELF_TEST_FOLDS = 5
MAX_TESTED_EXAMPLES = 5000  # of all labels together; the others are for training only
MAX_SPREAD_EXAMPLES = 5000  # about, to estimate the limit from
BATCH_ROWS = 1024  # examples to answer at a time
NO_VIEWS = "only the latest examples can be asked about, and all were taken back: show more."


class Misclassified(NamedTuple):
    """An example that was not recognized."""

    example: int  # its number; 0: it is not kept as a picture
    label: str
    answer: str | None  # None: unknown


class SelfTestResult(NamedTuple):
    """Confusion matrix of the examples, and those that were not recognized."""

    labels: tuple[str, ...]
    matrix: Int64s  # (t, t + 1): a row for each label, a column for each answer, last "unknown"
    wrong: tuple[Misclassified, ...]
    problem: str | None = None  # why no example could be tested

    @property
    def asked(self) -> int:
        return int(self.matrix.sum())

    @property
    def right(self) -> int:
        return int(np.trace(self.matrix))

    @property
    def unknown(self) -> int:
        """Number of examples that were called "unknown", wrongly."""
        return int(self.matrix[:, -1].sum())


def examine(
    examples: Mapping[str, NumberedVectors],
    settings: Settings,
    *,
    initial_limit: float = math.inf,
    seed: int = 0,
) -> SelfTestResult:
    """Test each example against what is learned from others, by five-fold cross-validation.

    Each fold is answered by what is learned from the other four alone, as the memory learns: with
    its radius, voters and budget, and the limit that follows (`initial_limit` is for `Scale.of`). A
    label with fewer than five examples always keeps all but one; one with a single example is
    learned, but not tested. Of more than 5,000 examples a sample is tested, evenly over the labels.

    >>> cups, keys = ([np.float32([x, y]) for x in (1.0, 1.1)] for y in (1.0, 9.0))
    >>> result = examine({"cup": [*enumerate(cups)], "key": [*enumerate(keys, 2)]}, Settings())
    >>> result.matrix.tolist()
    [[2, 0, 0], [0, 2, 0]]
    """
    labels = tuple(sorted(label for label, vectors in examples.items() if len(vectors)))
    matrix = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    classes = [examples[label] for label in labels]
    problem = _find_problem([len(vectors) for vectors in classes])
    if problem is not None:
        return SelfTestResult(labels, matrix, (), problem)
    folds = _draw_folds([len(vectors) for vectors in classes], seed)
    columns: dict[str | None, int] = {label: column for column, label in enumerate(labels)}
    columns[None] = len(labels)
    wrong = []
    for fold in range(SELF_TEST_FOLDS):
        knowledge, spreads = _train(labels, classes, folds, fold, settings)
        scale = Scale.of(spreads, knowledge.index, initial_limit)
        for row, number, answer in _test(classes, folds, fold, knowledge, scale):
            matrix[row, columns[answer]] += 1
            if answer != labels[row]:
                wrong.append(Misclassified(number, labels[row], answer))
    wrong.sort(key=lambda missed: (missed.label, missed.example))
    return SelfTestResult(labels, matrix, tuple(wrong))


def examine_views(knowledge: DiscriminantModel, numbers: Mapping[str, Int64s]) -> SelfTestResult:
    """Test each view that is kept, as if it, and its copies, had not been learned.

    `numbers` are those of the views' examples, label by label; 0 where a view has none.

    >>> from cbcl.method.discriminant.model import learn_statistics
    >>> vectors = np.array([[1.0, 1.0], [1.1, 1.0], [1.0, 9.0], [1.1, 9.0]])
    >>> knowledge = learn_statistics(None, vectors, np.array(["cup", "cup", "key", "key"]))
    >>> examine_views(knowledge, {"cup": np.array([1, 2]), "key": np.array([3, 4])}).right
    4
    """
    labels = tuple(knowledge.labels)
    matrix = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    problem = _find_problem(knowledge.sizes.tolist())
    tested = [] if problem else knowledge.self_test()
    if not tested:
        return SelfTestResult(labels, matrix, (), problem or NO_VIEWS)
    wrong = []
    for view in tested:
        matrix[view.own, view.answer] += 1
        if view.answer != view.own:
            label = labels[view.own]
            answer = labels[view.answer] if view.answer < len(labels) else None
            number = int(numbers[label][view.row]) if view.row < len(numbers[label]) else 0
            wrong.append(Misclassified(number, label, answer))
    wrong.sort(key=lambda missed: (missed.label, missed.example))
    return SelfTestResult(labels, matrix, tuple(wrong))


def _find_problem(counts: Sequence[int]) -> str | None:
    if not counts:
        return (
            "there are no examples to ask about: nothing is learned yet, "
            "or the memory is private and keeps none."
        )
    if max(counts) < 2:
        return (
            "every label has a single example, and the self-test needs two of a label: "
            "show more of something."
        )
    return None


def _draw_folds(counts: Sequence[int], seed: int) -> list[Int64s]:
    """Draw the fold of each example, label by label; -1 for those that are for training only."""
    rng = np.random.default_rng(seed)
    max_per_label = max(1, MAX_TESTED_EXAMPLES // len(counts))
    folds = [np.full(count, -1, dtype=np.int64) for count in counts]
    assigned = 0
    for label_folds in folds:
        if len(label_folds) > 1:
            tested = rng.permutation(len(label_folds))[:max_per_label]
            # In turn, so that all folds get as many.
            label_folds[tested] = (assigned + np.arange(len(tested))) % SELF_TEST_FOLDS
            assigned += len(tested)
    return folds


def _train(
    labels: Sequence[str],
    classes: Sequence[NumberedVectors],
    folds: Sequence[Int64s],
    fold: int,
    settings: Settings,
) -> tuple[CentroidModel, list[Spread]]:
    """Learn all examples but those of a fold; of many labels, measure the spreads of some."""
    step = -(-sum(map(len, classes)) // MAX_SPREAD_EXAMPLES)
    concepts, spreads = [], []
    for row, (numbered, label_folds) in enumerate(zip(classes, folds, strict=True)):
        pairs = zip(numbered, label_folds, strict=True)
        vectors = np.stack([vector for (_, vector), own_fold in pairs if own_fold != fold])
        concepts.append(cluster(vectors, None, settings.radius))
        if row % step == 0:
            spreads.append(spread_of(vectors, settings.radius))
    if settings.max_centroids is not None:
        concepts = reduce(concepts, settings.max_centroids)
    by_label = dict(zip(labels, concepts, strict=True))
    return CentroidModel(by_label, settings.radius, settings.n_voters), spreads


def _test(
    classes: Sequence[NumberedVectors],
    folds: Sequence[Int64s],
    fold: int,
    knowledge: CentroidModel,
    scale: Scale,
) -> Iterator[tuple[int, int, str | None]]:
    """Yield the row of the label, the number and the answer of each example of a fold."""
    held_out = [
        (row, number, vector)
        for row, (numbered, label_folds) in enumerate(zip(classes, folds, strict=True))
        for (number, vector), own_fold in zip(numbered, label_folds, strict=True)
        if own_fold == fold
    ]
    for start in range(0, len(held_out), BATCH_ROWS):
        batch = held_out[start : start + BATCH_ROWS]
        results = answers(np.stack([vector for _, _, vector in batch]), knowledge, scale)
        for (row, number, _), answer in zip(batch, results, strict=True):
            yield row, number, answer.label
