"""Examples that are kept: removed, or moved to another label, several in one step.

A moved example needs no picture: what was learned of it is taken out of its label and learned
with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cbcl.errors import LabelError
from cbcl.heads.base import NEGATIVES, check_able
from cbcl.memory.rows import as_label, show_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s
from cbcl.recognition.cosines import context_of
from cbcl.recognition.labels import find_same_spelling
from cbcl.recognition.learning import write_records


class MoveResult(NamedTuple):
    """Outcome of moving examples; the label of none of the known things is empty."""

    moved: dict[str, int]  # by the label they had
    copies: int = 0  # among them that the other label had already, or nearly: they add nothing
    gone: tuple[str, ...] = ()  # labels of which nothing is left
    spelled_alike: Mapping[str, str] = MappingProxyType({})  # the new label, and what it resembles


def unlearn(
    memory: Memory, numbers: Iterable[int], see: Callable[[list[bytes]], Float32s]
) -> dict[str, int]:
    """Take examples out of their labels in one step; return how many of each label there were."""
    with memory.writing() as writing:
        by_label = _group(memory, numbers)
        counts = {label: len(own) for label, own in by_label.items()}
        writing.add_step("unlearn", {"pictures": counts}, writing.view.settings)
        _move(memory, writing, by_label, None, see)
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
        by_label = _group(memory, numbers)
        if target in by_label:
            problem = f"has example {min(by_label[target])} already"
            raise LabelError(repr(show_label(target)), problem, "choose examples of other labels")
        if target == NEGATIVES:
            subject = '"none of these"'
            check_able("negatives", writing.view.head, subject, "cannot be taught to a memory")
        before = {*writing.view.classes}
        counts = {label: len(own) for label, own in by_label.items()}
        about = {"pictures": counts, "into": target}
        writing.add_step("move", about, writing.view.settings)
        copies = _move(memory, writing, by_label, target, see)
    after = writing.state
    assert after is not None
    gone = sorted(before - {*after.classes})
    new = {*after.classes} - before
    alike = find_same_spelling(new, after.classes) if new else {}
    return MoveResult(counts, copies, tuple(gone), alike)


def _group(memory: Memory, numbers: Iterable[int]) -> dict[str, set[int]]:
    """Return the numbers of examples by label; LabelError: there is none, or one is gone."""
    by_label: dict[str, set[int]] = {}
    for number in sorted({*numbers}):
        label, _ = memory.example(number)
        by_label.setdefault(label, set()).add(number)
    if not by_label:
        raise LabelError("no example", "was given", "give the numbers of some")
    return by_label


def _move(
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
