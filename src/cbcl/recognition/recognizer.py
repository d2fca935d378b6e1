"""Recognizer: photos in, answers out, and everything that was learned in one file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from cbcl.errors import MemoryFileError, PictureError
from cbcl.files import part_of
from cbcl.heads.discriminant.suspects import Suspect, find_suspects
from cbcl.heads.discriminant.views import sketch_pictures
from cbcl.heads.self_test import SelfTestResult, examine
from cbcl.memory.check import Finding, repair
from cbcl.memory.check import check as find_damage
from cbcl.memory.exchange import ExportResult, export, import_
from cbcl.memory.rows import NEGATIVES, MemoryInfo, Settings, as_label
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Step
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.forecast import UnknownReport, report_unknown
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.recognition import editing, moving
from cbcl.recognition.answer import Answer, Example
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.editing import ImportResult
from cbcl.recognition.embedder import BackboneSpec, Embedder, OnBroken, nothing_given
from cbcl.recognition.grouping import group_alike
from cbcl.recognition.labels import check_known
from cbcl.recognition.learning import (
    LearningOptions,
    LearningResult,
    TuningResult,
    embed_labelled,
    learn_batch,
    tune_by,
)
from cbcl.recognition.learning_run import learn_run
from cbcl.recognition.moving import MoveResult
from cbcl.recognition.snapshot import LabelSummary, Snapshot, latest
from cbcl.recognition.suggestions import (
    MAX_WANTED,
    Suggestions,
    find_nearest,
    find_similar,
    find_wanted,
    worth_asking,
)
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.decoding import name_of
from cbcl.vision.extraction import EmbeddedPicture, Progress
from cbcl.vision.remote import RemotePicture

if TYPE_CHECKING:
    from cbcl.export.onnx import PortableModel
    from cbcl.method.classifiers import CBCLClassifier

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

    def beside(self, path: str | os.PathLike[str]) -> Recognizer:
        """Return a recognizer of another memory, with the options of this one."""
        other = copy(self)
        other._memory = Memory(Path(path))
        other._embedder = self._embedder.for_memory(other._memory)
        other._snapshot = None
        return other

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

    def find_labelled(
        self, folders: Iterable[str | os.PathLike[str]]
    ) -> dict[str, list[Path | RemotePicture]]:
        """Return the files of each label, for `learn_many`, from folders of folders.

        `things/cup/1.jpg` is a cup, given `things` or `things/cup`. A memory in a folder is not
        among the files. A folder may be anything that fsspec opens, such as "s3://bucket/things",
        with the extra `fsspec`.
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

    def learn_each(
        self,
        things: Mapping[str | None, Any] | Mapping[str, Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> LearningResult:
        """Learn many labels one after another, a step each, on many cores or machines.

        All that is learned is the same, bit for bit, as by `learn_many`; joblib's workers embed the
        pictures: `n_jobs` processes, or those of `joblib.parallel_config` (docs/scale.md). A run
        over the same files that was stopped goes on where it was, and embeds nothing again that is
        in the cache. Memories that learn by the vote learn all labels in one step.
        """
        self._memory.check_writable()
        return learn_run(
            self._memory,
            self._embedder,
            things,
            self._options,
            broken=broken,
            progress=progress,
            n_jobs=n_jobs,
        )

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
        (label,) = self.unlearn_many([number])
        return label

    def unlearn_many(self, numbers: Iterable[int]) -> dict[str, int]:
        """Take several examples out of their labels in one step; return how many of each label."""
        return moving.unlearn(self._memory, numbers, self._see)

    def move(self, numbers: Iterable[int], into: str | None) -> MoveResult:
        """Move examples that are kept, by their numbers, to another label, known or new.

        That is one step, and needs no picture: what was learned of each is taken out of its label
        and learned with the other. None: as none of the known things. A label that loses its last
        example is forgotten.
        """
        return moving.move(self._memory, numbers, into, self._see)

    def suspects(self, picture: Any) -> list[Suspect]:
        """Return the examples that may be why the answer about a picture is wrong: three at most.

        Each comes with the answer had it not been learned; the first is the most decisive.
        `unlearn` sets one aside.
        """
        (seen,) = self.look([picture])
        return find_suspects(self._current(), seen.vector)

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

    def rename(self, label: str, new: str) -> str | None:
        """Rename a label; return another one that differs only in case or space, if there is."""
        return editing.rename(self._memory, label, new)

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

    def restore(
        self, path: str | os.PathLike[str], *, kept: str | os.PathLike[str], move: bool = False
    ) -> None:
        """Put a copy of another memory in place of this one, which is kept as a file of that name.

        The name must be free, and no other process may have this memory open. With `move`, the
        other file itself takes the place, history included.
        """
        source = Path(path)
        theirs = editing.read(source, self._accept_instead)
        for problem, _ in find_damage(source):
            raise MemoryFileError(source, f"is damaged ({problem})", "give another copy")
        part = source if move else part_of(self.path)
        try:
            if not move:
                with closing(Memory(source)) as other:
                    other.copy(part)
            self._memory.replace(part, Path(kept))
        finally:
            if not move:
                part.unlink(missing_ok=True)
        self._snapshot = None
        self._embedder.adapt(theirs.view.about)

    def _accept_instead(self, theirs: MemoryInfo) -> None:
        """Raise an error, unless a memory of this description can take the place of this one."""
        self._embedder.check_private(theirs)
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

    def export_onnx(self, path: str | os.PathLike[str], *, any_size: bool = False) -> None:
        """Write what is known, backbone included, as an ONNX graph that answers: docs/onnx.md.

        With `any_size` it takes whole pictures, which it crops and resizes itself.
        """
        from cbcl.export.onnx import export_onnx  # which loads onnx

        snapshot = self._current()
        self._embedder.check(snapshot.view.about)
        export_onnx(
            Path(path), snapshot.knowledge, snapshot.scale, self.backbone, any_size=any_size
        )

    def portable(self, *, thumbnails: bool = False) -> PortableModel:
        """Return what `export_onnx` writes for pictures of any size, with what a page shows.

        With `thumbnails`, the graph gives the distances to examples, whose pictures come with it.
        """
        from cbcl.export.onnx import PortableModel, checked_onnx
        from cbcl.export.onnx_examples import portable_examples

        snapshot, backbone = self._current(), self.backbone
        self._embedder.check(snapshot.view.about)
        if thumbnails and snapshot.view.about.private:
            problem = "is private, and keeps no thumbnails"
            raise MemoryFileError(self.path, problem, "export it without them")
        examples = portable_examples(snapshot) if thumbnails else []
        graph = checked_onnx(
            snapshot.knowledge, snapshot.scale, backbone, any_size=True, examples=examples
        )
        return PortableModel(graph, snapshot.knowledge.labels, backbone.at_least or 1, examples)

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

    def check_usable(self) -> None:
        """Raise an error if what is at the path is no memory, or not private, as this one is."""
        about = self.about()
        if about is not None:
            self._embedder.check_private(about)

    def things(self) -> list[LabelSummary]:
        """Return a summary of each label, in the order of the labels, with examples to show."""
        return self._current(empty=True).summaries if self._memory.exists() else []

    def examine(self) -> SelfTestResult:
        """Recognize each example that is kept by what the others teach (cross-validation)."""
        if not self._memory.exists():
            return examine({}, Settings())
        return self._current(empty=True).self_test

    def expect_strangers(self, how_often: Literal["often", "sometimes", "rarely"]) -> None:
        """Say how often something that is not known will be shown: it decides what is "unknown".

        While few things are known, "often" takes one picture in two for strange before it is seen,
        "sometimes", which a new memory has, one in three, "rarely" one in ten; the more things are
        known, the fewer. Nothing is learned anew, and it can be undone. Not for the vote.
        """
        editing.expect_strangers(self._memory, how_often)

    def unknown(self) -> UnknownReport | None:
        """Return what decides "unknown", and what each setting does with the pictures kept.

        None: the memory learns by the vote, knows nothing, or has too few vectors to tell.
        """
        knowledge = self._current().knowledge if self._memory.exists() and self.labels() else None
        if not isinstance(knowledge, DiscriminantModel):
            return None
        return report_unknown(knowledge)

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

    def similar(self, label: str) -> list[str]:
        """Return the other labels, those that look most like this one first: sixteen at most."""
        snapshot = self._current()
        check_known(label := as_label(label), snapshot.view.classes)
        return find_nearest(label, snapshot.concepts, snapshot.scale)

    def worth_asking(self, seen: Sequence[EmbeddedPicture], answers: Sequence[Answer]) -> list[int]:
        """Return the order in which to ask a teacher about pictures, the most instructive first."""
        if not seen:
            return []
        matrix = np.stack([one.vector for one in seen])
        by_vote = self._memory.exists() and self.settings().head == "vote"
        return worth_asking(matrix if by_vote else as_directions(matrix), answers)

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
        about = self.about() or self._embedder.describe(directions.shape[1])
        return group_alike(directions, measured_of(about).alike)

    def find_taught(
        self, seen: Sequence[EmbeddedPicture], answers: Sequence[Answer]
    ) -> list[str | None]:
        """Return the label that each picture was taught as, or one nearly the same; None: neither.

        It is "" where it was taught as none of the known things. Pictures and their answers are
        those of `look` and `recognize_many`. Of the vote, nothing is known of single pictures.
        """
        if not seen or not self._memory.exists() or self.settings().head == "vote":
            return [None] * len(seen)
        view = self._memory.view()
        sketches = sketch_pictures(np.stack([one.vector for one in seen]))
        taught = self._memory.find_taught(view, sketches)
        farthest = math.sqrt(2.0 - 2.0 * measured_of(view.about).copy)
        labels = []
        for own, answer in zip(sketches, answers, strict=True):
            copied = [reason.label for reason in answer.evidence if reason.distance <= farthest]
            labels.append(taught.get(own, copied[0] if copied else None))
        return labels

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
        from cbcl.method.classifiers import CBCLClassifier  # which loads scikit-learn

        snapshot = self._current()
        knowledge = snapshot.knowledge
        if isinstance(knowledge, DiscriminantModel):
            return CBCLClassifier.from_statistics(knowledge.statistics, cosines=knowledge.cosines)
        return CBCLClassifier.from_concepts(
            knowledge.concepts,
            radius=knowledge.radius,
            n_voters=knowledge.n_voters,
            max_centroids=snapshot.view.settings.max_centroids,
        )

    def _see(self, jpegs: list[bytes]) -> Float32s:
        """Return the vectors of thumbnails, one row each."""
        pictures = self._embedder.look(jpegs)
        return np.stack([one.vector for one in pictures if isinstance(one, EmbeddedPicture)])

    def _current(self, *, empty: bool = False) -> Snapshot:
        """Return the snapshot of this moment; unless `empty`, something must be known."""
        self._snapshot = snapshot = latest(self._memory, self._snapshot)
        if not (empty or snapshot.view.classes):
            raise MemoryFileError(self.path, "knows nothing", "learn something first")
        return snapshot
