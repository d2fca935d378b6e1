"""Models: all classes that were learned, as one value; and verdicts, where "unknown" is decided.

q vectors, t classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float64s, Int64s, Matrix

MAX_GUESSES = 5


def field_state(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without what was computed from them since.

    A class takes it as its `__getstate__`: so pickles and copies hold what was learned alone.
    """
    return {field.name: getattr(value, field.name) for field in fields(value)}


class Model(ABC):
    """All classes that were learned: a value that labels vectors, and never changes."""

    @property
    @abstractmethod
    def known(self) -> dict[Any, Any]:
        """All that is kept of each label, in their order; at least one."""

    @cached_property
    def labels(self) -> list[Any]:
        return [*self.known]

    @cached_property
    def classes(self) -> NDArray[Any]:  # (t,)
        """The labels as an array; one of objects where numpy would change them."""
        classes = np.array(self.labels)
        if classes.tolist() != self.labels:  # such as integers that only a float could hold
            classes = np.array(self.labels, dtype=object)
        return classes

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of features."""

    def without(self, label: Hashable) -> Self | None:
        """Return the model without a label; None where it was the only one."""
        if label not in self.known:
            raise ValueError(f"{label!r} cannot be forgotten: the known labels are {self.labels}.")
        rest = {other: known for other, known in self.known.items() if other != label}
        return self.of_others(rest) if rest else None

    @abstractmethod
    def of_others(self, known: dict[Any, Any]) -> Self:
        """Return a model of these classes, with the same settings."""

    @abstractmethod
    def winners(self, matrix: Matrix) -> Int64s:
        """Return the number of each vector's class: (q,)."""

    @abstractmethod
    def probabilities(self, matrix: Matrix) -> Float64s:
        """Return the probability of each class, given that it is one of them: (q, t)."""

    @abstractmethod
    def decide(self, matrix: Matrix) -> Float64s:
        """Return the score of each class: (q, t)."""

    __getstate__ = field_state


class Guess(NamedTuple):
    """One label that a picture might have."""

    label: str
    confidence: float
    distance: float  # to the label's mean, by the covariance of all; by the vote, to a centroid


class Ground(NamedTuple):
    """One of the views nearest to a picture, or, by the vote, one of the centroids that voted."""

    label: str
    distance: float
    weight: float  # its part in its label's confidence, or its vote
    pictures: int  # that were learned into it
    place: int  # its number among those of its label


class Verdict(NamedTuple):
    """The answer about one vector; the label is None for "unknown"."""

    label: str | None
    confidence: float  # in the answer, be it a label or "unknown"
    ranking: tuple[Guess, ...]  # the likeliest first
    grounds: tuple[Ground, ...]  # the nearest first
    strangeness: float  # above 1: unknown
    taught: str | None = None  # label that this very vector was taught as; "": as none of them


def conclude(
    ranking: tuple[Guess, ...], grounds: tuple[Ground, ...], known: float, strangeness: float
) -> Verdict:
    """Return "unknown" where the strangeness is above 1, else the likeliest label.

    `known` is the probability that the vector is of any known class. This is the one place where an
    answer becomes "unknown"; what the strangeness is, each model says.
    """
    if strangeness > 1.0:
        return Verdict(None, 1.0 - known, ranking, grounds, strangeness)
    return Verdict(ranking[0].label, ranking[0].confidence, ranking, grounds, strangeness)


def group_rows(targets: NDArray[Any], known: Iterable[Any]) -> dict[Any, Int64s]:
    """Return the rows to learn, label by label, each in the order given."""
    if targets.dtype.kind == "f" and (fractions := targets[targets != np.floor(targets)]).size:
        # scikit-learn's own check also warns of many classes with few examples, which is our case.
        raise ValueError(
            f"Unknown label type: labels are names or whole numbers, but {fractions[0]} is neither."
        )
    kinds = {isinstance(label, str): label for label in [*known, *dict.fromkeys(targets.tolist())]}
    if len(kinds) > 1:
        raise ValueError(
            f"labels must be of one kind, but {kinds[True]!r} is a string "
            f"and {kinds[False]!r} is not."
        )
    labels, codes = np.unique(targets, return_inverse=True)
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(labels.tolist(), groups, strict=True))
