"""Data sets by name, from the layouts they come in: pictures with labels, always in the same order.

The order is that of label, split and digest, so that it depends on the pictures and not on how they are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cbcl.errors import DataError, PictureError, WeightsError
from cbcl.machine import cores
from cbcl.study.data.cifar import ArchiveFiles, Cifar, find_cifar, ppm
from cbcl.vision.decoding import load as load_picture
from cbcl.vision.decoding import read
from cbcl.vision.extraction import Progress
from cbcl.vision.finding import find_labelled

DIGITS = "digits"
DIGITS_HEADER = b"P5 8 8 16\n"  # of a PGM file: 8 x 8 values from 0 to 16
BACKGROUND = "BACKGROUND_Google"


class LabelledPicture(NamedTuple):
    """One picture of a data set."""

    label: str
    test: bool | None  # None: the set has no split of its own
    source: Path | bytes  # a file, or what would be in one
    name: str  # within the set, for messages
    digest: bytes  # SHA-256 of that file


class DataSet(NamedTuple):
    """Pictures with labels, in their settled order."""

    name: str
    pictures: tuple[LabelledPicture, ...]
    background: tuple[Path | bytes, ...]  # pictures that belong to no class
    own_split: bool


class DataSource(NamedTuple):
    """A data set that has a name, and the layouts it is found in."""

    find: Callable[[Path], list[ArchiveFiles] | None]  # in one folder; None: it is not there
    folders: tuple[
        str, ...
    ]  # by which it goes in a folder of several, in small letters and digits alone
    layouts: str  # in words
    own_split: bool = False
    pixels: bool = (
        False  # small pictures kept in several formats: their pixels count, not their files
    )


def load(name: str, folder: Path | None = None, *, progress: Progress | None = None) -> DataSet:
    """A data set by name, from the directory that holds it; or any folder of class folders, by its path.

    Such a folder may hold `train` and `test`, each with class folders: it then has a split of its own. All pictures
    are read once, to put them in order; small ones (CIFAR) stay in memory.

    >>> load("digits").pictures[0].label
    '0'
    """
    if name == DIGITS:
        return _settled(name, _digits(), progress=progress)
    if name in KNOWN:
        return _known(name, folder, progress)
    with _as_data_errors():
        if not Path(name).is_dir():
            raise DataError(
                f"there is no data set {name!r}: there are {', '.join([*KNOWN, DIGITS])}, and any folder of folders, "
                "each of them named after what its pictures show."
            )
        split = _split_in(Path(name))
        found = _classes_in(Path(name)) if split is None else split
    own_name = f"folder {Path(name).resolve().name}"  # no path goes into a record, and it is none of those with a name
    return _settled(own_name, found, own_split=split is not None, progress=progress)


def fingerprint(pictures: Iterable[LabelledPicture]) -> str:
    """64 hexadecimal digits that differ when a picture, a label or the split does.

    >>> pictures = load("digits").pictures
    >>> fingerprint(pictures) == fingerprint(reversed(pictures)) != fingerprint(pictures[1:])
    True
    """
    lines = sorted(
        json.dumps([picture.label, picture.test, picture.digest.hex()]) for picture in pictures
    )
    return sha256("\n".join(lines).encode()).hexdigest()


def _known(name: str, folder: Path | None, progress: Progress | None) -> DataSet:
    known = KNOWN[name]
    way_out = f"Wanted is {known.layouts}; `cbcl bench download {name} DIR` fetches it where there is internet."
    if folder is None:
        raise DataError(f"{name} needs the directory that holds it. {way_out}")
    if not folder.is_dir():
        raise DataError(f"{folder} is no directory, so {name} cannot be in it. {way_out}")
    with _as_data_errors():
        for base in _bases(folder, known.folders):
            if (found := known.find(base)) is not None:
                classes = [one for one in found if one.label != BACKGROUND]
                others = tuple(one.source for one in found if one.label == BACKGROUND)
                return _settled(
                    name, classes, others, known.own_split, known.pixels, progress=progress
                )
    raise DataError(f"{folder} does not hold {name}, nor does a folder in it. {way_out}")


def _bases(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The folder, then those in it that go by one of the names, then those in these."""
    level = [folder]
    for _ in range(3):
        yield from level
        level = [
            child
            for base in level
            for child in sorted(base.iterdir())
            if re.sub("[^a-z0-9]", "", child.name.lower()) in names and child.is_dir()
        ]


@contextmanager
def _as_data_errors() -> Iterator[None]:
    try:
        yield
    except (PictureError, WeightsError) as error:
        raise DataError(str(error)) from error
    except OSError as error:
        raise DataError(
            f"{error.filename or 'the data set'} cannot be read: {error.strerror or error}."
        ) from error


