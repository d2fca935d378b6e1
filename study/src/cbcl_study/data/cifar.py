"""CIFAR's archives for Python, packed or unpacked, read without running the pickles in them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from cbcl.errors import DataError
from cbcl.vision.weights.safe_pickle import FileFormatError, convert_errors, read_pickle_bytes
from cbcl_study.backbones.numpy_archive import Array, NumpyUnpickler, read_members


class PictureSource(NamedTuple):
    """A labelled picture that was not read yet: a file, or its contents."""

    label: str
    test: bool | None
    source: Path | bytes
    name: str


class CifarArchive(NamedTuple):
    """The files of CIFAR's archive for Python."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str
    labels: str
    names: str


def find_cifar(cifar: CifarArchive, folder: Path) -> list[PictureSource] | None:
    """Return the pictures of the archive in a folder, packed or not; None: it is not there."""
    parts = (*cifar.train, *cifar.test, cifar.meta)
    if all((folder / part).is_file() for part in parts):
        return _read_batches(cifar, folder, lambda part: (folder / part).read_bytes())
    if all((folder / cifar.folder / part).is_file() for part in parts):
        return find_cifar(cifar, folder / cifar.folder)
    archive = folder / cifar.archive
    if not archive.is_file():
        return None
    with convert_errors(archive, "get it again"):
        members = read_members(archive, rf"{cifar.folder}/({'|'.join(map(re.escape, parts))})")
        if lacking := [part for part in parts if f"{cifar.folder}/{part}" not in members]:
            raise FileFormatError(f"lacks {cifar.folder}/{lacking[0]}")
    return _read_batches(cifar, archive, lambda part: members.pop(f"{cifar.folder}/{part}"))


def ppm(image: Image.Image) -> bytes:
    """Return a PPM file of a picture's pixels."""
    return b"P6 %d %d 255\n" % image.size + image.tobytes()


def _read_batches(
    cifar: CifarArchive, place: Path, data: Callable[[str], bytes]
) -> list[PictureSource]:
    names = _read_pickle(data(cifar.meta), f"{place}: {cifar.meta}").get(cifar.names)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(place, f"names no classes in {cifar.meta}", "get it again")
    sources = []
    for part in (*cifar.train, *cifar.test):
        batch = _read_pickle(data(part), f"{place}: {part}")
        labels: Any = batch.get(cifar.labels)
        pixels: Any = getattr(batch.get("data"), "array", None)  # (n, 3 * 32 * 32)
        if not _are_pictures(labels, pixels, len(names)):
            problem = f"holds no 32 x 32 pictures with labels in {part}"
            raise DataError(place, problem, "get it again")
        for number, (label, planes) in enumerate(zip(labels, pixels, strict=True)):
            rows = np.ascontiguousarray(planes.reshape(3, 32, 32).transpose(1, 2, 0))
            file, name = ppm(Image.fromarray(rows)), f"{part}/{number}"
            sources.append(PictureSource(names[label], part in cifar.test, file, name))
    return sources


def _are_pictures(labels: Any, pixels: Any, classes: int) -> bool:
    return (
        isinstance(labels, list)
        and all(isinstance(label, int) and 0 <= label < classes for label in labels)
        and isinstance(pixels, np.ndarray)
        and pixels.dtype == np.uint8
        and pixels.shape == (len(labels), 3 * 32 * 32)
    )


def _read_pickle(data: bytes, name: str) -> dict[str, Any]:
    with convert_errors(name, "get the original file again"):
        found = Python2Unpickler(
            io.BytesIO(read_pickle_bytes(io.BytesIO(data))), encoding="latin1"
        ).load()
        if not isinstance(found, dict):
            raise FileFormatError("is no batch of pictures")
        return {
            str(_text(key)): [*map(_text, item)] if type(item) is list else item
            for key, item in found.items()
        }


def _text(value: object) -> object:
    return value.decode("latin1") if isinstance(value, bytes) else value


class Python2Array(Array):
    """A stand-in for a numpy array whose bytes were Python 2's text."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *described, data = state
        super().__setstate__((*described, data.encode("latin1") if isinstance(data, str) else data))


class Python2Unpickler(NumpyUnpickler):
    def find_class(self, module: str, name: str) -> object:
        if name == "_reconstruct" and super().find_class(module, name) is Array:
            return Python2Array
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, _: str(text).encode("latin1")
        return super().find_class(module, name)
