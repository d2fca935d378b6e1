"""Data sets by name, from the layouts they come in: labelled pictures in one order.

The order is that of label, split and digest: it depends on the pictures alone.
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

from cbcl.errors import DataError, PictureError, WeightsError, reason
from cbcl.machine import cores
from cbcl.vision.decoding import load as load_picture
from cbcl.vision.decoding import read
from cbcl.vision.extraction import Progress
from cbcl.vision.finding import find_labelled
from cbcl_study.data.cifar import CifarArchive, PictureSource, find_cifar, ppm

DIGITS = "digits"
DIGITS_HEADER = b"P5 8 8 16\n"  # of a PGM file: 8 x 8 values from 0 to 16
BACKGROUND = "BACKGROUND_Google"


class LabelledPicture(NamedTuple):
    """One picture of a data set."""

    label: str
    test: bool | None  # None: the set has no split of its own
    source: Path | bytes  # a file, or its contents
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

    find: Callable[[Path], list[PictureSource] | None]  # in one folder; None: it is not there
    folders: tuple[str, ...]  # its names in a folder of several, in small letters and digits
    layouts: str  # in words
    own_split: bool = False
    pixels: bool = False  # identify pictures by their pixels, not their files: formats differ


def load(name: str, folder: Path | None = None, *, progress: Progress | None = None) -> DataSet:
    """Load a data set by name from the directory that holds it, or any folder of class folders.

    Such a folder may hold `train` and `test`, each with class folders: it then has a split of its
    own. All pictures are read once, to put them in order; small ones (CIFAR) stay in memory.

    >>> load("digits").pictures[0].label
    '0'
    """
    if name == DIGITS:
        return _build(name, _digits(), progress=progress)
    if name in DATA_SOURCES:
        return _load_known(name, folder, progress)
    with _as_data_errors():
        if not Path(name).is_dir():
            names = ", ".join(NAMES)
            problem = f"is neither a data set ({names}) nor a folder here with one folder per class"
            raise DataError(repr(name), problem)
        split = _split_in(Path(name))
        sources = _classes_in(Path(name)) if split is None else split
    # No path goes into a record, and no name is one of those above.
    own_name = f"folder {Path(name).resolve().name}"
    return _build(own_name, sources, own_split=split is not None, progress=progress)


def fingerprint(pictures: Iterable[LabelledPicture]) -> str:
    """Return 64 hexadecimal digits that differ when a picture, a label or the split does.

    >>> pictures = load("digits").pictures
    >>> fingerprint(pictures) == fingerprint(reversed(pictures)) != fingerprint(pictures[1:])
    True
    """
    lines = sorted(
        json.dumps([picture.label, picture.test, picture.digest.hex()]) for picture in pictures
    )
    return sha256("\n".join(lines).encode()).hexdigest()


def _load_known(name: str, folder: Path | None, progress: Progress | None) -> DataSet:
    known = DATA_SOURCES[name]
    advice = f"it needs {known.layouts}; `cbcl bench download {name} DIR` downloads it"
    if folder is None:
        raise DataError(name, "needs the directory that holds it", advice)
    if not folder.is_dir():
        raise DataError(folder, f"is no directory, so {name} cannot be in it", advice)
    with _as_data_errors():
        for base in _bases(folder, known.folders):
            if (sources := known.find(base)) is not None:
                classes = [source for source in sources if source.label != BACKGROUND]
                background = tuple(one.source for one in sources if one.label == BACKGROUND)
                how = known.own_split, known.pixels
                return _build(name, classes, background, *how, progress=progress)
    raise DataError(folder, f"does not hold {name}, nor does a folder in it", advice)


def _bases(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the folder, then those in it that have one of the names, then those in these."""
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
        raise DataError(error.subject, error.problem, error.advice) from error
    except OSError as error:
        subject = Path(error.filename) if error.filename else "the data set"
        raise DataError(subject, f"cannot be read: {reason(error)}") from error


def _build(
    name: str,
    sources: list[PictureSource],
    background: tuple[Path | bytes, ...] = (),
    own_split: bool = False,
    pixels: bool = False,
    *,
    progress: Progress | None,
) -> DataSet:
    """Read all pictures, and put them in order."""
    _check_classes(name, sources, own_split)
    pictures: list[LabelledPicture] = []
    executor = ThreadPoolExecutor(cores())
    try:
        with _as_data_errors():
            for picture in executor.map(_read_pixels if pixels else _read_file, sources):
                pictures.append(picture)
                if progress is not None:
                    progress(len(pictures), len(sources))
    finally:
        executor.shutdown(cancel_futures=True)
    pictures.sort(key=lambda picture: (picture.label, bool(picture.test), picture.digest))
    return DataSet(name, tuple(pictures), background, own_split)


def _check_classes(name: str, sources: list[PictureSource], own_split: bool) -> None:
    labels = {source.label for source in sources}
    if len(labels) < 2:
        problem = f"has pictures of {len(labels)} classes"
        raise DataError(name, problem, "a study needs two, each in a folder of its own")
    if own_split:
        tested = {source.label for source in sources if source.test}
        learned = {source.label for source in sources if not source.test}
        if lacking := sorted(learned ^ tested):
            problem = f"has pictures of {lacking[0]!r} only to learn or only to test"
            raise DataError(name, problem, "it needs both")


