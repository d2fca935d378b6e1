"""All that a memory knows at one moment, ready to answer; worked out once, until the memory changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cbcl.errors import ChangedError, MemoryFileError
from cbcl.memory.rows import StoredClass
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState
from cbcl.method.confidence import Scale
from cbcl.method.knowledge import Knowledge
from cbcl.recognition.embedder import limit_at_first

TRIES = 10  # to read what others keep changing
SHOWN = 4  # examples of a thing, at a glance


class LabelSummary(NamedTuple):
    """Something that is known."""

    label: str
    examples: int
    concepts: int
    kept: int  # of the examples
    shown: list[int]  # the numbers of a few of those


@dataclass(frozen=True)
class Snapshot:
    """A view of the memory with all that is needed to answer."""

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
        return Scale.of(spreads, self.knowledge.index, limit_at_first(self.view.about.backbone))

    @cached_property
    def things(self) -> list[LabelSummary]:
        albums = self.memory.albums(self.view, SHOWN)
        return [
            LabelSummary(label, stored.concepts.size, len(stored.concepts.counts), *albums[label])
            for label, stored in self.classes.items()
        ]


def latest(memory: Memory, before: Snapshot | None) -> Snapshot:
    """What is known now: what was known before, if nothing has changed since."""
    for _ in range(TRIES):
        view = memory.view()
        if before is not None and before.view is view:
            return before
        try:
            return Snapshot(memory, view, memory.load(view))
        except ChangedError:  # another process was faster: look again
            continue
    raise MemoryFileError(
        f"{memory.path} is being changed all the time by another process: try again."
    )
