"""All that can be asked of one memory and done to it, by many at a time: who waits for what."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cbcl.errors import (
    BackboneError,
    CBCLError,
    LabelError,
    MemoryFileError,
    PictureError,
    WeightsError,
)
from cbcl.machine import cores
from cbcl.memory.connection import file_identity
from cbcl.memory.rows import as_label
from cbcl.recognition.answer import Answer
from cbcl.recognition.examples import EmbeddedPicture
from cbcl.recognition.recognizer import Recognizer
from cbcl.web import responses, schemas
from cbcl.web.errors import PathRedactor, RequestRefused
from cbcl.web.events import Events
from cbcl.web.metrics import Metrics
from cbcl.web.picture_cache import PictureCache
from cbcl.web.request_body import MAX_PICTURES
from cbcl.web.response_cache import MemoryRevision, ResponseCache
from cbcl.web.responses import Asked
from cbcl.web.uploads import Upload
from cbcl.web.work_queue import WorkQueue

ROOM = 64  # jobs that may wait at a desk
FEW = 16  # likewise, where each takes long
PIECE = 2  # pictures of a request that are looked at in one go: then others have their turn

T = TypeVar("T")


class TeachingService:
    """A recognizer that many use at once.

    Looking at pictures and changing the memory have a desk each, and so has what takes long to work out; reading waits
    for none of them.
    """

    def __init__(
        self, recognizer: Recognizer, metrics: Metrics, *, backbone: str, private: bool
    ) -> None:
        self._recognizer, self._metrics = recognizer, metrics
        self._backbone, self._private = backbone, private
        self._ready, self._problem = False, ""
        self.discretion = PathRedactor(recognizer.path, backbone)
        self.looking = WorkQueue("looking", cores(), ROOM)
        self.learning = WorkQueue("learning", 1, ROOM)
        self.thinking = WorkQueue("thinking", 1, FEW)
        self.lately = PictureCache(self._look)
        self.events = Events(self._state)
        self.labels = ResponseCache(self._state, self._labels)
        self._advice = ResponseCache(
            self._state, lambda at: responses.advice(recognizer.advise(), at)
        )
        self._scores = ResponseCache(
            self._state, lambda at: responses.scores(recognizer.examine(), at)
        )
        metrics.watch(self._desks(), self._labels_known, lambda: self.events.listeners)

    def _desks(self) -> tuple[WorkQueue, ...]:
        return self.looking, self.learning, self.thinking

    @property
    def name(self) -> str:
        """The memory file's, without its folder."""
        return self._recognizer.path.name

    def close(self) -> None:
        """Finish what was begun."""
        for desk in self._desks():
            desk.close()

    # Reading: at nobody's desk.

    def health(self) -> schemas.Health:
        about = self._recognizer.about()
        name = Path(about.backbone if about else self._backbone).name
        backbone = schemas.Backbone(name=name, ready=self._ready, problem=self._problem or None)
        return schemas.Health(
            memory=self.name,
            revision=self._recognizer.revision(),
            private=self._is_private(),
            backbone=backbone,
            learning=self.learning.pending,
        )

    def examples(self, label: str) -> schemas.Examples:
        revision = self._recognizer.revision()
        if not revision:
            raise LabelError(f"{label!r} is not known.")
        kept = self._recognizer.examples(label)
        label = as_label(label)
        return schemas.Examples(
            label=label,
            examples=self._recognizer.labels().get(label, len(kept)),
            kept=[schemas.Kept(example=one.number, concept=one.concept) for one in kept],
            revision=revision,
        )

    def thumbnail(self, number: int) -> bytes:
        with self._existing(number):
            return self._recognizer.example(number).jpeg

    def history(self) -> schemas.History:
        revision = self._recognizer.revision()
        return responses.history(self._recognizer.history(), revision)

    # Looking: a thread for each core.

    async def warm_up(self) -> None:
        """Look at something, so that the first who asks need not wait for the backbone."""
        with suppress(CBCLError):  # health tells it
            await self.looking.do(self._look, [np.zeros((64, 64, 3), dtype=np.uint8)])

    async def recognize(self, files: Sequence[Upload], digests: Sequence[str]) -> schemas.Answer:
        """The answer for one picture."""
        if len(files) + len(digests) != 1:
            raise RequestRefused("argument", "give one file as 'picture', or one digest as 'seen'.")
        return await self.looking.do(self._answer, files, digests)

    async def recognize_many(
        self, files: Sequence[Upload], digests: Sequence[str]
    ) -> schemas.Answers:
        """Answers for all, and the order in which a person should be asked about them."""
        if not files and not digests:
            raise RequestRefused(
                "argument",
                "there is no picture in it: give files as 'pictures', or digests as 'seen'.",
            )
        asked = await self._asked(files, digests)
        return await self.looking.go_on(self._answers, asked)

    # Changing: one after the other.

    async def learn(
        self, label: str, files: Sequence[Upload], digests: Sequence[str]
    ) -> schemas.Learned:
        """Learn pictures; those that cannot be read are left out and told."""
        label = as_label(label)
        if not files and not digests:
            raise RequestRefused(
                "argument",
                "there is no picture in it: give files as 'pictures', or digests as 'seen'.",
            )
        self.learning.check()
        asked = await self._asked(files, digests)
        problems = [one for one in asked if isinstance(one.looked, PictureError)]
        good = [one.looked for one in asked if isinstance(one.looked, EmbeddedPicture)]
        if not good and isinstance(problems[0].looked, PictureError):
            raise problems[0].looked
        with _within_limit():
            learned, revision = await self._change(lambda: self._recognizer.learn(label, good))
        self._metrics.learned.inc(len(good))
        told = [responses.problem(one, self.discretion) for one in problems]
        return schemas.Learned(learned=learned.pictures, problems=told, revision=revision)

    async def unlearn(self, number: int) -> schemas.Removed:
        with self._existing(number):
            label, revision = await self._change(lambda: self._recognizer.unlearn(number))
        return schemas.Removed(label=label, revision=revision)

    async def forget(self, label: str, *, for_good: bool) -> schemas.Changed:
        def forgotten() -> None:
            try:
                self._recognizer.forget(label, for_good=for_good)
            finally:  # also where the file could not be cleaned at once
                for kept in (
                    (self.lately, self.labels, self._advice, self._scores) if for_good else ()
                ):
                    kept.clear()

        _, revision = await self._change(forgotten)
        return _done(revision, "forget", f"{as_label(label)}{' for good' if for_good else ''}")

    async def rename(self, label: str, new: str) -> schemas.Changed:
        _, revision = await self._change(lambda: self._recognizer.rename(label, new))
        return _done(revision, "rename", f"{as_label(label)} → {as_label(new)}")

    async def merge(self, label: str, into: str) -> schemas.Changed:
        _, revision = await self._change(lambda: self._recognizer.merge(label, into))
        return _done(revision, "merge", f"{as_label(label)} → {as_label(into)}")

    async def undo(self) -> schemas.Changed:
        step, revision = await self._change(self._recognizer.undo)
        return _done(revision, "undo", responses.in_words(step))

    async def adopt(self, path: Path) -> schemas.Adopted:
        with _within_limit():
            adopted, revision = await self._change(lambda: self._recognizer.adopt(path))
        return schemas.Adopted(added=adopted.added, joined=adopted.joined, revision=revision)

    # What takes long: one after the other, and once for each revision.

    async def advise(self) -> str:
        return await self.thinking.do(self._advice)

    async def examine(self) -> str:
        return await self.thinking.do(self._scores)

    async def save_copy(self, path: Path) -> None:
        await self.thinking.do(self._recognizer.save_copy, path)

    async def _change(self, work: Callable[[], T]) -> tuple[T, int]:
        """A change and the revision after it; all who listen are told."""

        def both() -> tuple[T, MemoryRevision]:
            return work(), self._state()

        done, state = await self.learning.do(both)
        self.events.notice(state)
        return done, state.revision

    def _state(self) -> MemoryRevision:
        return MemoryRevision(file_identity(self._recognizer.path), self._recognizer.revision())

    def _is_private(self) -> bool:
        about = self._recognizer.about()
        return about.private if about else self._private

    def _labels(self, revision: int) -> schemas.Labels:
        things = [schemas.Thing(**thing._asdict()) for thing in self._recognizer.things()]
        step = responses.to_undo(self._recognizer.history())
        undo = step and schemas.Deed(action=step.action, text=responses.in_words(step))
        return schemas.Labels(
            revision=revision, private=self._is_private(), labels=things, undo=undo
        )

    def _labels_known(self) -> float:
        try:
            return len(self._recognizer.labels())
        except CBCLError:
            return math.nan

    @contextmanager
    def _existing(self, number: int) -> Iterator[None]:
        """An example that is not there is missing, whether or not there is a memory."""
        missing = RequestRefused("missing", f"there is no example {number}, or no longer.")
        try:
            yield
        except LabelError:
            raise missing from None
        except MemoryFileError:
            if self._recognizer.revision():
                raise
            raise missing from None

    def _look(self, pictures: list[Any], broken: Any = "raise") -> list[Any]:
        try:
            found = self._recognizer.look(pictures, broken=broken)
        except (WeightsError, BackboneError) as error:
            self._ready, self._problem = False, self.discretion(str(error))
            raise
        self._ready, self._problem = True, ""
        self._metrics.looked_at.inc(len(pictures))
        return found

    async def _asked(self, files: Sequence[Upload], digests: Sequence[str]) -> list[Asked]:
        """Pictures, looked at a few at a time: files first, then those that are remembered."""
        if len(files) + len(digests) > MAX_PICTURES:
            raise RequestRefused(
                "size", f"that is more than {MAX_PICTURES} pictures: send them in several requests."
            )
        self.looking.check()
        remembered = self._remembered(digests)
        new: list[Asked] = []
        for start in range(0, len(files), PIECE):
            new += await self.looking.go_on(self._new, files[start : start + PIECE])
        return new + remembered

    def _remembered(self, digests: Sequence[str]) -> list[Asked]:
        return [Asked("", *both) for both in zip(digests, self.lately.recall(digests), strict=True)]

    def _new(self, files: Sequence[Upload]) -> list[Asked]:
        looked = zip(files, self.lately.look([file.data for file in files]), strict=True)
        return [
            Asked(file.name, digest, responses.named(one, file.name))
            for file, (digest, one) in looked
        ]

    def _answer(self, files: Sequence[Upload], digests: Sequence[str]) -> schemas.Answer:
        (asked,) = self._new(files) + self._remembered(digests)
        if not isinstance(asked.looked, EmbeddedPicture):
            raise asked.looked
        revision = (
            self._recognizer.revision()
        )  # before answering: it may be older than the answer, but not newer
        answers = self._recognized([asked.looked])
        return responses.answer(asked, answers[0] if answers else None, revision)

    def _answers(self, asked: Sequence[Asked]) -> schemas.Answers:
        revision = self._recognizer.revision()
        seen = [
            (place, one.looked)
            for place, one in enumerate(asked)
            if isinstance(one.looked, EmbeddedPicture)
        ]
        answers = self._recognized([looked for _, looked in seen])
        order = (
            range(len(seen))
            if answers is None
            else self._recognizer.worth_asking([one for _, one in seen], answers)
        )
        made = iter(answers or [])
        return schemas.Answers(
            answers=[
                responses.answer(one, next(made, None), revision)
                if isinstance(one.looked, EmbeddedPicture)
                else responses.unanswered(one, self.discretion)
                for one in asked
            ],
            order=[seen[i][0] for i in order],
            revision=revision,
        )

    def _recognized(self, seen: list[EmbeddedPicture]) -> list[Answer] | None:
        """Answers; None: nothing is known at all."""
        if not seen or not self._recognizer.labels():
            return None
        try:
            return self._recognizer.recognize_many(seen)
        except MemoryFileError:
            if self._recognizer.labels():
                raise
            return None  # all was forgotten meanwhile


@contextmanager
def _within_limit() -> Iterator[None]:
    """More labels than the centroids that the server was told to keep are no error of ours."""
    try:
        yield
    except LabelError:
        raise
    except ValueError as error:
        if not str(error).startswith("max_centroids="):
            raise
        raise RequestRefused("argument", str(error)) from error


def _done(revision: int, action: str, text: str) -> schemas.Changed:
    return schemas.Changed(
        revision=revision, done=schemas.Deed(action=action, text=f"{action} {text}")
    )
