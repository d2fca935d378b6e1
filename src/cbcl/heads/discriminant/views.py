"""Learning and editing of classes by their views, and the examples that show them.

k views that are kept. An example belongs to a view, by the view's number in its class: 0 is the
first that was learned and is still there. Examples of the first hundred views are kept, and of
those that the statistics keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import (
    FIRST,
    ClassRecord,
    Picture,
    Sight,
    Sketches,
    StoredExample,
    as_example,
)
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.discriminant.coding import CodedRows, empty_rows, encode
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import (
    ClassStatistics,
    learn_class,
    learn_coded,
    merge_summaries,
    sketch,
    unlearn_view,
)

ViewRecord: TypeAlias = ClassRecord[ClassStatistics]


class DirectionSight(Sight):
    """Vectors as directions, coded and sketched once."""

    @cached_property
    def points(self) -> Float32s:
        return as_directions(self.matrix)

    @cached_property
    def coded(self) -> CodedRows:
        return encode(self.points)

    @cached_property
    def sketches(self) -> Sketches:
        return sketch(self.coded)


class ViewBatch(NamedTuple):
    """Views to be learned, or that were taken out of a class."""

    coded: CodedRows
    sketches: Sketches


def add_views(
    before: ViewRecord | None,
    views: ViewBatch,
    pictures: Iterable[Picture],
    least_cosine: float,
) -> tuple[ViewRecord, NDArray[np.bool_]]:
    """Learn views with a class, or as a new one, and tell which of them were not known before.

    `pictures` are those of the views; none are kept where there are none.
    """
    known = None if before is None else before.known
    learned, is_view = learn_coded(views.coded, views.sketches, known, least_cosine)
    examples = [] if before is None else [*before.examples]
    new = [picture for picture, is_new in zip(pictures, is_view, strict=False) if is_new]
    for number, picture in enumerate(new, start=0 if known is None else known.n):
        is_shown = _is_kept(number, learned) and picture.has_thumbnail
        example = as_example(picture, number) if is_shown else None
        if example is not None:
            examples.append(example)
    return _as_record(learned, examples), is_view


def take_views(
    before: ViewRecord,
    examples: Sequence[StoredExample],
    see: Callable[[list[bytes]], Float32s],
) -> tuple[ViewRecord | None, ViewBatch]:
    """Take the views of examples out of their class: return what is left, and these views.

    `see` embeds thumbnails, where no vectors are kept. As long as the class has no more than 24
    views, it is then as if these had never been shown.
    """
    known = before.known
    first = known.n - len(known.views)
    folded = [example.jpeg for example in examples if example.place < first]
    seen = encode(as_directions(see(folded))) if folded else empty_rows(known.dimension)
    both = seen.join(known.views)
    # Those that are folded come in the order in which they were seen.
    turn = iter(range(len(folded)))
    rows = [
        next(turn) if one.place < first else len(folded) + one.place - first for one in examples
    ]
    coded = both.take(np.array(rows, dtype=np.int64))
    sketches = sketch(coded)
    first_sketch = known.n - len(known.sketches)
    for row, example in enumerate(examples):
        if example.place >= first_sketch:
            sketches[row] = known.sketches[example.place - first_sketch]
    left: ViewRecord | None = before
    directions = coded.values
    # The latest first, so that the numbers of the others stay.
    for row in np.argsort([-example.place for example in examples], kind="stable").tolist():
        assert left is not None
        left = _without(left, examples[row].place, directions[row])
    return left, ViewBatch(coded, sketches)


def join_batches(parts: Sequence[ViewBatch], order: Int64s) -> ViewBatch:
    """Put views of several classes together, in this order."""
    coded = parts[0].coded
    for part in parts[1:]:
        coded = coded.join(part.coded)
    sketches = np.concatenate([part.sketches for part in parts])
    return ViewBatch(coded.take(order), sketches[order])


def merge_views(these: ViewRecord, those: ViewRecord, least_cosine: float) -> ViewRecord:
    """Make one class of two; the views of these come first, if possible."""
    if these.known.summary is not None and those.known.summary is not None:
        merged = merge_summaries(these.known, those.known)
        behind = [one._replace(place=these.known.n + one.place) for one in those.examples]
        return _as_record(merged, [*these.examples, *behind])
    if those.known.summary is not None:
        these, those = those, these
    merged, is_view = learn_class(those.known.directions, these.known, least_cosine)
    numbers: Int64s = these.known.n + np.cumsum(is_view) - 1
    moved = [
        example._replace(place=int(numbers[example.place]))
        for example in those.examples
        if is_view[example.place]
    ]
    return _as_record(merged, [*these.examples, *moved])


def take_out(before: ViewRecord | None, direction: Float32s, own: int) -> ViewRecord | None:
    """Take out the view of a sketch."""
    if before is None:
        return None
    known = before.known
    place = int(np.flatnonzero(known.sketches == np.uint64(own))[-1])
    return _without(before, known.n - len(known.sketches) + place, direction)


def _without(before: ViewRecord, number: int, direction: Float32s | None) -> ViewRecord | None:
    """Take a view out, by its number, and its vector where that is not kept."""
    statistics = unlearn_view(before.known, number, direction)
    if statistics is None:
        return None
    examples = [
        example._replace(place=example.place - (example.place > number))
        for example in before.examples
        if example.place != number
    ]
    return _as_record(statistics, examples)


def _as_record(known: ClassStatistics, examples: Iterable[StoredExample]) -> ViewRecord:
    """Return a class with the examples to keep, in the order of their views."""
    kept = [example for example in examples if _is_kept(example.place, known)]
    return ClassRecord.of(known, sorted(kept, key=lambda example: example.place))


def _is_kept(place: int, known: ClassStatistics) -> bool:
    return place < FIRST or place >= known.n - len(known.views)
