"""Snapshot: one revision of a memory, of which any number of questions are asked."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from cbcl.errors import ChangedError, LabelError, MemoryFileError, PictureError
from cbcl.export.portable import PortableModel, portable_examples
from cbcl.heads.base import (
    DEFAULT_HEAD,
    NEGATIVES,
    Ability,
    HeadModel,
    Settings,
    VectorClassifier,
    check_able,
    find_head,
)
from cbcl.heads.self_test import NO_EXAMPLES, SelfTestResult, tabulate
from cbcl.memory.connection import file_identity
from cbcl.memory.rows import MemoryInfo, as_label
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.forecast import UnknownReport
from cbcl.recognition.answer import Answer, Example, as_answer
from cbcl.recognition.cosines import context_of, measured_of
from cbcl.recognition.embedder import Embedder, OnBroken
from cbcl.recognition.labels import check_known
from cbcl.recognition.suggestions import (
    MAX_WANTED,
    Suggestions,
    find_nearest,
    find_similar,
    find_wanted,
    group_alike,
    worth_asking,
)
from cbcl.vision.decoding import name_of
from cbcl.vision.extraction import EmbeddedPicture, Progress

MAX_READ_TRIES = 10  # while other processes change the memory
MAX_SHOWN = 4  # examples in a summary
MAX_EXAMINED = 2000  # examples that are worth a self-test for advice: it takes a second
SHOWN_EACH = 3  # examples of a ground of an answer


class LabelSummary(NamedTuple):
    """A label, in numbers."""

    label: str
    examples: int  # learned, copies counted once
    concepts: int
    kept: int  # of the examples
    shown: list[int]  # the numbers of a few of those
    changed: int  # grows with every change of any label: the largest is that of the latest


class Suspect(NamedTuple):
    """An example that speaks for an answer, and the answer had it not been learned."""

    example: Example
    answer: Answer | None  # None: nothing else is known


class Questions(ABC):
    """Questions that a snapshot answers, and a recognizer by its latest one."""

    _memory: Memory

    @abstractmethod
    def _asked(self) -> Snapshot:
        """Return the snapshot that answers."""

    @property
    def path(self) -> Path:
        """The memory file."""
        return self._memory.path

    def labels(self) -> dict[str, int]:
        """Return how many pictures were learned of each label, in the order of the labels."""
        asked = self._asked()
        if asked._state is None:
            return {}
        summarize = asked._state.head.summarize
        return {label: summarize(known).pictures for label, known in asked._classes.items()}

    def recognize(self, picture: Any) -> Answer:
        """Recognize one picture: a label or "unknown", the confidence, a ranking, and evidence.

        It may be a file, bytes, an array, or a folder or pattern that stands for one picture; for
        several there is `recognize_many`.
        """
        answers = self.recognize_many([picture])
        check_one(len(answers), "recognize", "use recognize_many")
        return answers[0]

    @overload
    def recognize_many(
        self, pictures: Any, *, broken: Literal["raise"] = "raise", progress: Progress | None = None
    ) -> list[Answer]: ...

    @overload
    def recognize_many(
        self, pictures: Any, *, broken: OnBroken, progress: Progress | None = None
    ) -> list[Answer] | list[Answer | PictureError]: ...

    def recognize_many(
        self, pictures: Any, *, broken: OnBroken = "raise", progress: Progress | None = None
    ) -> list[Answer] | list[Answer | PictureError]:
        """Return an answer for each picture, in order; with broken="report", or its error."""
        asked = self._asked()
        about = asked._check_knows().about
        sources = asked._embedder.sources(pictures)
        embedded = asked._embedder.embed(sources, about, broken=broken, progress=progress)
        vectors = [one.vector for one in embedded if isinstance(one, EmbeddedPicture)]
        answers = iter(asked._answer(np.stack(vectors)) if vectors else [])
        results: list[Answer | PictureError] = []
        for number, picture in enumerate(embedded):
            if isinstance(picture, PictureError):
                results.append(picture)
            else:
                name = str(name_of(sources[number], number))
                results.append(next(answers)._replace(picture=name))
        return results

    @overload
    def look(
        self, pictures: Any, *, broken: Literal["raise"] = "raise", progress: Progress | None = None
    ) -> list[EmbeddedPicture]: ...

    @overload
    def look(
        self, pictures: Any, *, broken: OnBroken, progress: Progress | None = None
    ) -> list[EmbeddedPicture] | list[EmbeddedPicture | PictureError]: ...

    def look(
        self, pictures: Any, *, broken: OnBroken = "raise", progress: Progress | None = None
    ) -> list[EmbeddedPicture] | list[EmbeddedPicture | PictureError]:
        """Embed pictures once, to learn or recognize them as often as need be.

        Each `EmbeddedPicture` can be given wherever a picture can; with broken="report", an error
        is in the place of one that cannot be read. Nothing is written to the cache.
        """
        asked = self._asked()
        sources = asked._embedder.sources(pictures)
        return asked._embedder.look(sources, asked.about, broken=broken, progress=progress)

    def as_estimator(self) -> VectorClassifier:
        """Return a scikit-learn classifier of vectors that gives the same labels."""
        asked = self._asked()
        asked._check_knows()
        return asked._model.estimator()


class Snapshot(Questions):
    """One revision of a memory: whatever is asked of it is answered from the same state.

    `Recognizer.snapshot` returns it; the same one as long as nothing changes. What was learned is
    read when it is made. Examples are read from the file when they are asked for: those of labels
    that changed since are there for the next twenty steps.

    Examples
    --------
    >>> from cbcl import Recognizer, load_backbone
    >>> def count_letters(words):
    ...     return [[word.count(letter) for letter in "abcdefgh"] for word in words]
    >>> letters = load_backbone(count_letters, name="letters")
    >>> with Recognizer(folder / "words.cbcl", backbone=letters) as words:
    ...     learned = words.learn_many({"fruit": ["cabbage", "bag"], "music": ["deed", "feed"]})
    ...     snapshot = words.snapshot()
    ...     forgotten = words.forget("music")
    ...     snapshot.revision, snapshot.labels(), words.labels()
    (1, {'fruit': 2, 'music': 2}, {'fruit': 2})

    """

    def __init__(self, memory: Memory, embedder: Embedder, state: MemoryState | None) -> None:
        self._file = file_identity(memory.path)
        self._memory = memory
        self._embedder = embedder
        self._state = state
        self._classes = {} if state is None else memory.load(state)
        self._negatives = None
        if state is not None and state.negatives is not None:
            self._negatives = memory.load(state, [NEGATIVES])[NEGATIVES]

    def _asked(self) -> Snapshot:
        return self

    def __repr__(self) -> str:
        return f"<Snapshot: revision {self.revision} of {self.path.name!r}>"

    @property
    def file(self) -> tuple[int, int]:
        """Device and inode of the file, which another may replace; zeros: there is none."""
        return self._file

    @property
    def revision(self) -> int:
        """The number of the last step, of whatever process; 0: there was none yet."""
        return 0 if self._state is None else self._state.step

    @property
    def about(self) -> MemoryInfo | None:
        """The memory's backbone, and whether it is private; None: there is no memory yet."""
        return None if self._state is None else self._state.about

    @property
    def settings(self) -> Settings:
        """Settings of the memory, which must exist: its head, and what that is told."""
        return self._existing().settings

    @property
    def abilities(self) -> frozenset[Ability]:
        """Abilities of the memory's head; before there is a memory, of the default head."""
        head = find_head(DEFAULT_HEAD) if self._state is None else self._state.head
        return head.abilities

    def concepts(self) -> dict[str, Concepts]:
        """Return the centroids of each label, and how many pictures each stands for.

        By the discriminant, each label has one: the mean direction of its pictures.
        """
        return self._model.concepts if self._classes else {}

    def things(self) -> list[LabelSummary]:
        """Return a summary of each label, in the order of the labels, with examples to show."""
        return self._summaries if self._state is not None else []

    def examples(self, label: str) -> list[Example]:
        """Return the examples kept of a label, in the order learned: at least its first hundred."""
        view = self._existing()
        label = as_label(label)
        check_known(label, view.classes)
        return self._examples(view, label)

    def thumbnail(self, number: int) -> bytes:
        """Return the thumbnail of an example, by its number; LabelError: it is not there."""
        return self._memory.example(number)[1].jpeg

    def negatives(self) -> list[Example]:
        """Return the examples kept of pictures that were taught as none of the known things."""
        if self._state is None or self._state.negatives is None:
            return []
        return self._examples(self._state, NEGATIVES)

    def n_negatives(self) -> int:
        """Return how many pictures were taught as none of the known things."""
        if self._state is None or self._negatives is None:
            return 0
        return self._state.head.summarize(self._negatives).pictures

    def suspects(self, picture: Any) -> list[Suspect]:
        """Return the examples that may be why the answer about a picture is wrong: three at most.

        They are the nearest of those kept of the label that was answered; where that was "unknown",
        of those taught as none of the known things. Each comes with the answer had it not been
        learned; the first is the most decisive. `Recognizer.unlearn` sets one aside.
        """
        view = self._check_knows()
        check_able("suspects", view.head, error=LabelError)
        seen = self.look([picture])
        check_one(len(seen), "suspects", "ask about each by itself")
        sight = view.head.see(seen[0].vector[np.newaxis])
        found = self._model.suspects(sight, self._numbers)
        suspects = []
        for label, place, verdict in found:
            example = Example(self._numbers(label)[place], place, self._memory)
            answer = None if verdict is None else as_answer(verdict, {}, self._memory, -1.0)
            suspects.append(Suspect(example, answer))
        return suspects

    def unknown(self) -> UnknownReport | None:
        """Return what decides "unknown", and what each setting does with the pictures kept.

        None: the head has no such setting, nothing is known, or there are too few vectors to tell.
        """
        return self._model.report_unknown() if self._classes else None

    def examine(self) -> SelfTestResult:
        """Recognize each example that is kept by what the others teach (cross-validation)."""
        return self._self_test

    def advise(self) -> Suggestions:
        """Suggest what to ask a teacher: which labels may be the same, and which need examples."""
        labels = self.labels()
        if not labels:
            return Suggestions((), ())
        more = find_wanted(labels)
        if len(more) < MAX_WANTED and sum(labels.values()) <= MAX_EXAMINED:
            more = find_wanted(labels, self.examine())
        return Suggestions(find_similar(self._model.concepts, self._model.usual_distance), more)

    def similar(self, label: str) -> list[str]:
        """Return the other labels, those that look most like one first: sixteen at most."""
        view = self._check_knows()
        label = as_label(label)
        check_known(label, view.classes)
        return find_nearest(label, self._model.concepts, self._model.usual_distance)

    def worth_asking(self, seen: Sequence[EmbeddedPicture], answers: Sequence[Answer]) -> list[int]:
        """Return the order in which to ask a teacher about pictures, the most instructive first.

        Pictures and their answers are those of `look` and `recognize_many`.
        """
        if not seen:
            return []
        matrix = np.stack([one.vector for one in seen])
        points = matrix if self._state is None else self._state.head.see(matrix).points
        return worth_asking(points, answers)

    def group_alike(self, seen: Sequence[EmbeddedPicture]) -> list[list[int]]:
        """Return groups of pictures that look alike, for a teacher to name at once.

        A group is the places of its pictures among those given, the most typical first; the
        largest group comes first, and a picture like no other is in none. How alike they must be
        is known of the backbones with a name, and of those that were measured; of others, as good
        as the same.
        """
        if not seen:
            return []
        directions = as_directions(np.stack([one.vector for one in seen]))
        about = self.about or self._embedder.describe(directions.shape[1])
        return group_alike(directions, measured_of(about).alike)

    def export_onnx(self, path: str | os.PathLike[str], *, any_size: bool = False) -> None:
        """Write what is known, backbone included, as an ONNX graph that answers: docs/onnx.md.

        With `any_size` it takes whole pictures, which it crops and resizes itself.
        """
        from cbcl.export.onnx import export_onnx  # which loads onnx

        view = self._check_knows()
        self._embedder.check(view.about)
        export_onnx(
            Path(path), self._model, view.head, self._embedder.backbone(), any_size=any_size
        )

    def portable(self, *, thumbnails: bool = False) -> PortableModel:
        """Return what `export_onnx` writes for pictures of any size, with what a page shows.

        With `thumbnails`, the graph gives the distances to examples, whose pictures come with it.
        """
        from cbcl.export.onnx import checked_onnx  # which loads onnx

        view = self._check_knows()
        backbone = self._embedder.backbone()
        self._embedder.check(view.about)
        if thumbnails and view.about.private:
            problem = "is private, and keeps no thumbnails"
            raise MemoryFileError(self.path, problem, "export it without them")
        records = self._memory.records(view) if thumbnails else {}
        examples = portable_examples(self._model, records)
        graph = checked_onnx(self._model, view.head, backbone, any_size=True, examples=examples)
        return PortableModel(graph, self._model.labels, backbone.at_least or 1, examples)

    @cached_property
    def _model(self) -> HeadModel:
        """All classes, ready to answer; there must be one."""
        view = self._existing()
        return view.head.model(self._classes, self._negatives, context_of(view))

    @cached_property
    def _summaries(self) -> list[LabelSummary]:
        view = self._existing()
        examples = self._memory.summarize_examples(view, MAX_SHOWN)
        return [
            LabelSummary(
                label,
                concepts.size,
                len(concepts.counts),
                *examples[label],
                view.classes[label],
            )
            for label, concepts in self.concepts().items()
        ]

    @cached_property
    def _self_test(self) -> SelfTestResult:
        if not self._classes:
            return tabulate([], [], NO_EXAMPLES)
        return self._model.self_test(self._memory.records(self._existing()))

    def _answer(self, matrix: Float32s) -> list[Answer]:
        """Return an answer for each vector, with examples of its evidence."""
        view = self._existing()
        verdicts = self._model.answer(view.head.see(matrix))
        wanted = [(one.label, one.place) for verdict in verdicts for one in verdict.grounds]
        examples = self._memory.nearest(view, wanted, SHOWN_EACH)
        farthest = -1.0
        if "copies" in view.head.abilities:
            farthest = math.sqrt(2.0 - 2.0 * measured_of(view.about).copy)
        return [as_answer(verdict, examples, self._memory, farthest) for verdict in verdicts]

    def _numbers(self, label: str) -> dict[int, int]:
        """Return the numbers of the examples of a label by their places."""
        return {place: number for number, place in self._memory.places(self._existing(), label)}

    def _examples(self, view: MemoryState, label: str) -> list[Example]:
        numbers = self._memory.places(view, label)
        return [Example(number, place, self._memory) for number, place in numbers]

    def _existing(self) -> MemoryState:
        if self._state is None:
            raise self._memory.missing()
        return self._state

    def _check_knows(self) -> MemoryState:
        """Raise an error, unless something is known."""
        view = self._existing()
        if not view.classes:
            raise MemoryFileError(self.path, "knows nothing", "learn something first")
        return view


def check_one(given: int, question: str, advice: str) -> None:
    """Raise PictureError, unless a question was given one picture."""
    if given != 1:
        raise PictureError(question, f"takes one picture, not {given}", advice)


def latest(memory: Memory, embedder: Embedder, before: Snapshot | None) -> Snapshot:
    """Return the snapshot of the present state: the one before, if nothing has changed."""
    for _ in range(MAX_READ_TRIES):
        state = memory.latest()
        if before is not None and before._state is state:
            return before
        with suppress(ChangedError):  # another process was faster: read again
            return Snapshot(memory, embedder, state)
    raise MemoryFileError(memory.path, "is constantly changed by another process", "try again")
