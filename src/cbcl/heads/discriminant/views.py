"""Learning and editing of classes by their views, and the examples that show them.

k views that are kept. An example belongs to a view, by the view's number in its class: 0 is the
first that was learned and is still there. Examples of the first hundred views are kept, and of
those that the statistics keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import (
    FIRST,
    ClassRecord,
    Picture,
    Records,
    Sight,
    Sketches,
    StoredExample,
    as_example,
    has_thumbnail,
)
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.discriminant.coding import CodedRows, empty_rows, encode
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import (
    ClassStatistics,
    learn_class,
    learn_coded,
    merge_classes,
    sketch,
    unlearn_view,
)


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


class ViewClass(NamedTuple):
    """A class, and the examples kept of it, in the order of their views."""

    statistics: ClassStatistics | None  # None: nothing is left of it
    examples: Sequence[StoredExample]

    @property
    def record(self) -> ClassRecord[ClassStatistics] | None:
        examples = self.examples
        return None if self.statistics is None else ClassRecord(self.statistics, lambda: examples)


EMPTY = ViewClass(None, [])


class TakenViews(NamedTuple):
    """Views that were taken out of a class."""

    coded: CodedRows
    sketches: Sketches


class ViewBatch(NamedTuple):
    """Classes that learning a batch changes."""

    classes: dict[str, ViewClass]
    copies: dict[str, int]  # pictures that were known already, or nearly the same, by label
    moved: dict[str, int]  # pictures that were taken from other labels, by these


def views_of(records: Records[ClassStatistics], label: str) -> ViewClass:
    """Return a class with its examples; EMPTY: there is none."""
    record = records.get(label)
    return EMPTY if record is None else ViewClass(record.known, record.examples)


def learn_views(
    sight: DirectionSight,
    targets: NDArray[np.object_],
    pictures: Sequence[Picture],
    taught: Mapping[int, str],
    records: Records[ClassStatistics],
    least_cosine: float,
    *,
    private: bool,
) -> ViewBatch:
    """Work out what learning pictures changes: their labels, and others that had the same picture.

    A picture has one label: one that was taught with another, or that comes with another in the
    same step, is taken from there. `taught` has the labels of sketches before.
    """
    classes: dict[str, ViewClass] = {}
    copies: dict[str, int] = {}
    moved: dict[str, int] = {}
    owners = dict(taught)
    for label in dict.fromkeys(targets.tolist()):
        rows = np.flatnonzero(targets == label)
        for row in rows.tolist():
            own = int(sight.sketches[row])
            other = owners.get(own, label)
            if other != label:
                del owners[own]
                before = classes.get(other) or views_of(records, other)
                classes[other] = _take_out(before, sight.points[row], own)
                moved[other] = moved.get(other, 0) + 1
        before = classes.get(label) or views_of(records, label)
        sketches = sight.sketches[rows]
        coded = sight.coded.take(rows)
        statistics, is_view = learn_coded(coded, sketches, before.statistics, least_cosine)
        owners |= dict.fromkeys(sketches[is_view].tolist(), label)
        examples = [*before.examples]
        if not private:
            first = 0 if before.statistics is None else before.statistics.n
            examples += _as_examples([pictures[row] for row in rows[is_view]], first, statistics)
        classes[label] = ViewClass(statistics, _select(examples, statistics))
        if n_copies := int((~is_view).sum()):
            copies[label] = n_copies
    return ViewBatch(classes, copies, moved)


def take_views(
    before: ViewClass,
    examples: Sequence[StoredExample],
    see: Callable[[list[bytes]], Float32s],
) -> tuple[ViewClass, TakenViews]:
    """Take the views of examples out of their class: return what is left, and these views.

    `see` embeds thumbnails, where no vectors are kept. As long as the class has no more than 24
    views, it is then as if these had never been shown.
    """
    known = before.statistics
    assert known is not None
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
    left, directions = before, coded.values
    # The latest first, so that the numbers of the others stay.
    for row in np.argsort([-example.place for example in examples], kind="stable").tolist():
        left = _without(left, examples[row].place, directions[row])
    return left, TakenViews(coded, sketches)


def add_views(
    before: ViewClass, taken: TakenViews, examples: Sequence[StoredExample], least_cosine: float
) -> tuple[ViewClass, int]:
    """Learn views that were taken from other classes; count those that were known, or nearly so."""
    statistics, is_view = learn_coded(taken.coded, taken.sketches, before.statistics, least_cosine)
    first = 0 if before.statistics is None else before.statistics.n
    numbered = [example._replace(place=row) for row, example in enumerate(examples)]
    added = _shift(numbered, first, is_view)
    kept = _select([*before.examples, *added], statistics)
    return ViewClass(statistics, kept), int((~is_view).sum())


def join_taken(parts: Sequence[TakenViews], order: Int64s) -> TakenViews:
    """Put views of several classes together, in this order."""
    coded = parts[0].coded
    for part in parts[1:]:
        coded = coded.join(part.coded)
    sketches = np.concatenate([part.sketches for part in parts])
    return TakenViews(coded.take(order), sketches[order])


def merge_views(these: ViewClass, those: ViewClass, least_cosine: float) -> ViewClass:
    """Make one class of two; the views of these come first, if possible."""
    this, that = these.statistics, those.statistics
    if this is None or that is None:
        return these if that is None else those
    if this.summary is not None and that.summary is not None:
        merged = merge_classes(this, that)
        moved = [one._replace(place=one.place + this.n) for one in those.examples]
        return ViewClass(merged, _select([*these.examples, *moved], merged))
    if that.summary is not None:
        these, those, this, that = those, these, that, this
    merged, is_view = learn_class(that.directions, this, least_cosine)
    moved = _shift(those.examples, this.n, is_view)
    return ViewClass(merged, _select([*these.examples, *moved], merged))


def _take_out(before: ViewClass, direction: Float32s, own: int) -> ViewClass:
    """Take out the view of a sketch."""
    known = before.statistics
    if known is None:
        return before
    place = int(np.flatnonzero(known.sketches == np.uint64(own))[-1])
    return _without(before, known.n - len(known.sketches) + place, direction)


def _without(before: ViewClass, number: int, direction: Float32s | None) -> ViewClass:
    """Take a view out, by its number, and its vector where that is not kept."""
    assert before.statistics is not None
    statistics = unlearn_view(before.statistics, number, direction)
    if statistics is None:
        return EMPTY
    examples = [
        example._replace(place=example.place - (example.place > number))
        for example in before.examples
        if example.place != number
    ]
    return ViewClass(statistics, _select(examples, statistics))


def _shift(
    examples: Iterable[StoredExample], first: int, is_view: NDArray[np.bool_]
) -> list[StoredExample]:
    """Renumber the examples of views that come after others, without those that are copies."""
    numbers: Int64s = first + np.cumsum(is_view) - 1
    return [
        example._replace(place=int(numbers[example.place]))
        for example in examples
        if is_view[example.place]
    ]


def _select(examples: Iterable[StoredExample], known: ClassStatistics) -> list[StoredExample]:
    """Return the examples to keep, in the order of their views."""
    latest = known.n - len(known.views)
    kept = [one for one in examples if one.place < FIRST or one.place >= latest]
    return sorted(kept, key=lambda example: example.place)


def _as_examples(
    pictures: Sequence[Picture], first: int, known: ClassStatistics
) -> list[StoredExample]:
    """Return the examples of new views, from number `first` on, that are to be kept."""
    latest = known.n - len(known.views)
    examples: list[StoredExample] = []
    for number, picture in enumerate(pictures, start=first):
        is_kept = number < FIRST or number >= latest
        example = as_example(picture, number) if is_kept and has_thumbnail(picture) else None
        if example is not None:
            examples.append(example)
    return examples
