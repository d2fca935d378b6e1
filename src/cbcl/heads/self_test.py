"""Results of a self-test: cross-validation on the examples of a memory.

t labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Int64s

NO_EXAMPLES = (
    "there are no examples to ask about: nothing is learned yet, "
    "or the memory is private and keeps none."
)
SINGLE_EXAMPLES = (
    "every label has a single example, and the self-test needs two of a label: "
    "show more of something."
)


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


class AskedExample(NamedTuple):
    """An example that was asked about."""

    number: int  # 0: it is not kept as a picture
    own: int  # its label's row
    answer: int  # the column of the answer; as many as there are labels: unknown


def tabulate(
    labels: Sequence[str], tested: Iterable[AskedExample], problem: str | None = None
) -> SelfTestResult:
    """Count the answers about examples, and list those that were wrong.

    A problem says why there are none.
    """
    matrix = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    answers = [*labels, None]
    wrong = []
    for number, own, answer in tested:
        matrix[own, answer] += 1
        if answer != own:
            wrong.append(Misclassified(number, labels[own], answers[answer]))
    wrong.sort(key=lambda missed: (missed.label, missed.example))
    return SelfTestResult(tuple(labels), matrix, tuple(wrong), problem)


def find_problem(counts: Sequence[int]) -> str | None:
    """Return why nothing can be tested with so many examples of each label; None: it can be."""
    if not counts:
        return NO_EXAMPLES
    return SINGLE_EXAMPLES if max(counts) < 2 else None