def _read_file(picture: PictureSource) -> LabelledPicture:
    data = picture.source if isinstance(picture.source, bytes) else read(picture.source)
    return LabelledPicture(*picture, sha256(data).digest())


def _read_pixels(picture: PictureSource) -> LabelledPicture:
    source = picture.source
    if not isinstance(source, bytes):
        source = ppm(load_picture(source, str(source), 1))
    return LabelledPicture(*picture._replace(source=source), sha256(source).digest())


def _classes_in(folder: Path, test: bool | None = None, prefix: str = "") -> list[PictureSource]:
    return [
        PictureSource(label, test, path, prefix + path.relative_to(folder).as_posix())
        for label, path in find_labelled([folder])
    ]


def _split_in(folder: Path) -> list[PictureSource] | None:
    """Return class folders in `train` and `test`; None: there are no such two."""
    parts = [part for part in ("train", "test") if _holds_folders(folder / part)]
    if len(parts) == 1:
        problem = f"holds {parts[0]} but not both train and test with class folders in them"
        raise DataError(folder, problem)
    sources = []
    for part in parts:
        sources += _classes_in(folder / part, part == "test", f"{part}/")
    return sources or None


def _holds_folders(folder: Path) -> bool:
    return folder.is_dir() and any(child.is_dir() for child in folder.iterdir())


def _digits() -> list[PictureSource]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    sources = []
    for number, (label, values) in enumerate(zip(digits.target, digits.data, strict=True)):
        file = DIGITS_HEADER + values.astype(np.uint8).tobytes()
        sources.append(PictureSource(str(label), None, file, f"digit {number}"))
    return sources


def _caltech(folder: Path) -> list[PictureSource] | None:
    inside = folder / "101_ObjectCategories"
    if inside.is_dir():
        return _classes_in(inside)
    folders = [child for child in folder.iterdir() if child.is_dir()]
    visible = [child for child in folders if not child.name.startswith(".")]
    plain = len(visible) > 1 and not any(map(_holds_folders, visible))
    return _classes_in(folder) if plain else None


def _cub(folder: Path) -> list[PictureSource] | None:
    if _holds_folders(folder / "images"):
        return _listed_in(folder)
    split = _split_in(folder)
    # The paper divides this set anew, so its own split is dropped.
    return split and [source._replace(test=None) for source in split]


def _cub_official(folder: Path) -> list[PictureSource] | None:
    if not _holds_folders(folder / "images"):
        return _split_in(folder)
    names = _read_numbered(folder / "images.txt")
    split = _read_numbered(folder / "train_test_split.txt")  # 1: to learn from
    if split.keys() != names.keys():
        problem = f"splits {len(split)} pictures, not the {len(names)} of images.txt"
        raise DataError(folder / "train_test_split.txt", problem, "unpack it again")
    tested = {name for number, name in names.items() if split[number] == "0"}
    return [source._replace(test=source.name in tested) for source in _listed_in(folder)]


def _listed_in(folder: Path) -> list[PictureSource]:
    """Return the pictures in CUB's original layout: those of images.txt, where that is there."""
    sources = _classes_in(folder / "images")
    listed = folder / "images.txt"
    if listed.is_file():
        names = {*_read_numbered(listed).values()}
        if lacking := sorted(names - {source.name for source in sources}):
            problem = f"lists {len(names)} pictures, but {lacking[0]} is missing"
            raise DataError(listed, problem, "unpack it again")
        sources = [source for source in sources if source.name in names]
    return sources


def _read_numbered(path: Path) -> dict[str, str]:
    """Return the words of each line after its number."""
    lines = (line.partition(" ") for line in path.read_text().splitlines() if " " in line)
    return {number: words for number, _, words in lines}


def _cifar(cifar: CifarArchive) -> Callable[[Path], list[PictureSource] | None]:
    def find(folder: Path) -> list[PictureSource] | None:
        sources = find_cifar(cifar, folder)
        return _split_in(folder) if sources is None else sources

    return find


CIFAR100 = CifarArchive(
    "cifar-100-python",
    "cifar-100-python.tar.gz",
    ("train",),
    ("test",),
    "meta",
    "fine_labels",
    "fine_label_names",
)
CIFAR10 = CifarArchive(
    "cifar-10-batches-py",
    "cifar-10-python.tar.gz",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    ("test_batch",),
    "batches.meta",
    "labels",
    "label_names",
)


def _cifar_layouts(cifar: CifarArchive) -> str:
    return f"{cifar.archive}, or the folder {cifar.folder} that is in it, or {SPLIT_LAYOUT}"


SPLIT_LAYOUT = "train and test with a folder of pictures a class in each"
CUB_FOLDERS = ("cub200", "cub", "cub2002011", "cub2002011dataset")
DATA_SOURCES = {
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
        CUB_FOLDERS,
        f"CUB_200_2011 with images.txt and images, or {SPLIT_LAYOUT}",
    ),
    "cub200-official": DataSource(
        _cub_official,
        CUB_FOLDERS,
        f"CUB_200_2011 with images.txt, train_test_split.txt and images, or {SPLIT_LAYOUT}",
        own_split=True,
    ),
}
NAMES = (*DATA_SOURCES, DIGITS)
