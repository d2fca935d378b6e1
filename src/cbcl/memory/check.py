"""Whether a memory file is what it should be, and what to do where it is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.opening import connect, explained
from cbcl.memory.records import About, read_about, read_stored, read_thumbnail
from cbcl.memory.store import read_value


class Finding(NamedTuple):
    """Something that is wrong with a memory, and the way out."""

    problem: str
    advice: str


def check(path: Path) -> list[Finding]:
    """Everything that is wrong with a memory file; nothing, if it is sound. It reads every byte and changes none."""
    try:
        with explained(path):
            connection = connect(path)
            if connection is None:
                raise MemoryFileError(f"there is no memory at {path}.")
            with closing(connection):
                return [*_pages(connection, path), *_rows(connection, path)]
    except MemoryFileError as error:
        return [Finding(str(error), "restore a copy of the file, or learn anew into another.")]


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % size:
        yield Finding("the file is cut off in the middle of a page", "restore a copy of the file.")
    for (said,) in connection.execute("PRAGMA integrity_check(10)"):
        if said != "ok":
            yield Finding(f"the file's structure is damaged: {said}", "`cbcl export` what can be read, then import it.")


def _rows(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    about = read_about(read_value(connection, "about", path), path)
    read_value(connection, "backbone", path)
    yield from _classes(connection, about)
    yield from _thumbnails(connection, about)


def _classes(connection: sqlite3.Connection, about: About) -> Iterator[Finding]:
    rows = connection.execute("SELECT label, until, centroids, counts, spread, checksum FROM classes ORDER BY class")
    for label, until, *row in rows:
        known = f"what is known of {label!r}" if until is None else f"what was known of {label!r} before step {until}"
        try:
            read_stored(tuple(row), label, about, known)
        except MemoryFileError as error:
            problem = str(error).partition(":")[0]
            forget = f"`cbcl forget` {label!r} and learn it again; all others are unharmed."
            yield Finding(problem, forget if until is None else "it is only there to be undone to: nothing to do.")


def _thumbnails(connection: sqlite3.Connection, about: About) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT ifnull(label, ''), centroid, jpeg, vector, thumbnails.checksum, ifnull(length(counts) / 8, 0)"
        " FROM thumbnails LEFT JOIN classes USING (class)"
    )
    for label, centroid, jpeg, vector, checksum, m in rows:
        try:
            read_thumbnail((centroid, jpeg, vector, checksum), about, f"a thumbnail of {label!r}")
        except MemoryFileError as error:
            yield Finding(str(error).partition(":")[0], f"`cbcl forget` {label!r} and learn it again.")
        if not 0 <= centroid < m:
            yield Finding(f"a thumbnail of {label!r} belongs to no centroid", "it is never shown: nothing to do.")
