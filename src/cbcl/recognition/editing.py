"""Changes of a memory beside learning: forget, rename, merge, move, adopt. Each is one step.

A moved example needs no picture: what was learned of it is taken out of its label and learned
with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import BackboneError, LabelError, MemoryFileError
from cbcl.heads.base import (
    DEFAULT_HEAD,
    NEGATIVES,
    ClassRecord,
    Head,
    PictureBatch,
    Settings,
    StoredExample,
    check_able,
    find_head,
)
from cbcl.memory.rows import DAMAGE, MemoryInfo, as_label, show_label
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.open_set import PRIOR_ODDS
from cbcl.recognition.cosines import context_of
from cbcl.recognition.labels import check_known, find_same_spelling
from cbcl.recognition.learning import write_records


class ForeignMemory(NamedTuple):
    """Contents of another memory."""

    view: MemoryState
    records: dict[str, ClassRecord[Any]]  # the negatives among them
    state: bytes  # of its backbone

    @property
    def labels(self) -> list[str]:
        return [label for label in self.records if label != NEGATIVES]


class ImportResult(NamedTuple):
    """Labels taken from another memory."""

    added: list[str]
    joined: list[str]  # with those known here


class MoveResult(NamedTuple):
    """Outcome of moving examples; the label of none of the known things is empty."""

    moved: dict[str, int]  # by the label they had
    copies: int = 0  # among them that the other label had already, or nearly: they add nothing
    gone: tuple[str, ...] = ()  # labels of which nothing is left
    spelled_alike: Mapping[str, str] = MappingProxyType({})  # the new label, and what it resembles


def forget(memory: Memory, label: str | None, *, for_good: bool) -> None:
    """Forget a label, or where it is None, the pictures taught as none of the labels."""
    target = NEGATIVES if label is None else as_label(label)
    with memory.writing() as writing:
        view = writing.view
        if not (for_good and writing.remembers(target)):
            if target != NEGATIVES:
                check_known(target, view.classes)
            elif view.negatives is None:
                raise LabelError("nothing", 'was taught as "none of these"')
        writing.add_step("forget", {} if for_good else {"label": target}, view.settings)
        if target in view.rows:
            writing.retire_class(target)
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
        record = memory.records(writing.view, [label])[label]
        write_records(writing, {new: record, label: None})
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
        view = writing.view
        records = memory.records(view, [into, label])
        merged = view.head.merge(records[into], records[label], context_of(view))
        write_records(writing, {into: merged, label: None})


def unlearn(
    memory: Memory, numbers: Iterable[int], see: Callable[[list[bytes]], Float32s]
) -> dict[str, int]:
    """Take examples out of their labels in one step; return how many of each label there were."""
    with memory.writing() as writing:
        by_label = _group_examples(memory, numbers)
        counts = {label: len(own) for label, own in by_label.items()}
        writing.add_step("unlearn", {"pictures": counts}, writing.view.settings)
        _move_examples(memory, writing, by_label, None, see)
    return counts


def move(
    memory: Memory,
    numbers: Iterable[int],
    into: str | None,
    see: Callable[[list[bytes]], Float32s],
) -> MoveResult:
    """Move examples to another label, known or new, in one step; None: to none of the labels."""
    target = NEGATIVES if into is None else as_label(into)
    with memory.writing() as writing:
        by_label = _group_examples(memory, numbers)
        if target in by_label:
            problem = f"has example {min(by_label[target])} already"
            raise LabelError(repr(show_label(target)), problem, "choose examples of other labels")
        if target == NEGATIVES:
            check_able("negatives", writing.view.head, error=LabelError)
        before = {*writing.view.classes}
        counts = {label: len(own) for label, own in by_label.items()}
        about = {"pictures": counts, "into": target}
        writing.add_step("move", about, writing.view.settings)
        copies = _move_examples(memory, writing, by_label, target, see)
    after = writing.state
    assert after is not None
    gone = sorted(before - {*after.classes})
    new = {*after.classes} - before
    alike = find_same_spelling(new, after.classes) if new else {}
    return MoveResult(counts, copies, tuple(gone), alike)


def _group_examples(memory: Memory, numbers: Iterable[int]) -> dict[str, set[int]]:
    """Return the numbers of examples by label; LabelError: there is none, or one is gone."""
    by_label: dict[str, set[int]] = {}
    for number in sorted({*numbers}):
        label, _ = memory.example(number)
        by_label.setdefault(label, set()).add(number)
    if not by_label:
        raise LabelError("no example", "was given", "give the numbers of some")
    return by_label


def _move_examples(
    memory: Memory,
    writing: Transaction,
    by_label: Mapping[str, set[int]],
    target: str | None,
    see: Callable[[list[bytes]], Float32s],
) -> int:
    """Move examples, and return how many of them the target had already."""
    view = writing.view
    context = context_of(view)
    touched = [*by_label] if target is None else [*by_label, target]
    labels = None
    if not view.head.needs_all(context):
        labels = [label for label in touched if label in view.rows]
    records = memory.records(view, labels)
    examples = {  # read with their class, so that their places are checked
        label: [example for example in records[label].examples if example.number in numbers]
        for label, numbers in by_label.items()
    }
    changes = view.head.move(examples, target, records, context, see)
    write_records(writing, changes.records)
    return sum(changes.copies.values())


def expect_strangers(memory: Memory, how_often: str) -> None:
    if how_often not in PRIOR_ODDS:
        raise ValueError(f"{how_often!r} is none of {', '.join(PRIOR_ODDS)}.")
    with memory.writing() as writing:
        settings = writing.view.settings
        check_able("strangers", writing.view.head, memory.path)
        if settings.strangers != how_often:
            changed = settings._replace(strangers=how_often)
            writing.add_step("strangers", {"strangers": how_often}, changed)


def upgrade(memory: Memory) -> list[str]:
    """Make a memory learn by the default head, from the vectors of its examples."""
    head = find_head(DEFAULT_HEAD)
    with memory.writing() as writing:
        view = writing.view
        if "upgrade" not in view.head.abilities:
            problem = f"it learns by the {view.head.name}"
            raise MemoryFileError(memory.path, "needs no upgrade", problem)
        records = memory.records(view)
        if missing := [label for label, one in records.items() if not _keeps_all(one, view.head)]:
            problem = f"keeps the vectors of only some photos of {', '.join(map(repr, missing))}"
            advice = "learn these photos again in a new memory; this one goes on as it is"
            raise MemoryFileError(memory.path, f"cannot be upgraded: it {problem}", advice)
        lesson = _as_lesson(records, head)
        begun = context_of(view)._replace(settings=Settings(head=head.name), is_fresh=True)
        changes = head.learn(lesson, {}, begun)
        writing.add_step("upgrade", {"labels": [*records]}, changes.settings)
        write_records(writing, changes.records)
    return [*records]


def _keeps_all(record: ClassRecord[Any], head: Head[Any]) -> bool:
    return len(record.examples) == head.summarize(record.known).pictures


def _as_lesson(records: Mapping[str, ClassRecord[Any]], head: Head[Any]) -> PictureBatch:
    """Return the examples that are kept as pictures to be learned by another head."""
    targets: list[str] = []
    examples: list[StoredExample] = []
    for label, record in records.items():
        targets += [label] * len(record.examples)
        examples += record.examples
    sight = head.see(np.stack([example.vector for example in examples]))
    return PictureBatch(sight, np.array(targets, dtype=object), examples, {})


def read(path: Path, accept: Callable[[MemoryInfo], None]) -> ForeignMemory:
    """Read a memory that somebody else may have made; `accept` may raise an error before."""
    invalid = MemoryFileError(path, "contains invalid data", "it was not written by cbcl")
    with closing(Memory(path)) as other:
        if not other.exists():
            raise MemoryFileError(path, "is not a memory of cbcl")
        view = other.view()
        accept(view.about)
        try:
            state = other.backbone_state()
            records = _read_records(other, view)
            if any(as_label(label) != label for label in view.classes):
                raise invalid
        except DAMAGE as error:
            raise invalid from error
    if not view.classes:
        raise MemoryFileError(path, "knows nothing", "there is nothing to take over")
    return ForeignMemory(view, records, state)


def _read_records(other: Memory, view: MemoryState) -> dict[str, ClassRecord[Any]]:
    """Read classes and their examples, no more than cbcl keeps, and each picture once.

    A small file can refer to one picture many times.
    """
    labels = [*view.classes, *([] if view.negatives is None else [NEGATIVES])]
    records = other.records(view, labels)
    counts = other.summarize_examples(view, most=0)
    numbers: set[int] = set()
    for label, record in records.items():
        if counts[label].kept > view.head.summarize(record.known).most_kept:
            problem = f"has more thumbnails of {show_label(label)!r} than cbcl keeps"
            raise MemoryFileError(other.path, problem, "it was not written by cbcl")
        own = [number for number, _ in record.places]
        if len(own) != len({*own}) or not numbers.isdisjoint(own):
            problem = f"repeats a picture of {show_label(label)!r}"
            raise MemoryFileError(other.path, problem, "it was not written by cbcl")
        numbers.update(own)
        record.examples  # noqa: B018  # read now, while the file is open
    return records


def adopt(
    memory: Memory, theirs: ForeignMemory, *, private: bool, max_centroids: int | None
) -> ImportResult:
    """Add all that another memory knows; where there is no memory, make one like it."""
    about = replace(theirs.view.about, private=theirs.view.about.private or private)
    with memory.writing(about, theirs.state) as writing:
        ours = writing.view
        check_alike(ours.about, about)
        settings = ours.settings if ours.step else theirs.view.settings
        head = find_head(settings.head)
        if head.name != theirs.view.settings.head:
            problem = f"learns by the {theirs.view.settings.head}, but this one by the {head.name}"
            heads = (head, theirs.view.head)
            helps = all(one.name == DEFAULT_HEAD or "upgrade" in one.abilities for one in heads)
            advice = "`cbcl upgrade` may make both learn by the discriminant" if helps else ""
            raise MemoryFileError("that memory", problem, advice)
        if max_centroids is not None and "limit" in head.abilities:
            settings = settings._replace(max_centroids=max_centroids)
        writing.add_step("adopt", {"labels": theirs.labels}, settings)
        known = {*ours.classes} if ours.step else set()
        context = context_of(ours)._replace(settings=settings)
        new = {
            label: ClassRecord(record.known, partial(_new_examples, record, context.private))
            for label, record in theirs.records.items()
        }
        labels = None if head.needs_all(context) else [label for label in new if label in ours.rows]
        before = memory.records(ours, labels) if ours.step else {}
        write_records(writing, head.adopt(before, new, context))
    added = [label for label in theirs.labels if label not in known]
    return ImportResult(added, [label for label in theirs.labels if label in known])


def _new_examples(record: ClassRecord[Any], private: bool) -> list[StoredExample]:
    """Return the examples of another memory, to be written here."""
    return [] if private else [example._replace(number=0) for example in record.examples]


def check_alike(ours: MemoryInfo, theirs: MemoryInfo) -> None:
    """Raise BackboneError, unless two memories were learned through the same backbone."""
    if (ours.fingerprint, ours.dimension) != (theirs.fingerprint, theirs.dimension):
        problem = (
            f"was learned through {Path(theirs.backbone).name} ({theirs.fingerprint[:8]}), but this"
            f" one through {Path(ours.backbone).name} ({ours.fingerprint[:8]})"
        )
        raise BackboneError("that memory", problem, "they cannot be put together")
