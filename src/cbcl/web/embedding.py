"""Embedding of pictures sent by requests: a queue, a cache, and the state of the backbone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cbcl.errors import BackboneError, CBCLError, PictureError, WeightsError
from cbcl.machine import cores
from cbcl.recognition.recognizer import Recognizer
from cbcl.recognition.snapshot import Snapshot
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web import schemas
from cbcl.web.errors import ApiError
from cbcl.web.limits import MAX_PICTURES
from cbcl.web.monitoring import Metrics
from cbcl.web.uploads import UploadedFile, UploadForm, too_many_pictures
from cbcl.web.work_queue import WorkQueue

MAX_WAITING_PICTURES = 64
PICTURES_PER_JOB = 2  # of a request, so that others have their turn in between
MAX_CACHED_PICTURES = 4096  # about 40 MB

PictureOrError: TypeAlias = EmbeddedPicture | PictureError


class RequestPicture(NamedTuple):
    """A picture of a request: its name there, its digest, and the embedded picture or an error."""

    name: str
    digest: str
    result: PictureOrError


class PictureCache:
    """The latest embedded pictures by the SHA-256 of their bytes, in RAM only.

    Who asks for a picture that another thread is looking at waits for that thread.
    """

    def __init__(self, look: Callable[..., list[Any]]) -> None:
        self._look = look
        self._lock = Lock()
        self._pictures: OrderedDict[str, Future[PictureOrError]] = OrderedDict()

    def clear(self) -> None:
        """Drop all pictures, also those being looked at."""
        with self._lock:
            self._pictures = OrderedDict()

    def get(self, digests: Sequence[str]) -> list[EmbeddedPicture]:
        """Return pictures by their digests, or raise an error with all that are not cached."""
        results = self.find(digests)
        lost = [digest for digest in dict.fromkeys(digests) if digest not in results]
        if lost:
            raise ApiError(
                "seen", "some pictures are no longer cached: send them again.", seen=lost
            )
        return [results[digest] for digest in digests]

    def find(self, digests: Sequence[str]) -> dict[str, EmbeddedPicture]:
        """Return those of some pictures that are cached, by their digests."""
        results: dict[str, EmbeddedPicture] = {}
        with self._lock:
            for digest in digests:
                future = self._pictures.get(digest)
                picture = future.result() if future is not None and future.done() else None
                if isinstance(picture, EmbeddedPicture):
                    self._pictures.move_to_end(digest)
                    results[digest] = picture
        return results

    def look(
        self, pictures: Sequence[bytes], snapshot: Snapshot
    ) -> list[tuple[str, PictureOrError]]:
        """Return the digest of each picture, and the embedded picture or its error."""
        digests = [sha256(picture).hexdigest() for picture in pictures]
        futures: dict[str, Future[PictureOrError]] = {}
        new: dict[str, bytes] = {}
        with self._lock:
            cache = self._pictures
            for digest, picture in zip(digests, pictures, strict=True):
                if digest not in cache:
                    cache[digest] = Future()
                    new[digest] = picture
                cache.move_to_end(digest)
                futures[digest] = cache[digest]
        if new:  # before waiting for others, who may wait for these
            self._look_at(new, futures, cache, snapshot)
        return [(digest, futures[digest].result()) for digest in digests]

    def _look_at(
        self,
        new: dict[str, bytes],
        futures: dict[str, Future[PictureOrError]],
        cache: OrderedDict[str, Future[PictureOrError]],
        snapshot: Snapshot,
    ) -> None:
        try:
            results = self._look([*new.values()], snapshot)
        except BaseException as error:
            with self._lock:
                for digest in new:
                    cache.pop(digest, None)
                    futures[digest].set_exception(error)
            raise
        with self._lock:
            for digest, result in zip(new, results, strict=True):
                if isinstance(result, PictureError):
                    cache.pop(digest, None)
                futures[digest].set_result(result)
            while len(cache) > MAX_CACHED_PICTURES:
                cache.popitem(last=False)


class EmbeddingService:
    """Embeds pictures through `Snapshot.look`, in a thread for each core, the same ones once."""

    def __init__(self, recognizer: Recognizer, metrics: Metrics) -> None:
        self._recognizer, self._metrics = recognizer, metrics
        self.queue = WorkQueue("embedding", cores(), MAX_WAITING_PICTURES)
        self.cache = PictureCache(self._look)
        self.ready = False
        self.problem: str | None = None  # why the backbone cannot be loaded
        self.looks_at: schemas.LookedAt | None = None  # None: at all of a picture

    async def warm_up(self) -> None:
        """Embed a picture, so that the first request need not wait for the backbone to load."""

        def look_at_nothing() -> None:
            self._look([np.zeros((64, 64, 3), dtype=np.uint8)], self._recognizer.snapshot())

        with suppress(CBCLError):  # `problem` has it
            await self.queue.run(look_at_nothing)

    async def embed(self, form: UploadForm) -> tuple[Snapshot, list[RequestPicture]]:
        """Embed the pictures of a form, a few at a time, for one snapshot.

        Return the snapshot and the pictures: files first, then digests.
        """
        digests = form.texts("seen")
        if not form.files and not digests:
            message = "the request has no picture: give files as 'pictures', or digests as 'seen'."
            raise ApiError("argument", message)
        if len(form.files) + len(digests) > MAX_PICTURES:
            raise too_many_pictures()
        self.queue.check()
        cached = self._find(digests)
        snapshot = await self.queue.run_part(self._recognizer.snapshot)
        new: list[RequestPicture] = []
        for start in range(0, len(form.files), PICTURES_PER_JOB):
            some = form.files[start : start + PICTURES_PER_JOB]
            new += await self.queue.run_part(self._embed_files, some, snapshot)
        return snapshot, new + cached

    def embed_one(self, form: UploadForm) -> tuple[Snapshot, RequestPicture, EmbeddedPicture]:
        """Embed the only picture of a form, in this thread; ApiError: it cannot be read."""
        snapshot = self._recognizer.snapshot()
        digests = form.texts("seen")
        if len(form.files) + len(digests) != 1:
            raise ApiError("argument", "give one file as 'picture', or one digest as 'seen'.")
        (picture,) = self._embed_files(form.files, snapshot) + self._find(digests)
        if isinstance(picture.result, PictureError):
            raise ApiError("picture", picture.result.about(picture.name))
        return snapshot, picture, picture.result

    def _embed_files(
        self, files: Sequence[UploadedFile], snapshot: Snapshot
    ) -> list[RequestPicture]:
        looked_at = self.cache.look([file.data for file in files], snapshot)
        return [
            RequestPicture(file.name, digest, result)
            for file, (digest, result) in zip(files, looked_at, strict=True)
        ]

    def _find(self, digests: Sequence[str]) -> list[RequestPicture]:
        cached = zip(digests, self.cache.get(digests), strict=True)
        return [RequestPicture("", digest, picture) for digest, picture in cached]

    def _look(self, pictures: list[Any], snapshot: Snapshot) -> list[Any]:
        try:
            results = snapshot.look(pictures, broken="report")
        except (WeightsError, BackboneError) as error:
            self.ready, self.problem = False, error.public
            raise
        if not self.ready:
            self.looks_at = _looked_at(self._recognizer.backbone.description)
        self.ready, self.problem = True, None
        self._metrics.pictures_embedded.inc(len(pictures))
        return results


def _looked_at(description: Mapping[str, Any]) -> schemas.LookedAt | None:
    """Return the largest part that a backbone, or one that it is made of, looks at."""
    parts = [*description.get("views", []), *description.get("parts", [])]
    if parts:
        seen = [_looked_at(part) for part in parts]
        known = [part for part in seen if part is not None]
        return max(known, key=lambda part: part.square) if len(known) == len(seen) else None
    square, squashed = description.get("square"), bool(description.get("squashed"))
    if square is None or (square == 1.0 and squashed):
        return None
    return schemas.LookedAt(square=square, squashed=squashed)
