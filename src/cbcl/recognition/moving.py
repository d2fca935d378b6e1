"""Examples that are kept: removed, or moved to another label, several in one step.

A moved example needs no picture: its view, or its vector, is taken out of its label and learned
with the other. k examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from cbcl.errors import LabelError
from cbcl.heads.centroids.examples import find_changed, of_vote, select
from cbcl.heads.discriminant.views import add_views, join_taken, read_views, take_views, write_views
from cbcl.memory.rows import (
    NEGATIVES,
    Settings,
    StoredClass,
    StoredExample,
    as_label,
    show_label,
)
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import Concepts, cluster
from cbcl.method.centroids.confidence import NO_SPREAD, spread_of
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.labels import find_same_spelling


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
        counts = {label: len(examples) for label, examples in by_label.items()}
        writing.add_step("unlearn", {"pictures": counts}, writing.view.settings)
        if writing.view.settings.head == "vote":
            _write_vote(memory, writing, by_label, None)
            return counts
        for label, examples in by_label.items():
            left, _ = take_views(read_views(memory, writing.view, label), examples, see)
            write_views(writing, label, left)
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
            problem = f"has example {by_label[target][0].number} already"
            raise LabelError(repr(show_label(target)), problem, "choose examples of other labels")
        before = {*writing.view.classes}
        counts = {label: len(examples) for label, examples in by_label.items()}
        about = {"pictures": counts, "into": target}
        writing.add_step("move", about, writing.view.settings)
        if writing.view.settings.head == "vote":
            copies = _write_vote(memory, writing, by_label, target)
        else:
            copies = _move_views(memory, writing, by_label, target, see)
    after = writing.state
    assert after is not None
    gone = sorted(before - {*after.classes})
    new = {*after.classes} - before
    alike = find_same_spelling(new, after.classes) if new else {}
    return MoveResult(counts, copies, tuple(gone), alike)


def _group(memory: Memory, numbers: Iterable[int]) -> dict[str, list[StoredExample]]:
    """Read examples by label, in the order learned; LabelError: there is none, or one is gone."""
    by_label: dict[str, list[StoredExample]] = {}
    for number in sorted({*numbers}):
        label, example = memory.example(number)
        by_label.setdefault(label, []).append(example)
    if not by_label:
        raise LabelError("no example", "was given", "give the numbers of some")
    return by_label


def _move_views(
    memory: Memory,
    writing: Transaction,
    by_label: Mapping[str, list[StoredExample]],
    target: str,
    see: Callable[[list[bytes]], Float32s],
) -> int:
    """Move the views of examples; return how many of them the target had already."""
    parts = []
    for label, examples in by_label.items():
        left, taken = take_views(read_views(memory, writing.view, label), examples, see)
        write_views(writing, label, left)
        parts.append(taken)
    every = [example for examples in by_label.values() for example in examples]
    order = np.argsort([example.number for example in every], kind="stable")
    least_cosine = measured_of(writing.view.about).copy
    known, copies = add_views(
        read_views(memory, writing.view, target),
        join_taken(parts, order),
        [every[row] for row in order],
        least_cosine,
    )
    write_views(writing, target, known)
    return copies


def _write_vote(
    memory: Memory,
    writing: Transaction,
    by_label: Mapping[str, list[StoredExample]],
    target: str | None,
) -> int:
    """Take examples out of labels of the vote, and learn them with the target, unless it is None.

    Return 0, as the vote knows no copies.
    """
    view = writing.view
    if target == NEGATIVES:
        problem = "cannot be taught to a memory that learns by the vote"
        raise LabelError('"none of these"', problem, "`cbcl upgrade MEMORY` may help")
    touched = [label for label in (*by_label, target) if label in view.classes]
    limited = view.settings.max_centroids is not None
    before = of_vote(memory.load(view, None if limited else touched))
    kept = {label: memory.thumbnails(view, label) for label in touched}
    after = dict(before)
    for label, examples in by_label.items():
        for example in examples:
            _unlearn_vote(example, label, after, kept, view.settings)
    if target is not None:
        every = sorted(
            (example for examples in by_label.values() for example in examples),
            key=lambda example: example.number,
        )
        after[target] = _learn_examples(every, after.get(target), view.settings)
        kept[target] = [*kept.get(target, []), *every]
    for label in {*before} - {*after}:
        writing.retire_class(label)
    new = [] if target is None else [target]
    for label, stored in find_changed(before, after, new, view.settings).items():
        examples = kept.get(label) or memory.thumbnails(view, label)
        writing.replace_class(label, stored, select(examples, stored.concepts))
    return 0


def _learn_examples(
    examples: list[StoredExample], before: StoredClass | None, settings: Settings
) -> StoredClass:
    """Learn the vectors of examples with a class of the vote, or as a new one."""
    vectors = np.stack([example.vector for example in examples])
    concepts = None if before is None else before.concepts
    old_spread = NO_SPREAD if before is None else before.spread
    spread = spread_of(vectors, settings.radius, concepts, old_spread)
    return StoredClass(cluster(vectors, None, settings.radius, concepts), spread)


def _unlearn_vote(
    example: StoredExample,
    label: str,
    classes: dict[str, StoredClass],
    kept: dict[str, list[StoredExample]],
    settings: Settings,
) -> None:
    """Take an example out of its class; with its only one, the class goes.

    Where all its examples are kept, it is learned anew from the others, in order: as if this one
    had never been shown. Else, or if that takes more centroids where their number is limited, it is
    taken out of the mean nearest to it, where it went unless centroids have moved since.
    """
    stored, examples = classes[label], kept[label]
    if stored.concepts.size == 1:
        del classes[label], kept[label]
        return
    own = next(one for one in examples if one.number == example.number)
    rest = [other for other in examples if other is not own]
    concepts, spread = _take_out(stored.concepts, own), stored.spread
    if len(examples) == stored.concepts.size:
        vectors = np.stack([other.vector for other in rest])
        anew = cluster(vectors, None, settings.radius)
        if settings.max_centroids is None or len(anew.counts) <= len(stored.concepts.counts):
            concepts, spread = anew, spread_of(vectors, settings.radius)
    classes[label] = StoredClass(concepts, spread)
    kept[label] = select(rest, concepts)


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
