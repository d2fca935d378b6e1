"""Shards: pictures embedded by joblib's workers, on this machine or on others, in order.

A task is one shard, from files or pictures to vectors and thumbnails; its result does not depend
on the worker. Workers write neither a memory nor the vector cache.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from cbcl.errors import BackboneError, PictureError, WorkerError
from cbcl.machine import cores
from cbcl.tasks import count_workers, perform_tasks
from cbcl.vision.backbones import restore
from cbcl.vision.backbones.base import Backbone, map_files, short_name
from cbcl.vision.backbones.combined import Combined
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Floats, as_path, name_of, read
from cbcl.vision.extraction import EmbeddedPicture, Progress, embed_pictures
from cbcl.vision.vector_cache import FreshVectors, VectorCache

SHARD_SIZE = 16  # pictures: about a second
ROUND_SHARDS = 32  # for each worker: bounds the results that wait to be learned

Results: TypeAlias = dict[int, EmbeddedPicture | PictureError]  # by the numbers of their sources


class BackboneTicket(NamedTuple):
    """All that a worker needs to load the same backbone, once in each process."""

    name: str
    fingerprint: str
    itself: Backbone | None  # if a worker cannot load it by name

    @classmethod
    def of(cls, backbone: Backbone) -> BackboneTicket:
        is_network = isinstance(backbone, Network | Combined) or backbone.name.startswith("timm/")
        name = map_files(backbone.name, lambda path: str(Path(path).absolute()))
        return cls(name, backbone.fingerprint, None if is_network else backbone)

    def backbone(self) -> Backbone:
        """Return the backbone; raise a BackboneError if the worker has another one of this name."""
        if self.itself is not None:
            return self.itself
        with _loading:
            if self not in _loaded:
                _loaded[self] = restore(self.name, b"")
            backbone = _loaded[self]
        if backbone.fingerprint != self.fingerprint:
            raise BackboneError(
                f"the worker on {socket.gethostname()}",
                f"has another {short_name(self.name)} ({backbone.fingerprint[:8]}, not "
                f"{self.fingerprint[:8]})",
                "install the same version of cbcl there, and the same weights",
            )
        return backbone


_loaded: dict[BackboneTicket, Backbone] = {}
_loading = Lock()


class ShardResult(NamedTuple):
    """The results of a shard."""

    pictures: list[EmbeddedPicture | PictureError]
    fresh: list[tuple[bytes, Floats]]  # digests of pictures and their vectors, for the cache
    absent: list[Any]  # files that the worker does not have
    host: str


def embed_shard(ticket: BackboneTicket, sources: Sequence[Any], thumbnails: bool) -> ShardResult:
    """Embed a shard on one core: the task of a worker."""
    cache = FreshVectors()
    pictures = embed_pictures(
        ticket.backbone(),
        sources,
        cache=cache,
        thumbnails=range(len(sources)) if thumbnails else None,
        on_one_core=True,
    )
    results = zip(sources, pictures, strict=True)
    unread = [source for source, picture in results if isinstance(picture, PictureError)]
    absent = [source for source in unread if _is_missing(source)]
    return ShardResult(pictures, cache.vectors, absent, socket.gethostname())


def _is_file(source: object) -> bool:
    return isinstance(source, str | os.PathLike)


def _is_missing(source: Any) -> bool:
    """Tell whether a source is a local file that this machine does not have."""
    path = as_path(source) if _is_file(source) else None
    return isinstance(path, Path) and not path.exists()


def check_seen(result: ShardResult) -> None:
    """Raise a WorkerError if a worker does not have a file that this machine has."""
    for path in result.absent:
        if not _is_missing(path):
            problem = f"does not have {path}, which is here"
            advice = "give a folder that all machines have under the same name"
            raise WorkerError(f"the worker on {result.host}", problem, advice)


def embed_in_order(
    backbone: Backbone,
    sources: Sequence[Any],
    *,
    cache: VectorCache | None = None,
    thumbnails: Container[int] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Iterator[EmbeddedPicture | PictureError]:
    """Yield the results of `embed_pictures` in order, embedded by joblib's workers.

    Pictures with cached vectors are not embedded again. This process puts the other vectors into
    the cache as shards come back. `n_jobs` is joblib's: None stands for that of
    `joblib.parallel_config`, or 1.
    """
    # On a GPU, a shard has the size of a batch.
    shard_size = max(SHARD_SIZE, backbone.batch if backbone.threads else 1)
    round_size = shard_size * ROUND_SHARDS * count_workers(n_jobs)
    waiting: Results = {}
    following = n_results = 0
    for start in range(0, len(sources), round_size):
        numbers = range(start, min(start + round_size, len(sources)))
        few = {number: sources[number] for number in numbers}
        for results in _embed_round(backbone, few, cache, thumbnails, n_jobs, shard_size):
            waiting |= results
            n_results += len(results)
            if progress is not None and results:
                progress(n_results, len(sources))
            while following in waiting:
                picture = waiting.pop(following)
                if isinstance(picture, PictureError) and not _is_file(sources[following]):
                    # The worker gave it a number within its shard.
                    name = name_of(sources[following], following)
                    picture = PictureError(name, picture.problem, picture.advice)
                if strict and isinstance(picture, PictureError):
                    raise picture
                yield picture
                following += 1


def _embed_round(
    backbone: Backbone,
    sources: Mapping[int, Any],
    cache: VectorCache | None,
    thumbnails: Container[int] | None,
    n_jobs: int | None,
    shard_size: int,
) -> Iterator[Results]:
    """Yield results, by the numbers of their sources, as they come."""
    with ThreadPoolExecutor(cores()) as executor:
        flags = executor.map(lambda source: _is_here(source, backbone, cache), sources.values())
        is_here = dict(zip(sources, flags, strict=True))
    here = [number for number in sources if is_here[number]]
    wanted = thumbnails
    if thumbnails is not None:
        wanted = [row for row, number in enumerate(here) if number in thumbnails]
    ready = [sources[number] for number in here]
    yield dict(
        zip(here, embed_pictures(backbone, ready, cache=cache, thumbnails=wanted), strict=True)
    )
    others = [number for number in sources if not is_here[number]]
    starts = range(0, len(others), shard_size)
    shards = [others[start : start + shard_size] for start in starts]
    ticket = BackboneTicket.of(backbone)
    tasks = {
        key: (ticket, [sources[number] for number in numbers], thumbnails is not None)
        for key, numbers in enumerate(shards)
    }
    for key, shard in perform_tasks(embed_shard, tasks, n_jobs):
        check_seen(shard)
        if cache is not None:
            cache.put(shard.fresh)
        yield dict(zip(shards[key], shard.pictures, strict=True))


def _is_here(source: Any, backbone: Backbone, cache: VectorCache | None) -> bool:
    """Tell whether a picture needs no worker: it is embedded, or its vector is cached."""
    if isinstance(source, EmbeddedPicture):
        return True
    if cache is None or backbone.at_least is None:
        return False
    try:
        data = read(source) if _is_file(source) else source
    except PictureError:
        return False
    return type(data) is bytes and cache.get(sha256(data).digest()) is not None
