"""Pictures found by paths, folders and patterns, or at addresses such as s3://bucket/photos.

Folders give them labels. Addresses are opened by fsspec.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from cbcl.errors import PictureError, reason
from cbcl.files import Identity, identity

# Written by Windows, and into archives by macOS.
SYSTEM_NAMES = frozenset(("desktop.ini", "ehthumbs.db", "thumbs.db", "__macosx"))
VERSION_KEYS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class RemotePicture:
    """Address of a picture that is not a file of this machine."""

    url: str
    version: str = field(default="", compare=False)  # size and time, as listed there

    def __fspath__(self) -> str:
        return self.url

    __str__ = __fspath__


Picture = TypeVar("Picture", Path, RemotePicture)


def is_url(source: object) -> bool:
    """Tell whether a source is an address, not a path.

    >>> is_url("s3://photos/cup"), is_url("photos/cup")
    (True, False)
    """
    return isinstance(source, str) and "://" in source


def find(
    sources: Iterable[str | os.PathLike[str]], leave_out: Collection[Identity] = ()
) -> list[Path]:
    """Return the files that paths, folders and patterns stand for, in order.

    A folder stands for all files in it at any depth, except hidden ones; an inner folder counts
    once, however many links lead to it. A path without a file is returned, too: reading it will
    raise the error. Files in `leave_out` are skipped; to name one of them is an error.
    """
    files: list[Path] = []
    for source in sources:
        path = Path(source)
        is_pattern = has_magic(str(source)) and identity(path) is None
        for match in _matches(path) if is_pattern else [path]:
            if _is_folder(match):
                files += _files_in(match, leave_out)
            elif identity(match) not in leave_out:
                files.append(match)
            elif not is_pattern:
                raise PictureError(path, "is a memory in use, not a picture")
    return files


def find_labelled(
    folders: Iterable[str | os.PathLike[str]], leave_out: Collection[Identity] = ()
) -> list[tuple[str, Path]]:
    """Return labels and files of folders with one folder a class (`cup/1.jpg`), or of such folders.

    >>> find_labelled(["nowhere"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cbcl.errors.PictureError: nowhere does not exist: give folders with one folder per label...
    """
    labelled: list[tuple[str, Path]] = []
    for folder in map(Path, folders):
        if not _is_folder(folder):
            problem = "is not a folder" if identity(folder) else "does not exist"
            advice = "give folders with one folder per label in them, or photos and their --label"
            raise PictureError(folder, problem, advice)
        files = _files_in(folder, leave_out)
        found = [(path.relative_to(folder).parts[:-1], path) for path in files]
        labelled += _with_labels(found, folder.absolute().name or folder.resolve().name)
    return labelled


def find_remote(url: str) -> list[RemotePicture]:
    """Return the files at an address, or the file that it is, in the order of a local folder."""
    return [picture for _, picture in _files_at(url)]


def find_labelled_remote(url: str) -> list[tuple[str, RemotePicture]]:
    """Return the files at an address, and the labels that their folders give them."""
    return _with_labels(_files_at(url), url.rstrip("/").rpartition("/")[2])


def _with_labels(
    found: Sequence[tuple[Sequence[str], Picture]], whole: str
) -> list[tuple[str, Picture]]:
    """Return each picture with its outermost folder, or the name of the whole if none has one."""
    loose = [picture for folders, picture in found if not folders]
    if loose and len(loose) < len(found):
        problem = "lies beside folders of pictures, so its label is unclear"
        raise PictureError(loose[0], problem, "move it into one of them, or elsewhere")
    return [(folders[0] if folders else whole, picture) for folders, picture in found]


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder is hidden on this or another operating system."""
    return name.startswith(".") or name.casefold() in SYSTEM_NAMES


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _matches(pattern: Path) -> list[Path]:
    start = next((folder for folder in pattern.parents if _is_folder(folder)), Path())
    try:
        matches = sorted(start.glob(str(pattern.relative_to(start))))
    except (OSError, ValueError) as error:
        raise PictureError(pattern, f"is not a pattern: {reason(error)}") from error
    except RecursionError:
        raise PictureError(pattern, "leads into folders that are nested too deeply") from None
    if not matches:
        raise PictureError(pattern, "matches no files")
    return matches


def _files_in(folder: Path, leave_out: Collection[Identity]) -> list[Path]:
    files = [*_walk(folder)]
    if leave_out:
        files = [path for path in files if identity(path) not in leave_out]
    if not files:
        raise PictureError(folder, "is an empty folder", "put pictures into it")
    return files


def _walk(top: Path) -> Iterator[Path]:
    """Yield the files of a folder, then those of its folders, links last.

    Each folder is visited once, links after real folders: links may lead in circles.
    """
    walked: set[Identity | None] = set()
    folders = [top]
    links = deque[Path]()
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        here = identity(folder)
        if here in walked:
            continue
        walked.add(here)
        try:
            entries = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
        except OSError as error:
            raise PictureError(folder, f"cannot be read: {reason(error)}") from error
        inner = [path for path in entries if _is_folder(path)]
        yield from sorted({*entries} - {*inner})
        links += [path for path in inner if path.is_symlink()]
        folders += [path for path in reversed(inner) if not path.is_symlink()]


def _files_at(url: str) -> list[tuple[Sequence[str], RemotePicture]]:
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