def _settled(
    name: str,
    found: list[ArchiveFiles],
    background: tuple[Path | bytes, ...] = (),
    own_split: bool = False,
    pixels: bool = False,
    *,
    progress: Progress | None,
) -> DataSet:
    """The pictures as they are kept, looked at and in order."""
    labels = {one.label for one in found}
    if len(labels) < 2:
        raise DataError(
            f"{name} has pictures of {len(labels)} classes: a study needs two, each in a folder of its own."
        )
    if own_split:
        parts = {test: {one.label for one in found if one.test is test} for test in (False, True)}
        if lacking := sorted(parts[False] ^ parts[True]):
            raise DataError(
                f"{name} has pictures of {lacking[0]!r} only to learn or only to test: it needs both."
            )
    pictures: list[LabelledPicture] = []
    executor = ThreadPoolExecutor(cores())
    try:
        with _as_data_errors():
            for picture in executor.map(_as_pixels if pixels else _as_file, found):
                pictures.append(picture)
                if progress is not None:
                    progress(len(pictures), len(found))
    finally:
        executor.shutdown(cancel_futures=True)
    pictures.sort(key=lambda one: (one.label, bool(one.test), one.digest))
    return DataSet(name, tuple(pictures), background, own_split)


def _as_file(found: ArchiveFiles) -> LabelledPicture:
    data = found.source if isinstance(found.source, bytes) else read(found.source)
    return LabelledPicture(*found, sha256(data).digest())


def _as_pixels(found: ArchiveFiles) -> LabelledPicture:
    source = found.source
    if not isinstance(source, bytes):
        source = ppm(load_picture(source, str(source), 1))
    return LabelledPicture(found.label, found.test, source, found.name, sha256(source).digest())


def _classes_in(folder: Path, test: bool | None = None, prefix: str = "") -> list[ArchiveFiles]:
    return [
        ArchiveFiles(label, test, path, prefix + path.relative_to(folder).as_posix())
        for label, path in find_labelled([folder])
    ]


def _split_in(folder: Path) -> list[ArchiveFiles] | None:
    """Class folders in `train` and `test`; None: there are no such two."""
    there = [part for part in ("train", "test") if _holds_folders(folder / part)]
    if len(there) == 1:
        raise DataError(
            f"{folder} holds {there[0]} but not both train and test with class folders in them."
        )
    return [
        one for part in there for one in _classes_in(folder / part, part == "test", f"{part}/")
    ] or None


def _holds_folders(folder: Path) -> bool:
    return folder.is_dir() and any(child.is_dir() for child in folder.iterdir())


def _digits() -> list[ArchiveFiles]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return [
        ArchiveFiles(
            str(label), None, DIGITS_HEADER + values.astype(np.uint8).tobytes(), f"digit {number}"
        )
        for number, (label, values) in enumerate(zip(digits.target, digits.data, strict=True))
    ]


def _caltech(folder: Path) -> list[ArchiveFiles] | None:
    inside = folder / "101_ObjectCategories"
    if inside.is_dir():
        return _classes_in(inside)
    children = [
        child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")
    ]
    plain = len(children) > 1 and not any(_holds_folders(child) for child in children)
    return _classes_in(folder) if plain else None


def _cub(folder: Path) -> list[ArchiveFiles] | None:
    if not _holds_folders(folder / "images"):
        split = _split_in(folder)
        # The paper divides this set anew, so that its own split is not told.
        return split and [one._replace(test=None) for one in split]
    found = _classes_in(folder / "images")
    listed = folder / "images.txt"
    if listed.is_file():
        names = {
            line.split(maxsplit=1)[1] for line in listed.read_text().splitlines() if " " in line
        }
        if lacking := sorted(names - {one.name for one in found}):
            raise DataError(
                f"{listed} lists {len(names)} pictures, but {lacking[0]} is missing: unpack it again."
            )
        found = [one for one in found if one.name in names]
    return found


def _cifar(cifar: Cifar) -> Callable[[Path], list[ArchiveFiles] | None]:
    def find(folder: Path) -> list[ArchiveFiles] | None:
        found = find_cifar(cifar, folder)
        return _split_in(folder) if found is None else found

    return find


CIFAR100 = Cifar(
    "cifar-100-python",
    "cifar-100-python.tar.gz",
    ("train",),
    ("test",),
    "meta",
    "fine_labels",
    "fine_label_names",
)
CIFAR10 = Cifar(
    "cifar-10-batches-py",
    "cifar-10-python.tar.gz",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    ("test_batch",),
    "batches.meta",
    "labels",
    "label_names",
)


def _cifar_layouts(cifar: Cifar) -> str:
    return (
        f"{cifar.archive}, or the folder {cifar.folder} that is in it, or train and test with a folder of pictures a "
        "class in each"
    )


KNOWN = {
    "cifar100": DataSource(
        _cifar(CIFAR100), ("cifar100", "cifar100dataset"), _cifar_layouts(CIFAR100), True, True
    ),
    "cifar10": DataSource(
        _cifar(CIFAR10), ("cifar10", "cifar10dataset"), _cifar_layouts(CIFAR10), True, True
    ),
    "caltech101": DataSource(
        _caltech,
        ("caltech101", "caltech", "caltech101dataset"),
        f"101_ObjectCategories with a folder of pictures a class in it ({BACKGROUND} is left out)",
    ),
    "cub200": DataSource(
        _cub,
        ("cub200", "cub", "cub2002011", "cub2002011dataset"),
        "CUB_200_2011 with images.txt and images, or train and test with a folder of pictures a class in each",
    ),
}
NAMES = (*KNOWN, DIGITS)
