"""Pictures to vectors, many at a time: decoding beside inference, on all cores, and nothing computed twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, NamedTuple

from cbcl.errors import PictureError
from cbcl.machine import cores
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Floats, load, name_of, read
from cbcl.vision.vector_cache import VectorCache

KEPT_AT_ONCE = 256  # vectors between two writes to the cache

Progress = Callable[[int, int], None]  # done, of how many


class Result(NamedTuple):
    """What became of one picture."""

    vector: Floats | PictureError
    digest: bytes | None  # to keep the vector by; None: it is not to be kept, or was


def extract(
    backbone: Backbone,
    sources: Sequence[Any],
    *,
    cache: VectorCache | None = None,
    progress: Progress | None = None,
) -> list[Floats | PictureError]:
    """The vector of each source, in their order; in place of one that cannot be read, what is wrong with it."""
    found: list[Floats | PictureError] = []
    fresh: list[tuple[bytes, Floats]] = []
    try:
        for result in _results(backbone, sources, cache):
            found.append(result.vector)
            if result.digest is not None and not isinstance(result.vector, PictureError):
                fresh.append((result.digest, result.vector))
            if cache is not None and len(fresh) == KEPT_AT_ONCE:
                cache.put(fresh)
                fresh = []
            if progress is not None:
                progress(len(found), len(sources))
    finally:  # also when interrupted: what was computed is kept
        if cache is not None:
            cache.put(fresh)
    return found


def _results(
    backbone: Backbone, sources: Sequence[Any], cache: VectorCache | None
) -> Iterator[Result]:
    parts = [
        range(start, min(start + backbone.batch, len(sources)))
        for start in range(0, len(sources), backbone.batch)
    ]

    if len(parts) == 1 and isinstance(backbone, Network):
        backbone = backbone.on_all_cores

    def work(part: range) -> list[Result]:
        return _part(backbone, [(sources[i], name_of(sources[i], i)) for i in part], cache)

    threads = min(cores(), len(parts)) if backbone.threads else 1
    if threads <= 1:
        for part in parts:
            yield from work(part)
        return
    executor = ThreadPoolExecutor(threads)
    try:
        for results in executor.map(work, parts):
            yield from results
    finally:
        executor.shutdown(cancel_futures=True)


def _part(
    backbone: Backbone, named: list[tuple[Any, str]], cache: VectorCache | None
) -> list[Result]:
    if backbone.at_least is None:  # things, not pictures
        return [Result(vector, None) for vector in backbone.vectors([thing for thing, _ in named])]
    results: list[Result | None] = []
    pictures = []
    digests = []
    for source, name in named:
        try:
            source, digest = _identified(source, cache)
            known = None if digest is None or cache is None else cache.get(digest)
            if known is not None:
                results.append(Result(known, None))
                continue
            pictures.append(load(source, name, backbone.at_least))
            digests.append(digest)
            results.append(None)  # to be filled in
        except PictureError as error:
            results.append(Result(error, None))
    if pictures:
        computed = iter(zip(backbone.vectors(pictures), digests, strict=True))
        return [Result(*next(computed)) if result is None else result for result in results]
    return [result for result in results if result is not None]


def _identified(source: Any, cache: VectorCache | None) -> tuple[Any, bytes | None]:
    """A file as its bytes, and what those hash to; a frame or an array is not seen twice."""
    if isinstance(source, str | os.PathLike):
        source = read(source)
    return source, sha256(source).digest() if cache is not None and isinstance(
        source, bytes
    ) else None
