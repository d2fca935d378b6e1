"""The discriminant as a head: statistics of each class, of which all answers are solved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import (
    FIRST,
    Blobs,
    Changes,
    ClassSummary,
    Context,
    ExamplePlaces,
    Exchanged,
    Head,
    PictureBatch,
    Records,
    StoredExample,
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
from cbcl.heads.discriminant.model import DiscriminantHeadModel
from cbcl.heads.discriminant.views import (
    DirectionSight,
    ViewBatch,
    ViewRecord,
    add_views,
    join_batches,
    merge_views,
    take_out,
    take_views,
)
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics


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
            FIRST + len(known.views),
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

    def to_tensors(self, classes: Sequence[ClassStatistics], dimension: int) -> Exchanged:
        counts = [count_rows(known)._asdict() for known in classes]
        return {"statistics": counts}, as_tensors(classes, dimension)

    def from_tensors(
        self, described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], dimension: int
    ) -> list[ClassStatistics]:
        return from_tensors(described["statistics"], tensors, dimension)

    def see(self, matrix: Float32s) -> DirectionSight:
        return DirectionSight(matrix)

    def learn(
        self, lesson: PictureBatch, records: Records[ClassStatistics], context: Context
    ) -> Changes[ClassStatistics]:
        """Learn pictures, and take those that had another label from there.

        A picture has one label: one that was taught with another, or that comes with another in
        the same step, is taken from there. `taught` has the labels of sketches before.
        """
        sight = cast("DirectionSight", lesson.sight)
        classes: dict[str, ViewRecord | None] = {}
        copies: dict[str, int] = {}
        moved: dict[str, int] = {}
        owners = dict(lesson.taught)
        for label in dict.fromkeys(lesson.targets.tolist()):
            rows = np.flatnonzero(lesson.targets == label)
            for row in rows.tolist():
                own = int(sight.sketches[row])
                other = owners.get(own, label)
                if other != label:
                    del owners[own]
                    before = classes.get(other, records.get(other))
                    classes[other] = take_out(before, sight.points[row], own)
                    moved[other] = moved.get(other, 0) + 1
            before = classes.get(label, records.get(label))
            views = ViewBatch(sight.coded.take(rows), sight.sketches[rows])
            pictures = [] if context.private else [lesson.pictures[row] for row in rows.tolist()]
            classes[label], is_view = add_views(before, views, pictures, context.measured.copy)
            owners |= dict.fromkeys(views.sketches[is_view].tolist(), label)
            if n_copies := int((~is_view).sum()):
                copies[label] = n_copies
        return Changes(classes, context.settings, copies, moved)

    def move(
        self,
        examples: Mapping[str, Sequence[StoredExample]],
        target: str | None,
        records: Records[ClassStatistics],
        context: Context,
        see: Callable[[list[bytes]], Float32s],
    ) -> Changes[ClassStatistics]:
        classes: dict[str, ViewRecord | None] = {}
        parts = []
        for label, own in examples.items():
            classes[label], taken = take_views(records[label], own, see)
            parts.append(taken)
        copies: dict[str, int] = {}
        if target is not None:
            every = [example for own in examples.values() for example in own]
            order = np.argsort([example.number for example in every], kind="stable")
            views = join_batches(parts, order)
            shown = [every[row] for row in order]
            before = records.get(target)
            classes[target], is_view = add_views(before, views, shown, context.measured.copy)
            copies[target] = int((~is_view).sum())
        return Changes(classes, context.settings, copies)

    def merge(self, these: ViewRecord, those: ViewRecord, context: Context) -> ViewRecord:
        return merge_views(these, those, context.measured.copy)

    def model(
        self,
        classes: Mapping[str, ClassStatistics],
        negatives: ClassStatistics | None,
        context: Context,
    ) -> DiscriminantHeadModel:
        strangers = context.settings.strangers
        solved = DiscriminantModel({**classes}, negatives, context.measured.cosines, strangers)
        return DiscriminantHeadModel(solved)


DISCRIMINANT = DiscriminantHead()
