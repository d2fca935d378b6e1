"""What is to be learned, seen but not yet written: everything that can be worked out before others are kept waiting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import PictureError
from cbcl.memory.rows import Settings, StoredClass, StoredExample
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState
from cbcl.method.arrays import Float32s
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.confidence import NOTHING, spread_of
from cbcl.method.knowledge import Knowledge, Options, learn
from cbcl.method.tuning import MANY
from cbcl.recognition.examples import ExampleCandidate, select


class LearningResult(NamedTuple):
    """What became of the pictures that were given to be learned."""

    pictures: dict[str, int]  # learned, label by label
    problems: tuple[PictureError, ...]  # with those that could not be read
    totals: dict[str, int] = {}  # noqa: RUF012
    n_labels: int = 0


class LabelledBatch(NamedTuple):
    """Pictures to be learned."""

    matrix: Float32s  # their vectors
    targets: NDArray[Any]  # their labels
    sources: list[Any] | None  # to make thumbnails of; None: these are no pictures
    learned: LearningResult


class PendingWrite(NamedTuple):
    """What is to be written, worked out on a basis that must still hold then."""

    basis: tuple[object, ...]
    settings: Settings
    classes: list[tuple[str, StoredClass, list[StoredExample]]]


def limit(view: MemoryState, options: Options) -> int | None:
    """The most centroids to keep: as given, or as the memory has it."""
    return options.max_centroids or view.settings.max_centroids


def depends_on_all(lesson: LabelledBatch, view: MemoryState, options: Options) -> bool:
    """Whether what is learned depends on other classes: on how much room they leave, or whether a radius is chosen."""
    many = len(lesson.targets) >= MANY * len(lesson.learned.pictures)
    return limit(view, options) is not None or (view.settings.radius == np.inf and many)


def basis(lesson: LabelledBatch, view: MemoryState, options: Options) -> tuple[object, ...]:
    """All of a memory that a plan depends on."""
    some = {label: view.classes.get(label) for label in lesson.learned.pictures}
    classes = view.classes if depends_on_all(lesson, view, options) else some
    return view.settings, bool(view.classes), view.about.private, classes


def plan(
    lesson: LabelledBatch, view: MemoryState, memory: Memory, options: Options
) -> PendingWrite:
    """The classes as they are after the lesson, those that it changes."""
    most = limit(view, options)
    touched = [label for label in lesson.learned.pictures if label in view.classes]
    # Mostly no other class matters, and none is read: a memory of many is as fast as one of few.
    known = memory.load(view, None if depends_on_all(lesson, view, options) else touched)
    concepts = {label: stored.concepts for label, stored in known.items()}
    before = (
        Knowledge(concepts, view.settings.radius, view.settings.n_voters) if view.classes else None
    )
    after = learn(before, lesson.matrix, lesson.targets, options._replace(max_centroids=most))
    changed = []
    for label, learned in after.concepts.items():
        if label in known and learned is known[label].concepts:
            continue
        rows = np.flatnonzero(lesson.targets == label)
        spread = known[label].spread if label in known else NOTHING
        pictures = shown(memory, view, label) if label in known else []
        if lesson.sources is not None and not view.about.private:
            pictures += [ExampleCandidate(lesson.sources[row], lesson.matrix[row]) for row in rows]
        stored = StoredClass(
            learned, spread_of(lesson.matrix[rows], after.radius, concepts.get(label), spread)
        )
        changed.append((label, stored, select(pictures, learned)))
    return PendingWrite(
        basis(lesson, view, options), Settings(after.radius, after.n_voters, most), changed
    )


def shown(memory: Memory, view: MemoryState, label: str) -> list[ExampleCandidate]:
    """The pictures that are kept of a label."""
    return [
        ExampleCandidate(thumbnail, thumbnail.vector)
        for thumbnail in memory.thumbnails(view, label)
    ]


def without(
    one: StoredExample, stored: StoredClass, kept: list[StoredExample], settings: Settings
) -> tuple[StoredClass, list[StoredExample]]:
    """A class without one of its examples, which is not its only one.

    Where all its examples are kept, it is learned anew from the others, in their order: as if this one had never been
    shown. Else, or if that took more room where there is a limit, it is taken out of the mean nearest to it, which is
    where it went unless centroids have moved since.
    """
    rest = [thumbnail for thumbnail in kept if thumbnail.number != one.number]
    made = None
    if len(kept) == stored.concepts.size:
        vectors = np.stack([thumbnail.vector for thumbnail in rest])
        anew = cluster(vectors, None, settings.radius)
        if settings.max_centroids is None or len(anew.counts) <= len(stored.concepts.counts):
            made = StoredClass(anew, spread_of(vectors, settings.radius))
    made = made or StoredClass(_less(stored.concepts, one), stored.spread)
    return made, select(
        [ExampleCandidate(thumbnail, thumbnail.vector) for thumbnail in rest], made.concepts
    )


def _less(concepts: Concepts, one: StoredExample) -> Concepts:
    centroids, counts = concepts.centroids.copy(), concepts.counts.copy()
    counts[one.centroid] -= 1
    left = int(counts[one.centroid])
    if not left:
        return Concepts(np.delete(centroids, one.centroid, axis=0), np.delete(counts, one.centroid))
    mean = centroids[one.centroid].astype(np.float64)
    centroids[one.centroid] = mean + (mean - one.vector) / left
    return Concepts(centroids, counts)
