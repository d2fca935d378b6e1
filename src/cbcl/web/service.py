"""Teaching service: one recognizer, used by many requests at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cbcl.errors import CBCLError, LabelError, MemoryFileError, PictureError, encodable
from cbcl.recognition.answer import Answer
from cbcl.recognition.labels import as_label
from cbcl.recognition.recognizer import Recognizer
from cbcl.recognition.snapshot import Snapshot
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web import responses, schemas
from cbcl.web.embedding import EmbeddingService, RequestPicture
from cbcl.web.errors import ApiError
from cbcl.web.events import ChangeNotifier
from cbcl.web.memory_folder import name_replaced
from cbcl.web.metrics import Metrics
from cbcl.web.response_cache import MemoryRevision, ResponseCache
from cbcl.web.uploads import UploadedFile
from cbcl.web.work_queue import WorkQueue

MAX_WAITING_CHANGES = 64
MAX_WAITING_REPORTS = 16  # which take long
MAX_EXPORTS = 4  # at a time, sending included

T = TypeVar("T")


class TeachingService:
    """A recognizer behind four queues: for embedding, for changes, for slow reports, for exports.

    All but embeddings are made one after another, each kind in a queue of its own. Reading waits
    for none of them.
    """

    def __init__(
        self, recognizer: Recognizer, metrics: Metrics, *, backbone: str, private: bool
    ) -> None:
        self._recognizer, self._metrics = recognizer, metrics
        self._backbone, self._private = backbone, private
        self._replaced: Path | None = None  # by the latest restore
        self.embedding = EmbeddingService(recognizer, metrics)
        self.changes = WorkQueue("changes", 1, MAX_WAITING_CHANGES)
        self.reports = WorkQueue("reports", 1, MAX_WAITING_REPORTS)
        self.exports = WorkQueue("exports", 1, MAX_EXPORTS)
        self._queues = self.embedding.queue, self.changes, self.reports, self.exports
        self.notifier = ChangeNotifier(self._current_revision, self.name)
        current = recognizer.snapshot
        self.labels = ResponseCache(current, self._list_labels)
        self._advice = ResponseCache(current, responses.advice_response)
        self._scores = ResponseCache(current, responses.scores_response)
        self._self_test = ResponseCache(current, responses.self_test_response)
        self._unknown = ResponseCache(current, responses.unknown_response)
        metrics.watch(self._queues, self._count_labels, lambda: self.notifier.subscribers)

    @property
    def path(self) -> Path:
        return self._recognizer.path

    @property
    def name(self) -> str:
        """The name of the memory file, without its folder."""
        return encodable(self._recognizer.path.name)

    def close(self) -> None:
        """Finish what was begun, and close the memory."""
        for queue in self._queues:
            queue.close()
        self._recognizer.close()

    # Reading: without a queue.

    def revision(self) -> int:
        return self._recognizer.snapshot().revision

    def health(self) -> schemas.HealthResponse:
        snapshot = self._recognizer.snapshot()
        info = snapshot.about
        name = encodable(Path(info.backbone if info else self._backbone).name)
        backbone = schemas.BackboneStatus(
            name=name,
            ready=self.embedding.ready,
            problem=self.embedding.problem,
            looks_at=self.embedding.looks_at,
        )
        return schemas.HealthResponse(
            memory=self.name,
            revision=snapshot.revision,
            private=self._is_private(snapshot),
            backbone=backbone,
            learning=self.changes.pending,
        )

    def examples(self, label: str) -> schemas.ExamplesResponse:
        snapshot = self._recognizer.snapshot()
        if not snapshot.revision:
            raise LabelError(repr(label), "is not known")
        examples = snapshot.examples(label)
        label = as_label(label)
        number = snapshot.labels().get(label, len(examples))
        return responses.examples_response(label, number, examples, snapshot.revision)

    def similar(self, label: str) -> schemas.SimilarResponse:
        snapshot = self._recognizer.snapshot()
        if not snapshot.revision:
            raise LabelError(repr(label), "is not known")
        return schemas.SimilarResponse(
            label=as_label(label), similar=snapshot.similar(label), revision=snapshot.revision
        )

    def negatives(self) -> schemas.ExamplesResponse:
        snapshot = self._recognizer.snapshot()
        examples = snapshot.negatives()
        number = snapshot.n_negatives()
        return responses.examples_response("", number, examples, snapshot.revision)

    def thumbnail(self, number: int) -> bytes:
        with self._missing_without(number):
            return self._recognizer.snapshot().thumbnail(number)

    def seen_thumbnail(self, digest: str) -> bytes:
        """Return the thumbnail of a picture sent before; a private memory makes none."""
        [picture] = self.embedding.cache.get([digest])
        jpeg = picture.thumbnail() if isinstance(picture, EmbeddedPicture) else b""
        if not jpeg:
            raise ApiError("missing", "there is no thumbnail of this picture.")
        return jpeg

    def history(self) -> schemas.HistoryResponse:
        snapshot = self._recognizer.snapshot()
        return responses.history_response(self._recognizer.history(), snapshot.revision)

    # Recognizing: in the threads of the embedding.

    async def recognize(
        self, files: Sequence[UploadedFile], digests: Sequence[str]
    ) -> schemas.RecognizeResponse:
        response = await self.embedding.queue.run(self._recognize_one, files, digests)
        self._publish_recognition(response)
        return response

    async def recognize_many(
        self, files: Sequence[UploadedFile], digests: Sequence[str]
    ) -> schemas.RecognizeManyResponse:
        pictures = await self.embedding.embed(files, digests)
        response = await self.embedding.queue.run_part(self._recognize_all, pictures)
        for answer in response.answers:
            if isinstance(answer, schemas.RecognizeResponse):
                self._publish_recognition(answer)
        return response

    async def group(self, digests: Sequence[str]) -> schemas.GroupsResponse:
        """Group pictures that look alike; those that are no longer cached are in no group."""
        return await self.embedding.queue.run(self._group, digests)

    async def suspects(
        self, files: Sequence[UploadedFile], digests: Sequence[str]
    ) -> schemas.SuspectsResponse:
        _, embedded = await self.embedding.queue.run(self._embed_one, files, digests)
        return await self.reports.run(self._find_suspects, embedded)

    # Changes: one after another.

    async def learn(
        self, label: str | None, files: Sequence[UploadedFile], digests: Sequence[str]
    ) -> schemas.LearnResponse:
        """Learn pictures, None: of no label; those that cannot be read are skipped and reported."""
        label = None if label is None else as_label(label)
        self.changes.check()
        pictures = await self.embedding.embed(files, digests)
        embedded: list[EmbeddedPicture] = []
        skipped = []
        for picture in pictures:
            if isinstance(picture.result, PictureError):
                skipped.append(responses.skipped_picture(picture, picture.result))
            else:
                embedded.append(picture.result)
        if not embedded:
            raise ApiError("picture", skipped[0].message)
        learned, revision = await self._change(lambda: self._recognizer.learn(label, embedded))
        self._metrics.examples_learned.inc(len(embedded))
        return responses.learn_response(learned, skipped, revision)

    async def learn_many(self, things: Mapping[str, Sequence[str]]) -> schemas.LearnResponse:
        """Learn pictures sent before, by their digests, of several labels in one step."""
        self.changes.check()
        embedded: dict[str, list[EmbeddedPicture]] = {}
        digests = [digest for those in things.values() for digest in those]
        pictures = dict(zip(digests, self.embedding.cache.get(digests), strict=True))
        for label, those in things.items():
            results = (pictures[digest] for digest in those)
            embedded[label] = [one for one in results if isinstance(one, EmbeddedPicture)]
        learned, revision = await self._change(lambda: self._recognizer.learn_many(embedded))
        self._metrics.examples_learned.inc(sum(map(len, embedded.values())))
        return responses.learn_response(learned, [], revision)

    async def unlearn(self, number: int) -> schemas.UnlearnResponse:
        with self._missing_without(number):
            removed, revision = await self._change(lambda: self._recognizer.unlearn(number))
        (label,) = removed
        return schemas.UnlearnResponse(label=label, revision=revision)

    async def unlearn_many(self, numbers: Sequence[int]) -> schemas.UnlearnManyResponse:
        with self._missing_without(*numbers):
            removed, revision = await self._change(lambda: self._recognizer.unlearn(numbers))
        return schemas.UnlearnManyResponse(removed=removed, revision=revision)

    async def move(self, numbers: Sequence[int], into: str | None) -> schemas.MoveResponse:
        into = None if into is None else as_label(into)
        result, revision = await self._change(lambda: self._recognizer.move(numbers, into))
        return schemas.MoveResponse(
            moved=result.moved,
            copies=result.copies,
            gone=[*result.gone],
            spelled_alike={**result.spelled_alike},
            revision=revision,
        )

    async def forget(self, label: str, *, for_good: bool) -> schemas.ChangeResponse:
        def forget_and_clear() -> None:
            try:
                self._recognizer.forget(label, for_good=for_good)
            finally:  # also where the file could not be cleaned at once
                if for_good:
                    self._clear_caches()

        _, revision = await self._change(forget_and_clear)
        subject = f"{as_label(label)}{' for good' if for_good else ''}"
        return responses.change_response(revision, "forget", subject)

    async def forget_negatives(self) -> schemas.ChangeResponse:
        _, revision = await self._change(lambda: self._recognizer.forget(None))
        return responses.change_response(revision, "forget", "none of these")

    async def rename(self, label: str, new: str) -> schemas.ChangeResponse:
        known, revision = await self._change(lambda: self._recognizer.rename(label, new))
        subject = f"{as_label(label)} → {as_label(new)}"
        response = responses.change_response(revision, "rename", subject)
        alike = {} if known is None else {as_label(new): known}
        return response.model_copy(update={"spelled_alike": alike})

    async def merge(self, label: str, into: str) -> schemas.ChangeResponse:
        _, revision = await self._change(lambda: self._recognizer.merge(label, into))
        return responses.change_response(revision, "merge", f"{as_label(label)} → {as_label(into)}")

    async def expect_strangers(self, how_often: schemas.HowOften) -> schemas.ChangeResponse:
        _, revision = await self._change(lambda: self._recognizer.expect_strangers(how_often))
        return responses.change_response(revision, "strangers", how_often)

    async def undo(self) -> schemas.ChangeResponse:
        step, revision = await self._change(self._recognizer.undo)
        return responses.undo_response(revision, step)

    async def adopt(self, path: Path) -> schemas.ImportResponse:
        result, revision = await self._change(lambda: self._recognizer.adopt(path))
        return schemas.ImportResponse(added=result.added, joined=result.joined, revision=revision)

    async def restore(self, path: Path, *, move: bool = False) -> schemas.RestoreResponse:
        """Put another memory in place of this one, which is kept beside it."""
        kept = name_replaced(self.path)

        def replace() -> bool:
            try:
                self._recognizer.restore(path, kept=kept, move=move)
            finally:
                self._clear_caches()
            return kept.exists()

        was_there, revision = await self._change(replace)
        self._replaced = kept if was_there else None
        return schemas.RestoreResponse(
            kept=encodable(kept.name) if was_there else None, revision=revision
        )

    async def undo_restore(self) -> schemas.RestoreResponse:
        """Put the memory back that was replaced last."""
        if self._replaced is None:
            message = "nothing was restored since this memory was opened: there is no undo."
            raise ApiError("memory", message)
        return await self.restore(self._replaced, move=True)

    # Reports and exports: one after another; reports once for each revision.

    async def advise(self) -> str:
        return await self.reports.run(self._advice)

    async def examine(self) -> str:
        return await self.reports.run(self._scores)

    async def self_test(self) -> str:
        return await self.reports.run(self._self_test)

    async def unknown(self) -> str:
        return await self.reports.run(self._unknown)

    async def save_copy(self, path: Path) -> None:
        await self.exports.run(self._recognizer.save_copy, path)

    async def _change(self, work: Callable[[], T]) -> tuple[T, int]:
        """Make a change, notify all pages, and return the revision after it."""

        def work_and_revision() -> tuple[T, MemoryRevision]:
            return work(), self._current_revision()

        result, revision = await self.changes.run(work_and_revision)
        self.notifier.publish(revision)
        return result, revision.revision

    def _publish_recognition(self, answer: schemas.RecognizeResponse) -> None:
        if answer.confidence is not None:  # else the memory is empty
            event = answer.model_dump_json(include={"label", "confidence", "revision"})
            self.notifier.publish_recognition(event)

    def _clear_caches(self) -> None:
        reports = self._advice, self._scores, self._self_test, self._unknown
        for cache in (self.embedding.cache, self.labels, *reports, self.notifier):
            cache.clear()

    def _current_revision(self) -> MemoryRevision:
        return MemoryRevision.of(self._recognizer.snapshot())

    def _is_private(self, snapshot: Snapshot) -> bool:
        return snapshot.about.private if snapshot.about else self._private

    def _list_labels(self, snapshot: Snapshot) -> schemas.LabelsResponse:
        step = responses.step_to_undo(self._recognizer.history())
        undo = step and schemas.ChangeSummary(
            action=step.action, text=responses.describe_step(step)
        )
        settings = snapshot.settings if snapshot.revision else None
        expects = settings is not None and "strangers" in snapshot.abilities
        return schemas.LabelsResponse(
            revision=snapshot.revision,
            private=self._is_private(snapshot),
            labels=[schemas.LabelEntry(**label._asdict()) for label in snapshot.things()],
            undo=undo,
            head=settings.head if settings else None,
            abilities=sorted(snapshot.abilities),
            negatives=responses.negatives_entry(snapshot),
            strangers=settings.strangers if settings and expects else None,
        )

    def _count_labels(self) -> float:
        try:
            return len(self._recognizer.labels())
        except CBCLError:
            return math.nan

    @contextmanager
    def _missing_without(self, *numbers: int) -> Iterator[None]:
        """Answer `missing` where there is no such example, with or without a memory."""
        problem = "one of these examples is not there, or no longer."
        if len(numbers) == 1:
            problem = f"there is no example {numbers[0]}, or no longer."
        missing = ApiError("missing", problem)
        try:
            yield
        except LabelError:
            raise missing from None
        except MemoryFileError:
            if self._recognizer.snapshot().revision:
                raise
            raise missing from None

    def _embed_one(
        self,
        files: Sequence[UploadedFile],
        digests: Sequence[str],
        snapshot: Snapshot | None = None,
    ) -> tuple[RequestPicture, EmbeddedPicture]:
        if len(files) + len(digests) != 1:
            raise ApiError("argument", "give one file as 'picture', or one digest as 'seen'.")
        (picture,) = self.embedding.embed_now(files, digests, snapshot)
        if isinstance(picture.result, PictureError):
            raise ApiError("picture", picture.result.about(picture.name))
        return picture, picture.result

    def _find_suspects(self, embedded: EmbeddedPicture) -> schemas.SuspectsResponse:
        snapshot = self._recognizer.snapshot()
        suspects = snapshot.suspects(embedded) if snapshot.labels() else []
        return responses.suspects_response(suspects, snapshot.revision)

    def _recognize_one(
        self, files: Sequence[UploadedFile], digests: Sequence[str]
    ) -> schemas.RecognizeResponse:
        snapshot = self._recognizer.snapshot()
        picture, embedded = self._embed_one(files, digests, snapshot)
        answer = snapshot.recognize(embedded) if snapshot.labels() else None
        return responses.recognize_response(picture, answer, snapshot.revision)

    def _recognize_all(self, pictures: Sequence[RequestPicture]) -> schemas.RecognizeManyResponse:
        snapshot = self._recognizer.snapshot()
        indices: list[int] = []
        embedded: list[EmbeddedPicture] = []
        for index, picture in enumerate(pictures):
            if not isinstance(picture.result, PictureError):
                indices.append(index)
                embedded.append(picture.result)
        answers: list[Answer] = []
        order: Sequence[int] = range(len(embedded))
        if embedded and snapshot.labels():
            answers = snapshot.recognize_many(embedded)
            order = snapshot.worth_asking(embedded, answers)
        remaining = iter(answers)
        results: list[schemas.RecognizeResponse | schemas.UnreadablePicture] = []
        for picture in pictures:
            if isinstance(picture.result, PictureError):
                results.append(responses.unreadable_picture(picture, picture.result))
            else:
                answer = next(remaining, None)
                results.append(responses.recognize_response(picture, answer, snapshot.revision))
        return schemas.RecognizeManyResponse(
            answers=results,
            order=[indices[position] for position in order],
            revision=snapshot.revision,
        )

    def _group(self, digests: Sequence[str]) -> schemas.GroupsResponse:
        cached = self.embedding.cache.find(digests)
        known = {key: one for key, one in cached.items() if isinstance(one, EmbeddedPicture)}
        names = [*known]
        groups = self._recognizer.snapshot().group_alike([*known.values()])
        return schemas.GroupsResponse(groups=[[names[row] for row in rows] for rows in groups])
