"""Recognizer: photos in, answers out, and everything that was learned in one file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from cbcl.errors import MemoryFileError, PictureError
from cbcl.memory.check import Finding, repair
from cbcl.memory.check import check as find_damage
from cbcl.memory.exchange import ExportResult, export, import_
from cbcl.memory.rows import NEGATIVES, MemoryInfo, Settings, as_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Step
from cbcl.method.arrays import Float32s
from cbcl.method.concepts import Concepts
from cbcl.method.directions import as_directions
from cbcl.method.statistical import StatisticalKnowledge
from cbcl.recognition import editing
from cbcl.recognition.answer import Answer, Example
from cbcl.recognition.editing import ImportResult
from cbcl.recognition.embedder import (
    BackboneSpec,
    Embedder,
    OnBroken,
    initial_limit_of,
    nothing_given,
)
from cbcl.recognition.labels import check_known
from cbcl.recognition.learning import (
    LearningOptions,
    LearningResult,
    TuningResult,
    embed_labelled,
    learn_batch,
    tune_by,
)
from cbcl.recognition.self_test import SelfTestResult, examine
from cbcl.recognition.snapshot import LabelSummary, Snapshot, latest
from cbcl.recognition.suggestions import (
    MAX_WANTED,
    Suggestions,
    find_similar,
    find_wanted,
    worth_asking,
)
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.decoding import name_of
from cbcl.vision.extraction import EmbeddedPicture, Progress

if TYPE_CHECKING:
    from cbcl.method.classifier import CBCLClassifier

MAX_EXAMINED = 2000  # examples that are worth a self-test for advice: it takes a second


class Recognizer:
    """Learns things from a few photos each and tells them apart; its memory is a file.

    Parameters
    ----------
    path
        The memory file, made by the first `learn`. What a call has learned is in it when the call
        returns. Several processes may use it: each sees what the others learn.
    backbone
        What turns pictures into vectors: see `load_backbone`. None: the one that the memory was
        learned through, or EfficientNet-Lite0 for a new memory.
    private
        Keep no thumbnails in a new memory, and no vectors of its pictures in the cache. A memory
        stays as it began.
    head
        How pictures are told apart: "discriminant" or "vote", as for `CBCLClassifier`. None: as the
        memory does, or for a new memory by the discriminant, unless an option of the vote is given.
    max_centroids
        Of the vote: the most centroids to keep, over all labels. None: as the memory has it, which
        is no limit at first.
    radius
        Of the vote, as for `CBCLClassifier`: "auto" chooses it. What is given holds from the next
        `learn` on.
    n_voters
        Likewise.
    cache
        Keep vectors in the user's cache folder, so that a picture is embedded once.

    Examples
    --------
    >>> from cbcl import Recognizer, load_backbone
    >>> def count_letters(words):
    ...     return [[word.count(letter) for letter in "abcdefgh"] for word in words]
    >>> letters = load_backbone(count_letters, name="letters")
    >>> things = Recognizer(folder / "words.cbcl", backbone=letters)
    >>> things.learn("fruit", ["cabbage", "bag"]).pictures
    {'fruit': 2}
    >>> things.learn("music", ["deed", "feed"]).pictures
    {'music': 2}
    >>> things
    Recognizer('words.cbcl')
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
        head: Literal["discriminant", "vote"] | None = None,
        max_centroids: int | None = None,
        radius: float | Literal["auto"] = "auto",
        n_voters: int | Literal["auto"] = "auto",
        cache: bool = True,
    ) -> None:
        self._private = private
        self._options = LearningOptions.of(head, radius, n_voters, max_centroids)
        self._memory = Memory(Path(path))
        self._embedder = Embedder(self._memory, backbone, private=private, cache=cache)
        self._snapshot: Snapshot | None = None

    def __repr__(self) -> str:
        return f"Recognizer({self.path.name!r})"

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
        """Close the file. What was learned is in it already."""
        self._memory.close()
        self._embedder.close()
        self._snapshot = None

    @property
    def path(self) -> Path:
        """The memory file."""
        return self._memory.path

    @property
    def backbone(self) -> Backbone:
        """The backbone of the memory, or of a new one; it is loaded when first asked for."""
        return self._embedder.backbone()

    def pictures(self, things: Any) -> list[Any]:
        """Return the single pictures meant by files, folders, patterns and lists of these.

        A memory in a folder is not among them.
        """
        return self._embedder.sources(things)

    def find_labelled(self, folders: Iterable[str | os.PathLike[str]]) -> dict[str, list[Path]]:
        """Return the files of each label, for `learn_many`, from folders of folders.

        `things/cup/1.jpg` is a cup, given `things` or `things/cup`. A memory in a folder is not
        among the files.
        """
        return self._embedder.find_labelled(folders)

    def labels(self) -> dict[str, int]:
        """Return how many pictures were learned of each label, in the order of the labels."""
        return {label: concepts.size for label, concepts in self.concepts().items()}

    def concepts(self) -> dict[str, Concepts]:
        """Return the centroids of each label, and how many pictures each stands for.

        Of the discriminant, each label has one: the mean direction of its pictures.
        """
        return self._current(empty=True).concepts if self._memory.exists() else {}

    def settings(self) -> Settings:
        """Return head, radius, n_voters and max_centroids of the memory, which must exist."""
        return self._memory.view().settings

    def learn(
        self,
        label: str | None,
        pictures: Any,
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> LearningResult:
        """Learn a label, or more of it, from pictures: files, folders, patterns, bytes, arrays.

        The label None teaches pictures as none of the things that are known: what looks like them
        is unknown. A picture that is known already, or nearly the same as one that is, adds
        nothing; one that was taught with another label is taken from there.
        """
        return self.learn_many({label: pictures}, broken=broken, progress=progress)

    def learn_many(
        self,
        things: Mapping[str | None, Any] | Mapping[str, Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> LearningResult:
        """Learn several labels in one step: all of it is learned, or nothing.

        A picture that cannot be read is raised; with broken="report" it is left out, and its error
        is part of the result.
        """
        self._memory.check_writable()
        batch = embed_labelled(self._embedder, things, broken, progress)
        return learn_batch(self._memory, self._embedder, batch, self._options)

    def recognize(self, picture: Any) -> Answer:
        """Recognize one picture: a label or "unknown", the confidence, a ranking, and evidence.

        It may be a file, bytes, an array, or a folder or pattern that stands for one picture; for
        several there is `recognize_many`.
        """
        answers = self.recognize_many([picture])
        if len(answers) != 1:
            problem = f"takes one picture, not {len(answers)}"
            raise PictureError("recognize", problem, "use recognize_many")
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
        snapshot = self._current()
        sources = self._embedder.sources(pictures)
        embedded = self._embedder.embed(sources, broken=broken, progress=progress)
        vectors = [one.vector for one in embedded if isinstance(one, EmbeddedPicture)]
        answers = iter(snapshot.answer(np.stack(vectors)) if vectors else [])
        results: list[Answer | PictureError] = []
        for number, picture in enumerate(embedded):
            if isinstance(picture, PictureError):
                results.append(picture)
            else:
                name = str(name_of(sources[number], number))
                results.append(next(answers)._replace(picture=name))
        return results

    def embed(self, pictures: Any, *, progress: Progress | None = None) -> Float32s:
        """Return the vectors of pictures, one row each, for `as_estimator`."""
        sources = self._embedder.sources(pictures)
        if not sources:
            raise nothing_given()
        embedded = self._embedder.embed(sources, progress=progress)
        return np.stack([one.vector for one in embedded if isinstance(one, EmbeddedPicture)])

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
        sources = self._embedder.sources(pictures)
        return self._embedder.look(sources, broken=broken, progress=progress)

    def examples(self, label: str) -> list[Example]:
        """Return the examples kept of a label, in the order learned: at least its first hundred."""
        view = self._memory.view()
        check_known(label := as_label(label), view.classes)
        numbers = self._memory.example_numbers(view, label)
        return [Example(number, centroid, self._memory) for number, centroid in numbers]

    def example(self, number: int) -> Example:
        """Return one of the examples that are kept, by its number."""
        _, stored = self._memory.example(number)
        return Example(number, stored.centroid, self._memory)

    def negatives(self) -> list[Example]:
        """Return the examples kept of pictures that were taught as none of the known things."""
        view = self._memory.view() if self._memory.exists() else None
        if view is None or view.negatives is None:
            return []
        numbers = self._memory.example_numbers(view, NEGATIVES)
        return [Example(number, place, self._memory) for number, place in numbers]

    def n_negatives(self) -> int:
        """Return how many pictures were taught as none of the known things."""
        stored = self._current(empty=True).negatives if self._memory.exists() else None
        return 0 if stored is None else stored.statistics.n

    def forget_negatives(self) -> None:
        """Forget all pictures that were taught as none of the known things."""
        editing.forget_negatives(self._memory)

    def unlearn(self, number: int) -> str:
        """Take one of the examples that are kept out of its label, and return the label.

        As long as a label has no more than 24 pictures, it is then as if this one had never been
        shown; with more, this one is taken out of its mean, and of its scatter as far as that is
        kept. With its last example, a label is forgotten. For one that was taught as none of the
        known things, "" is returned.
        """
        return editing.unlearn(self._memory, number, self._see)

    def upgrade(self) -> list[str]:
        """Make a memory that learns by the vote learn by the discriminant; return its labels.

        That takes the vectors of all its pictures: a MemoryFileError, if only some are kept.
        """
        return editing.upgrade(self._memory)

    def forget(self, label: str, *, for_good: bool = False) -> None:
        """Forget a label: the others are as if it had never been learned.

        With `max_centroids`, centroids that the others lost to make room for it do not come back.
        It can be undone, so the file still holds it; with `for_good` nothing of it remains, not
        even its name, and neither this nor any step before it can be undone. A label that was
        forgotten before can be forgotten for good.
        """
        editing.forget(self._memory, label, for_good=for_good)

    def rename(self, label: str, new: str) -> None:
        """Rename a label."""
        editing.rename(self._memory, label, new)

    def merge(self, label: str, into: str) -> None:
        """Make one label part of another: they turned out to be the same."""
        editing.merge(self._memory, label, into)

    def adopt(self, path: str | os.PathLike[str]) -> ImportResult:
        """Learn all that another memory knows, in one step; labels that both know are merged."""
        theirs = editing.read(Path(path), self._accept)
        limit = self._options.vote.max_centroids
        return editing.adopt(self._memory, theirs, private=self._private, max_centroids=limit)

    def _accept(self, theirs: MemoryInfo) -> None:
        """Raise an error, unless a memory of this description can be adopted."""
        if self._memory.exists():
            ours = self._memory.view().about
            self._embedder.check_private(ours)
            editing.check_alike(ours, theirs)
        else:
            self._embedder.adapt(theirs)

    def save_copy(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the memory, without its history and what was forgotten."""
        self._memory.copy(Path(path).absolute())

    def export(self, path: str | os.PathLike[str]) -> ExportResult:
        """Write what is known for other programs to read: FILE.safetensors and FILE.json.

        Thumbnails and history are left out, and so are labels that are damaged. `import_` reads it.
        """
        return export(self._memory, Path(path))

    def import_(self, path: str | os.PathLike[str]) -> list[str]:
        """Make this memory, which must be new, of files that `export` wrote; return its labels."""
        import_(Path(path), self._memory, private=self._private, accept=self._embedder.adapt)
        return [*self._memory.view().classes]

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write what is known, backbone included, as an ONNX graph that answers: docs/onnx.md."""
        from cbcl.recognition.onnx_export import export_onnx  # which loads onnx

        snapshot = self._current()
        self._embedder.check(snapshot.view.about)
        export_onnx(Path(path), snapshot.knowledge, snapshot.scale, self.backbone)

    def check(self) -> list[Finding]:
        """Read every byte of the file; return what is wrong with it, and what to do about it."""
        return find_damage(self.path)

    def repair(self) -> bool:
        """Rebuild the file's indexes, if only these are damaged; return whether it was done."""
        return repair(self.path)

    def undo(self) -> Step:
        """Undo the latest step that is not undone yet, and return it: up to twenty steps."""
        with self._memory.writing() as writing:
            step = writing.undo()
        if step is None:
            raise MemoryFileError(self.path, "has nothing to undo")
        return step

    def history(self) -> list[Step]:
        """Return the steps that made the memory what it is, the latest first."""
        return self._memory.history() if self._memory.exists() else []

    def revision(self) -> int:
        """Return the number of the last step, of whatever process; 0: there was none yet."""
        return self._memory.view().step if self._memory.exists() else 0

    def about(self) -> MemoryInfo | None:
        """Return the memory's backbone and whether it is private; None: there is no memory yet."""
        return self._memory.view().about if self._memory.exists() else None

    def things(self) -> list[LabelSummary]:
        """Return a summary of each label, in the order of the labels, with examples to show."""
        return self._current(empty=True).summaries if self._memory.exists() else []

    def examine(self) -> SelfTestResult:
        """Recognize each example that is kept by what the others teach (cross-validation)."""
        if not self._memory.exists():
            return examine({}, Settings())
        snapshot = self._current(empty=True)
        view = snapshot.view
        if view.settings.head != "vote" and view.classes:
            return snapshot.examine_views()
        examples = {
            label: [(one.number, one.vector) for one in self._memory.thumbnails(view, label)]
            for label in view.classes
        }
        return examine(examples, view.settings, initial_limit=initial_limit_of(view.about.backbone))

    def advise(self) -> Suggestions:
        """Suggest what to ask a teacher: which labels may be the same, and which need examples."""
        labels = self.labels()
        if not labels:
            return Suggestions((), ())
        snapshot = self._current()
        more = find_wanted(labels)
        if len(more) < MAX_WANTED and sum(labels.values()) <= MAX_EXAMINED:
            more = find_wanted(labels, self.examine())
        return Suggestions(find_similar(snapshot.concepts, snapshot.scale), more)

    def worth_asking(self, seen: Sequence[EmbeddedPicture], answers: Sequence[Answer]) -> list[int]:
        """Return the order in which to ask a teacher about pictures, the most instructive first."""
        if not seen:
            return []
        matrix = np.stack([one.vector for one in seen])
        by_vote = self._memory.exists() and self.settings().head == "vote"
        return worth_asking(matrix if by_vote else as_directions(matrix), answers)

    def tune(
        self,
        things: Mapping[str, Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> TuningResult:
        """Choose radius and number of voters by cross-validation on these pictures, and keep them.

        The pictures are not learned. What is known stays as it is: the radius is for what comes.
        """
        self._memory.check_writable()
        batch = embed_labelled(self._embedder, things, broken, progress, thumbnails=False)
        return tune_by(self._memory, self._embedder, batch)

    def as_estimator(self) -> CBCLClassifier:
        """Return a scikit-learn classifier of vectors that gives the same answers."""
        from cbcl.method.classifier import CBCLClassifier  # which loads scikit-learn

        snapshot = self._current()
        knowledge = snapshot.knowledge
        if isinstance(knowledge, StatisticalKnowledge):
            return CBCLClassifier.from_statistics(knowledge.statistics)
        return CBCLClassifier.from_concepts(
            knowledge.concepts,
            radius=knowledge.radius,
            n_voters=knowledge.n_voters,
            max_centroids=snapshot.view.settings.max_centroids,
        )

    def _see(self, jpeg: bytes) -> Float32s:
        """Return the vector of a thumbnail."""
        (picture,) = self._embedder.look([jpeg])
        if isinstance(picture, PictureError):
            raise picture
        return picture.vector

    def _current(self, *, empty: bool = False) -> Snapshot:
        """Return the snapshot of this moment; unless `empty`, something must be known."""
        self._snapshot = snapshot = latest(self._memory, self._snapshot)
        if not (empty or snapshot.classes):
            raise MemoryFileError(self.path, "knows nothing", "learn something first")
        return snapshot
