"""What can be done to a memory beside learning: forget, rename, merge, take back, take over. Each is one step."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import BackboneError, LabelError, MemoryFileError
from cbcl.memory.rows import MemoryInfo, Settings, StoredClass, StoredExample, as_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState
from cbcl.method.budget import reduce
from cbcl.method.concepts import join
from cbcl.recognition.examples import ExampleCandidate, select
from cbcl.recognition.learning import shown, without


class ForeignMemory(NamedTuple):
    """What another memory knows."""

    view: MemoryState
    classes: dict[str, StoredClass]
    thumbnails: dict[str, list[StoredExample]]
    state: bytes  # of its backbone


class ImportResult(NamedTuple):
    """What became of another memory's labels."""

    added: list[str]
    joined: list[str]  # with what was known of them here


def forget(memory: Memory, label: str, *, for_good: bool) -> None:
    label = as_label(label)
    with memory.writing() as writing:
        if not (for_good and writing.remembers(label)):
            must_be_known(label, writing.view)
        writing.begin("forget", {} if for_good else {"label": label}, writing.view.settings)
        if label in writing.view.classes:
            writing.end(label)
        if for_good:
            writing.seal()
    if for_good:
        memory.checkpoint()


def rename(memory: Memory, label: str, new: str) -> None:
    label, new = as_label(label), as_label(new)
    with memory.writing() as writing:
        must_be_known(label, writing.view)
        if new in writing.view.classes:
            raise LabelError(f"{new!r} is taken: to make {label!r} part of it, merge them.")
        writing.begin("rename", {"label": label, "new": new}, writing.view.settings)
        stored = memory.load(writing.view, [label])[label]
        writing.put(new, stored, memory.thumbnails(writing.view, label))
        writing.end(label)


def merge(memory: Memory, label: str, into: str) -> None:
    label, into = as_label(label), as_label(into)
    with memory.writing() as writing:
        must_be_known(label, writing.view)
        must_be_known(into, writing.view)
        if label == into:
            raise LabelError(f"{label!r} cannot be merged with itself: give two labels.")
        writing.begin("merge", {"label": label, "into": into}, writing.view.settings)
        both = memory.load(writing.view, [label, into])
        stored = _joined(both[into], both[label], writing.view.settings.radius)
        pictures = [
            picture for one in (into, label) for picture in shown(memory, writing.view, one)
        ]
        writing.put(into, stored, select(pictures, stored.concepts))
        writing.end(label)


def unlearn(memory: Memory, number: int) -> str:
    with memory.writing() as writing:
        label, one = must_be_kept(memory, number)
        writing.begin("unlearn", {"label": label}, writing.view.settings)
        stored = memory.load(writing.view, [label])[label]
        if stored.concepts.size == 1:
            writing.end(label)
        else:
            kept = memory.thumbnails(writing.view, label)
            writing.put(label, *without(one, stored, kept, writing.view.settings))
    return label


def read(path: Path) -> ForeignMemory:
    """All that the memory at `path` knows, which somebody else may have made."""
    with closing(Memory(path)) as other:
        try:
            if not other.exists():
                raise MemoryFileError(f"{path} is not a memory of cbcl.")
            view = other.view()
            classes, state = other.load(view), other.backbone_state()
            thumbnails = {label: other.thumbnails(view, label) for label in classes}
            if any(as_label(label) != label for label in classes):
                raise MemoryFileError(
                    f"{path} has labels that cannot be: it was not written by cbcl."
                )
        except (TypeError, OverflowError, LabelError) as error:
            raise MemoryFileError(
                f"{path} holds what cannot be: it was not written by cbcl."
            ) from error
    if not classes:
        raise MemoryFileError(f"{path} knows nothing: there is nothing to take over.")
    return ForeignMemory(view, classes, thumbnails, state)


def adopt(
    memory: Memory, theirs: ForeignMemory, *, private: bool, max_centroids: int | None
) -> ImportResult:
    """All of that, beside what is known; where nothing is, a memory like that one."""
    about = replace(theirs.view.about, private=theirs.view.about.private or private)
    with memory.writing(about, theirs.state) as writing:
        ours = writing.view
        _check_alike(ours.about, about)
        settings = ours.settings if ours.step else theirs.view.settings
        settings = settings._replace(max_centroids=max_centroids or settings.max_centroids)
        writing.begin("adopt", {"labels": [*theirs.classes]}, settings)
        known = memory.load(ours) if ours.step else {}
        for label, stored in _together(known, theirs.classes, settings).items():
            pictures = shown(memory, ours, label) if label in known else []
            if not ours.about.private:
                pictures += [
                    ExampleCandidate(one._replace(number=0), one.vector)
                    for one in theirs.thumbnails.get(label, [])
                ]
            writing.put(label, stored, select(pictures, stored.concepts))
    added = [label for label in theirs.classes if label not in known]
    return ImportResult(added, [label for label in theirs.classes if label in known])


def _check_alike(ours: MemoryInfo, theirs: MemoryInfo) -> None:
    if (ours.fingerprint, ours.dimension) != (theirs.fingerprint, theirs.dimension):
        raise BackboneError(
            f"that memory was learned through {theirs.backbone} ({theirs.fingerprint[:8]}), but this one through "
            f"{ours.backbone} ({ours.fingerprint[:8]}): they cannot be put together."
        )


def _joined(these: StoredClass, those: StoredClass, radius: float) -> StoredClass:
    return StoredClass(join(these.concepts, those.concepts, radius), these.spread + those.spread)


def _together(
    known: dict[str, StoredClass], new: dict[str, StoredClass], settings: Settings
) -> dict[str, StoredClass]:
    """The classes that change when others join them, as they are then."""
    joined = {
        label: _joined(known[label], new[label], settings.radius) for label in new if label in known
    }
    everything = dict(sorted({**known, **new, **joined}.items()))
    if settings.max_centroids is not None:
        numbers = {number for number, label in enumerate(everything) if label in new}
        fewer = reduce(
            [one.concepts for one in everything.values()], settings.max_centroids, new=numbers
        )
        everything = {
            label: stored._replace(concepts=concepts)
            for (label, stored), concepts in zip(everything.items(), fewer, strict=True)
        }
    return {
        label: stored
        for label, stored in everything.items()
        if label not in known or stored.concepts is not known[label].concepts
    }


def must_be_known(label: str, view: MemoryState) -> None:
    if label not in view.classes:
        near = get_close_matches(label, view.classes, 3) or [*view.classes][:10]
        more = f"; there are {', '.join(map(repr, near))}" if near else ""
        raise LabelError(f"{label!r} is not known{more}.")


def must_be_kept(memory: Memory, number: int) -> tuple[str, StoredExample]:
    """An example, and its label."""
    found = memory.example(number)
    if found is None:
        raise LabelError(f"there is no example {number}, or no longer.")
    return found
