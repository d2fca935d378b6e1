"""Picture cache: pictures with the same bytes are decoded and embedded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256
from threading import Lock
from typing import Any, TypeAlias

from cbcl.errors import PictureError
from cbcl.recognition.snapshot import Snapshot
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web.errors import ApiError

MAX_CACHED_PICTURES = 4096  # about 40 MB

PictureOrError: TypeAlias = EmbeddedPicture | PictureError


class PictureCache:
    """The latest embedded pictures by the SHA-256 of their bytes, in RAM only.

    Who asks for a picture that another thread is looking at waits for that thread.
    """

    def __init__(
        self, look: Callable[..., list[Any]], max_pictures: int = MAX_CACHED_PICTURES
    ) -> None:
        self._look, self._max_pictures = look, max_pictures
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
            while len(cache) > self._max_pictures:
                cache.popitem(last=False)
