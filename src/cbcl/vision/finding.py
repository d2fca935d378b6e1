"""Files found by paths, folders and patterns, and the labels that folders give them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from glob import has_magic
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import PictureError, Subject, reason
from cbcl.files import Identity, identity

# Written by Windows, and into archives by macOS.
SYSTEM_NAMES = frozenset(("desktop.ini", "ehthumbs.db", "thumbs.db", "__macosx"))


class LabelledFile(NamedTuple):
    """A file to learn, and the label that its folder gives it."""

    label: str
    path: Path


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
        if _is_folder(path):
            files += _files_in(path, leave_out)
        elif has_magic(str(source)) and identity(path) is None:
            for match in _matches(path):
                if _is_folder(match):
                    files += _files_in(match, leave_out)
                elif identity(match) not in leave_out:
                    files.append(match)
        elif identity(path) in leave_out:
            raise PictureError(path, "is a memory in use, not a picture")
        else:
            files.append(path)
    return files


def find_labelled(
    folders: Iterable[str | os.PathLike[str]], leave_out: Collection[Identity] = ()
) -> list[LabelledFile]:
    """Return the files of folders with one folder a class (`things/cup/1.jpg`), or of such folders.

    >>> find_labelled(["nowhere"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cbcl.errors.PictureError: nowhere does not exist: give folders with one folder per label...
    """
    labelled: list[LabelledFile] = []
    for folder in map(Path, folders):
        if not _is_folder(folder):
            problem = "is not a folder" if identity(folder) else "does not exist"
            advice = "give folders with one folder per label in them, or photos and their --label"
            raise PictureError(folder, problem, advice)
        files = _files_in(folder, leave_out)
        loose = [path for path in files if path.parent == folder]
        if loose and len(loose) < len(files):
            raise unclear(loose[0])
        folder_label = folder.absolute().name or folder.resolve().name
        for path in files:
            label = folder_label if loose else path.relative_to(folder).parts[0]
            labelled.append(LabelledFile(label, path))
    return labelled


def unclear(file: Subject) -> PictureError:
    problem = "lies beside folders of pictures, so its label is unclear"
    return PictureError(file, problem, "move it into one of them, or elsewhere")


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
