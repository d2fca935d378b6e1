"""All that was learned, as the statistics of every class: the default head.

Like `CentroidModel`, it is one value: learning and forgetting return
a new one. What is derived from the classes is computed when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.machine import blas_threads, one_thread
from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.blocks import map_blocks, map_classes
from cbcl.method.discriminant.calibration import (
    ChosenViews,
    Witnesses,
    choose_views,
    find_temperature,
    leave_one_out,
    softmax,
)
from cbcl.method.discriminant.coding import encode
from cbcl.method.discriminant.directions import MIN_EMBEDDING, as_directions
from cbcl.method.discriminant.open_set import (
    DEFAULT_STRANGERS,
    Cosines,
    OpenSet,
    units,
)
from cbcl.method.discriminant.scoring import BLOCK_ROWS, Discriminant, Scores
from cbcl.method.discriminant.statistics import (
    EXACT,
    ClassStatistics,
    Sketches,
    learn_class,
    sketch,
)
from cbcl.method.model import Model, group_rows

MAX_EXPLAINED = 5  # labels
TAUGHT_CONFIDENCE = 0.99  # at least, in the label of a picture that was taught
TAUGHT_ODDS = log(TAUGHT_CONFIDENCE / (1.0 - TAUGHT_CONFIDENCE))  # likewise, logarithm
NEGATIVE = -2  # in place of a class, of a picture that was taught as none
NEGATIVE_SLOPE = 20.0  # of the log odds, by the distance to a negative over that to a class


class Judgement(NamedTuple):
    """Probabilities of q vectors, and what they come from."""

    shares: Float64s  # (q, t), of each class, given that it is one of them
    known: Float64s  # (q,), probability that it is
    distances: Float64s  # (q, t), to the means, by the pooled covariance
    taught: Int64s  # (q,), the class that this very vector was taught as; -1: none, or NEGATIVE


class Standing(NamedTuple):
    """How the n likeliest labels stand on each of q vectors: arrays of shape (q, n)."""

    labels: NDArray[Any]
    probabilities: Float64s
    distances: Float64s  # to the mean of the class, by the covariance of all classes
    densities: Float64s  # by which a class explains the vector better than no class
    regressions: Float64s  # score of the ridge regression


@dataclass(frozen=True, eq=False)
class DiscriminantModel(Model):
    """The statistics of at least one class, in the order of their labels, and of negatives.

    `cosines` are those of the backbone, None where it was not measured; `strangers` tells how often
    a picture of something else is to be expected.
    """

    statistics: dict[Any, ClassStatistics]
    negatives: ClassStatistics | None = None  # pictures of nothing that has a label
    cosines: Cosines | None = None
    strangers: str = DEFAULT_STRANGERS  # a key of `open_set.PRIOR_ODDS`

    @property
    def known(self) -> dict[Any, ClassStatistics]:
        return self.statistics

    @property
    def dimension(self) -> int:
        return next(iter(self.statistics.values())).dimension

    @cached_property
    def discriminant(self) -> Discriminant:
        threads = blas_threads()
        with one_thread():  # so that it takes as long on a busy machine, and gives the same bits
            return Discriminant.of([*self.statistics.values()], threads)

    @cached_property
    def chosen(self) -> ChosenViews:
        """Some of the views that are kept."""
        return choose_views([*self.statistics.values()])

    @cached_property
    def witnesses(self) -> Witnesses | None:
        """Those of them that can be scored without themselves; None: there are none."""
        with one_thread():
            return leave_one_out(self.discriminant, [*self.statistics.values()], self.chosen)

    @cached_property
    def temperature(self) -> float:
        """That of the scores, at which confidences are true."""
        return find_temperature(self.witnesses)

    @cached_property
    def open_set(self) -> OpenSet:
        with one_thread():
            classes = [*self.statistics.values()]
            return OpenSet.of(classes, self.chosen, self.witnesses, self.cosines)

    @cached_property
    def owners(self) -> dict[int, int]:
        """The class of each sketch, or NEGATIVE; -1 where two have the same."""
        owners: dict[int, int] = {}
        for number, known in enumerate(self.statistics.values()):
            for own in known.sketches.tolist():
                owners[own] = number if owners.get(own, number) == number else -1
        if self.negatives is not None:
            for own in self.negatives.sketches.tolist():
                owners[own] = -1 if own in owners else NEGATIVE
        return owners

    def of_others(self, known: dict[Any, ClassStatistics]) -> DiscriminantModel:
        return replace(self, statistics=known)

    def judge(self, matrix: Matrix, strangers: str | None = None) -> Judgement:
        """Return the probabilities of vectors; one that was taught is what it was taught as.

        `strangers` takes the place of the attribute.
        """
        return self.judge_directions(as_directions(matrix), strangers)

    def judge_directions(
        self,
        directions: Float32s,
        strangers: str | None = None,
        sketches: Sketches | None = None,
    ) -> Judgement:
        """Judge vectors as `as_directions` returns them; `sketches` are theirs, if known."""
        scores = self._score(directions)
        shares = self.shares(scores)
        if sketches is None:
            sketches = sketch(encode(directions))
        taught = np.array([self.owners.get(own, -1) for own in sketches.tolist()], dtype=np.int64)
        rows = np.flatnonzero(taught >= 0)
        _raise_to(shares, rows, taught[rows])
        odds = self._log_odds(directions, scores, strangers or self.strangers)
        odds[rows] = np.maximum(odds[rows], TAUGHT_ODDS)
        strange = taught == NEGATIVE
        odds[strange] = np.minimum(odds[strange], -TAUGHT_ODDS)
        known = 1.0 / (1.0 + np.exp(np.clip(-odds, -700.0, 700.0)))
        return Judgement(shares, known, np.sqrt(scores.distances), taught)

    def winners(self, matrix: Matrix) -> Int64s:
        def work(rows: slice) -> Int64s:
            return self.discriminant.winners(as_directions(matrix[rows]))

        return map_blocks(work, len(matrix), BLOCK_ROWS)

    def probabilities(self, matrix: Matrix) -> Float64s:
        return self.shares(self._score(as_directions(matrix)))

    def shares(self, scores: Scores) -> Float64s:
        """Return the probabilities of the classes by their scores: (q, t)."""
        return softmax(scores.total / self.temperature)

    def decide(self, matrix: Matrix) -> Float64s:
        return self._score(as_directions(matrix)).total

    def explain(self, matrix: Matrix) -> Standing:
        """Return how the likeliest labels stand: five of them, or all."""
        scores = self._score(as_directions(matrix))
        shares = self.shares(scores)
        order = np.argsort(-shares, axis=1, kind="stable")[:, :MAX_EXPLAINED]
        columns = (shares, np.sqrt(scores.distances), scores.gains, scores.ridge)
        return Standing(
            self.classes[order], *(np.take_along_axis(column, order, axis=1) for column in columns)
        )

    def self_test(self) -> list[tuple[int, int, int]]:
        """Answer about the views that are kept, each as if it had not been learned.

        Views of a class that has no other are left out, and of many views some. Of each, return its
        class, its row among the views kept of that, and the answer: the number of a class, or as
        many as there are for "unknown".
        """
        witnesses = self.witnesses
        if witnesses is None:
            return []
        shares = self.shares(witnesses.scores)
        known = self.discriminant.counts[self.open_set.chosen] > 1
        odds = self.open_set.log_odds(self.open_set.scores[known], self.strangers)
        named = odds + np.log(np.maximum(shares.max(axis=1), 1e-300)) >= 0.0
        answers = np.where(named, shares.argmax(axis=1), len(self.labels))
        columns = (witnesses.classes, witnesses.rows, answers)
        return [*zip(*(column.tolist() for column in columns), strict=True)]

    def _score(self, directions: Float32s) -> Scores:
        solved = self.discriminant
        return map_blocks(lambda rows: solved.scores(directions[rows]), len(directions), BLOCK_ROWS)

    def _log_odds(self, directions: Float32s, scores: Scores, strangers: str) -> Float64s:
        """Return the log odds that vectors are of a known class: (q,)."""
        open_set = self.open_set
        negatives = self.negatives
        if self.dimension < MIN_EMBEDDING:
            nearest = scores.distances.min(axis=1)
            odds = open_set.log_odds(-np.sqrt(nearest[:, np.newaxis]), strangers)
            if negatives is not None:
                odds = np.minimum(odds, self._log_odds_against(directions, nearest, negatives))
            return odds
        seen = units(directions, open_set.cosines)
        odds = open_set.log_odds(open_set.score(seen, scores), strangers)
        if negatives is None:
            return odds
        likest = (seen @ units(_directions(negatives), open_set.cosines).T).max(axis=1)
        against = open_set.log_odds_of_negative(likest.astype(np.float64))
        return odds - np.logaddexp(0.0, against)

    def _log_odds_against(
        self, directions: Float32s, nearest: Float64s, negatives: ClassStatistics
    ) -> Float64s:
        """Return the log odds that measurements are of a class, not like a negative: (q,)."""
        distances = [
            self.discriminant.squared_lengths(directions - view) / 2.0
            for view in _directions(negatives)
        ]
        ratios = np.sqrt(np.min(distances, axis=0) / np.maximum(nearest, 1e-300))
        odds: Float64s = NEGATIVE_SLOPE * (ratios - 1.0)
        return odds


def learn_statistics(
    before: DiscriminantModel | None,
    matrix: Matrix,
    targets: NDArray[Any],
    least_cosine: float = EXACT,
) -> DiscriminantModel:
    """Return the model after learning these vectors and their labels."""
    known: Mapping[Any, ClassStatistics] = {} if before is None else before.statistics
    directions = as_directions(matrix)
    groups = group_rows(targets, known)

    def work(label: Any) -> ClassStatistics:
        return learn_class(directions[groups[label]], known.get(label), least_cosine)[0]

    learned = dict(zip(groups, map_classes(work, groups, directions.size), strict=True))
    everything = dict(sorted({**known, **learned}.items()))
    return replace(before, statistics=everything) if before else DiscriminantModel(everything)


def _directions(known: ClassStatistics) -> Float32s:
    """Return the views that are kept; if none is, as all were taken out, that of the mean."""
    if len(known.views):
        return known.directions
    mean = known.mean.astype(np.float32)[np.newaxis]
    return mean / np.linalg.norm(mean) if known.dimension >= MIN_EMBEDDING else mean


def _raise_to(shares: Float64s, rows: Int64s, classes: Int64s) -> None:
    """Raise the shares of these classes to TAUGHT_CONFIDENCE where they are below, in place."""
    low = shares[rows, classes] < TAUGHT_CONFIDENCE
    rows = rows[low]
    classes = classes[low]
    others = 1.0 - shares[rows, classes]
    shares[rows] *= ((1.0 - TAUGHT_CONFIDENCE) / others)[:, np.newaxis]
    shares[rows, classes] = TAUGHT_CONFIDENCE
