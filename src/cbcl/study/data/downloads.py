"""The archives of data sets, from where their makers put them: fetched once, checked, unpacked.

A fetch that was interrupted goes on; an archive got by other means is taken as if it had been fetched.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest, md5
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError

from cbcl.errors import DataError, first_line, reason
from cbcl.study.data.datasets import CIFAR10, CIFAR100
from cbcl.vision.extraction import Progress

PIECE = 1 << 20  # bytes at a time
SECONDS = 60.0  # of silence, after which a server is given up


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
    "cub200": _caltech(
        "CUB_200_2011.tgz",
        "65de6-vp158",
        "97eceeb196236b17998738112f37df78",
        1_150_585_339,
        1_250_000_000,
        "CUB_200_2011",
    ),
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
        part = _part(path)
        there = next((one.stat().st_size for one in (path, part) if one.exists()), 0)
        if (room := free(folder)) < (needed := archive.size - there + archive.unpacked):
            problem = f"has {_mb(room)} free, but {name} needs {_mb(needed)}"
            raise DataError(folder, problem, "make room")
        if path.exists():
            _check(path, archive, "Delete it, or get it again.")
        else:
            _fetch(archive, part, progress)
            _check(part, archive, "Fetch it again.", delete=True)
            part.replace(path)
        _unpack(path, archive, place)
    except OSError as error:
        raise DataError(folder, f"cannot hold {name}: {reason(error)}") from error
    return place


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _fetch(archive: Archive, part: Path, progress: Progress | None) -> None:
    """The rest of a file, or all of it, from the first address that answers."""
    problems = []
    for url in archive.urls if _size(part) != archive.size else ():
        try:
            request = urllib.request.Request(
                url, headers={"Range": f"bytes={_size(part)}-"} if _size(part) else {}
            )
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
                if (
                    error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                ):  # what was fetched is of another file
                    part.unlink()
            problems.append(f"{url}: {first_line(error)}")
            continue
        with answer:
            _receive(answer, archive, part, progress)
        return
    if problems:
        raise DataError(
            f"{archive.file} cannot be fetched: {'; '.join(problems)}. Try again, or get {archive.file} from "
            f"{archive.urls[0]} by other means and put it into {part.parent}."
        )


def _receive(answer: HTTPResponse, archive: Archive, part: Path, progress: Progress | None) -> None:
    start = _size(part) if answer.status == HTTPStatus.PARTIAL_CONTENT else 0
    length = answer.headers.get("Content-Length")
    if length is not None and start + int(length) != archive.size:
        part.unlink(missing_ok=True)
        raise DataError(
            f"{answer.url} gives {start + int(length)} bytes, but {archive.file} has {archive.size}: try again later."
        )
    with part.open("ab" if start else "wb") as file:
        while piece := _piece(answer):
            file.write(piece)
            if progress is not None:
                progress(file.tell(), archive.size)
    if (done := _size(part)) < archive.size:
        raise DataError(
            f"{answer.url} broke off after {_mb(done)}: the same command goes on from there."
        )


def _piece(answer: HTTPResponse) -> bytes:
    try:
        return answer.read(PIECE)
    except (OSError, HTTPException):  # the file is too short then
        return b""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check(path: Path, archive: Archive, way_out: str, *, delete: bool = False) -> None:
    with path.open("rb") as file:
        digest = file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()
    if digest != archive.md5:
        if delete:
            path.unlink()
        raise DataError(
            f"{path} is not the file wanted: its MD5 is {digest}, not {archive.md5}. {way_out}"
        )


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
