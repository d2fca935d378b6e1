"""What a recognizer sees with: the backbone of its memory, the pictures meant by what was given, their vectors."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from cbcl.errors import BackboneError, PictureError, WeightsError
from cbcl.files import Identity
from cbcl.machine import cores, one_thread
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s
from cbcl.recognition.examples import EmbeddedPicture, thumbnail_of
from cbcl.vision.backbones import DEFAULT, load_backbone, restore
from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl.vision.backbones.catalogue import CATALOGUE
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import load, name_of
from cbcl.vision.extraction import Progress, extract
from cbcl.vision.finding import find
from cbcl.vision.vector_cache import VectorCache

BackboneSpec: TypeAlias = (
    str | os.PathLike[str] | Callable[[Sequence[Any]], ArrayLike] | Backbone | Fittable
)
OnBroken: TypeAlias = Literal["raise", "report"]  # what to do about a picture that cannot be read

MAX_FITTED = 500  # pictures that a backbone is shown which must see some first
AT_FIRST = 0.8  # relative distance: see `limit_at_first`

_DECODING = BoundedSemaphore(cores())  # pictures at a time, whoever looks


class Embedder:
    """The backbone of a memory, chosen when it is first needed."""

    def __init__(
        self, memory: Memory, given: BackboneSpec | None, *, private: bool, cache: bool
    ) -> None:
        self._memory, self._private, self._cached = memory, private, cache
        self._given = None if given is None else load_backbone(given)
        self._backbone: Backbone | None = None
        self._choosing = Lock()
        self._cache: VectorCache | None = None

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        self._cache = None

    def sources(self, things: Any) -> list[Any]:
        """What is meant by a file, a folder, a pattern, bytes, an array, or a list of these, one by one."""
        takes_pictures = (self._given or self.backbone()).at_least is not None
        return (
            pictures_in(things, self._memory.own_files()) if takes_pictures else _things_in(things)
        )

    def backbone(self, sources: Sequence[Any] = ()) -> Backbone:
        """The backbone; one that must see pictures first is shown these."""
        with self._choosing:
            if self._backbone is None:
                self._backbone = self._chosen(sources)
            return self._backbone

    def see(
        self,
        sources: Sequence[Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> list[Float32s | PictureError]:
        """The vector of each source, in their order, or what is wrong with it."""
        backbone = self.backbone(sources)
        for source in sources:
            if isinstance(source, EmbeddedPicture) and source.fingerprint != backbone.fingerprint:
                raise PictureError(
                    f"a picture was looked at through another backbone than {backbone.name}."
                )
        about = self._memory.view().about if self._memory.exists() else None
        if about is not None:
            self.check(about)
        private = self._private if about is None else about.private
        cached = self._cached and not private and backbone.at_least is not None
        if cached and (self._cache is None or self._cache.process != os.getpid()):
            self._cache = VectorCache(backbone.fingerprint)
        with one_thread() if backbone.threads else nullcontext():  # a picture a thread is enough
            new = [source for source in sources if not isinstance(source, EmbeddedPicture)]
            extracted = iter(
                extract(backbone, new, cache=self._cache if cached else None, progress=progress)
            )
        found = [
            source.vector if isinstance(source, EmbeddedPicture) else next(extracted)
            for source in sources
        ]
        for result in found:
            if isinstance(result, PictureError):
                if broken == "raise":
                    raise result
            elif about is not None:
                self.check(about, len(result))
        return found

    def look(
        self,
        sources: Sequence[Any],
        *,
        broken: OnBroken = "raise",
        progress: Progress | None = None,
    ) -> list[EmbeddedPicture | PictureError]:
        """Each source, decoded once: its vector and a small picture, or what is wrong with it."""
        if not self._memory.exists() and isinstance(self._given, Fittable):
            raise BackboneError(
                f"{self._given.name} is made from the first pictures that are learned: learn some before, with "
                f"`cbcl learn MEMORY PHOTOS --backbone {self._given.name}`."
            )
        backbone = self.backbone()
        if len(sources) == 1:
            seeing = backbone.on_all_cores if isinstance(backbone, Network) else backbone
            return self._gathered(iter([self._seen(seeing, sources[0], 0)]), 1, broken, progress)
        with ThreadPoolExecutor(cores() if backbone.threads else 1) as executor:
            looking = executor.map(
                lambda number: self._seen(backbone, sources[number], number), range(len(sources))
            )
            try:
                return self._gathered(looking, len(sources), broken, progress)
            finally:
                executor.shutdown(cancel_futures=True)

    def _gathered(
        self,
        looking: Iterator[EmbeddedPicture | PictureError],
        count: int,
        broken: OnBroken,
        progress: Progress | None,
    ) -> list[EmbeddedPicture | PictureError]:
        found = []
        for one in looking:
            if broken == "raise" and isinstance(one, PictureError):
                raise one
            found.append(one)
            if progress is not None:
                progress(len(found), count)
        return found

    def _seen(self, backbone: Backbone, source: Any, number: int) -> EmbeddedPicture | PictureError:
        if isinstance(source, EmbeddedPicture):
            return source
        private = self._memory.view().about.private if self._memory.exists() else self._private
        try:
            with _DECODING, one_thread():  # a whole picture may be hundreds of megabytes
                pictures = backbone.at_least is not None
                picture = (
                    load(source, name_of(source, number), backbone.at_least or 1)
                    if pictures
                    else source
                )
                (vector,) = backbone.vectors([picture])
                jpeg = thumbnail_of(picture) if pictures and not private else b""
        except PictureError as error:
            return error
        return EmbeddedPicture(vector, jpeg, backbone.fingerprint)

    def become(self, about: MemoryInfo) -> None:
        """See through what another memory was learned through, if nothing else was given, from the beginning on."""
        given = self._given
        if given is None or (isinstance(given, Fittable) and given.name == about.backbone):
            self._backbone = None
        elif isinstance(given, Fittable) or given.fingerprint != about.fingerprint:
            raise BackboneError(
                f"that memory was learned through {about.backbone}, but this one is to be through {given.name}: they "
                "cannot be put together."
            )

    def check_private(self, about: MemoryInfo) -> None:
        if self._private and not about.private:
            raise BackboneError(
                f"{self._memory.path} was not begun as a private memory and cannot become one: begin a new one."
            )

    def check(self, about: MemoryInfo, dimension: int | None = None) -> None:
        """Whether this is what a memory was learned through, and gives vectors of the same length."""
        backbone = self.backbone()
        if dimension not in (None, about.dimension):
            raise BackboneError(
                f"{backbone.name} gives vectors of {dimension} numbers, but {self._memory.path} was learned from such "
                f"of {about.dimension}."
            )
        self.check_private(about)
        if backbone.fingerprint != about.fingerprint:
            raise BackboneError(
                f"{self._memory.path} was learned through {about.backbone} ({about.fingerprint[:8]}), not through "
                f"{backbone.name} ({backbone.fingerprint[:8]}): open it with the backbone it was learned through."
            )

    def _chosen(self, sources: Sequence[Any]) -> Backbone:
        if self._memory.exists():
            about = self._memory.view().about
            if self._given is None or (
                isinstance(self._given, Fittable) and self._given.name == about.backbone
            ):
                if about.backbone.endswith(".onnx") or about.backbone.startswith("timm/"):
                    # What a file says may not decide what else is opened or downloaded.
                    raise BackboneError(
                        f"{self._memory.path} was learned through {about.backbone}: give that backbone "
                        "(--backbone, or backbone=)."
                    )
                try:
                    return restore(about.backbone, self._memory.backbone_state())
                except WeightsError as error:
                    raise BackboneError(
                        f"{self._memory.path} was learned through {about.backbone}; {error}"
                    ) from error
        chosen = load_backbone(DEFAULT) if self._given is None else self._given
        return (
            chosen.fit(_loaded(sources, chosen.at_least))
            if isinstance(chosen, Fittable)
            else chosen
        )


def limit_at_first(backbone: str) -> float:
    """How far is too far as long as too little was learned to tell: what fits the networks known by name.

    On the photos of three data sets it keeps 80 to 97 of 100 photos of the one class that is known from one to three
    photos; docs/method.md has what it refuses. For anything else than such a network nothing is known.
    """
    return AT_FIRST if backbone in CATALOGUE else math.inf


def _loaded(sources: Sequence[Any], at_least: int | None) -> list[Any]:
    """Up to MAX_FITTED of the pictures, evenly over all, without those that cannot be read."""
    step = max(1, -(-len(sources) // MAX_FITTED))
    found, problem = [], PictureError("there is nothing to learn: give at least one picture.")
    for number, source in [*enumerate(sources)][::step]:
        try:
            found.append(load(source, name_of(source, number), at_least or 1))
        except PictureError as error:
            problem = error
    if not found:
        raise problem
    return found


def pictures_in(things: Any, leave_out: Collection[Identity]) -> list[Any]:
    """Pictures one by one: files found, a stack of frames taken apart."""
    if isinstance(things, str | os.PathLike):
        return [*find([things], leave_out)]
    if isinstance(things, np.ndarray):
        return [*things] if things.ndim == 4 else [things]
    if isinstance(things, bytes | bytearray | memoryview):
        return [bytes(things)]
    if isinstance(things, io.IOBase):
        return [things.read()]
    if hasattr(things, "__iter__"):
        return [picture for thing in things for picture in pictures_in(thing, leave_out)]
    return [things]


def _things_in(things: Any) -> list[Any]:
    if isinstance(things, str | bytes | Path) or not hasattr(things, "__iter__"):
        return [things]
    return [things] if isinstance(things, np.ndarray) and things.ndim == 1 else [*things]
