"""Teaching service: one recognizer, used by many requests at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeAlias, TypeVar

from fastapi import Response
from pydantic import BaseModel

from cbcl.errors import CBCLError, LabelError, MemoryFileError, encodable
from cbcl.recognition.recognizer import Recognizer
from cbcl.recognition.snapshot import Snapshot
from cbcl.web import schemas
from cbcl.web.embedding import EmbeddingService
from cbcl.web.errors import ApiError
from cbcl.web.events import ChangeNotifier, MemoryRevision
from cbcl.web.monitoring import Metrics
from cbcl.web.work_queue import WorkQueue

MAX_WAITING_CHANGES = 64
MAX_WAITING_REPORTS = 16  # which take long
MAX_EXPORTS = 4  # at a time, sending included

T = TypeVar("T")
Report: TypeAlias = Callable[["TeachingService", Snapshot], BaseModel]


class CachedResponse:
    """A response about a whole memory, as JSON, kept until the memory changes."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.snapshot: Snapshot | None = None
        self.text = ""


class TeachingService:
    """A recognizer behind four queues: for embedding, for changes, for slow reports, for exports.

    All but embeddings are made one after another, each kind in a queue of its own. Reading waits
    for none of them.
    """

    def __init__(self, recognizer: Recognizer, metrics: Metrics) -> None:
        self._recognizer = recognizer
        self.metrics = metrics
        self.replaced: Path | None = None  # by the latest restore
        self.snapshot = recognizer.snapshot
        self.history = recognizer.history
        self.embedding = EmbeddingService(recognizer, metrics)
        self.changes = WorkQueue("changes", 1, MAX_WAITING_CHANGES)
        self.reports = WorkQueue("reports", 1, MAX_WAITING_REPORTS)
        self.exports = WorkQueue("exports", 1, MAX_EXPORTS)
        self._queues = self.embedding.queue, self.changes, self.reports, self.exports
        self.notifier = ChangeNotifier(self._current_revision, self.name)
        self._responses: dict[Report, CachedResponse] = {}
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

    def health(self) -> schemas.HealthResponse:
        snapshot = self.snapshot()
        about = snapshot.about
        name = about.backbone if about else self._recognizer.embedder.backbone_name
        backbone = schemas.BackboneStatus(
            name=encodable(Path(name).name),
            ready=self.embedding.ready,
            problem=self.embedding.problem,
            looks_at=self.embedding.looks_at,
        )
        return schemas.HealthResponse(
            memory=self.name,
            revision=snapshot.revision,
            private=self.is_private(snapshot),
            backbone=backbone,
            learning=self.changes.pending,
        )

    def response(self, make: Report) -> Response:
        """Return a response about the present revision, whose JSON is made once for all who ask."""
        cached = self._responses.setdefault(make, CachedResponse())
        with cached.lock:
            snapshot = self.snapshot()
            if cached.snapshot is not snapshot:
                cached.text = make(self, snapshot).model_dump_json()
                cached.snapshot = snapshot
            return Response(cached.text, media_type="application/json")

    async def report(self, make: Report) -> Response:
        """Return a response that takes long to make."""
        return await self.reports.run(self.response, make)

    async def change(
        self, work: Callable[[Recognizer], T], *, erases: bool = False
    ) -> tuple[T, int]:
        """Make a change, notify all pages, and return the revision after it.

        `erases`: nothing of what was known before may be left in RAM.
        """

        def make_change() -> tuple[T, MemoryRevision]:
            try:
                result = work(self._recognizer)
            finally:  # also where the file could not be cleaned at once
                if erases:
                    self._clear_caches()
            return result, self._current_revision()

        result, revision = await self.changes.run(make_change)
        self.notifier.publish(revision)
        return result, revision.revision

    async def save_copy(self, path: Path) -> None:
        await self.exports.run(self._recognizer.save_copy, path)

    def publish_recognition(self, answer: schemas.RecognizeResponse) -> None:
        """Tell all pages what was recognized."""
        if answer.confidence is not None:  # else the memory is empty
            event = answer.model_dump_json(include={"label", "confidence", "revision"})
            self.notifier.publish_recognition(event)

    @contextmanager
    def missing_without(self, *numbers: int) -> Iterator[None]:
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
            if self.snapshot().revision:
                raise
            raise missing from None

    def is_private(self, snapshot: Snapshot) -> bool:
        return (snapshot.about or self._recognizer.embedder).private

    def _clear_caches(self) -> None:
        self._responses = {}  # what is being made is not kept either
        self.embedding.cache.clear()
        self.notifier.clear()

    def _current_revision(self) -> MemoryRevision:
        snapshot = self.snapshot()
        return MemoryRevision(snapshot.file, snapshot.revision)

    def _count_labels(self) -> float:
        try:
            return len(self._recognizer.labels())
        except CBCLError:
            return math.nan
