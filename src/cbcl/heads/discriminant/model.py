"""Answers of the discriminant's head, its self-test, and the views that may have misled it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cbcl.heads.base import (
    NEGATIVES,
    ClassRecord,
    HeadModel,
    Sight,
    StoredExample,
    SuspectView,
)
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.heads.self_test import AskedExample, SelfTestResult, find_problem, tabulate
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.answering import judge_all
from cbcl.method.discriminant.forecast import UnknownReport, report_unknown
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics, unlearn_view
from cbcl.method.model import Verdict

if TYPE_CHECKING:
    from cbcl.heads.answer_nodes import AnswerGraph, Outputs
    from cbcl.method.classifiers import DiscriminantClassifier

MAX_SUSPECTS = 3  # each of which takes as long as learning a picture
NO_VIEWS = "only the latest examples can be asked about, and all were taken back: show more."


class DiscriminantHeadModel(HeadModel):
    """The discriminant of all classes of a memory."""

    onnx_tolerance = 0.01  # relative, of the odds for and against "known"

    def __init__(self, solved: DiscriminantModel) -> None:
        self.solved = solved
        self.labels = solved.labels

    @cached_property
    def usual_distance(self) -> float:  # type: ignore[override] # computed when it is asked for
        return spread_of_views(self.solved.statistics.values())

    @cached_property
    def concepts(self) -> dict[str, Concepts]:
        """The mean of each class as its only centroid."""
        return {label: _as_concepts(known) for label, known in self.solved.statistics.items()}

    def answer(self, sight: Sight) -> list[Verdict]:
        own = cast("DirectionSight", sight)
        return judge_all(self.solved, own.points, own.sketches)

    def self_test(self, examples: Mapping[str, ClassRecord[Any]]) -> SelfTestResult:
        """Test each view that is kept, as if it, and its copies, had not been learned."""
        solved = self.solved
        problem = find_problem([known.n for known in solved.statistics.values()])
        tested = [] if problem else solved.self_test()
        numbers = [
            {place: number for number, place in examples[label].places} for label in self.labels
        ]
        asked = []
        for label, row, answer in tested:
            known = solved.statistics[self.labels[label]]
            place = known.n - len(known.views) + row
            asked.append(AskedExample(numbers[label].get(place, 0), label, answer))
        return tabulate(self.labels, asked, None if asked else problem or NO_VIEWS)

    def estimator(self) -> DiscriminantClassifier:
        from cbcl.method.classifiers import DiscriminantClassifier  # which loads scikit-learn

        solved = self.solved
        return DiscriminantClassifier.from_statistics(solved.statistics, cosines=solved.cosines)

    def vector_of(self, label: str, example: StoredExample) -> Float32s | None:
        known = self.solved.statistics[label]
        row = example.place - (known.n - len(known.views))
        return known.directions[row] if 0 <= row < len(known.views) else None

    def suspects(self, sight: Sight, places: Callable[[str], Container[int]]) -> list[SuspectView]:
        """Return the views that speak most for the answer about a vector, most decisive first.

        They are the nearest of those kept of the label that was answered; where that was
        "unknown", of those taught as none of the known things.
        """
        solved = self.solved
        own = cast("DirectionSight", sight)
        (verdict,) = judge_all(solved, own.points, own.sketches)
        label = NEGATIVES if verdict.label is None else verdict.label
        known = solved.negatives if verdict.label is None else solved.statistics[verdict.label]
        if known is None:
            return []
        suspects = []
        for place in _nearest(known, own.points[0], places(label)):
            rest = _without(solved, label, unlearn_view(known, place))
            without = None if rest is None else judge_all(rest, own.points, own.sketches)[0]
            suspects.append(SuspectView(label, place, without))
        return sorted(suspects, key=lambda suspect: _support(suspect.verdict, verdict.label))

    def report_unknown(self) -> UnknownReport | None:
        return report_unknown(self.solved)

    def add_answer(self, graph: AnswerGraph, vector: str) -> Outputs:
        from cbcl.heads.discriminant.onnx import add_discriminant  # which loads onnx

        return add_discriminant(graph, vector, self.solved)

    def metadata(self) -> dict[str, str]:
        return {"head": "discriminant"}


def spread_of_views(classes: Collection[ClassStatistics]) -> float:
    """Return the usual distance of a view to the mean of its class, over its length."""
    freedom = 0
    scatter = 0.0
    lengths = 0.0
    for known in classes:
        freedom += known.n - 1
        own = float((known.axes.astype(np.float64) ** 2).sum())
        own += 0.0 if known.rest is None else float(known.rest.sum())
        scatter += own
        lengths += float((known.mean**2).sum()) + own / known.n  # the mean squared length
    if not freedom or lengths == 0.0:
        return 1.0
    return math.sqrt(scatter / freedom / (lengths / len(classes))) or 1.0


def _as_concepts(known: ClassStatistics) -> Concepts:
    mean = known.mean.astype(np.float32)[np.newaxis]
    return Concepts(read_only(mean), read_only(np.array([known.n])))


def _nearest(known: ClassStatistics, direction: Float32s, places: Container[int]) -> list[int]:
    """Return the places of views that are kept and have an example, the nearest first."""
    first = known.n - len(known.views)
    distances = np.linalg.norm(known.directions.astype(np.float64) - direction, axis=1)
    nearest = [first + row for row in np.argsort(distances, kind="stable").tolist()]
    return [place for place in nearest if place in places][:MAX_SUSPECTS]


def _without(
    model: DiscriminantModel, label: str, rest: ClassStatistics | None
) -> DiscriminantModel | None:
    if label == NEGATIVES:
        return replace(model, negatives=rest)
    if rest is None:
        return model.without(label)
    return replace(model, statistics={**model.statistics, label: rest})


def _support(verdict: Verdict | None, label: str | None) -> float:
    """Return the confidence that a verdict leaves to a label, or to "unknown"."""
    if verdict is None:
        return 0.0
    if label is None:
        return 1.0 - sum(guess.confidence for guess in verdict.ranking)
    return sum(guess.confidence for guess in verdict.ranking if guess.label == label)
