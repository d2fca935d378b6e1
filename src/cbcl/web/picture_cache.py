"""Pictures looked at lately: each costs one decoding and one run of the backbone, however often it is asked about."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256
from threading import Lock
from typing import Any, TypeAlias

from cbcl.errors import PictureError
from cbcl.recognition.examples import EmbeddedPicture
from cbcl.web.errors import RequestRefused

MOST = 4096  # about 40 MB

Looked: TypeAlias = EmbeddedPicture | PictureError


class PictureCache:
    """What was seen lately, in RAM only, by the SHA-256 of the pictures' bytes; the same bytes are looked at once."""

    def __init__(self, look: Callable[..., list[Any]], most: int = MOST) -> None:
        self._look, self._most = look, most
        self._lock = Lock()
        self._seen: OrderedDict[str, EmbeddedPicture] = OrderedDict()
        self._under_way: dict[str, Future[Looked]] = {}

    def clear(self) -> None:
        """Remember nothing, nor what is being looked at just now."""
        with self._lock:
            self._seen = OrderedDict()

    def recall(self, digests: Sequence[str]) -> list[EmbeddedPicture]:
        """Pictures by their digests; those that are not remembered are told, all of them."""
        with self._lock:
            lost = [digest for digest in dict.fromkeys(digests) if digest not in self._seen]
            if lost:
                raise RequestRefused(
                    "seen", "some pictures are no longer remembered: send them again.", seen=lost
                )
            for digest in digests:
                self._seen.move_to_end(digest)
            return [self._seen[digest] for digest in digests]

    def look(self, pictures: Sequence[bytes]) -> list[tuple[str, Looked]]:
        """Each picture's digest, and what was seen or what is wrong with it."""
        digests = [sha256(picture).hexdigest() for picture in pictures]
        futures: dict[str, Future[Looked]] = {}
        mine: dict[str, bytes] = {}
        with self._lock:
            seen = self._seen
            for digest, picture in zip(digests, pictures, strict=True):
                if digest in futures:
                    continue
                futures[digest] = self._under_way.get(digest) or Future()
                if (known := self._seen.get(digest)) is not None:
                    self._seen.move_to_end(digest)
                    futures[digest] = Future()
                    futures[digest].set_result(known)
                elif digest not in self._under_way:
                    self._under_way[digest] = futures[digest]
                    mine[digest] = picture
        self._work(mine, futures, seen)  # before waiting for others, who may wait for these
        return [(digest, futures[digest].result()) for digest in digests]

    def _work(
        self,
        mine: dict[str, bytes],
        futures: dict[str, Future[Looked]],
        seen: OrderedDict[str, EmbeddedPicture],
    ) -> None:
        if not mine:
            return
        try:
            found = self._look([*mine.values()], broken="report")
        except BaseException as error:
            with self._lock:
                for digest in mine:
                    del self._under_way[digest]
            for digest in mine:
                futures[digest].set_exception(error)
            raise
        with self._lock:
            for digest, looked in zip(mine, found, strict=True):
                del self._under_way[digest]
                if not isinstance(looked, PictureError):
                    seen[digest] = looked
            while len(seen) > self._most:
                seen.popitem(last=False)
        for digest, looked in zip(mine, found, strict=True):
            futures[digest].set_result(looked)
