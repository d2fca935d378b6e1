"""Whether a memory file is what it should be, and what to do where it is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.connection import connect, explained
from cbcl.memory.rows import MemoryInfo, read_about, read_step, read_stored, read_thumbnail
from cbcl.memory.store import read_value
from cbcl.memory.transaction import STEP


class Finding(NamedTuple):
    """Something that is wrong with a memory, and the way out."""

    problem: str
    advice: str


def check(path: Path) -> list[Finding]:
    """Everything that is wrong with a memory file; nothing, if it is sound.

    Every byte is read, and none is changed, but that a step which a killed process had finished is put in its place.
    """
    try:
        with explained(path):
            opened = connect(path)
            if opened is None:
                raise MemoryFileError(f"there is no memory at {path}.")
            with closing(opened.connection):
                return [*_pages(opened.connection, path), *_rows(opened.connection, path)]
    except MemoryFileError as error:
        return [
            Finding(
                str(error),
                "if nothing else helps, restore a copy of the file, or learn anew into another.",
            )
        ]


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % size:
        yield Finding("the file is cut off in the middle of a page", "restore a copy of the file.")
    for (said,) in connection.execute("PRAGMA integrity_check(10)"):
        if said != "ok":
            yield Finding(
                f"the file's structure is damaged: {said}",
                "`cbcl export` what can be read, then import it.",
            )


def _rows(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    about = read_about(read_value(connection, "about", path), path)
    read_value(connection, "backbone", path)
    for row in connection.execute(f"SELECT {STEP} FROM steps"):
        read_step(row, str(path))
    yield from _classes(connection, about)
    yield from _thumbnails(connection, about)


def _classes(connection: sqlite3.Connection, about: MemoryInfo) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT label, until, centroids, counts, spread, checksum FROM classes ORDER BY class"
    )
    for label, until, *row in rows:
        known = (
            f"what is known of {label!r}"
            if until is None
            else f"what was known of {label!r} before step {until}"
        )
        try:
            read_stored(tuple(row), label, about, known)
        except MemoryFileError as error:
            forget = f"`cbcl forget` {label!r} and learn it again; all others are unharmed."
            keep = "it cannot be undone to, and is unharmful: `cbcl forget --for-good` of any label takes it away."
            yield Finding(str(error).partition(":")[0], forget if until is None else keep)


def _thumbnails(connection: sqlite3.Connection, about: MemoryInfo) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT ifnull(label, ''), ifnull(length(counts) / 8, 0),"
        " picture, centroid, rank, ifnull(jpeg, x''), ifnull(vector, x''), pictures.checksum"
        " FROM examples LEFT JOIN pictures USING (picture) LEFT JOIN classes USING (class)"
    )
    for label, m, *row in rows:
        try:
            thumbnail = read_thumbnail(tuple(row), about, f"a thumbnail of {label!r}")
            sound = 0 <= thumbnail.centroid < m
        except MemoryFileError:
            sound = False
        if not sound:
            yield Finding(
                f"a thumbnail of {label!r} is damaged",
                f"`cbcl forget` {label!r} and learn it again.",
            )
