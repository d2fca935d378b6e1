"""Learning: embed labelled pictures, read what they depend on, work out the change, write it.

All that can be worked out is, before the file is locked and others must wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import ChangedError, LabelError, MemoryFileError, PictureError
from cbcl.heads.base import (
    DEFAULT_HEAD,
    FIRST,
    NEGATIVES,
    Changes,
    ClassRecord,
    Head,
    PictureBatch,
    Settings,
    check_able,
    find_head,
    head_names,
    head_taking,
    head_with,
)
from cbcl.memory.rows import as_label
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.budget import check_room
from cbcl.recognition.cosines import context_of
from cbcl.recognition.embedder import Embedder, OnBroken, nothing_given
from cbcl.recognition.labels import find_same_spelling
from cbcl.vision.extraction import EmbeddedPicture, Progress


class LearningOptions(NamedTuple):
    """The head, None for that of the memory, and options of learning that it has."""

    head: str | None = None
    given: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def of(cls, head: str | None, **options: object) -> LearningOptions:
        """Check options as users give them; an option that one head has asks for that head."""
        given = {name: value for name, value in options.items() if value not in (None, "auto")}
        if head is not None and head not in head_names():
            raise ValueError(f"head={head!r} is none of {', '.join(map(repr, head_names()))}.")
        asked = None if head is None else find_head(head)
        able = head_taking(given)
        able.check_options(given)
        if not given:
            return cls(head)
        if asked is not None and not {*given} <= asked.parameters:
            raise ValueError(f"{' and '.join(given)}: only with head={able.name!r}.")
        return cls(head or able.name, given)


class LearningResult(NamedTuple):
    """Outcome of learning: counts by label, and the errors of pictures that were left out."""

    pictures: dict[str, int]  # given now, by label, copies included
    problems: tuple[PictureError, ...]
    totals: dict[str, int]  # learned so far, of the same labels, copies counted once
    n_labels: int  # known after it
    copies: Mapping[str, int] = MappingProxyType({})  # known already, or nearly so, by label
    moved: Mapping[str, int] = MappingProxyType({})  # taken from other labels, by these
    gone: tuple[str, ...] = ()  # labels of which nothing is left, as all their pictures moved
    spelled_alike: Mapping[str, str] = MappingProxyType({})  # new labels, and what they resemble
    n_before: int = 0  # labels that the same run had learned before it was stopped


class TuningResult(NamedTuple):
    """Outcome of tuning: the radius and the number of voters that the memory keeps from now on."""

    radius: float
    n_voters: int
    pictures: dict[str, int]  # that it was tried on, by label
    problems: tuple[PictureError, ...]  # of pictures that were left out


class LabelledBatch(NamedTuple):
    """Pictures to be learned, embedded: n pictures, d features."""

    pictures: list[EmbeddedPicture]
    matrix: Float32s  # (n, d)
    targets: NDArray[Any]  # (n,), their labels
    counts: dict[str, int]  # of pictures, by label
    problems: tuple[PictureError, ...]


def embed_labelled(
    embedder: Embedder,
    labels: list[str],
    sources: list[Any],
    broken: OnBroken,
    progress: Progress | None,
    *,
    thumbnails: bool = True,
) -> LabelledBatch:
    """Embed pictures, each with its label; raise an error if none can be read."""
    certain = first_of_each(labels) if thumbnails else None
    results = embedder.embed(
        sources, embedder.about(), thumbnails=certain, broken=broken, progress=progress
    )
    return as_batch(labels, results)


def expand(embedder: Embedder, things: Mapping[Any, Any]) -> tuple[list[str], list[Any]]:
    """Return the label of each picture, and the pictures; raise an error if there are none."""
    labels: list[str] = []
    sources: list[Any] = []
    for label, given in things.items():
        of_label = embedder.sources(given)
        labels += [as_target(label)] * len(of_label)
        sources += of_label
    if not sources:
        raise nothing_given()
    return labels, sources


def as_target(label: Any) -> str:
    """Return a valid label; None stands for none of the labels."""
    return NEGATIVES if label is None else as_label(label)


def as_batch(
    labels: Sequence[str], results: Sequence[EmbeddedPicture | PictureError]
) -> LabelledBatch:
    """Put pictures of these labels together; raise an error if none could be read."""
    pictures: list[EmbeddedPicture] = []
    targets: list[str] = []
    problems: list[PictureError] = []
    for label, result in zip(labels, results, strict=True):
        if isinstance(result, PictureError):
            problems.append(result)
        else:
            pictures.append(result)
            targets.append(label)
    if not pictures:
        raise problems[0]
    matrix = np.stack([picture.vector for picture in pictures])
    return LabelledBatch(
        pictures,
        matrix,
        np.array(targets, dtype=object),
        dict(Counter(targets)),
        tuple(problems),
    )


def first_of_each(labels: list[str]) -> set[int]:
    """Return the numbers of the pictures that will be kept as examples if their label is new."""
    counts: Counter[str] = Counter()
    numbers = set()
    for number, label in enumerate(labels):
        if counts[label] < FIRST:
            numbers.add(number)
        counts[label] += 1
    return numbers


def learn_batch(
    memory: Memory,
    embedder: Embedder,
    batch: LabelledBatch,
    options: LearningOptions,
    note: Mapping[str, object] = MappingProxyType({}),
) -> LearningResult:
    """Learn a batch in one step; where it adds nothing, there is no step, and none to undo.

    The note is kept in the history, beside the numbers of pictures.
    """
    info = embedder.describe(batch.matrix.shape[1])
    changes = None
    with suppress(ChangedError):
        state = memory.latest() or MemoryState(info, Settings(), {})
        changes = _work_out(batch, state, memory, options)
    with memory.writing(info, embedder.backbone().state) as writing:
        embedder.check(writing.view.about, info.dimension)
        if changes is None or state.step != writing.view.step:  # another was faster
            changes = _work_out(batch, writing.view, memory, options)
        if changes.copies != batch.counts or changes.moved:
            about = {"pictures": batch.counts, **note}
            writing.add_step("learn", about, changes.settings)
            write_records(writing, changes.records)
    return _summarize(memory, writing.view, batch, changes)


def _work_out(
    batch: LabelledBatch, state: MemoryState, memory: Memory, options: LearningOptions
) -> Changes[Any]:
    """Read what learning a batch depends on, then work out the classes that change by it."""
    head = check_lesson(state, batch.counts, options)
    context = context_of(state)
    if context.is_fresh and state.step:
        context = context._replace(is_fresh=not _is_tuned(memory))
    settings = context.settings._replace(head=head.name)
    if (limit := options.given.get("max_centroids")) is not None:
        settings = settings._replace(max_centroids=limit)
    context = context._replace(settings=settings)
    sight = head.see(batch.matrix)
    taught: dict[int, str] = {}
    if sight.sketches is not None and state.rows:
        taught = memory.find_taught(state, sight.sketches.tolist())
    lesson = PictureBatch(sight, batch.targets, batch.pictures, taught, options.given)
    touched = [label for label in (*batch.counts, *taught.values()) if label in state.rows]
    # Mostly no other class matters, and none is read: a memory of many is as fast as one of few.
    needs_all = head.needs_all(context, len(batch.targets), len(batch.counts))
    records = memory.records(state, None if needs_all else touched) if state.rows else {}
    for label in touched:
        records[label].examples  # noqa: B018  # read now, not while the change is worked out
    return head.learn(lesson, records, context)


def _is_tuned(memory: Memory) -> bool:
    """Tell whether the latest step that is not undone chose settings for the next lesson."""
    steps = (step for step in memory.history() if not step.undone and step.action != "undo")
    return next((step.action for step in steps), "") == "tune"


def write_records(writing: Transaction, records: Mapping[str, ClassRecord[Any] | None]) -> None:
    """Write classes, and end those of which nothing is left."""
    for label, record in records.items():
        if record is not None:
            writing.replace_class(label, record.known, record.examples)
        elif label in writing.view.rows:
            writing.retire_class(label)


def _summarize(
    memory: Memory,
    before: MemoryState,
    batch: LabelledBatch,
    changes: Changes[Any],
) -> LearningResult:
    head = find_head(changes.settings.head)
    sizes = {
        label: 0 if record is None else head.summarize(record.known).pictures
        for label, record in changes.records.items()
    }
    gone = {label for label, size in sizes.items() if not size}
    taught = {*batch.counts} - gone - {NEGATIVES}
    new = sorted(label for label in taught if label not in before.rows)
    n_before = len(before.rows) - (before.negatives is not None)
    n_gone = sum(label in before.rows for label in gone - {NEGATIVES})
    alike = memory.find_spelled_alike(before, new) - gone if new else set()
    return LearningResult(
        batch.counts,
        batch.problems,
        {label: sizes[label] for label in batch.counts},
        n_before - n_gone + len(new),
        changes.copies,
        changes.moved,
        tuple(sorted(gone - {NEGATIVES})),
        find_same_spelling(new, alike | {*new}),
    )


def check_tunable(path: Path, state: MemoryState | None) -> None:
    """Raise MemoryFileError for a memory whose head has nothing to tune."""
    if state is not None and state.step:
        check_able("tune", state.head, path)


def tune_by(memory: Memory, embedder: Embedder, batch: LabelledBatch) -> TuningResult:
    """Choose radius and voters by cross-validation on a batch, in one step."""
    classes = [batch.matrix[batch.targets == label] for label in batch.counts]
    chosen = head_with("tune").tune(classes, Settings())
    info = embedder.describe(batch.matrix.shape[1])
    with memory.writing(info, embedder.backbone().state) as writing:
        view = writing.view
        embedder.check(view.about, info.dimension)
        check_tunable(memory.path, view)
        settings = view.settings._replace(
            radius=chosen.radius, n_voters=chosen.n_voters, head=chosen.head
        )
        writing.add_step("tune", {"pictures": batch.counts}, settings)
    return TuningResult(chosen.radius, chosen.n_voters, batch.counts, batch.problems)


def check_lesson(
    state: MemoryState | None, labels: Iterable[str], options: LearningOptions
) -> Head[Any]:
    """Return the head that is to learn these labels; raise an error if it cannot."""
    head = find_head(options.head or DEFAULT_HEAD)
    if state is not None and state.step:
        head = state.head
        if options.head not in (None, head.name):
            problem = f"learns by the {head.name}, and cannot go on by the {options.head}"
            advice = "begin a new one, or leave that option out"
            raise MemoryFileError("this memory", problem, advice)
    taught = {*labels}
    if NEGATIVES in taught:
        check_able("negatives", head, error=LabelError)
    before = Settings() if state is None else state.settings
    limit = options.given.get("max_centroids") or before.max_centroids
    if limit is not None and "limit" in head.abilities:
        known = () if state is None else state.rows
        check_room(len(taught.union(known) - {NEGATIVES}), limit)
    return head
