"""Work that several runs of a study have in common, done once.

Runs that differ only in what they do at the budget are the same until it is reached, and those that
cluster otherwise choose a radius on the same vectors, by the same cross-validation. After that, new
classes are still clustered with the same radius, and under the same budget with the same wider one.
A learner that is trained anew on all vectors so far is the same after so many classes, however many
came at a time; so are nearest class means, and concepts by the same radius that no budget changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from cbcl.method.arrays import Int64s, Matrix
from cbcl.method.centroids.model import CentroidModel, Lesson, WidenFunction
from cbcl.method.centroids.tuning import MIN_VECTORS_FOR_RADIUS, ClassRows, Tuning
from cbcl_study.learners import learner_kind
from cbcl_study.records import Run
from cbcl_study.vote_cache import VoteCache


class RunStep(NamedTuple):
    """A step of a run: the answers after it, and the seconds that it took."""

    answers: Int64s
    n_bytes: int  # of the learner's state, after the last step
    learning: float
    saved: float  # seconds that were spent on it in another run, learning or answering


class Examined(NamedTuple):
    """Answers by a knowledge that several runs may come to, and the seconds that they took."""

    answers: Int64s
    cache: VoteCache
    seconds: float


class CommonKnowledge(NamedTuple):
    """CentroidModel that no budget has changed yet: what it is follows from the rest."""

    knowledge: CentroidModel
    n_classes: int  # the first of the stream
    history: tuple[tuple[int, Tuning], ...]  # each tuning, and the number of classes before it


class SharedWork:
    """Work that is done once for several runs of a stream, in one thread."""

    def __init__(self) -> None:
        self.n_classes = 0  # of the stream, after the step that is being learned
        self.examined: dict[Hashable, Examined] = {}  # by the name of a common knowledge
        self.steps: dict[int, RunStep] = {}  # of one that is trained anew, by the number of classes
        self._lessons: dict[Hashable, tuple[Lesson, float]] = {}
        self._common: dict[int, CommonKnowledge] = {}  # by its identity
        self._classes: dict[Hashable, tuple[Lesson, float]] = {}  # steps that know nothing before
        self._widened: dict[Hashable, tuple[float, float]] = {}  # radii, and seconds
        self.saved = 0.0  # seconds of learning that were not spent again

    def lesson(self, before: CentroidModel | None, begin: Callable[[], Lesson]) -> Lesson:
        """Return the step after this knowledge; `begin` is called if none is known."""
        is_common = before is None or id(before) in self._common
        key = None if before is None else id(before), self.n_classes
        known = self._lessons.get(key)
        if known is None and before is not None and not is_common:
            known = self._same_step(before)
        if known is not None:
            lesson, seconds = known
            self.saved += seconds
            return lesson
        begun = perf_counter()
        lesson = begin()
        seconds = perf_counter() - begun
        if is_common:
            self._lessons[key] = lesson, seconds
            self._common[id(lesson.unlimited)] = self._next_common(before, lesson)
        if all(rows.known is None for rows in lesson.classes.values()):
            step = len(lesson.classes), self.n_classes
            self._classes.setdefault(step, (replace(lesson, known={}), seconds))
        return lesson

    def _next_common(self, before: CentroidModel | None, lesson: Lesson) -> CommonKnowledge:
        history: tuple[tuple[int, Tuning], ...] = ()
        n_before = 0
        if before is not None:
            _, n_before, history = self._common[id(before)]
        if not history or history[-1][1] != lesson.tuning:
            history = (*history, (n_before, lesson.tuning))
        return CommonKnowledge(lesson.unlimited, self.n_classes, history)

    def _same_step(self, before: CentroidModel) -> tuple[Lesson, float] | None:
        """Return what another run learned of the same classes with the same radius, and is kept."""
        step = self.n_classes - len(before.concepts), self.n_classes
        if step not in self._classes:
            return None
        lesson, seconds = self._classes[step]
        kept = (before.radius, before.n_voters) == lesson.tuning and before.radius < math.inf
        if not kept or lesson.classes.keys() & before.concepts.keys():
            return None
        return replace(lesson, known=before.concepts), seconds

    def widening(self, widen: WidenFunction) -> WidenFunction:
        """Return a function that widens the radius of a step as `widen` does, once a limit."""

        def widen_once(
            matrix: Matrix, classes: Sequence[ClassRows], radius: float, limit: int
        ) -> float:
            key = self.n_classes, len(classes), widen, radius, limit
            if key in self._widened:
                wide, seconds = self._widened[key]
                self.saved += seconds
                return wide
            begun = perf_counter()
            wide = widen(matrix, classes, radius, limit)
            self._widened[key] = wide, perf_counter() - begun
            return wide

        return widen_once

    def add_cumulative(self, knowledge: CentroidModel) -> None:
        """Take note of knowledge that had one tuning from the start, and has no budget."""
        history = ((0, Tuning(knowledge.radius, knowledge.n_voters)),)
        self._common[id(knowledge)] = CommonKnowledge(knowledge, self.n_classes, history)

    def name_of(self, knowledge: CentroidModel) -> Hashable | None:
        """Return a name that only equal knowledge has; None: no other run may come to it."""
        common = self._common.get(id(knowledge))
        return None if common is None else common[1:]


def grouped(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs in groups that have work in common, order by order as they are given.

    In an order those with most work are the first, so that in the end no core waits long for
    another; but those that ask about the same test vectors follow each other.
    """
    groups: dict[Hashable, list[Run]] = {}
    work: Counter[Hashable] = Counter()
    turns: dict[int, int] = {}  # of the seeds
    for run in runs:
        turns.setdefault(run.seed, len(turns))
        groups.setdefault(_common_part(run), []).append(run)
        work[run.seed, run.data, run.backbone] += _work([run])

    def place(group: Sequence[Run]) -> tuple[int, int, str, str, int]:
        seed, data, backbone = group[0].seed, group[0].data, group[0].backbone
        return turns[seed], -work[seed, data, backbone], data, backbone, -_work(group)

    return sorted(groups.values(), key=place)


def _work(group: Sequence[Run]) -> int:
    """Return how many runs of a group take long: those with many centroids, or a training."""
    return sum(
        run.shots is None if kind.family is not None and kind.budgeted else kind.family is None
        for run in group
        for kind in [learner_kind(run.learner)]
    )


def _common_part(run: Run) -> Run:
    kind = learner_kind(run.learner)
    family = kind.family if run.max_centroids is not None or not kind.budgeted else None
    # Of few vectors there is mostly one centroid a class, whatever classes were the first.
    has_few = run.shots is not None and run.shots < MIN_VECTORS_FOR_RADIUS
    if not run.whole_base and (kind.cumulative or (family is not None and has_few)):
        run = run._replace(increment=1, base=None)
    return run if family is None else run._replace(learner=family, max_centroids=None)
