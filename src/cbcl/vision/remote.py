"""Pictures in places that fsspec opens, such as s3://bucket/photos: found and read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from cbcl.errors import PictureError, reason
from cbcl.vision.finding import is_hidden, unclear

VERSION_KEYS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class RemotePicture:
    """Address of a picture; a path for all but this machine's files."""

    url: str
    version: str = field(default="", compare=False)  # size and time, as the place lists them

    def __fspath__(self) -> str:
        return self.url

    __str__ = __fspath__


def is_url(source: object) -> bool:
    """Tell whether a text is the address of a place that is not a path.

    >>> is_url("s3://photos/cup"), is_url("photos/cup")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def find_remote(url: str) -> list[RemotePicture]:
    """Return the files of a place, or the one that it is, in the order of those of a folder."""
    return [picture for _, picture in _find(url)]


def find_labelled_remote(url: str) -> Iterator[tuple[str, RemotePicture]]:
    """Yield the files of a place with the labels that its folders give them, as a folder's."""
    found = _find(url)
    loose = [picture for folders, picture in found if not folders]
    if loose and len(loose) < len(found):
        raise unclear(loose[0])
    for folders, picture in found:
        yield folders[0] if folders else url.rstrip("/").rpartition("/")[2], picture


def _find(url: str) -> list[tuple[list[str], RemotePicture]]:
    """Return the files of a place, each with the folders that it is in, seen from there."""
    with _as_picture_error(url):
        files, place = _open(url)
        listed: dict[str, Any] = files.find(place, detail=True)
    found = {}
    for path, info in listed.items():
        *folders, name = path.removeprefix(place).strip("/").split("/")
        if not any(map(is_hidden, (*folders, name))):
            # The files of a folder come before its folders.
            order = (*((1, folder) for folder in folders), (0, name))
            picture = RemotePicture(files.unstrip_protocol(path), _version(info))
            found[order] = folders, picture
    if not found:
        raise PictureError(url, "has no files, or does not exist", "put pictures there")
    return [found[order] for order in sorted(found)]


def read_remote(picture: RemotePicture, most: int) -> bytes:
    """Return the first bytes of a picture, `most` of them at most."""
    with _as_picture_error(picture):
        files, path = _open(picture.url)
        with files.open(path, "rb") as file:
            data: bytes = file.read(most)
    return data


def _version(info: dict[str, Any]) -> str:
    return repr([info.get("size"), *(str(info[key]) for key in VERSION_KEYS if key in info)])


@contextmanager
def _as_picture_error(subject: str | RemotePicture) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise PictureError(subject, "does not exist") from None
    except PictureError:
        raise
    except Exception as error:  # of whatever library the place needs
        raise PictureError(subject, f"cannot be read: {reason(error)}") from error


def _open(url: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path there."""
    try:
        fsspec = import_module("fsspec")
    except ModuleNotFoundError:
        problem = 'is not on this machine, and others need the extra "fsspec"'
        raise PictureError(url, problem, 'pip install "cbcl[fsspec]"') from None
    files, path = fsspec.core.url_to_fs(url)
    return files, str(path)
