"""Learning: embed labelled pictures, work out the classes they change, and write these in one step.

All that can be worked out is, before the file is locked and others must wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import ChangedError, LabelError, MemoryFileError, PictureError
from cbcl.heads.centroids.examples import FIRST, of_vote, select
from cbcl.heads.discriminant.views import learn_views
from cbcl.memory.rows import (
    NEGATIVES,
    MemoryInfo,
    Settings,
    StoredClass,
    StoredExample,
    StoredStatistics,
    as_label,
)
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.confidence import NO_SPREAD, spread_of
from cbcl.method.centroids.model import CentroidModel, Options, learn
from cbcl.method.centroids.tuning import MIN_VECTORS_FOR_RADIUS, tune
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.embedder import Embedder, OnBroken, nothing_given
from cbcl.recognition.labels import find_same_spelling
from cbcl.vision.extraction import EmbeddedPicture, Progress

DEFAULT_HEAD = "discriminant"

# Classes that change, and the examples to keep of each; None: nothing is left of it.
ChangedClasses: TypeAlias = dict[
    str, tuple[StoredClass | StoredStatistics | None, list[StoredExample]]
]


class LearningOptions(NamedTuple):
    """The head, None for that of the memory, and the options of the vote."""

    head: str | None = None
    vote: Options = Options()

    @classmethod
    def of(
        cls, head: str | None, radius: object, n_voters: object, max_centroids: object
    ) -> LearningOptions:
        """Check options as users give them; an option of the vote asks for the vote."""
        if head not in (None, "discriminant", "vote"):
            raise ValueError(f"head={head!r} is neither 'discriminant' nor 'vote'.")
        vote = Options.of(radius, n_voters, max_centroids)
        if vote == Options():
            return cls(head, vote)
        if head == "discriminant":
            raise ValueError("radius, n_voters and max_centroids are options of head='vote'.")
        return cls("vote", vote)


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
    info: MemoryInfo  # of a memory that would begin with them
    state: bytes  # of the backbone, to be kept in such a memory


class PendingWrite(NamedTuple):
    """Classes to be written, worked out on a basis that must still hold then."""

    basis: tuple[object, ...]
    settings: Settings
    classes: ChangedClasses
    copies: dict[str, int]
    moved: dict[str, int]


def embed_labelled(
    embedder: Embedder,
    things: Mapping[Any, Any],
    broken: OnBroken,
    progress: Progress | None,
    *,
    thumbnails: bool = True,
) -> LabelledBatch:
    """Embed pictures by label, None for none of them; raise an error if none can be read."""
    labels, sources = expand(embedder, things)
    certain = first_of_each(labels) if thumbnails else None
    results = embedder.embed(sources, thumbnails=certain, broken=broken, progress=progress)
    return as_batch(embedder, labels, results)


def expand(embedder: Embedder, things: Mapping[Any, Any]) -> tuple[list[str], list[Any]]:
    """Return the label of each picture, and the pictures; raise an error if there are none."""
    labels: list[str] = []
    sources: list[Any] = []
    for label, given in things.items():
        of_label = embedder.sources(given)
        target = NEGATIVES if label is None else as_label(label)
        labels += [target] * len(of_label)
        sources += of_label
    if not sources:
        raise nothing_given()
    return labels, sources


def as_batch(
    embedder: Embedder, labels: Sequence[str], results: Sequence[EmbeddedPicture | PictureError]
) -> LabelledBatch:
    """Put pictures of these labels together; raise an error if none could be read."""
    pictures, targets, problems = [], [], []
    for label, result in zip(labels, results, strict=True):
        if isinstance(result, PictureError):
            problems.append(result)
        else:
            pictures.append(result)
            targets.append(label)
    if not pictures:
        raise problems[0]
    matrix = np.stack([picture.vector for picture in pictures])
    info, state = embedder.describe(matrix.shape[1]), embedder.backbone().state
    counts, errors = dict(Counter(targets)), tuple(problems)
    return LabelledBatch(
        pictures, matrix, np.array(targets, dtype=object), counts, errors, info, state
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
    pending = None
    with suppress(ChangedError):
        state = memory.view() if memory.exists() else MemoryState(batch.info, Settings(), {})
        pending = _work_out(batch, state, memory, options)
    with _begin(memory, embedder, batch) as writing:
        if pending is None or pending.basis != _basis(batch, writing.view, options):
            pending = _work_out(batch, writing.view, memory, options)  # another was faster
        if pending.copies != batch.counts or pending.moved:
            _write(writing, batch, pending, note)
    totals = {label: _size(pending.classes[label][0]) for label in batch.counts}
    gone = {label for label, (stored, _) in pending.classes.items() if stored is None}
    before, taught = writing.view, {*batch.counts} - gone - {NEGATIVES}
    new = sorted(label for label in taught if label not in before.rows)
    n_before = len(before.rows) - (before.negatives is not None)
    n_gone = sum(label in before.rows for label in gone - {NEGATIVES})
    alike = memory.find_spelled_alike(before, new) - gone if new else set()
    return LearningResult(
        batch.counts,
        batch.problems,
        totals,
        n_before - n_gone + len(new),
        pending.copies,
        pending.moved,
        tuple(sorted(gone - {NEGATIVES})),
        find_same_spelling(new, alike | {*new}),
    )


def _write(
    writing: Transaction,
    batch: LabelledBatch,
    pending: PendingWrite,
    note: Mapping[str, object],
) -> None:
    writing.add_step("learn", {"pictures": batch.counts, **note}, pending.settings)
    for label, (stored, examples) in pending.classes.items():
        if stored is not None:
            writing.replace_class(label, stored, examples)
        elif label in writing.view.rows:
            writing.retire_class(label)


def _size(stored: StoredClass | StoredStatistics | None) -> int:
    if isinstance(stored, StoredStatistics):
        return stored.statistics.n
    return 0 if stored is None else stored.concepts.size


def tune_by(memory: Memory, embedder: Embedder, batch: LabelledBatch) -> TuningResult:
    """Choose radius and voters by cross-validation on a batch, in one step."""
    tuning = tune([batch.matrix[batch.targets == label] for label in batch.counts])
    with _begin(memory, embedder, batch) as writing:
        if writing.view.settings.head != "vote" and writing.view.step:
            problem = "learns by the discriminant, which has nothing to tune"
            advice = "it weighs its photos anew whenever it learns; go on with `cbcl learn`"
            raise MemoryFileError(memory.path, problem, advice)
        settings = writing.view.settings._replace(
            radius=tuning.radius, n_voters=tuning.n_voters, head="vote"
        )
        writing.add_step("tune", {"pictures": batch.counts}, settings)
    return TuningResult(tuning.radius, tuning.n_voters, batch.counts, batch.problems)


@contextmanager
def _begin(memory: Memory, embedder: Embedder, batch: LabelledBatch) -> Iterator[Transaction]:
    """Open a transaction on the memory, made if need be, if its backbone is the same."""
    with memory.writing(batch.info, batch.state) as writing:
        embedder.check(writing.view.about, batch.info.dimension)
        yield writing


def head_of(state: MemoryState, options: LearningOptions) -> str:
    """Return the head of the memory; an error if another one is asked for."""
    if not state.step:
        return options.head or DEFAULT_HEAD
    head = state.settings.head
    if options.head not in (None, head):
        problem = f"learns by the {head}, and cannot go on by the {options.head}"
        raise MemoryFileError("this memory", problem, "begin a new one, or leave that option out")
    return head


def _limit(state: MemoryState, options: Options) -> int | None:
    """Return the most centroids to keep: as given, or as the memory has it."""
    return options.max_centroids or state.settings.max_centroids


def _depends_on_all(batch: LabelledBatch, state: MemoryState, options: Options) -> bool:
    """Tell whether other classes matter: the room they leave, or whether a radius is chosen."""
    many = len(batch.targets) >= MIN_VECTORS_FOR_RADIUS * len(batch.counts)
    return _limit(state, options) is not None or (state.settings.radius == np.inf and many)


def _basis(
    batch: LabelledBatch, state: MemoryState, options: LearningOptions
) -> tuple[object, ...]:
    """Return all of a memory that a pending write depends on."""
    if head_of(state, options) != "vote":
        return (state.step,)  # another label may have the same picture
    if _depends_on_all(batch, state, options.vote):
        rows: dict[str, int | None] = dict(state.rows)
    else:
        rows = {label: state.rows.get(label) for label in batch.counts}
    return state.settings, bool(state.rows), state.about.private, rows


def _work_out(
    batch: LabelledBatch, state: MemoryState, memory: Memory, options: LearningOptions
) -> PendingWrite:
    """Work out the classes that learning a batch changes."""
    head = head_of(state, options)
    if head == "vote":
        settings, classes = _learn_vote(batch, state, memory, options.vote)
        return PendingWrite(_basis(batch, state, options), settings, classes, {}, {})
    learned = learn_views(
        memory,
        state,
        batch.matrix,
        batch.targets,
        batch.pictures,
        measured_of(state.about).copy,
    )
    changed: ChangedClasses = {
        label: (known.stored, known.examples) for label, known in learned.classes.items()
    }
    settings = state.settings._replace(head=head)
    basis = _basis(batch, state, options)
    return PendingWrite(basis, settings, changed, learned.copies, learned.moved)


def _learn_vote(
    batch: LabelledBatch, state: MemoryState, memory: Memory, options: Options
) -> tuple[Settings, ChangedClasses]:
    if NEGATIVES in batch.counts:
        problem = "cannot be taught to a memory that learns by the vote"
        raise LabelError('"none of these"', problem, "`cbcl upgrade MEMORY` may help")
    options = options._replace(max_centroids=_limit(state, options))
    touched = [label for label in batch.counts if label in state.rows]
    # Mostly no other class matters, and none is read: a memory of many is as fast as one of few.
    loaded = memory.load(state, None if _depends_on_all(batch, state, options) else touched)
    before = of_vote(loaded)
    concepts = {label: stored.concepts for label, stored in before.items()}
    settings = state.settings
    known = CentroidModel(concepts, settings.radius, settings.n_voters) if state.rows else None
    after = learn(known, batch.matrix, batch.targets, options)
    changed: ChangedClasses = {}
    for label, learned in after.concepts.items():
        if label in before and learned is concepts[label]:
            continue
        rows = np.flatnonzero(batch.targets == label)
        old_spread = before[label].spread if label in before else NO_SPREAD
        spread = spread_of(batch.matrix[rows], after.radius, concepts.get(label), old_spread)
        candidates: list[StoredExample | EmbeddedPicture] = []
        if label in before:
            candidates += memory.thumbnails(state, label)
        if not state.about.private:
            new = [batch.pictures[row] for row in rows]
            candidates += [picture for picture in new if picture.has_thumbnail]
        changed[label] = StoredClass(learned, spread), select(candidates, learned)
    return Settings(after.radius, after.n_voters, options.max_centroids, "vote"), changed
