"""Learning and editing by statistics: views of labels, and the examples that show them.

k views that are kept. An example belongs to a view, by the view's number in its class: 0 is the
first that was learned and is still there. Examples of the first hundred views are kept, and of
those that the statistics keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import MemoryFileError, PictureError
from cbcl.heads.centroids.examples import FIRST
from cbcl.memory.rows import NEGATIVES, StoredExample, StoredStatistics
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s, Int64s, read_only
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.coding import CodedRows, empty_rows, encode
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import (
    ClassStatistics,
    Sketches,
    learn_class,
    learn_coded,
    merge_classes,
    sketch,
    unlearn_view,
)
from cbcl.vision.extraction import EmbeddedPicture

NO_VECTOR: Float32s = np.empty(0, dtype=np.float32)  # of an example: the statistics have its view


class ViewClass(NamedTuple):
    """A class, and the examples kept of it, in the order of their views."""

    statistics: ClassStatistics | None  # None: nothing is left of it
    examples: list[StoredExample]

    @property
    def stored(self) -> StoredStatistics | None:
        return None if self.statistics is None else StoredStatistics(self.statistics)


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


def read_views(memory: Memory, state: MemoryState, label: str) -> ViewClass:
    """Read a class with its examples; EMPTY: there is none."""
    stored: object = None
    if label == NEGATIVES:
        stored = memory.load_negatives(state)
    elif label in state.rows:
        stored = memory.load(state, [label])[label]
    if stored is None:
        return EMPTY
    return ViewClass(_statistics(stored), memory.thumbnails(state, label))


def write_views(writing: Transaction, label: str, views: ViewClass) -> None:
    """Write a class, or end it if nothing is left of it."""
    stored = views.stored
    if stored is None:
        writing.retire_class(label)
    else:
        writing.replace_class(label, stored, views.examples)


def learn_views(
    memory: Memory,
    state: MemoryState,
    matrix: Float32s,
    targets: NDArray[Any],
    pictures: Sequence[EmbeddedPicture],
    least_cosine: float,
) -> ViewBatch:
    """Work out what learning pictures changes: their labels, and others that had the same picture.

    A picture has one label: one that was taught with another, or that comes with another in the
    same step, is taken from there.
    """
    directions = as_directions(matrix)
    sketches = sketch(encode(directions))
    classes: dict[str, ViewClass] = {}
    copies: dict[str, int] = {}
    moved: dict[str, int] = {}
    taught = memory.find_taught(state, sketches.tolist()) if memory.exists() else {}
    for label in dict.fromkeys(targets.tolist()):
        rows = np.flatnonzero(targets == label)
        for row, own in zip(rows, sketches[rows].tolist(), strict=True):
            other = taught.get(own, label)
            if other != label:
                del taught[own]
                before = classes.get(other) or read_views(memory, state, other)
                classes[other] = _take_out(before, directions[row], own)
                moved[other] = moved.get(other, 0) + 1
        before = classes.get(label) or read_views(memory, state, label)
        statistics, is_view = learn_class(directions[rows], before.statistics, least_cosine)
        taught |= dict.fromkeys(sketches[rows[is_view]].tolist(), label)
        first = 0 if before.statistics is None else before.statistics.n
        new = [pictures[row] for row in rows[is_view]]
        examples = (
            before.examples
            if state.about.private
            else [
                *before.examples,
                *_as_examples(new, first, statistics),
            ]
        )
        classes[label] = ViewClass(statistics, _select(examples, statistics))
        if n_copies := int((~is_view).sum()):
            copies[label] = n_copies
    return ViewBatch(classes, copies, moved)


def sketch_pictures(matrix: Float32s) -> list[int]:
    """Return the sketch of each vector, by which a view that was taught is found again."""
    sketches: list[int] = sketch(encode(as_directions(matrix))).tolist()
    return sketches


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
    folded = [example.jpeg for example in examples if example.centroid < first]
    seen = encode(as_directions(see(folded))) if folded else empty_rows(known.dimension)
    both = seen.join(known.views)
    # Those that are folded come in the order in which they were seen.
    turn = iter(range(len(folded)))
    rows = [
        next(turn) if one.centroid < first else len(folded) + one.centroid - first
        for one in examples
    ]
    coded = both.take(np.array(rows, dtype=np.int64))
    sketches = sketch(coded)
    first_sketch = known.n - len(known.sketches)
    for row, example in enumerate(examples):
        if example.centroid >= first_sketch:
            sketches[row] = known.sketches[example.centroid - first_sketch]
    left, directions = before, coded.values
    # The latest first, so that the numbers of the others stay.
    for row in np.argsort([-example.centroid for example in examples], kind="stable").tolist():
        left = _without(left, examples[row].centroid, directions[row])
    return left, TakenViews(coded, sketches)


def add_views(
    before: ViewClass, taken: TakenViews, examples: Sequence[StoredExample], least_cosine: float
) -> tuple[ViewClass, int]:
    """Learn views that were taken from other classes; count those that were known, or nearly so."""
    statistics, is_view = learn_coded(taken.coded, taken.sketches, before.statistics, least_cosine)
    first = 0 if before.statistics is None else before.statistics.n
    numbered = [example._replace(centroid=row) for row, example in enumerate(examples)]
    added = _shift(numbered, first, is_view)
    return ViewClass(statistics, _select([*before.examples, *added], statistics)), int(
        (~is_view).sum()
    )


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
        moved = [one._replace(centroid=one.centroid + this.n) for one in those.examples]
        return ViewClass(merged, _select([*these.examples, *moved], merged))
    if that.summary is not None:
        these, those, this, that = those, these, that, this
    merged, is_view = learn_class(that.directions, this, least_cosine)
    moved = _shift(those.examples, this.n, is_view)
    return ViewClass(merged, _select([*these.examples, *moved], merged))


def statistics_of(classes: Mapping[str, object]) -> dict[str, ClassStatistics]:
    """Return the statistics of stored classes."""
    return {label: _statistics(stored) for label, stored in classes.items()}


def as_concepts(known: ClassStatistics) -> Concepts:
    """Return the mean of a class as its only centroid."""
    mean = known.mean.astype(np.float32)[np.newaxis]
    return Concepts(read_only(mean), read_only(np.array([known.n])))


def spread_of_views(classes: Iterable[ClassStatistics]) -> float:
    """Return the usual distance of a view to the mean of its class, over its length."""
    freedom, scatter, lengths, n_classes = 0, 0.0, 0.0, 0
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


def _statistics(stored: object) -> ClassStatistics:
    if not isinstance(stored, StoredStatistics):
        problem = "mixes classes of both heads and was not written by cbcl"
        raise MemoryFileError("this memory", problem)
    return stored.statistics


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
        example._replace(centroid=example.centroid - (example.centroid > number))
        for example in before.examples
        if example.centroid != number
    ]
    return ViewClass(statistics, _select(examples, statistics))


def _shift(
    examples: Iterable[StoredExample], first: int, is_view: NDArray[np.bool_]
) -> list[StoredExample]:
    """Renumber the examples of views that come after others, without those that are copies."""
    numbers: Int64s = first + np.cumsum(is_view) - 1
    return [
        example._replace(centroid=int(numbers[example.centroid]))
        for example in examples
        if is_view[example.centroid]
    ]


def _select(examples: Iterable[StoredExample], known: ClassStatistics) -> list[StoredExample]:
    """Return the examples to keep, in the order of their views."""
    latest = known.n - len(known.views)
    kept = [one for one in examples if one.centroid < FIRST or one.centroid >= latest]
    return sorted(kept, key=lambda example: example.centroid)


def _as_examples(
    pictures: Sequence[EmbeddedPicture], first: int, known: ClassStatistics
) -> list[StoredExample]:
    """Return the examples of new views, from number `first` on, that are to be kept."""
    latest, examples = known.n - len(known.views), []
    for number, picture in enumerate(pictures, start=first):
        if picture.has_thumbnail and (number < FIRST or number >= latest):
            with suppress(PictureError):  # a file that is gone by now is learned, but not shown
                examples.append(StoredExample(number, picture.thumbnail(), NO_VECTOR))
    return examples
