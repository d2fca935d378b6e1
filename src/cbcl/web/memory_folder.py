"""Folder of memories: their names, which come from a browser, and a line about each."""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from cbcl.errors import CBCLError, encodable
from cbcl.files import identity
from cbcl.recognition.memory_files import (
    MEMORY_SUFFIX,
    count_labels,
    find_memories,
    list_files,
    time_changed,
)
from cbcl.web import schemas
from cbcl.web.errors import ApiError

MAX_MEMORY_NAME = 80  # characters of a name, without its suffix
MAX_MEMORY_NAME_BYTES = 160  # in UTF-8: a file system takes 255, with all that is put around it
MAX_LISTED = 500
NOT_IN_NAMES = frozenset('/\\:*?"<>|')  # of which each is forbidden by some file system
DEVICES = frozenset(  # names that mean no file on Windows, whatever their suffix
    ("con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10)))
)


def as_memory_name(text: str) -> str:
    """Return the name of a memory file, with its suffix; ApiError: no memory may be called that."""
    name = unicodedata.normalize("NFC", text).strip()
    stem = name.removesuffix(MEMORY_SUFFIX).rstrip()
    if not stem:
        raise _bad_name("the name of a memory is empty: type one, such as kitchen.")
    if len(stem) > MAX_MEMORY_NAME or len(stem.encode(errors="replace")) > MAX_MEMORY_NAME_BYTES:
        raise _bad_name(f"the name of a memory has at most {MAX_MEMORY_NAME} characters.")
    if wrong := [sign for sign in stem if sign in NOT_IN_NAMES or not sign.isprintable()]:
        shown = f" {wrong[0]}" if wrong[0].isprintable() else " a character that cannot be seen"
        raise _bad_name(f"the name of a memory cannot have{shown}: use letters and digits.")
    if stem[0] in ".-~" or stem[-1] == ".":
        raise _bad_name("the name of a memory cannot begin or end like that: use a letter.")
    if stem.partition(".")[0].strip().lower() in DEVICES:
        raise _bad_name(f"a file cannot be called {stem}: choose another name.")
    return f"{stem}{MEMORY_SUFFIX}"


def _bad_name(message: str) -> ApiError:
    return ApiError("argument", message)


class MemoryFolder:
    """The memories in a folder, looked up among those there are, so that no name leads elsewhere.

    Without `several`, it is that of one memory, and knows no other.
    """

    def __init__(self, path: Path, *, several: bool) -> None:
        self.path, self.several = path, several

    def paths(self) -> list[Path]:
        """Return the memory files, the one changed latest first."""
        return find_memories(self.path)[:MAX_LISTED] if self.several else []

    def find(self, name: str) -> Path:
        """Return the file of a memory that is there."""
        self._check_several()
        for path in self.paths():
            if encodable(path.name) == name:
                return path
        raise ApiError("missing", "there is no memory of this name, or no longer.")

    def find_free(self, text: str) -> Path:
        """Return the path of a memory that is not there yet, by the name that somebody gave it."""
        self._check_several()
        name = as_memory_name(text)
        if any(path.name.casefold() == name.casefold() for path in list_files(self.path)):
            raise ApiError("memory", f"{name} is there already: choose another name.")
        return self.path / name

    def _check_several(self) -> None:
        if not self.several:
            raise ApiError(
                "memory",
                "this server has one memory: start `cbcl teach` with a folder to have several.",
            )


def name_replaced(path: Path) -> Path:
    """Return the path that a memory is kept at when another takes its place."""
    time = datetime.now().astimezone().strftime("%Y-%m-%d %H.%M.%S")
    for number in count(1):
        nth = "" if number == 1 else f" {number}"
        kept = path.with_name(f"{path.stem} (replaced {time}{nth}){path.suffix}")
        if not os.path.lexists(kept):
            break
    return kept


def describe_memory(path: Path) -> schemas.MemoryEntry:
    """Return a line about a memory, whatever is wrong with it."""
    things = None
    problem = None
    try:
        things = count_labels(path)
    except CBCLError as error:
        problem = error.public
    time = datetime.fromtimestamp(time_changed(path), UTC).isoformat(timespec="seconds")
    there = identity(path) is not None
    return schemas.MemoryEntry(
        name=encodable(path.name),
        things=things,
        changed=time if there else None,
        problem=problem,
    )
