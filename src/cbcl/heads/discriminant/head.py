"""The discriminant as a head: statistics of each class, of which all answers are solved."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import (
    Blobs,
    Changes,
    ClassRecord,
    ClassSummary,
    Context,
    ExamplePlaces,
    Head,
    HeadModel,
    PictureBatch,
    Records,
    Sight,
    StoredExample,
    SuspectView,
    most_kept,
    pack_sketches,
    unpack_sketches,
)
from cbcl.heads.discriminant.formats import (
    as_tensors,
    count_rows,
    from_tensors,
    pack_statistics,
    unpack_statistics,
)
from cbcl.heads.discriminant.self_test import examine_views
from cbcl.heads.discriminant.suspects import find_suspects
from cbcl.heads.discriminant.views import (
    DirectionSight,
    ViewClass,
    add_views,
    join_taken,
    learn_views,
    merge_views,
    take_views,
    views_of,
)
from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.answering import judge_all
from cbcl.method.discriminant.forecast import UnknownReport, report_unknown
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics
from cbcl.method.model import Verdict

if TYPE_CHECKING:
    from cbcl.heads.answer_nodes import AnswerGraph, Outputs
    from cbcl.method.classifiers import DiscriminantClassifier


class DiscriminantHead(Head[ClassStatistics]):
    """Statistics of each class: they add up, can be taken apart, and are solved for all classes."""

    name = "discriminant"
    kind = ClassStatistics
    abilities = frozenset({"copies", "negatives", "suspects", "strangers"})

    def summarize(self, known: ClassStatistics) -> ClassSummary:
        return ClassSummary(
            known.dimension,
            known.n,
            ExamplePlaces(known.n),
            most_kept(len(known.views)),
            known.sketches,
        )

    def pack(self, known: ClassStatistics) -> Blobs:
        statistics = pack_statistics(known)
        return Blobs(sketches=pack_sketches(known.sketches), statistics=statistics)

    def unpack(self, blobs: Blobs, dimension: int) -> ClassStatistics:
        *others, sketches, statistics = blobs
        if any(others) or sketches is None or statistics is None:
            raise ValueError("it is of another head")
        return unpack_statistics(statistics, unpack_sketches(sketches), dimension)

    def to_tensors(
        self, classes: Sequence[ClassStatistics], dimension: int
    ) -> tuple[dict[str, object], dict[str, NDArray[Any]]]:
        counts = [count_rows(known)._asdict() for known in classes]
        return {"statistics": counts}, as_tensors(classes, dimension)

    def from_tensors(
        self, described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], dimension: int
    ) -> list[ClassStatistics]:
        return from_tensors(described["statistics"], tensors, dimension)

    def see(self, matrix: Float32s) -> DirectionSight:
        return DirectionSight(matrix)

    def learn(
        self,
        lesson: PictureBatch,
        records: Records[ClassStatistics],
        context: Context,
        options: Mapping[str, Any],  # noqa: ARG002  # it has none
    ) -> Changes[ClassStatistics]:
        learned = learn_views(
            cast("DirectionSight", lesson.sight),
            lesson.targets,
            lesson.pictures,
            lesson.taught,
            records,
            context.measured.copy,
            private=context.private,
        )
        settings = context.settings._replace(head=self.name)
        return Changes(_as_records(learned.classes), settings, learned.copies, learned.moved)

    def move(
        self,
        examples: Mapping[str, Sequence[StoredExample]],
        target: str | None,
        records: Records[ClassStatistics],
        context: Context,
        see: Callable[[list[bytes]], Float32s],
    ) -> Changes[ClassStatistics]:
        classes: dict[str, ViewClass] = {}
        parts = []
        for label, own in examples.items():
            classes[label], taken = take_views(views_of(records, label), own, see)
            parts.append(taken)
        copies: dict[str, int] = {}
        if target is not None:
            every = [example for own in examples.values() for example in own]
            order = np.argsort([example.number for example in every], kind="stable")
            classes[target], copies[target] = add_views(
                views_of(records, target),
                join_taken(parts, order),
                [every[row] for row in order],
                context.measured.copy,
            )
        return Changes(_as_records(classes), context.settings, copies)

    def merge(
        self,
        these: ClassRecord[ClassStatistics],
        those: ClassRecord[ClassStatistics],
        context: Context,
    ) -> ClassRecord[ClassStatistics]:
        ours = ViewClass(these.known, these.examples)
        others = ViewClass(those.known, those.examples)
        merged = merge_views(ours, others, context.measured.copy).record
        assert merged is not None
        return merged

    def adopt(
        self,
        ours: Records[ClassStatistics],
        theirs: Records[ClassStatistics],
        context: Context,
    ) -> dict[str, ClassRecord[ClassStatistics]]:
        return {
            label: self.merge(ours[label], new, context) if label in ours else new
            for label, new in theirs.items()
        }

    def model(
        self,
        classes: Mapping[str, ClassStatistics],
        negatives: ClassStatistics | None,
        context: Context,
    ) -> DiscriminantHeadModel:
        strangers = context.settings.strangers
        solved = DiscriminantModel({**classes}, negatives, context.measured.cosines, strangers)
        return DiscriminantHeadModel(solved)


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
        numbers = {}
        for label, known in self.solved.statistics.items():
            of_views = np.zeros(len(known.views), dtype=np.int64)
            first = known.n - len(known.views)
            for number, place in examples[label].places:
                if first <= place < known.n:
                    of_views[place - first] = number
            numbers[label] = of_views
        return examine_views(self.solved, numbers)

    def estimator(self) -> DiscriminantClassifier:
        from cbcl.method.classifiers import DiscriminantClassifier  # which loads scikit-learn

        solved = self.solved
        return DiscriminantClassifier.from_statistics(solved.statistics, cosines=solved.cosines)

    def vector_of(self, label: str, example: StoredExample) -> Float32s | None:
        known = self.solved.statistics[label]
        row = example.place - (known.n - len(known.views))
        return known.directions[row] if 0 <= row < len(known.views) else None

    def suspects(self, sight: Sight, places: Callable[[str], Container[int]]) -> list[SuspectView]:
        return find_suspects(self.solved, cast("DirectionSight", sight), places)

    def report_unknown(self) -> UnknownReport | None:
        return report_unknown(self.solved)

    def add_answer(self, graph: AnswerGraph, vector: str) -> Outputs:
        from cbcl.heads.discriminant.onnx import add_discriminant  # which loads onnx

        return add_discriminant(graph, vector, self.solved)

    def metadata(self) -> dict[str, str]:
        return {"head": DISCRIMINANT.name}


def spread_of_views(classes: Iterable[ClassStatistics]) -> float:
    """Return the usual distance of a view to the mean of its class, over its length."""
    freedom = 0
    n_classes = 0
    scatter = 0.0
    lengths = 0.0
    for known in classes:
        freedom += known.n - 1
        own = float((known.axes.astype(np.float64) ** 2).sum())
        own += 0.0 if known.rest is None else float(known.rest.sum())
        scatter += own
        lengths += float((known.mean**2).sum()) + own / known.n  # the mean squared length
        n_classes += 1
    if not freedom or lengths == 0.0:
        return 1.0
    return math.sqrt(scatter / freedom / (lengths / n_classes)) or 1.0


def _as_concepts(known: ClassStatistics) -> Concepts:
    mean = known.mean.astype(np.float32)[np.newaxis]
    return Concepts(read_only(mean), read_only(np.array([known.n])))


def _as_records(
    classes: Mapping[str, ViewClass],
) -> dict[str, ClassRecord[ClassStatistics] | None]:
    return {label: views.record for label, views in classes.items()}


DISCRIMINANT = DiscriminantHead()
