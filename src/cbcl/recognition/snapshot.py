"""Snapshot of a memory, ready to answer; worked out once for each revision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cbcl.errors import ChangedError, MemoryFileError
from cbcl.heads.centroids.examples import PER_CENTROID, of_vote
from cbcl.heads.discriminant.views import as_concepts, spread_of_views, statistics_of
from cbcl.heads.self_test import SelfTestResult, examine, examine_views
from cbcl.memory.rows import StoredClass, StoredStatistics
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Scale
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.recognition.answer import Answer, Example, Reason, answers, judged_answers
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.embedder import initial_limit_of

MAX_READ_TRIES = 10  # while other processes change the memory
MAX_SHOWN = 4  # examples in a summary


class LabelSummary(NamedTuple):
    """A label, in numbers."""

    label: str
    examples: int
    concepts: int
    kept: int  # of the examples
    shown: list[int]  # the numbers of a few of those
    changed: int  # grows with every change of any label: the largest is that of the latest


@dataclass(frozen=True)
class Snapshot:
    """State of the memory, with all that is needed to answer."""

    memory: Memory
    view: MemoryState

    @cached_property
    def classes(self) -> dict[str, StoredClass | StoredStatistics]:
        return self.memory.load(self.view)

    @cached_property
    def negatives(self) -> StoredStatistics | None:
        return self.memory.load_negatives(self.view)

    @cached_property
    def knowledge(self) -> CentroidModel | DiscriminantModel:
        settings = self.view.settings
        if settings.head == "vote":
            concepts = {label: stored.concepts for label, stored in of_vote(self.classes).items()}
            return CentroidModel(concepts, settings.radius, settings.n_voters)
        negatives = self.negatives and self.negatives.statistics
        cosines = measured_of(self.view.about).cosines
        return DiscriminantModel(
            statistics_of(self.classes), negatives, cosines, settings.strangers
        )

    @cached_property
    def scale(self) -> Scale:
        """The scale of distances to centroids; of statistics, to means of directions."""
        first_limit = initial_limit_of(self.view.about.backbone)
        knowledge = self.knowledge
        if isinstance(knowledge, DiscriminantModel):
            return Scale(spread_of_views(knowledge.statistics.values()), 1.0)
        spreads = (stored.spread for stored in of_vote(self.classes).values())
        return Scale.of(spreads, knowledge.index, first_limit)

    @cached_property
    def concepts(self) -> dict[str, Concepts]:
        """The centroids of each label; of statistics, its mean direction."""
        knowledge = self.knowledge if self.classes else None
        if isinstance(knowledge, DiscriminantModel):
            return {label: as_concepts(known) for label, known in knowledge.statistics.items()}
        return {} if knowledge is None else knowledge.concepts

    @cached_property
    def summaries(self) -> list[LabelSummary]:
        examples = self.memory.summarize_examples(self.view, MAX_SHOWN)
        return [
            LabelSummary(
                label,
                concepts.size,
                len(concepts.counts),
                *examples[label],
                self.view.classes[label],
            )
            for label, concepts in self.concepts.items()
        ]

    def answer(self, matrix: Float32s) -> list[Answer]:
        """Return an answer for each vector, with examples of its evidence."""
        if isinstance(self.knowledge, DiscriminantModel):
            results = judged_answers(matrix, self.knowledge)
        else:
            results = answers(matrix, self.knowledge, self.scale)
        return [
            answer._replace(evidence=tuple(map(self._add_examples, answer.evidence)))
            for answer in results
        ]

    @cached_property
    def self_test(self) -> SelfTestResult:
        """The answer about each example that is kept by what the others teach."""
        knowledge = self.knowledge if self.classes else None
        if isinstance(knowledge, DiscriminantModel):
            return self._examine_views(knowledge)
        examples = {
            label: [(one.number, one.vector) for one in self.memory.thumbnails(self.view, label)]
            for label in self.view.classes
        }
        limit = initial_limit_of(self.view.about.backbone)
        return examine(examples, self.view.settings, initial_limit=limit)

    def _examine_views(self, knowledge: DiscriminantModel) -> SelfTestResult:
        numbers = {}
        for label, known in knowledge.statistics.items():
            of_views = np.zeros(len(known.views), dtype=np.int64)
            first = known.n - len(known.views)
            for number, place in self.memory.example_numbers(self.view, label):
                if first <= place < known.n:
                    of_views[place - first] = number
            numbers[label] = of_views
        return examine_views(knowledge, numbers)

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
            return _read(memory, view)
        except ChangedError:  # another process was faster: read again
            continue
    raise MemoryFileError(memory.path, "is constantly changed by another process", "try again")


def _read(memory: Memory, view: MemoryState) -> Snapshot:
    """Read all that is known."""
    snapshot = Snapshot(memory, view)
    snapshot.classes, snapshot.negatives  # noqa: B018  # now, while they are there
    return snapshot
