"""Files meant by paths, folders and patterns, and the labels that folders give them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from glob import has_magic
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cbcl.errors import PictureError, first_line

Identity: TypeAlias = tuple[int, int]


class LabelledFile(NamedTuple):
    """Files to learn, and the name each is to be known by."""

    label: str
    path: Path


def find(
    sources: Iterable[str | os.PathLike[str]], leave_out: Collection[Identity] = ()
) -> list[Path]:
    """The files meant by paths, folders (all files in them, at any depth, but hidden ones) and patterns, in order.

    A path that leads nowhere is among them: who reads it will say so. Files to be left out are, unless they are named.
    """
    found: list[Path] = []
    for source in sources:
        path = Path(source)
        if _is_folder(path):
            found += _files_in(path, leave_out)
        elif has_magic(str(source)) and identity(path) is None:
            for match in _matches(path):
                if _is_folder(match):
                    found += _files_in(match, leave_out)
                elif identity(match) not in leave_out:
                    found.append(match)
        elif identity(path) in leave_out:
            raise PictureError(f"{path} is a memory in use, not a picture.")
        else:
            found.append(path)
    return found


def find_labelled(
    folders: Iterable[str | os.PathLike[str]], leave_out: Collection[Identity] = ()
) -> list[LabelledFile]:
    """The files in folders of folders (`things/cup/1.jpg` is a cup), or in folders named after what they show.

    >>> find_labelled(["no/such/folder"])
    Traceback (most recent call last):
    cbcl.errors.PictureError: no/such/folder is no folder: give folders, each with one folder of pictures a class in it.
    """
    found: list[LabelledFile] = []
    for folder in map(Path, folders):
        if not _is_folder(folder):
            raise PictureError(
                f"{folder} is no folder: give folders, each with one folder of pictures a class in it."
            )
        files = _files_in(folder, leave_out)
        loose = [path for path in files if path.parent == folder]
        if loose and len(loose) < len(files):
            raise PictureError(
                f"{loose[0]} lies beside folders of pictures, so its label is unclear: move it into one."
            )
        label = folder.absolute().name or folder.resolve().name
        found += [
            LabelledFile(label if loose else path.relative_to(folder).parts[0], path)
            for path in files
        ]
    return found


def identity(path: str | os.PathLike[str]) -> Identity | None:
    """Which file a path leads to, by device and number; None: to none."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _matches(pattern: Path) -> list[Path]:
    there = next((folder for folder in pattern.parents if _is_folder(folder)), Path())
    try:
        matches = sorted(there.glob(str(pattern.relative_to(there))))
    except (OSError, ValueError) as error:
        raise PictureError(f"{pattern} is no pattern: {first_line(error)}.") from error
    if not matches:
        raise PictureError(f"nothing matches {pattern}.")
    return matches


def _files_in(folder: Path, leave_out: Collection[Identity]) -> list[Path]:
    files = [
        path
        for path in _files_under(folder, ())
        if not leave_out or identity(path) not in leave_out
    ]
    if not files:
        raise PictureError(f"{folder} is an empty folder: put pictures into it.")
    return files


def _files_under(folder: Path, above: tuple[Identity | None, ...]) -> Iterator[Path]:
    """Files, then those in folders and in links to folders, which may lead in a circle."""
    here = identity(folder)
    if here in above:
        return
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise PictureError(f"{folder} cannot be read: {error.strerror or error}.") from error
    folders = {path for path in entries if _is_folder(path)}
    yield from (path for path in entries if path not in folders)
    for path in sorted(folders):
        yield from _files_under(path, (*above, here))
