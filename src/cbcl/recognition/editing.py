"""Changes of a memory beside learning: forget, rename, merge, adopt. Each is one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cbcl.errors import BackboneError, LabelError, MemoryFileError
from cbcl.heads.centroids.examples import find_changed, most_kept, of_vote, select
from cbcl.heads.discriminant.views import (
    EMPTY,
    ViewClass,
    merge_views,
    read_views,
    statistics_of,
    write_views,
)
from cbcl.memory.rows import (
    DAMAGE,
    NEGATIVES,
    MemoryInfo,
    Settings,
    StoredClass,
    StoredExample,
    StoredStatistics,
    as_label,
    show_label,
)
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.centroids.concepts import join
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.open_set import PRIOR_ODDS
from cbcl.method.discriminant.statistics import learn_class
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.labels import check_known, find_same_spelling


class ForeignMemory(NamedTuple):
    """Contents of another memory."""

    view: MemoryState
    classes: dict[str, StoredClass | StoredStatistics]
    negatives: StoredStatistics | None
    thumbnails: dict[str, list[StoredExample]]
    state: bytes  # of its backbone


class ImportResult(NamedTuple):
    """Labels taken from another memory."""

    added: list[str]
    joined: list[str]  # with those known here


def forget(memory: Memory, label: str, *, for_good: bool) -> None:
    label = as_label(label)
    with memory.writing() as writing:
        if not (for_good and writing.remembers(label)):
            check_known(label, writing.view.classes)
        writing.add_step("forget", {} if for_good else {"label": label}, writing.view.settings)
        if label in writing.view.classes:
            writing.retire_class(label)
        if for_good:
            writing.erase_history()
    if for_good:
        memory.checkpoint()


def rename(memory: Memory, label: str, new: str) -> str | None:
    label, new = as_label(label), as_label(new)
    with memory.writing() as writing:
        check_known(label, writing.view.classes)
        if new in writing.view.classes:
            advice = f"to make {label!r} part of it, merge them"
            raise LabelError(repr(new), "is taken", advice)
        writing.add_step("rename", {"label": label, "new": new}, writing.view.settings)
        stored = memory.load(writing.view, [label])[label]
        writing.replace_class(new, stored, memory.thumbnails(writing.view, label))
        writing.retire_class(label)
        others = (known for known in writing.view.classes if known != label)
        return find_same_spelling([new], [*others, new]).get(new)


def merge(memory: Memory, label: str, into: str) -> None:
    label, into = as_label(label), as_label(into)
    with memory.writing() as writing:
        check_known(label, writing.view.classes)
        check_known(into, writing.view.classes)
        if label == into:
            raise LabelError(repr(label), "cannot be merged with itself", "give two labels")
        writing.add_step("merge", {"label": label, "into": into}, writing.view.settings)
        if writing.view.settings.head == "vote":
            both = of_vote(memory.load(writing.view, [label, into]))
            stored = _join(both[into], both[label], writing.view.settings.radius)
            examples = [
                *memory.thumbnails(writing.view, into),
                *memory.thumbnails(writing.view, label),
            ]
            writing.replace_class(into, stored, select(examples, stored.concepts))
        else:
            ours, other = (read_views(memory, writing.view, one) for one in (into, label))
            least_cosine = measured_of(writing.view.about).copy
            write_views(writing, into, merge_views(ours, other, least_cosine))
        writing.retire_class(label)


def expect_strangers(memory: Memory, how_often: str) -> None:
    if how_often not in PRIOR_ODDS:
        raise ValueError(f"{how_often!r} is none of {', '.join(PRIOR_ODDS)}.")
    with memory.writing() as writing:
        settings = writing.view.settings
        if settings.head == "vote":
            problem = "learns by the vote, whose limit of what is unknown has no such setting"
            raise MemoryFileError(memory.path, problem, "`cbcl upgrade` gives it one")
        if settings.strangers != how_often:
            changed = settings._replace(strangers=how_often)
            writing.add_step("strangers", {"strangers": how_often}, changed)


def forget_negatives(memory: Memory) -> None:
    with memory.writing() as writing:
        if writing.view.negatives is None:
            raise LabelError("nothing", 'was taught as "none of these"')
        writing.add_step("forget", {"label": NEGATIVES}, writing.view.settings)
        writing.retire_class(NEGATIVES)


def upgrade(memory: Memory) -> list[str]:
    """Make a memory of the vote one of the discriminant, from the vectors of its examples."""
    with memory.writing() as writing:
        if writing.view.settings.head != "vote":
            raise MemoryFileError(memory.path, "needs no upgrade", "it learns by the discriminant")
        least_cosine = measured_of(writing.view.about).copy
        classes = {
            label: _as_views(stored, memory.thumbnails(writing.view, label), least_cosine)
            for label, stored in of_vote(memory.load(writing.view)).items()
        }
        if missing := [label for label, views in classes.items() if views is None]:
            problem = f"keeps the vectors of only some photos of {', '.join(map(repr, missing))}"
            advice = "learn these photos again in a new memory; this one goes on by the vote"
            raise MemoryFileError(memory.path, f"cannot be upgraded: it {problem}", advice)
        writing.add_step("upgrade", {"labels": [*classes]}, Settings(head="discriminant"))
        for label, views in classes.items():
            if views is not None:
                write_views(writing, label, views)
    return [*classes]


def _as_views(
    stored: StoredClass, kept: list[StoredExample], least_cosine: float
) -> ViewClass | None:
    """Learn the kept examples of a class as views; None: not all of its examples are kept."""
    if len(kept) != stored.concepts.size:
        return None
    matrix = np.stack([example.vector for example in kept])
    statistics, is_view = learn_class(as_directions(matrix), None, least_cosine)
    views = [example for example, kept_one in zip(kept, is_view, strict=True) if kept_one]
    examples = [example._replace(centroid=number, rank=0) for number, example in enumerate(views)]
    return ViewClass(statistics, examples)


def read(path: Path, accept: Callable[[MemoryInfo], None]) -> ForeignMemory:
    """Read a memory that somebody else may have made; `accept` may raise an error before."""
    invalid = MemoryFileError(path, "contains invalid data", "it was not written by cbcl")
    with closing(Memory(path)) as other:
        if not other.exists():
            raise MemoryFileError(path, "is not a memory of cbcl")
        view = other.view()
        accept(view.about)
        try:
            classes, state = other.load(view), other.backbone_state()
            negatives = other.load_negatives(view)
            listed = classes | ({} if negatives is None else {NEGATIVES: negatives})
            thumbnails = _read_thumbnails(other, view, listed)
            if any(as_label(label) != label for label in classes):
                raise invalid
        except DAMAGE as error:
            raise invalid from error
    if not classes:
        raise MemoryFileError(path, "knows nothing", "there is nothing to take over")
    return ForeignMemory(view, classes, negatives, thumbnails, state)


def _read_thumbnails(
    other: Memory, view: MemoryState, classes: Mapping[str, StoredClass | StoredStatistics]
) -> dict[str, list[StoredExample]]:
    """Read the examples of classes, no more of them than cbcl keeps, and each picture once.

    A small file can refer to one picture many times.
    """
    counts = other.summarize_examples(view, most=0)
    numbers: set[int] = set()
    thumbnails = {}
    for label, stored in classes.items():
        if counts[label].kept > most_kept(stored):
            problem = f"has more thumbnails of {show_label(label)!r} than cbcl keeps"
            raise MemoryFileError(other.path, problem, "it was not written by cbcl")
        own = [number for number, _ in other.example_numbers(view, label)]
        if len(own) != len({*own}) or not numbers.isdisjoint(own):
            problem = f"repeats a picture of {show_label(label)!r}"
            raise MemoryFileError(other.path, problem, "it was not written by cbcl")
        numbers.update(own)
        thumbnails[label] = other.thumbnails(view, label)
    return thumbnails


def adopt(
    memory: Memory, theirs: ForeignMemory, *, private: bool, max_centroids: int | None
) -> ImportResult:
    """Add all that another memory knows; where there is no memory, make one like it."""
    about = replace(theirs.view.about, private=theirs.view.about.private or private)
    with memory.writing(about, theirs.state) as writing:
        ours = writing.view
        check_alike(ours.about, about)
        settings = ours.settings if ours.step else theirs.view.settings
        if settings.head != theirs.view.settings.head:
            problem = f"learns by the {theirs.view.settings.head}, but this one by the"
            advice = "`cbcl upgrade` may make both learn by the discriminant"
            raise MemoryFileError("that memory", f"{problem} {settings.head}", advice)
        settings = settings._replace(max_centroids=max_centroids or settings.max_centroids)
        writing.add_step("adopt", {"labels": [*theirs.classes]}, settings)
        known = {*ours.classes} if ours.step else set()
        if settings.head == "vote":
            _adopt_concepts(memory, writing, theirs, settings)
        else:
            _adopt_views(memory, writing, theirs)
    added = [label for label in theirs.classes if label not in known]
    return ImportResult(added, [label for label in theirs.classes if label in known])


def _adopt_concepts(
    memory: Memory, writing: Transaction, theirs: ForeignMemory, settings: Settings
) -> None:
    ours = writing.view
    known = of_vote(memory.load(ours)) if ours.step else {}
    for label, stored in _combine(known, of_vote(theirs.classes), settings).items():
        examples = memory.thumbnails(ours, label) if label in known else []
        if not ours.about.private:
            new = theirs.thumbnails.get(label, [])
            examples += [example._replace(number=0) for example in new]
        writing.replace_class(label, stored, select(examples, stored.concepts))


def _adopt_views(memory: Memory, writing: Transaction, theirs: ForeignMemory) -> None:
    ours, least_cosine = writing.view, measured_of(writing.view.about).copy
    classes = statistics_of(theirs.classes)
    if theirs.negatives is not None:
        classes[NEGATIVES] = theirs.negatives.statistics
    for label, statistics in classes.items():
        examples = [] if ours.about.private else theirs.thumbnails.get(label, [])
        new = ViewClass(statistics, [example._replace(number=0) for example in examples])
        before = read_views(memory, ours, label) if ours.step else EMPTY
        write_views(writing, label, merge_views(before, new, least_cosine))


def check_alike(ours: MemoryInfo, theirs: MemoryInfo) -> None:
    """Raise BackboneError, unless two memories were learned through the same backbone."""
    if (ours.fingerprint, ours.dimension) != (theirs.fingerprint, theirs.dimension):
        problem = (
            f"was learned through {Path(theirs.backbone).name} ({theirs.fingerprint[:8]}), but this"
            f" one through {Path(ours.backbone).name} ({ours.fingerprint[:8]})"
        )
        raise BackboneError("that memory", problem, "they cannot be put together")


def _join(these: StoredClass, those: StoredClass, radius: float) -> StoredClass:
    return StoredClass(join(these.concepts, those.concepts, radius), these.spread + those.spread)


def _combine(
    known: dict[str, StoredClass], new: dict[str, StoredClass], settings: Settings
) -> dict[str, StoredClass]:
    """Return the classes that change when others are added, as they are then."""
    joined = {
        label: _join(known[label], new[label], settings.radius) for label in new if label in known
    }
    return find_changed(known, {**known, **new, **joined}, [*new], settings)
