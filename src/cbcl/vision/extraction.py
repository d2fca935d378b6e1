"""Pictures read, decoded, embedded and made into thumbnails once, on all cores, in order."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from PIL import Image

from cbcl.errors import PictureError, Subject
from cbcl.machine import cores, one_thread
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.combined import on_all_cores
from cbcl.vision.decoding import Floats, as_path, load, name_of, read
from cbcl.vision.decoding_budget import BUDGET
from cbcl.vision.vector_cache import FreshVectors, VectorCache

THUMBNAIL_SIDE = 128  # pixels
THUMBNAIL_QUALITY = 80  # of the JPEG
MAX_DECODED_PIXELS = 100_000_000  # of the pictures that wait to be embedded
CACHE_WRITE_ROWS = 256  # vectors between two writes to the cache

Progress = Callable[[int, int], None]  # number done, number of all


@dataclass(frozen=True)
class EmbeddedPicture:
    """An embedded picture: all that is needed to learn it or to recognize it."""

    vector: Floats
    jpeg: bytes = field(repr=False)  # thumbnail; empty: none was made
    fingerprint: str  # of the backbone
    # Makes the thumbnail of a picture whose vector was cached.
    deferred: Callable[[], bytes] | None = field(default=None, repr=False)

    @property
    def has_thumbnail(self) -> bool:
        return bool(self.jpeg) or self.deferred is not None

    def thumbnail(self) -> bytes:
        """Return the thumbnail, made now if it was deferred; empty: there is none."""
        return self.deferred() if self.deferred is not None else self.jpeg


class DecodedPicture(NamedTuple):
    """A picture, or another thing, ready for the backbone."""

    number: int  # of its source
    image: Any
    jpeg: bytes = b""  # thumbnail

    @property
    def pixels(self) -> int:
        return self.image.width * self.image.height if isinstance(self.image, Image.Image) else 0


def extract(
    backbone: Backbone,
    sources: Sequence[Any],
    *,
    cache: VectorCache | None = None,
    progress: Progress | None = None,
) -> list[Floats | PictureError]:
    """Return the vector of each source, or its error, in order."""
    pictures = embed_pictures(backbone, sources, cache=cache, progress=progress)
    return [one if isinstance(one, PictureError) else one.vector for one in pictures]


def embed_pictures(
    backbone: Backbone,
    sources: Sequence[Any],
    *,
    cache: VectorCache | FreshVectors | None = None,
    thumbnails: Container[int] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    on_one_core: bool = False,
) -> list[EmbeddedPicture | PictureError]:
    """Embed each source; the results are in order and depend on neither batches nor threads.

    A picture that cannot be read gives its error; `strict` raises it. `thumbnails` are the numbers
    of the sources that certainly need a thumbnail; None: no source does. The other sources get one
    if they are decoded for their vector, and a deferred one if their vector is cached.
    """
    pictures: list[EmbeddedPicture | PictureError] = []
    fresh: list[tuple[bytes, Floats]] = []
    pipeline = _Pipeline(backbone, sources, cache, thumbnails, on_one_core)
    try:
        for number, picture in enumerate(pipeline.run()):
            if strict and isinstance(picture, PictureError):
                raise picture
            pictures.append(picture)
            if number in pipeline.digests and isinstance(picture, EmbeddedPicture):
                fresh.append((pipeline.digests.pop(number), picture.vector))
            if cache is not None and len(fresh) == CACHE_WRITE_ROWS:
                cache.put(fresh)
                fresh = []
            if progress is not None:
                progress(len(pictures), len(sources))
    finally:  # also when interrupted: what was computed is kept
        if cache is not None:
            cache.put(fresh)
    return pictures


class _Pipeline:
    """One call of `embed_pictures`."""

    def __init__(
        self,
        backbone: Backbone,
        sources: Sequence[Any],
        cache: VectorCache | FreshVectors | None,
        thumbnails: Container[int] | None,
        on_one_core: bool = False,
    ) -> None:
        self.sources = sources
        self.cache = cache
        self.thumbnails = thumbnails
        self.cores = 1 if on_one_core else cores()
        self.digests: dict[int, bytes] = {}  # of sources whose vectors are not in the cache
        starts = range(0, len(sources), backbone.batch)
        self.batches = [range(start, min(start + backbone.batch, len(sources))) for start in starts]
        alone = len(self.batches) == 1 and not on_one_core
        self.backbone = on_all_cores(backbone) if alone else backbone

    def run(self) -> Iterator[EmbeddedPicture | PictureError]:
        threads = min(self.cores, len(self.batches)) if self.backbone.threads else 1
        if threads <= 1:
            for batch in self.batches:
                yield from self._embed_batch(batch)
            return
        executor = ThreadPoolExecutor(threads)
        try:
            for results in executor.map(self._embed_batch, self.batches):
                yield from results
        finally:
            executor.shutdown(cancel_futures=True)

    def _embed_batch(self, batch: range) -> list[EmbeddedPicture | PictureError]:
        # A decoded picture may have hundreds of megabytes, so that only pictures take a slot. A
        # function of other things may take long, or ask another recognizer.
        takes_pictures = self.backbone.at_least is not None
        slot = BUDGET.slots if takes_pictures else nullcontext()
        results: dict[int, EmbeddedPicture | PictureError] = {}
        waiting: list[DecodedPicture] = []

        def embed_waiting() -> None:
            if decoded := waiting[:]:
                waiting.clear()
                results.update(self._embed(decoded))
                del decoded  # before its bytes are given back
                BUDGET.give_back()

        share = BUDGET.share(embed_waiting) if takes_pictures else nullcontext()
        with slot, share, one_thread() if self.backbone.threads else nullcontext():
            for number in batch:
                try:
                    prepared = self._prepare(number)
                except PictureError as error:
                    results[number] = error
                else:
                    if isinstance(prepared, EmbeddedPicture):
                        results[number] = prepared
                    else:
                        waiting.append(prepared)
                    del prepared  # so that its picture is freed when it is embedded
                if not waiting:
                    BUDGET.give_back()
                if sum(one.pixels for one in waiting) > MAX_DECODED_PIXELS:
                    embed_waiting()
            embed_waiting()
            return [results[number] for number in batch]

    def _prepare(self, number: int) -> DecodedPicture | EmbeddedPicture:
        """Decode a picture unless its vector is cached; frames and arrays are not cached."""
        source = self.sources[number]
        at_least = self.backbone.at_least
        if isinstance(source, EmbeddedPicture):
            return source
        if at_least is None:  # a thing, not a picture
            return DecodedPicture(number, source)
        is_file = isinstance(source, str | os.PathLike)
        name = as_path(source) if is_file else name_of(source, number)
        data = read(source) if is_file else source
        vector = None
        if self.cache is not None and isinstance(data, bytes):
            digest = sha256(data).digest()
            vector = self.cache.get(digest)
            if vector is None:
                self.digests[number] = digest
        if vector is None:
            image = load(data, name, at_least)
            jpeg = b"" if self.thumbnails is None else _thumbnail(image, data, name, at_least)
            return DecodedPicture(number, image, jpeg)
        jpeg = b""
        deferred = None
        if self.thumbnails is not None:
            if number in self.thumbnails:
                jpeg = _read_thumbnail(data, name, at_least)
            else:
                deferred = partial(_read_thumbnail, source, name, at_least)
        return EmbeddedPicture(vector, jpeg, self.backbone.fingerprint, deferred)

    def _embed(self, decoded: Sequence[DecodedPicture]) -> dict[int, EmbeddedPicture]:
        vectors = self.backbone.vectors([one.image for one in decoded])
        return {
            one.number: EmbeddedPicture(vector, one.jpeg, self.backbone.fingerprint)
            for one, vector in zip(decoded, vectors, strict=True)
        }


def _read_thumbnail(source: Any, name: Subject, at_least: int) -> bytes:
    """Return the thumbnail of a picture whose vector was cached, the same as without a cache."""
    return _thumbnail(load(source, name, at_least), source, name, at_least)


def _thumbnail(image: Image.Image, data: Any, name: Subject, at_least: int) -> bytes:
    """Return a small JPEG without the metadata of the camera."""
    if max(image.size) < THUMBNAIL_SIDE and at_least < THUMBNAIL_SIDE:
        # Its decoder may have scaled it down too far.
        image = load(data, name, THUMBNAIL_SIDE)
    scale = THUMBNAIL_SIDE / max(image.size)
    if scale < 1.0:
        width, height = (max(1, round(scale * side)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=THUMBNAIL_QUALITY, exif=b"", icc_profile=None)
    return file.getvalue()
