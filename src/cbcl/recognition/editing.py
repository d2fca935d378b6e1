"""Changes of a memory beside learning: forget, rename, merge, unlearn, adopt. Each is one step."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cbcl.errors import BackboneError, LabelError, MemoryFileError
from cbcl.memory.rows import MemoryInfo, Settings, StoredClass, StoredExample, as_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState
from cbcl.method.budget import reduce
from cbcl.method.concepts import Concepts, cluster, join
from cbcl.method.confidence import spread_of
from cbcl.recognition.examples import select

MAX_SUGGESTED = 3  # labels like one that is not known
MAX_LISTED = 10  # labels, where none is like it


class ForeignMemory(NamedTuple):
    """Contents of another memory."""

    view: MemoryState
    classes: dict[str, StoredClass]
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
            check_known(label, writing.view)
        writing.add_step("forget", {} if for_good else {"label": label}, writing.view.settings)
        if label in writing.view.classes:
            writing.retire_class(label)
        if for_good:
            writing.erase_history()
    if for_good:
        memory.checkpoint()


def rename(memory: Memory, label: str, new: str) -> None:
    label, new = as_label(label), as_label(new)
    with memory.writing() as writing:
        check_known(label, writing.view)
        if new in writing.view.classes:
            advice = f"to make {label!r} part of it, merge them"
            raise LabelError(repr(new), "is taken", advice)
        writing.add_step("rename", {"label": label, "new": new}, writing.view.settings)
        stored = memory.load(writing.view, [label])[label]
        writing.replace_class(new, stored, memory.thumbnails(writing.view, label))
        writing.retire_class(label)


def merge(memory: Memory, label: str, into: str) -> None:
    label, into = as_label(label), as_label(into)
    with memory.writing() as writing:
        check_known(label, writing.view)
        check_known(into, writing.view)
        if label == into:
            raise LabelError(repr(label), "cannot be merged with itself", "give two labels")
        writing.add_step("merge", {"label": label, "into": into}, writing.view.settings)
        both = memory.load(writing.view, [label, into])
        stored = _join(both[into], both[label], writing.view.settings.radius)
        examples = [
            *memory.thumbnails(writing.view, into),
            *memory.thumbnails(writing.view, label),
        ]
        writing.replace_class(into, stored, select(examples, stored.concepts))
        writing.retire_class(label)


def unlearn(memory: Memory, number: int) -> str:
    with memory.writing() as writing:
        label, example = memory.example(number)
        writing.add_step("unlearn", {"label": label}, writing.view.settings)
        stored = memory.load(writing.view, [label])[label]
        if stored.concepts.size == 1:
            writing.retire_class(label)
        else:
            kept = memory.thumbnails(writing.view, label)
            writing.replace_class(label, *_without(example, stored, kept, writing.view.settings))
    return label


def _without(
    example: StoredExample, stored: StoredClass, kept: list[StoredExample], settings: Settings
) -> tuple[StoredClass, list[StoredExample]]:
    """Return a class, and the examples to keep of it, without one that is not its only one.

    Where all its examples are kept, it is learned anew from the others, in order: as if this one
    had never been shown. Else, or if that takes more centroids where their number is limited, it is
    taken out of the mean nearest to it, where it went unless centroids have moved since.
    """
    rest = [other for other in kept if other.number != example.number]
    if len(kept) == stored.concepts.size:
        vectors = np.stack([other.vector for other in rest])
        concepts = cluster(vectors, None, settings.radius)
        if settings.max_centroids is None or len(concepts.counts) <= len(stored.concepts.counts):
            spread = spread_of(vectors, settings.radius)
            return StoredClass(concepts, spread), select(rest, concepts)
    concepts = _take_out(stored.concepts, example)
    return StoredClass(concepts, stored.spread), select(rest, concepts)


def _take_out(concepts: Concepts, example: StoredExample) -> Concepts:
    """Take an example out of the mean of its centroid."""
    row = example.centroid
    centroids, counts = concepts.centroids.copy(), concepts.counts.copy()
    counts[row] -= 1
    if not counts[row]:
        return Concepts(np.delete(centroids, row, axis=0), np.delete(counts, row))
    mean = centroids[row].astype(np.float64)
    centroids[row] = mean + (mean - example.vector) / int(counts[row])
    return Concepts(centroids, counts)


def read(path: Path) -> ForeignMemory:
    """Read a memory that somebody else may have made."""
    invalid = MemoryFileError(path, "contains invalid data", "it was not written by cbcl")
    with closing(Memory(path)) as other:
        try:
            if not other.exists():
                raise MemoryFileError(path, "is not a memory of cbcl")
            view = other.view()
            classes, state = other.load(view), other.backbone_state()
            thumbnails = {label: other.thumbnails(view, label) for label in classes}
            if any(as_label(label) != label for label in classes):
                raise invalid
        except (TypeError, OverflowError, LabelError) as error:
            raise invalid from error
    if not classes:
        raise MemoryFileError(path, "knows nothing", "there is nothing to take over")
    return ForeignMemory(view, classes, thumbnails, state)


def adopt(
    memory: Memory, theirs: ForeignMemory, *, private: bool, max_centroids: int | None
) -> ImportResult:
    """Add all that another memory knows; where there is no memory, make one like it."""
    about = replace(theirs.view.about, private=theirs.view.about.private or private)
    with memory.writing(about, theirs.state) as writing:
        ours = writing.view
        _check_alike(ours.about, about)
        settings = ours.settings if ours.step else theirs.view.settings
        settings = settings._replace(max_centroids=max_centroids or settings.max_centroids)
        writing.add_step("adopt", {"labels": [*theirs.classes]}, settings)
        known = memory.load(ours) if ours.step else {}
        for label, stored in _combine(known, theirs.classes, settings).items():
            examples = memory.thumbnails(ours, label) if label in known else []
            if not ours.about.private:
                new = theirs.thumbnails.get(label, [])
                examples += [example._replace(number=0) for example in new]
            writing.replace_class(label, stored, select(examples, stored.concepts))
    added = [label for label in theirs.classes if label not in known]
    return ImportResult(added, [label for label in theirs.classes if label in known])


def _check_alike(ours: MemoryInfo, theirs: MemoryInfo) -> None:
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
    combined = dict(sorted({**known, **new, **joined}.items()))
    if settings.max_centroids is not None:
        numbers = {number for number, label in enumerate(combined) if label in new}
        every = [stored.concepts for stored in combined.values()]
        fewer = reduce(every, settings.max_centroids, new=numbers)
        combined = {
            label: stored._replace(concepts=concepts)
            for (label, stored), concepts in zip(combined.items(), fewer, strict=True)
        }
    return {
        label: stored
        for label, stored in combined.items()
        if label not in known or stored.concepts is not known[label].concepts
    }


def check_known(label: str, view: MemoryState) -> None:
    """Raise LabelError, with labels like it, unless a label is known."""
    if label not in view.classes:
        labels = [*view.classes]
        near = get_close_matches(label, labels, MAX_SUGGESTED) or labels[:MAX_LISTED]
        known = f"; there are {', '.join(map(repr, near))}" if near else ""
        raise LabelError(repr(label), f"is not known{known}")
