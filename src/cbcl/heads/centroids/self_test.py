"""Self-test of the vote: five-fold cross-validation on the examples of a memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cbcl.heads.base import Settings, StoredExample
from cbcl.heads.self_test import AskedExample, SelfTestResult, find_problem, tabulate
from cbcl.method.arrays import Int64s
from cbcl.method.centroids.budget import keep_to_limit
from cbcl.method.centroids.concepts import cluster
from cbcl.method.centroids.confidence import Scale, Spread, spread_of, vote_on_all
from cbcl.method.centroids.model import CentroidModel

DealtExamples: TypeAlias = Mapping[str, Sequence[tuple[StoredExample, int]]]  # with their folds

SELF_TEST_FOLDS = 5
MAX_TESTED_EXAMPLES = 5000  # of all labels together; the others are for training only
MAX_SPREAD_EXAMPLES = 5000  # about, to estimate the limit from
BATCH_ROWS = 1024  # examples that are answered in one call


def examine(
    examples: Mapping[str, Sequence[StoredExample]],
    settings: Settings,
    initial_limit: float = math.inf,
) -> SelfTestResult:
    """Test each example against what is learned from others, by five-fold cross-validation.

    Each fold is answered by what is learned from the other four alone, as the memory learns: with
    its radius, voters and budget, and the limit that follows (`initial_limit` is for `Scale.of`). A
    label with fewer than five examples always keeps all but one; one with a single example is
    learned, but not tested. Of more than 5,000 examples a sample is tested, evenly over the labels.

    >>> cups = [StoredExample(0, b"", np.float32([x, 1.0])) for x in (1.0, 1.1)]
    >>> keys = [StoredExample(0, b"", np.float32([x, 9.0])) for x in (1.0, 1.1)]
    >>> examine({"cup": cups, "key": keys}, Settings()).matrix.tolist()
    [[2, 0, 0], [0, 2, 0]]
    """
    labels = sorted(label for label, own in examples.items() if own)
    counts = [len(examples[label]) for label in labels]
    if (problem := find_problem(counts)) is not None:
        return tabulate(labels, [], problem)
    folds = zip(labels, _draw_folds(counts, seed=0), strict=True)
    dealt = {label: [*zip(examples[label], own.tolist(), strict=True)] for label, own in folds}
    tested: list[AskedExample] = []
    for fold in range(SELF_TEST_FOLDS):
        model, spreads = _train(dealt, fold, settings)
        scale = Scale.of(spreads, model.index, initial_limit)
        tested += _test(dealt, fold, model, scale)
    return tabulate(labels, tested)


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
    dealt: DealtExamples, fold: int, settings: Settings
) -> tuple[CentroidModel, list[Spread]]:
    """Learn all examples but those of a fold; of many labels, measure the spreads of some."""
    step = -(-sum(map(len, dealt.values())) // MAX_SPREAD_EXAMPLES)
    concepts = {}
    spreads = []
    for row, (label, examples) in enumerate(dealt.items()):
        vectors = np.stack([example.vector for example, own_fold in examples if own_fold != fold])
        concepts[label] = cluster(vectors, None, settings.radius)
        if row % step == 0:
            spreads.append(spread_of(vectors, settings.radius))
    known = keep_to_limit(concepts, settings.max_centroids)
    return CentroidModel(known, settings.radius, settings.n_voters), spreads


def _test(
    dealt: DealtExamples, fold: int, model: CentroidModel, scale: Scale
) -> Iterator[AskedExample]:
    """Yield each example of a fold with its answer."""
    columns = {label: column for column, label in enumerate(model.labels)}
    held_out = [
        (row, example)
        for row, examples in enumerate(dealt.values())
        for example, own_fold in examples
        if own_fold == fold
    ]
    for start in range(0, len(held_out), BATCH_ROWS):
        batch = held_out[start : start + BATCH_ROWS]
        vectors = np.stack([example.vector for _, example in batch])
        verdicts = vote_on_all(vectors, model, scale)
        for (row, example), verdict in zip(batch, verdicts, strict=True):
            answer = len(columns) if verdict.label is None else columns[verdict.label]
            yield AskedExample(example.number, row, answer)
