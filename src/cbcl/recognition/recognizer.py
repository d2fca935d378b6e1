"""Recognizer: photos in, answers out, and everything that was learned in one file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from cbcl.errors import MemoryFileError
from cbcl.files import part_of
from cbcl.memory.check import Finding, repair
from cbcl.memory.check import check as find_damage
from cbcl.memory.exchange import ExportResult, export, import_
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Step
from cbcl.method.arrays import Float32s
from cbcl.recognition import editing
from cbcl.recognition.editing import ImportResult, MoveResult
from cbcl.recognition.embedder import BackboneSpec, Embedder, OnBroken, nothing_given
from cbcl.recognition.learning import (
    LearningOptions,
    LearningResult,
    TuningResult,
    check_lesson,
    check_tunable,
    embed_labelled,
    expand,
    learn_batch,
    tune_by,
)
from cbcl.recognition.learning_run import learn_run
from cbcl.recognition.snapshot import Questions, Snapshot, latest
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.extraction import EmbeddedPicture, Progress

__all__ = ["Recognizer", "Step"]


class Recognizer(Questions):
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
        How pictures are told apart: "discriminant", as `DiscriminantClassifier` does it, or "vote",
        as `CBCLClassifier` does. None: as the memory does, or for a new memory by the discriminant,
        unless an option of the vote is given.
    max_centroids
        For the vote: the most centroids to keep, over all labels. None: as the memory has it, which
        is no limit at first.
    radius
        For the vote, as for `CBCLClassifier`: "auto" chooses it. What is given holds from the next
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
        head: str | None = None,
        max_centroids: int | None = None,
        radius: float | Literal["auto"] = "auto",
        n_voters: int | Literal["auto"] = "auto",
        cache: bool = True,
    ) -> None:
        self._private = private
        self._options = LearningOptions.of(
            head, radius=radius, n_voters=n_voters, max_centroids=max_centroids
        )
        self._memory = Memory(Path(path))
        self._embedder = Embedder(self._memory, backbone, private=private, cache=cache)
        self._snapshot: Snapshot | None = None

    def __repr__(self) -> str:
        return f"Recognizer({self.path.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def beside(self, path: str | os.PathLike[str]) -> Recognizer:
        """Return a recognizer of another memory, with the options of this one.

        An error is raised where it could not be used, since it is no memory, or is not private.
        """
        other = copy(self)
        other._memory = Memory(Path(path))
        other._embedder = self._embedder.for_memory(other._memory)
        other._snapshot = None
        other._embedder.check_usable()
        return other

    def close(self) -> None:
        """Close the file. What was learned is in it already."""
        self._memory.close()
        self._embedder.close()
        self._snapshot = None

    @property
    def backbone(self) -> Backbone:
        """The backbone of the memory, or of a new one; it is loaded when first asked for."""
        return self._embedder.backbone()

    @property
    def embedder(self) -> Embedder:
        """Embedder of the memory: it finds pictures, and turns them into vectors."""
        return self._embedder

    def snapshot(self) -> Snapshot:
        """Return the present revision of the memory, to ask any number of questions of.

        It is the same object as long as nothing changes.
        """
        self._snapshot = latest(self._memory, self._embedder, self._snapshot)
        return self._snapshot

    def _asked(self) -> Snapshot:
        return self.snapshot()

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
        labels, sources = expand(self._embedder, things)
        check_lesson(self._memory.latest(), labels, self._options)
        batch = embed_labelled(self._embedder, labels, sources, broken, progress)
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

    def embed(self, pictures: Any, *, progress: Progress | None = None) -> Float32s:
        """Return the vectors of pictures, one row each, for `as_estimator`."""
        sources = self._embedder.sources(pictures)
        if not sources:
            raise nothing_given()
        embedded = self._embedder.embed(sources, self._embedder.about(), progress=progress)
        return np.stack([one.vector for one in embedded if isinstance(one, EmbeddedPicture)])

    def unlearn(self, numbers: int | Iterable[int]) -> dict[str, int]:
        """Take examples that are kept out of their labels, in one step; return how many of each.

        As long as a label has no more than 24 pictures, it is then as if they had never been shown;
        with more, they are removed from its mean and, where kept, its scatter. With its last
        example, a label is forgotten. The label "" stands for none of the known things.
        """
        chosen = [numbers] if isinstance(numbers, int) else numbers
        return editing.unlearn(self._memory, chosen, self._see)

    def move(self, numbers: Iterable[int], into: str | None) -> MoveResult:
        """Move examples that are kept, by their numbers, to another label, known or new.

        That is one step, and needs no picture: what was learned of each is taken out of its label
        and learned with the other. None: as none of the known things. A label that loses its last
        example is forgotten.
        """
        return editing.move(self._memory, numbers, into, self._see)

    def upgrade(self) -> list[str]:
        """Make a memory of the vote learn by the default head; return its labels.

        That takes the vectors of all its pictures: a MemoryFileError, if only some are kept.
        """
        return editing.upgrade(self._memory)

    def forget(self, label: str | None, *, for_good: bool = False) -> None:
        """Forget a label: the others are as if it had never been learned.

        The label None stands for all pictures that were taught as none of the known things. With
        `max_centroids`, centroids that the others lost to make room for a label do not come back.
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
        limit = self._options.given.get("max_centroids")
        return editing.adopt(self._memory, theirs, private=self._private, max_centroids=limit)

    def _accept(self, theirs: MemoryInfo) -> None:
        """Raise an error, unless a memory of this description can be adopted."""
        ours = self._embedder.about()
        if ours is None:
            self._embedder.adapt(theirs)
        else:
            self._embedder.check_private(ours)
            editing.check_alike(ours, theirs)

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

    def check(self) -> list[Finding]:
        """Read every byte of the file; return what is wrong with it, and what to do about it."""
        return find_damage(self.path)

    def repair(self) -> bool:
        """Rebuild the file's indexes, if nothing else is damaged; return whether it was done."""
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

    def expect_strangers(self, how_often: Literal["often", "sometimes", "rarely"]) -> None:
        """Say how often something that is not known will be shown: it decides what is "unknown".

        While few things are known, "often" takes one picture in two for strange before it is seen,
        "sometimes", which a new memory has, one in three, "rarely" one in ten; the more things are
        known, the fewer. Nothing is learned anew, and it can be undone. Not for the vote.
        """
        editing.expect_strangers(self._memory, how_often)

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
        check_tunable(self.path, self._memory.latest())
        labels, sources = expand(self._embedder, things)
        batch = embed_labelled(self._embedder, labels, sources, broken, progress, thumbnails=False)
        return tune_by(self._memory, self._embedder, batch)

    def _see(self, jpegs: list[bytes]) -> Float32s:
        """Return the vectors of thumbnails, one row each."""
        pictures = self._embedder.look(jpegs, self._embedder.about())
        return np.stack([one.vector for one in pictures if isinstance(one, EmbeddedPicture)])
