"""The archives of data sets: downloaded from their publishers once, checked, unpacked."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from cbcl import downloads
from cbcl.downloads import RemoteFile, partial
from cbcl.errors import DataError, first_line, reason
from cbcl.vision.extraction import Progress
from cbcl_study.data.datasets import CIFAR10, CIFAR100


class Archive(NamedTuple):
    """A file that holds a data set."""

    file: str
    urls: tuple[str, ...]  # tried one after the other
    md5: str  # as the makers, or those who fetch it every day, publish it
    size: int  # in bytes
    unpacked: int  # about so many bytes
    folder: str  # that it unpacks to
    inner: str | None = None  # the .tar.gz in a .zip that holds the folder


def _toronto(file: str, digest: str, size: int, folder: str) -> Archive:
    homes = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")
    return Archive(
        file, tuple(f"{home}/{file}" for home in homes), digest, size, 190_000_000, folder
    )


def _caltech(file: str, record: str, digest: str, size: int, unpacked: int, folder: str) -> Archive:
    return Archive(
        file,
        (f"https://data.caltech.edu/records/{record}/files/{file}",),
        digest,
        size,
        unpacked,
        folder,
    )


CUB = _caltech(
    "CUB_200_2011.tgz",
    "65de6-vp158",
    "97eceeb196236b17998738112f37df78",
    1_150_585_339,
    1_250_000_000,
    "CUB_200_2011",
)
ARCHIVES = {
    "cifar100": _toronto(
        CIFAR100.archive, "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437, CIFAR100.folder
    ),
    "cifar10": _toronto(
        CIFAR10.archive, "c58f30108f718f92721af3b95e74349a", 170_498_071, CIFAR10.folder
    ),
    "caltech101": _caltech(
        "caltech-101.zip",
        "mzrjq-6wc02",
        "3138e1922a9193bfa496528edbbc45d0",
        137_414_764,
        150_000_000,
        "101_ObjectCategories",
    )._replace(inner="caltech-101/101_ObjectCategories.tar.gz"),
    "cub200": CUB,
    "cub200-official": CUB,
}


def download(
    name: str,
    folder: Path,
    progress: Progress | None = None,
    *,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Path:
    """Download a data set into a directory, check and unpack it, unless it is there already."""
    if name not in ARCHIVES:
        advice = f"those that can are {', '.join(ARCHIVES)}"
        raise DataError(name, "cannot be downloaded", advice)
    archive = ARCHIVES[name]
    place, path = folder / archive.folder, folder / archive.file
    if place.is_dir():
        return place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = path, partial(path)
        there = next((file.stat().st_size for file in files if file.exists()), 0)
        if (room := free(folder)) < (needed := archive.size - there + archive.unpacked):
            problem = f"has {_mb(room)} free, but {name} needs {_mb(needed)}"
            raise DataError(folder, problem, "make room")
        remote = RemoteFile(archive.urls, "md5", archive.md5, archive.size)
        downloads.download(remote, path, DataError, progress)
        _unpack(path, archive, place)
    except OSError as error:
        raise DataError(folder, f"cannot hold {name}: {reason(error)}") from error
    return place


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _unpack(path: Path, archive: Archive, place: Path) -> None:
    """Unpack an archive, whole or not at all."""
    if not hasattr(tarfile, "data_filter"):
        advice = "unpack it, or take Python 3.11.4"
        raise DataError(path, "is here, but this Python cannot unpack it safely", advice)
    try:
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=place.parent) as folder:
            with (
                _open_tar(path, archive) as stream,
                tarfile.open(fileobj=stream, mode="r|gz") as tar,
            ):
                tar.extractall(folder, filter="data")
            Path(folder, archive.folder).replace(place)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DataError(path, f"cannot be unpacked: {first_line(error)}") from error


@contextmanager
def _open_tar(path: Path, archive: Archive) -> Iterator[IO[bytes]]:
    if archive.inner is None:
        with path.open("rb") as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as outer, outer.open(archive.inner) as stream:
        yield stream
