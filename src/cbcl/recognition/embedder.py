"""Embedder: the backbone of a memory, the pictures meant by what was given, and their vectors."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Container, Generator, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from cbcl import __version__
from cbcl.errors import BackboneError, PictureError, WeightsError
from cbcl.files import Identity
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.store import Memory
from cbcl.method.arrays import check_unmasked
from cbcl.recognition.cosines import numbers_of
from cbcl.vision.backbones import DEFAULT, load_backbone, restore
from cbcl.vision.backbones.base import Backbone, Fittable, short_name
from cbcl.vision.backbones.catalogue import is_known
from cbcl.vision.decoding import load, name_of
from cbcl.vision.extraction import EmbeddedPicture, Progress, embed_pictures
from cbcl.vision.finding import (
    RemotePicture,
    find,
    find_labelled,
    find_labelled_remote,
    find_remote,
    is_url,
)
from cbcl.vision.shards import embed_in_order
from cbcl.vision.vector_cache import VectorCache

BackboneSpec: TypeAlias = (
    str | os.PathLike[str] | Callable[[Sequence[Any]], ArrayLike] | Backbone | Fittable
)
OnBroken: TypeAlias = Literal["raise", "report"]  # what to do about a picture that cannot be read

MAX_FITTED = 500  # pictures that a backbone is fitted to


class FoundPictures(list[Any]):
    """Single pictures that were found: they are not looked for again."""


class Embedder:
    """The backbone of a memory, loaded when it is first needed."""

    def __init__(
        self, memory: Memory, given: BackboneSpec | None, *, private: bool, cache: bool
    ) -> None:
        self._memory = memory
        self.private = private
        self._cached = cache
        self._given = None if given is None else load_backbone(given)
        self._backbone: Backbone | None = None
        self._loading = Lock()
        self._cache: VectorCache | None = None

    @property
    def backbone_name(self) -> str:
        """Name of the backbone of a new memory; it need not be loaded."""
        return DEFAULT if self._given is None else self._given.name

    def for_memory(self, memory: Memory) -> Embedder:
        """Return one with the same options for another memory."""
        return Embedder(memory, self._given, private=self.private, cache=self._cached)

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        self._cache = None

    def sources(self, pictures: Any) -> FoundPictures:
        """Return the single pictures meant by files, folders, patterns, bytes, arrays and lists."""
        if isinstance(pictures, FoundPictures):
            return pictures
        takes_pictures = (self._given or self.backbone()).at_least is not None
        if takes_pictures:
            sources = _expand_pictures(pictures, self._memory.own_files())
        else:
            sources = _expand_things(pictures)
        for source in sources:
            check_unmasked(source, "pictures")
        return FoundPictures(sources)

    def find_labelled(self, folders: Iterable[str | os.PathLike[str]]) -> dict[str, FoundPictures]:
        """Return the files of each label, without those of memories."""
        files: dict[str, FoundPictures] = {}
        for folder in folders:
            labelled: Iterable[tuple[str, Path | RemotePicture]]
            if is_url(folder):
                labelled = find_labelled_remote(str(folder))
            else:
                labelled = find_labelled([folder], self._memory.own_files())
            for label, path in labelled:
                files.setdefault(label, FoundPictures()).append(path)
        return files

    def backbone(self, sources: Sequence[Any] = ()) -> Backbone:
        """Return the backbone; one that must be fitted first is fitted to these pictures."""
        with self._loading:
            if self._backbone is None:
                self._backbone = self._load(sources)
            return self._backbone

    def about(self) -> MemoryInfo | None:
        """Return the constants of the memory; None: there is none yet."""
        state = self._memory.latest()
        return None if state is None else state.about

    def check_usable(self) -> None:
        """Raise an error if what is at the path is no memory, or not private, as this one is."""
        about = self.about()
        if about is not None:
            self.check_private(about)

    def describe(self, dimension: int) -> MemoryInfo:
        """Return the constants of a memory that begins with vectors of this length."""
        backbone = self.backbone()
        return MemoryInfo(
            backbone.name,
            backbone.fingerprint,
            dimension,
            self.private,
            __version__,
            numbers_of(backbone, dimension),
        )

    def embed(
        self,
        sources: Sequence[Any],
        about: MemoryInfo | None,
        *,
        thumbnails: Container[int] | None = None,
        cache: bool = True,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> list[EmbeddedPicture | PictureError]:
        """Embed sources for a memory: see `embed_pictures`; nothing is kept of private ones."""
        backbone, private = self._prepare(sources, about)
        embedded = embed_pictures(
            backbone,
            sources,
            cache=self._vector_cache(backbone) if cache and not private else None,
            thumbnails=None if private else thumbnails,
            strict=broken == "raise",
            progress=progress,
        )
        for picture in embedded:
            if about is not None and isinstance(picture, EmbeddedPicture):
                self.check(about, len(picture.vector))
        return embedded

    def embed_in_order(
        self,
        sources: Sequence[Any],
        about: MemoryInfo | None,
        *,
        thumbnails: Container[int] | None,
        broken: OnBroken,
        progress: Progress | None,
        n_jobs: int | None,
    ) -> Generator[EmbeddedPicture | PictureError, None, None]:
        """Yield what `embed` returns, embedded by joblib's workers: see `shards.embed_in_order`."""
        backbone, private = self._prepare(sources, about)
        embedded = embed_in_order(
            backbone,
            sources,
            cache=None if private else self._vector_cache(backbone),
            thumbnails=None if private else thumbnails,
            strict=broken == "raise",
            progress=progress,
            n_jobs=n_jobs,
        )
        for picture in embedded:
            if about is not None and isinstance(picture, EmbeddedPicture):
                self.check(about, len(picture.vector))
            yield picture

    def _prepare(self, sources: Sequence[Any], about: MemoryInfo | None) -> tuple[Backbone, bool]:
        """Return the backbone, and whether the memory is private, or will be."""
        backbone = self.backbone(sources)
        for number, source in enumerate(sources):
            if isinstance(source, EmbeddedPicture) and source.fingerprint != backbone.fingerprint:
                problem = f"was embedded by another backbone than {backbone.name}"
                raise PictureError(f"picture {number + 1}", problem, "give the picture itself")
        if about is not None:
            self.check(about)
        return backbone, self.private if about is None else about.private

    def look(
        self,
        sources: Sequence[Any],
        about: MemoryInfo | None,
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> list[EmbeddedPicture | PictureError]:
        """Embed sources with thumbnails, and leave no trace in the cache."""
        if isinstance(self._given, Fittable) and about is None:
            name = self._given.name
            raise BackboneError(
                name,
                "is made from the first pictures that are learned",
                f"learn some before, with `cbcl learn MEMORY PHOTOS --backbone {name}`",
            )
        every = range(len(sources))
        return self.embed(
            sources, about, thumbnails=every, cache=False, broken=broken, progress=progress
        )

    def adapt(self, about: MemoryInfo) -> None:
        """Take the backbone of another memory for a new one, unless a different one was given."""
        given = self._given
        if given is None or (isinstance(given, Fittable) and given.name == about.backbone):
            self._backbone = None
        elif isinstance(given, Fittable) or given.fingerprint != about.fingerprint:
            theirs, ours = short_name(about.backbone), short_name(given.name)
            problem = f"was learned through {theirs}, but this one is to be through {ours}"
            raise BackboneError("that memory", problem, "they cannot be put together")

    def check_private(self, about: MemoryInfo) -> None:
        if self.private and not about.private:
            problem = "was not begun as a private memory and cannot become one"
            raise BackboneError(self._memory.path, problem, "begin a new one")

    def check(self, about: MemoryInfo, dimension: int | None = None) -> None:
        """Raise BackboneError unless a memory was learned through this backbone."""
        backbone = self.backbone()
        ours, theirs = short_name(backbone.name), short_name(about.backbone)
        if dimension not in (None, about.dimension):
            problem = (
                f"was learned from vectors of {about.dimension} numbers, but {ours} gives vectors "
                f"of {dimension}"
            )
            raise BackboneError(self._memory.path, problem)
        self.check_private(about)
        if backbone.fingerprint != about.fingerprint:
            raise BackboneError(
                self._memory.path,
                f"was learned through {theirs} ({about.fingerprint[:8]}), not through {ours} "
                f"({backbone.fingerprint[:8]})",
                "open it with the backbone it was learned through",
            )

    def _vector_cache(self, backbone: Backbone) -> VectorCache | None:
        if not self._cached or backbone.at_least is None:
            return None
        if self._cache is None or self._cache.process != os.getpid():
            self._cache = VectorCache(backbone.fingerprint)
        return self._cache

    def _load(self, sources: Sequence[Any]) -> Backbone:
        given = self._given
        if self._memory.exists():
            about = self._memory.view().about
            if given is None or (isinstance(given, Fittable) and given.name == about.backbone):
                return self._restore(about.backbone)
        chosen = load_backbone(DEFAULT) if given is None else given
        if isinstance(chosen, Fittable):
            return chosen.fit(_load_sample(sources, chosen.at_least))
        return chosen

    def _restore(self, name: str) -> Backbone:
        """Load the backbone that the memory names."""
        problem = f"was learned through {short_name(name)}"
        if ".onnx" in name or "timm/" in name:  # also as a part of it
            # The contents of a file may not decide what else is opened or downloaded.
            advice = "give that backbone (--backbone, or backbone=)"
            raise BackboneError(self._memory.path, problem, advice)
        try:
            return restore(name, self._memory.backbone_state())
        except WeightsError as error:
            if not is_known(name):
                problem = f"{problem}, which is not installed here"
                advice = "install the package that has it, or give that backbone (backbone=)"
                raise BackboneError(self._memory.path, problem, advice) from error
            problem = f"{problem}, which cannot be loaded"
            raise BackboneError(
                self._memory.path, problem, error.public.removesuffix(".")
            ) from error


def _load_sample(sources: Sequence[Any], at_least: int | None) -> list[Any]:
    """Decode up to MAX_FITTED pictures, evenly over all, without those that cannot be read."""
    step = max(1, -(-len(sources) // MAX_FITTED))
    images, problem = [], nothing_given()
    for number in range(0, len(sources), step):
        try:
            name = name_of(sources[number], number)
            images.append(load(sources[number], name, at_least or 1))
        except PictureError as error:
            problem = error
    if not images:
        raise problem
    return images


def nothing_given() -> PictureError:
    return PictureError("the list of pictures", "is empty", "give at least one picture")


def _expand_pictures(pictures: Any, leave_out: Collection[Identity]) -> list[Any]:
    """Return single pictures: files found, a stack of frames taken apart."""
    if isinstance(pictures, RemotePicture):
        return [pictures]
    if isinstance(pictures, str) and is_url(pictures):
        return [*find_remote(pictures)]
    if isinstance(pictures, str | os.PathLike):
        return [*find([pictures], leave_out)]
    if isinstance(pictures, np.ndarray):
        return [*pictures] if pictures.ndim == 4 else [pictures]
    if isinstance(pictures, bytes | bytearray | memoryview):
        return [bytes(pictures)]
    if isinstance(pictures, io.IOBase):
        return [pictures.read()]
    if hasattr(pictures, "__iter__"):
        return [picture for part in pictures for picture in _expand_pictures(part, leave_out)]
    return [pictures]


def _expand_things(things: Any) -> list[Any]:
    if isinstance(things, str | bytes | Path) or not hasattr(things, "__iter__"):
        return [things]
    return [things] if isinstance(things, np.ndarray) and things.ndim == 1 else [*things]
