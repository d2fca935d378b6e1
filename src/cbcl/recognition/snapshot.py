"""Snapshot of a memory, ready to answer; worked out once for each revision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cbcl.errors import ChangedError, MemoryFileError
from cbcl.memory.rows import StoredClass
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState
from cbcl.method.arrays import Float32s
from cbcl.method.confidence import Scale
from cbcl.method.knowledge import Knowledge
from cbcl.recognition.answer import Answer, Example, Reason, answers
from cbcl.recognition.embedder import initial_limit_of
from cbcl.recognition.examples import PER_CENTROID

MAX_READ_TRIES = 10  # while other processes change the memory
MAX_SHOWN = 4  # examples in a summary


class LabelSummary(NamedTuple):
    """A label, in numbers."""

    label: str
    examples: int
    concepts: int
    kept: int  # of the examples
    shown: list[int]  # the numbers of a few of those


@dataclass(frozen=True)
class Snapshot:
    """State of the memory, with all that is needed to answer."""

    memory: Memory
    view: MemoryState
    classes: dict[str, StoredClass]

    @cached_property
    def knowledge(self) -> Knowledge:
        concepts = {label: stored.concepts for label, stored in self.classes.items()}
        return Knowledge(concepts, self.view.settings.radius, self.view.settings.n_voters)

    @cached_property
    def scale(self) -> Scale:
        spreads = (stored.spread for stored in self.classes.values())
        return Scale.of(spreads, self.knowledge.index, initial_limit_of(self.view.about.backbone))

    @cached_property
    def summaries(self) -> list[LabelSummary]:
        examples = self.memory.summarize_examples(self.view, MAX_SHOWN)
        return [
            LabelSummary(label, stored.concepts.size, len(stored.concepts.counts), *examples[label])
            for label, stored in self.classes.items()
        ]

    def answer(self, matrix: Float32s) -> list[Answer]:
        """Return an answer for each vector, with examples of the centroids that voted."""
        return [
            answer._replace(evidence=tuple(map(self._add_examples, answer.evidence)))
            for answer in answers(matrix, self.knowledge, self.scale)
        ]

    def _add_examples(self, reason: Reason) -> Reason:
        numbers = self.memory.nearest(self.view, reason.label, reason.centroid, PER_CENTROID)
        examples = (Example(number, reason.centroid, self.memory) for number in numbers)
        return reason._replace(examples=tuple(examples))


def latest(memory: Memory, before: Snapshot | None) -> Snapshot:
    """Return the snapshot of the present state: the one before, if nothing has changed."""
    for _ in range(MAX_READ_TRIES):
        view = memory.view()
        if before is not None and before.view is view:
            return before
        try:
            return Snapshot(memory, view, memory.load(view))
        except ChangedError:  # another process was faster: read again
            continue
    raise MemoryFileError(memory.path, "is constantly changed by another process", "try again")
