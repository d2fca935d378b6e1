"""A third head, as another package could bring it: the label of the nearest view that is kept.

All views of a class are kept, near-copies left out. n views of a class, q vectors, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from cbcl.heads.base import (
    FIRST,
    Blobs,
    Changes,
    ClassRecord,
    ClassSummary,
    Context,
    ExamplePlaces,
    Exchanged,
    Head,
    HeadModel,
    PictureBatch,
    Records,
    Sight,
    Sketches,
    StoredExample,
    as_example,
    pack_sketches,
    register,
    unpack_sketches,
)
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.heads.self_test import AskedExample, SelfTestResult, find_problem, tabulate
from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.model import MAX_GUESSES, Ground, Guess, Verdict, conclude

MAGIC = b"NEAR"
FLOAT32 = np.dtype("<f4")
MOST_DISTANT = 2.5  # times the usual distance to the nearest other view: the limit of what is known
SHOWN = 3  # views
SHARPNESS = 8.0  # of shares, by distance over the usual one


class KeptViews(NamedTuple):
    """All views of a class."""

    points: Float32s  # (n, d)
    sketches: Sketches  # (n,)


ViewRecord = ClassRecord[KeptViews]


def add(
    before: ViewRecord | None, views: KeptViews, pictures: Sequence[Any], farthest: float
) -> tuple[ViewRecord, NDArray[np.bool_]]:
    """Add views to a class, or begin one, and tell which of them were no near-copies.

    `pictures` are those of the views; None: it is not to be shown.
    """
    known = KeptViews(views.points[:0], views.sketches[:0]) if before is None else before.known
    examples = [] if before is None else [*before.examples]
    is_new = np.zeros(len(views.points), dtype=bool)
    for row, (point, own) in enumerate(zip(*views, strict=True)):
        near = np.linalg.norm(known.points - point, axis=1).min(initial=np.inf)
        is_new[row] = own not in known.sketches and near > farthest
        if not is_new[row]:
            continue
        picture = pictures[row]
        is_shown = picture is not None and picture.has_thumbnail
        example = as_example(picture, len(known.points)) if is_shown else None
        examples += [] if example is None else [example]
        points = np.concatenate([known.points, point[np.newaxis]])
        known = KeptViews(points, np.append(known.sketches, own))
    return ClassRecord.of(known, examples), is_new


def take(before: ViewRecord, rows: Sequence[int]) -> tuple[ViewRecord | None, KeptViews]:
    """Take views out of a class: return what is left, and these."""
    known = before.known
    taken = KeptViews(known.points[rows], known.sketches[rows])
    left = KeptViews(np.delete(known.points, rows, axis=0), np.delete(known.sketches, rows))
    examples = [
        one._replace(place=one.place - sum(row < one.place for row in rows))
        for one in before.examples
        if one.place not in rows
    ]
    return ClassRecord.of(left, examples) if len(left.points) else None, taken


class NearestHead(Head[KeptViews]):
    """The label of the nearest view."""

    name = "nearest"
    kind = KeptViews
    abilities = frozenset({"copies"})
    exchange_format = 3

    def summarize(self, known: KeptViews) -> ClassSummary:
        n, d = known.points.shape
        return ClassSummary(d, n, ExamplePlaces(n), FIRST + n, known.sketches)

    def pack(self, known: KeptViews) -> Blobs:
        points = known.points.astype(FLOAT32, copy=False).tobytes()
        return Blobs(sketches=pack_sketches(known.sketches), statistics=MAGIC + points)

    def unpack(self, blobs: Blobs, dimension: int) -> KeptViews:
        if not (blobs.statistics or b"").startswith(MAGIC) or blobs.sketches is None:
            raise ValueError("it is of another head")
        numbers = np.frombuffer(blobs.statistics or b"", FLOAT32, offset=len(MAGIC))
        points = numbers.reshape(-1, dimension)
        known = KeptViews(points, unpack_sketches(blobs.sketches))
        if not np.isfinite(points).all() or not 0 < len(points) == len(known.sketches):
            raise ValueError("its views cannot be")
        return known

    def to_tensors(self, classes: Sequence[KeptViews], dimension: int) -> Exchanged:
        points = np.concatenate([one.points for one in classes]).reshape(-1, dimension)
        sketches = np.concatenate([one.sketches for one in classes])
        sizes = [len(one.points) for one in classes]
        return {"views": sizes}, {"points": points, "sketches": sketches}

    def from_tensors(
        self, described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], dimension: int
    ) -> list[KeptViews]:
        ends = np.cumsum(described["views"])[:-1]
        points = tensors["points"].reshape(-1, dimension)
        parts = zip(np.split(points, ends), np.split(tensors["sketches"], ends), strict=True)
        return [KeptViews(*part) for part in parts]

    def see(self, matrix: Float32s) -> DirectionSight:
        return DirectionSight(matrix)

    def learn(
        self, lesson: PictureBatch, records: Records[KeptViews], context: Context
    ) -> Changes[KeptViews]:
        sight = cast("DirectionSight", lesson.sight)
        classes: dict[str, ViewRecord | None] = {}
        taught = dict(lesson.taught)
        copies: dict[str, int] = {}
        moved: dict[str, int] = {}
        for row, label in enumerate(lesson.targets.tolist()):
            own = int(sight.sketches[row])
            other = taught.pop(own, label)
            before = classes.get(other, records.get(other))
            if other != label and before is not None:
                (place,) = np.flatnonzero(before.known.sketches == np.uint64(own))
                classes[other], _ = take(before, [int(place)])
                moved[other] = moved.get(other, 0) + 1
            view = KeptViews(sight.points[row : row + 1], sight.sketches[row : row + 1])
            shown = [None if context.private else lesson.pictures[row]]
            before = classes.get(label, records.get(label))
            after, is_new = add(before, view, shown, _farthest_copy(context))
            classes[label] = after
            if own in after.known.sketches:
                taught[own] = label
            if not is_new.all():
                copies[label] = copies.get(label, 0) + 1
        return Changes(classes, context.settings, copies, moved)

    def move(
        self,
        examples: Mapping[str, Sequence[StoredExample]],
        target: str | None,
        records: Records[KeptViews],
        context: Context,
        see: Callable[[list[bytes]], Float32s],  # noqa: ARG002
    ) -> Changes[KeptViews]:
        classes: dict[str, ViewRecord | None] = {}
        parts = []
        for label, own in examples.items():
            classes[label], taken = take(records[label], [example.place for example in own])
            parts.append(taken)
        copies: dict[str, int] = {}
        if target is not None:
            every = [example for own in examples.values() for example in own]
            order = np.argsort([example.number for example in every], kind="stable")
            points, sketches = (
                np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True)
            )
            shown = [every[row] for row in order]
            views = KeptViews(points, sketches)
            before = records.get(target)
            classes[target], is_new = add(before, views, shown, _farthest_copy(context))
            copies[target] = int((~is_new).sum())
        return Changes(classes, context.settings, copies)

    def merge(self, these: ViewRecord, those: ViewRecord, context: Context) -> ViewRecord:
        by_place = {example.place: example for example in those.examples}
        shown = [by_place.get(place) for place in range(len(those.known.points))]
        return add(these, those.known, shown, _farthest_copy(context))[0]

    def model(
        self,
        classes: Mapping[str, KeptViews],
        negatives: KeptViews | None,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> NearestModel:
        return NearestModel(classes)


class NearestModel(HeadModel):
    """All views of all classes."""

    def __init__(self, classes: Mapping[str, KeptViews]) -> None:
        self.labels = [*classes]
        self.classes = classes
        self.points = np.concatenate([one.points for one in classes.values()])
        sizes = [len(one.points) for one in classes.values()]
        self.owners = np.repeat(np.arange(len(sizes)), sizes)
        self.places = np.concatenate([np.arange(size) for size in sizes])
        self.taught = {int(own): label for label, one in classes.items() for own in one.sketches}

    @cached_property
    def nearest_others(self) -> Float64s:
        """Distance of each view to the nearest other one of its class; infinite: there is none."""
        distances = _distances(self.points, self.points)
        distances[self.owners[:, np.newaxis] != self.owners] = np.inf
        np.fill_diagonal(distances, np.inf)
        nearest: Float64s = distances.min(axis=1)
        return nearest

    @cached_property
    def usual(self) -> float:
        """Mean of these distances; infinite: no class has two views."""
        known = self.nearest_others[np.isfinite(self.nearest_others)]
        return float(known.mean()) or 1.0 if len(known) else np.inf

    @property
    def usual_distance(self) -> float:  # type: ignore[override]
        lengths = float(np.linalg.norm(self.points, axis=1).mean()) or 1.0
        return min(self.usual / lengths, 1.0)

    @cached_property
    def concepts(self) -> dict[str, Concepts]:
        return {
            label: Concepts(one.points.mean(axis=0, keepdims=True), np.array([len(one.points)]))
            for label, one in self.classes.items()
        }

    def answer(self, sight: Sight) -> list[Verdict]:
        own = cast("DirectionSight", sight)
        distances = _distances(own.points, self.points)
        return [
            self._verdict(row)._replace(taught=self.taught.get(sketch))
            for row, sketch in zip(distances, own.sketches.tolist(), strict=True)
        ]

    def self_test(self, examples: Mapping[str, ClassRecord[Any]]) -> SelfTestResult:
        problem = find_problem([len(one.points) for one in self.classes.values()])
        if problem is not None:
            return tabulate(self.labels, [], problem)
        numbers = [
            {place: number for number, place in examples[label].places} for label in self.labels
        ]
        distances = _distances(self.points, self.points)
        np.fill_diagonal(distances, np.inf)
        tested = []
        for row in np.flatnonzero(np.isfinite(self.nearest_others)).tolist():
            own = int(self.owners[row])
            label = self._verdict(distances[row]).label
            answer = len(self.labels) if label is None else self.labels.index(label)
            number = numbers[own].get(int(self.places[row]), 0)
            tested.append(AskedExample(number, own, answer))
        return tabulate(self.labels, tested)

    def estimator(self) -> ClassifierMixin:
        labels = np.array(self.labels, dtype=object)[self.owners]
        nearest = KNeighborsClassifier(1).fit(self.points, labels)
        return make_pipeline(FunctionTransformer(as_directions), nearest)

    def vector_of(self, label: str, example: StoredExample) -> Float32s | None:
        point: Float32s = self.classes[label].points[example.place]
        return point

    def _verdict(self, distances: Float64s) -> Verdict:
        nearest = np.full(len(self.labels), np.inf)
        np.minimum.at(nearest, self.owners, distances)
        weights = np.exp(-SHARPNESS * (nearest - nearest.min()) / min(self.usual, 1e9))
        shares = weights / weights.sum()
        limit = MOST_DISTANT * self.usual
        strangeness = float(nearest.min() / limit)
        known = 1.0 / (1.0 + np.exp(min(20.0 * (strangeness - 1.0), 700.0)))
        order = np.argsort(-shares, kind="stable")[:MAX_GUESSES].tolist()
        ranking = tuple(
            Guess(self.labels[own], float(known * shares[own]), float(nearest[own]))
            for own in order
        )
        rows = np.argsort(distances, kind="stable")[:SHOWN].tolist()
        grounds = tuple(
            Ground(
                self.labels[self.owners[row]],
                float(distances[row]),
                1.0 / max(float(distances[row]), 1e-6),
                1,
                int(self.places[row]),
            )
            for row in rows
        )
        return conclude(ranking, grounds, float(known), strangeness)


def _distances(these: Float32s, those: Float32s) -> Float64s:
    apart = these[:, np.newaxis].astype(np.float64) - those
    distances: Float64s = np.sqrt((apart**2).sum(axis=2))
    return distances


def _farthest_copy(context: Context) -> float:
    return float(np.sqrt(2.0 - 2.0 * min(context.measured.copy, 1.0)))


NEAREST = NearestHead()
register(NEAREST)
