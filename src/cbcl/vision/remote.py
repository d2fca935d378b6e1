"""Pictures at addresses that fsspec opens, such as s3://bucket/photos."""

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
    """Address of a picture that is not a file of this machine."""

    url: str
    version: str = field(default="", compare=False)  # size and time, as listed there

    def __fspath__(self) -> str:
        return self.url

    __str__ = __fspath__


def is_url(source: object) -> bool:
    """Tell whether a source is an address, not a path.

    >>> is_url("s3://photos/cup"), is_url("photos/cup")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def find_remote(url: str) -> list[RemotePicture]:
    """Return the files at an address, or the file that it is, in the order of a local folder."""
    return [picture for _, picture in _find(url)]


def find_labelled_remote(url: str) -> Iterator[tuple[str, RemotePicture]]:
    """Yield the files at an address with the labels that their folders give them."""
    found = _find(url)
    loose = [picture for folders, picture in found if not folders]
    if loose and len(loose) < len(found):
        raise unclear(loose[0])
    for folders, picture in found:
        yield folders[0] if folders else url.rstrip("/").rpartition("/")[2], picture


def _find(url: str) -> list[tuple[list[str], RemotePicture]]:
    """Return the files at an address, each with its folders relative to the address."""
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
    """Return the first bytes of a picture, at most `most`."""
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
    except Exception as error:  # of any library that fsspec uses
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
