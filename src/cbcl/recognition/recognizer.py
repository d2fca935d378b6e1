"""Recognizer: photos in, answers out, and everything that was learned in one file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from cbcl.errors import ChangedError, MemoryFileError, PictureError
from cbcl.memory.rows import MemoryInfo, Settings, StoredExample, as_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MemoryState, Step, Transaction
from cbcl.method.arrays import Float32s, as_count, as_radius
from cbcl.method.concepts import Concepts
from cbcl.method.knowledge import Options
from cbcl.method.tuning import Tuning, tune
from cbcl.recognition import editing
from cbcl.recognition.answer import Answer, Example
from cbcl.recognition.answer import answers as answers_to
from cbcl.recognition.editing import ImportResult, must_be_kept, must_be_known
from cbcl.recognition.embedder import BackboneSpec, Embedder, OnBroken, limit_at_first
from cbcl.recognition.examples import PER_CENTROID, EmbeddedPicture
from cbcl.recognition.learning import LabelledBatch, LearningResult, basis, plan
from cbcl.recognition.self_test import SelfTestResult, examine
from cbcl.recognition.snapshot import LabelSummary, Snapshot, latest
from cbcl.recognition.suggestions import MAX_WANTED, Suggestions, look_alikes, wanting, worth_asking
from cbcl.vision.decoding import name_of
from cbcl.vision.extraction import Progress

if TYPE_CHECKING:
    from cbcl.memory.check import Finding
    from cbcl.memory.exchange import ExportResult
    from cbcl.method.classifier import CBCLClassifier
    from cbcl.vision.backbones.base import Backbone

MAX_EXAMINED = 2000  # examples, only to give advice: it takes a second


class Recognizer:
    """Learns things from a few photos each and tells them apart; what it knows is in a file, safe after every call.

    Parameters
    ----------
    path
        The memory file, made by the first `learn`. Several processes may use it: each sees what the others learn.
    backbone
        What turns pictures into vectors: see `load_backbone`. None: the one that the memory was learned through, or
        EfficientNet-Lite0 for a new memory.
    private
        Keep no thumbnails in a new memory, and no vectors of its pictures in the cache. A memory stays as it began.
    max_centroids
        The most centroids to keep, over all labels. None: as the memory has it, which is no limit at first.
    radius, n_voters
        As for `CBCLClassifier`: "auto" chooses them. What is given holds from the next `learn` on.
    cache
        Whether vectors are kept in the user's cache folder, so that a picture seen before costs nothing.

    Examples
    --------
    >>> from cbcl import Recognizer, load_backbone
    >>> letters = load_backbone(lambda words: [[w.count(c) for c in "abcdefgh"] for w in words], name="letters")
    >>> things = Recognizer(folder / "words.cbcl", backbone=letters)
    >>> things.learn("fruit", ["cabbage", "bag"]).pictures
    {'fruit': 2}
    >>> things.learn("music", ["deed", "feed"]).pictures
    {'music': 2}
    >>> things.recognize("fed").label
    'music'
    >>> things.rename("fruit", "greens")
    >>> things.labels()
    {'greens': 2, 'music': 2}
    >>> things.undo().action
    'rename'
    >>> things.close()

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        backbone: BackboneSpec | None = None,
        *,
        private: bool = False,
        max_centroids: int | None = None,
        radius: float | Literal["auto"] = "auto",
        n_voters: int | Literal["auto"] = "auto",
        cache: bool = True,
    ) -> None:
        self._private = private
        self._options = Options(
            radius=None if radius == "auto" else as_radius(radius),
            n_voters=None if n_voters == "auto" else as_count(n_voters, "n_voters"),
            max_centroids=None
            if max_centroids is None
            else as_count(max_centroids, "max_centroids"),
        )
        self._memory = Memory(Path(path))
        self._sight = Embedder(self._memory, backbone, private=private, cache=cache)
        self._known: Snapshot | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. What was learned is in it already."""
        self._memory.close()
        self._sight.close()
        self._known = None

    @property
    def path(self) -> Path:
        return self._memory.path

    def pictures(self, things: Any) -> list[Any]:
        """What is meant by files, folders, patterns and so on, one by one; a memory in a folder is no picture."""
        return self._sight.sources(things)

    @property
    def backbone(self) -> Backbone | None:
        """The backbone in use."""
        return self._sight.backbone()

    def settings(self) -> Settings:
        """Return the settings."""
        return self._memory.view().settings

    def check(self) -> list[Finding]:
        """Return everything that is wrong with the memory file."""
        from cbcl.memory.check import check

        return check(self.path)

    def export(self, path: str | os.PathLike[str]) -> ExportResult:
        """Write arrays and JSON."""
        from cbcl.memory.exchange import export

        return export(self._memory, Path(path))

    def import_(self, path: str | os.PathLike[str]) -> None:
        """Read arrays and JSON into a new memory."""
        from cbcl.memory.exchange import import_

        import_(Path(path), self._memory)

    def find_labelled(self, folders: Sequence[str | os.PathLike[str]]) -> dict[str, list[Path]]:
        """Return the files of each label in folders of folders."""
        from cbcl.vision.decoding import find_labelled

        things: dict[str, list[Path]] = {}
        for label, path in find_labelled(folders, self._memory.own_files()):
            things.setdefault(label, []).append(path)
        return things

    def labels(self) -> dict[str, int]:
        """What is known, and from how many pictures, in the order of the labels."""
        return {label: concepts.size for label, concepts in self.concepts().items()}

    def concepts(self) -> dict[str, Concepts]:
        """The centroids of each label, and how many pictures stand behind each."""
        if not self._memory.exists():
            return {}
        return {
            label: stored.concepts for label, stored in self._current(empty=True).classes.items()
        }

    def learn(
        self,
        label: str,
        pictures: Any,
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> LearningResult:
        """Learn a label, or more of it, from pictures: a file, folder, pattern, bytes, array, or a list of these."""
        return self.learn_many({label: pictures}, broken=broken, progress=progress)

    def learn_many(
        self,
        things: Mapping[str, Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> LearningResult:
        """Learn several labels in one step: all of it is learned, or nothing.

        A picture that cannot be read is raised; with broken="report" it is left out, and told of in what is returned.
        """
        lesson = self._see(things, broken, progress)
        made = None
        with suppress(ChangedError):
            made = plan(lesson, self._view(lesson), self._memory, self._options)
        with self._step(lesson) as writing:
            if made is None or made.basis != basis(
                lesson, writing.view, self._options
            ):  # others were faster
                made = plan(lesson, writing.view, self._memory, self._options)
            writing.begin("learn", {"pictures": lesson.learned.pictures}, made.settings)
            for label, stored, thumbnails in made.classes:
                writing.put(label, stored, thumbnails)
        known = self.labels()
        totals = {label: known.get(label, 0) for label in lesson.learned.pictures}
        return lesson.learned._replace(totals=totals, n_labels=len(known))

    def recognize(self, picture: Any) -> Answer:
        """What a picture shows: a label or "unknown", how sure, what else it might be, and why."""
        answers = self.recognize_many([picture])
        if len(answers) != 1:
            raise PictureError(
                f"that is {len(answers)} pictures, not one: ask with recognize_many."
            )
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
        """An answer for each picture, in their order; with broken="report", the error in place of an answer."""
        known = self._current()
        sources = self._sight.sources(pictures)
        found = self._sight.see(sources, broken=broken, progress=progress)
        vectors = [result for result in found if not isinstance(result, PictureError)]
        made = iter(answers_to(np.stack(vectors), known.knowledge, known.scale) if vectors else [])
        return [
            result
            if isinstance(result, PictureError)
            else self._illustrated(next(made), known.view)._replace(
                picture=name_of(sources[number], number)
            )
            for number, result in enumerate(found)
        ]

    def embed(self, pictures: Any, *, progress: Progress | None = None) -> Float32s:
        """The vectors of pictures, one row each: what `as_estimator` takes."""
        sources = self._sight.sources(pictures)
        if not sources:
            raise PictureError("there is nothing to look at: give at least one picture.")
        found = self._sight.see(sources, progress=progress)
        return np.stack([result for result in found if not isinstance(result, PictureError)])

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
        """Pictures looked at once, to be learned or recognized, or both, as often as need be.

        A `EmbeddedPicture` for each, which can be given wherever a picture can; with broken="report", the error in its place.
        """
        return self._sight.look(self._sight.sources(pictures), broken=broken, progress=progress)

    def examples(self, label: str) -> list[Example]:
        """The examples that are kept of a label, in the order they were learned: at least its first hundred."""
        view = self._memory.view()
        must_be_known(label := as_label(label), view)
        return [_example(thumbnail) for thumbnail in self._memory.thumbnails(view, label)]

    def example(self, number: int) -> Example:
        """One of the examples that are kept."""
        return _example(must_be_kept(self._memory, number)[1])

    def unlearn(self, number: int) -> str:
        """Take one of the examples that are kept out of its label, which is returned; the last takes its label along.

        Where all examples of the label are kept, it is learned anew from the others, as if this one had never been
        shown; else this one is taken out of the mean that is nearest to it.
        """
        return editing.unlearn(self._memory, number)

    def forget(self, label: str, *, for_good: bool = False) -> None:
        """Forget a label: the others are as if it had never been learned (but for room that they made for it).

        It can be undone, so the file still holds it; with `for_good` nothing of it remains, not even its name, and
        neither this nor any step before it can be undone. A label that was forgotten before can be, for good.
        """
        editing.forget(self._memory, label, for_good=for_good)

    def rename(self, label: str, new: str) -> None:
        """Call a label something else."""
        editing.rename(self._memory, label, new)

    def merge(self, label: str, into: str) -> None:
        """Make one label part of another: they turned out to be the same."""
        editing.merge(self._memory, label, into)

    def adopt(self, path: str | os.PathLike[str]) -> ImportResult:
        """Learn all that another memory knows, in one step: labels known here, too, are merged with theirs."""
        theirs = editing.read(Path(path))
        if self._memory.exists():
            self._sight.check_private(self._memory.view().about)
        else:
            self._sight.become(theirs.view.about)
        limit = self._options.max_centroids
        return editing.adopt(self._memory, theirs, private=self._private, max_centroids=limit)

    def save_copy(self, path: str | os.PathLike[str]) -> None:
        """Write all that is known now into a new file: a memory without history, and without what was forgotten."""
        self._memory.copy(Path(path).absolute())

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write what is known now, backbone included, as one ONNX graph that gives the same answers: docs/onnx.md."""
        from cbcl.recognition.onnx_export import export_onnx  # which loads onnx

        known = self._current()
        self._sight.check(known.view.about)
        export_onnx(Path(path), known.knowledge, known.scale, self._sight.backbone())

    def undo(self) -> Step:
        """Take back the latest step that was not taken back yet, and say what it was: up to twenty steps."""
        with self._memory.writing() as writing:
            step = writing.undo()
        if step is None:
            raise MemoryFileError(f"{self.path} has nothing to undo.")
        return step

    def history(self) -> list[Step]:
        """What was done to the memory, the latest first."""
        return self._memory.history() if self._memory.exists() else []

    def revision(self) -> int:
        """The number of the last step, by whomever it was done; 0: none was yet."""
        return self._memory.view().step if self._memory.exists() else 0

    def about(self) -> MemoryInfo | None:
        """What the memory is of: the backbone it was learned through, whether it is private; None: nothing yet."""
        return self._memory.view().about if self._memory.exists() else None

    def things(self) -> list[LabelSummary]:
        """All that is known, in the order of the labels: how much, and a few examples to show."""
        if not self._memory.exists():
            return []
        return self._current(empty=True).things

    def examine(self) -> SelfTestResult:
        """How well it knows its own things: each example that is kept is asked about, by what the others teach."""
        if not self._memory.exists():
            return examine({}, Settings())
        view = self._memory.view()
        kept = {label: self._memory.thumbnails(view, label) for label in view.classes}
        examples = {
            label: [(one.number, one.vector) for one in some] for label, some in kept.items()
        }
        return examine(examples, view.settings, at_first=limit_at_first(view.about.backbone))

    def advise(self) -> Suggestions:
        """What to ask a person who teaches: which labels may be the same, and of which more should be shown."""
        labels = self.labels()
        if not labels:
            return Suggestions((), ())
        known = self._current()
        more = wanting(labels)
        if len(more) < MAX_WANTED and sum(labels.values()) <= MAX_EXAMINED:
            more = wanting(labels, self.examine())
        return Suggestions(look_alikes(known.knowledge, known.scale), more)

    def worth_asking(self, seen: Sequence[EmbeddedPicture], answers: Sequence[Answer]) -> list[int]:
        """The order in which to ask a person about pictures that were looked at, the one to gain most from first."""
        return worth_asking(np.stack([one.vector for one in seen]), answers) if seen else []

    def tune(
        self,
        things: Mapping[str, Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> Tuning:
        """Choose the radius and the number of voters by cross-validation on these pictures, and go on with them.

        Nothing of the pictures is learned. What is known already stays as it is: the radius is for what comes.
        """
        lesson = self._see(things, broken, progress)
        chosen = tune([lesson.matrix[lesson.targets == label] for label in lesson.learned.pictures])
        with self._step(lesson) as writing:
            settings = writing.view.settings._replace(
                radius=chosen.radius, n_voters=chosen.n_voters
            )
            writing.begin("tune", {"pictures": lesson.learned.pictures}, settings)
        return chosen

    def as_estimator(self) -> CBCLClassifier:
        """What is known now, as a scikit-learn classifier of the vectors that `embed` gives: the same answers."""
        from cbcl.method.classifier import CBCLClassifier  # which loads scikit-learn

        known = self._current()
        return CBCLClassifier.from_concepts(
            known.knowledge.concepts,
            radius=known.knowledge.radius,
            n_voters=known.knowledge.n_voters,
            max_centroids=known.view.settings.max_centroids,
        )

    def _current(self, *, empty: bool = False) -> Snapshot:
        """All that is known at this moment."""
        self._known = known = latest(self._memory, self._known)
        if not (empty or known.classes):
            raise MemoryFileError(f"{self.path} knows nothing: learn something first.")
        return known

    def _see(
        self, things: Mapping[str, Any], broken: OnBroken, progress: Progress | None
    ) -> LabelledBatch:
        self._memory.check_writable()
        labels: list[str] = []
        sources: list[Any] = []
        for label, pictures in things.items():
            some = self._sight.sources(pictures)
            labels += [as_label(label)] * len(some)
            sources += some
        if not sources:
            raise PictureError("there is nothing to learn: give at least one picture.")
        found = self._sight.see(sources, broken=broken, progress=progress)
        problems = tuple(result for result in found if isinstance(result, PictureError))
        good = [
            number for number, result in enumerate(found) if not isinstance(result, PictureError)
        ]
        if not good:
            raise problems[0]
        matrix = np.stack([result for result in found if not isinstance(result, PictureError)])
        targets = np.array([labels[number] for number in good], dtype=object)
        counts = {label: int(np.sum(targets == label)) for label in dict.fromkeys(targets)}
        pictures = (
            None
            if self._sight.backbone().at_least is None
            else [sources[number] for number in good]
        )
        return LabelledBatch(matrix, targets, pictures, LearningResult(counts, problems))

    def _about(self, lesson: LabelledBatch) -> MemoryInfo:
        backbone = self._sight.backbone()
        return MemoryInfo(
            backbone.name,
            backbone.fingerprint,
            lesson.matrix.shape[1],
            self._private,
            version("cbcl"),
        )

    def _view(self, lesson: LabelledBatch) -> MemoryState:
        """The memory now, or as it would begin."""
        return (
            self._memory.view()
            if self._memory.exists()
            else MemoryState(self._about(lesson), Settings(), {})
        )

    @contextmanager
    def _step(self, lesson: LabelledBatch) -> Iterator[Transaction]:
        """A step on the memory, made if need be, if it was learned through the same backbone."""
        with self._memory.writing(self._about(lesson), self._sight.backbone().state) as writing:
            self._sight.check(writing.view.about, lesson.matrix.shape[1])
            yield writing

    def _illustrated(self, answer: Answer, view: MemoryState) -> Answer:
        reasons = (
            reason._replace(
                examples=tuple(
                    map(
                        _example,
                        self._memory.nearest(view, reason.label, reason.centroid, PER_CENTROID),
                    )
                )
            )
            for reason in answer.evidence
        )
        return answer._replace(evidence=tuple(reasons))


def _example(thumbnail: StoredExample) -> Example:
    return Example(thumbnail.number, thumbnail.centroid, thumbnail.jpeg)
