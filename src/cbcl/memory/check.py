"""Check of a memory file: every problem in it, and what to do about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.connection import connect, explained
from cbcl.memory.rows import MemoryInfo, unpack_class, unpack_example, unpack_info, unpack_step
from cbcl.memory.transaction import STEP_COLUMNS, read_value


class Finding(NamedTuple):
    """A problem in a memory file, and what to do about it."""

    problem: str
    advice: str


def check(path: Path) -> list[Finding]:
    """Return everything that is wrong with a memory file.

    Every byte is read, and none is changed, except that the finished step of a killed process is
    moved from the WAL into the file.
    """
    try:
        with explained(path):
            opened = connect(path)
            if opened is None:
                raise MemoryFileError(path, "does not exist")
            with closing(opened.connection):
                return [*_pages(opened.connection, path), *_rows(opened.connection, path)]
    except MemoryFileError as error:
        advice = "if nothing else helps, restore a copy of the file, or learn anew into another."
        return [Finding(str(error), advice)]


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % size:
        yield Finding("the file is cut off in the middle of a page", "restore a copy of the file.")
    for (message,) in connection.execute("PRAGMA integrity_check(10)"):
        if message != "ok":
            problem = f"the file's structure is damaged: {message}"
            yield Finding(problem, "`cbcl export` what can be read, then import it.")


def _rows(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    about = unpack_info(read_value(connection, "about", path), path)
    read_value(connection, "backbone", path)
    for row in connection.execute(f"SELECT {STEP_COLUMNS} FROM steps"):
        unpack_step(row, path)
    yield from _classes(connection, about, path)
    yield from _thumbnails(connection, about, path)


def _classes(connection: sqlite3.Connection, about: MemoryInfo, path: Path) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT label, until, centroids, counts, spread, checksum FROM classes ORDER BY class"
    )
    for label, until, *row in rows:
        try:
            unpack_class(row, label, about, path)
        except MemoryFileError:
            if until is None:
                advice = f"`cbcl forget` {label!r} and learn it again; all others are unharmed."
                yield Finding(f"what is known of {label!r} is damaged", advice)
            else:
                advice = (
                    "it cannot be undone to, and does no harm: `cbcl forget --for-good` of any"
                    " label removes it."
                )
                problem = f"what was known of {label!r} before step {until} is damaged"
                yield Finding(problem, advice)


def _thumbnails(connection: sqlite3.Connection, about: MemoryInfo, path: Path) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT ifnull(label, ''), ifnull(length(counts) / 8, 0),"
        " picture, centroid, rank, ifnull(jpeg, x''), ifnull(vector, x''), pictures.checksum"
        " FROM examples LEFT JOIN pictures USING (picture) LEFT JOIN classes USING (class)"
    )
    for label, m, *row in rows:
        try:
            valid = unpack_example(row, label, about, path).centroid < m
        except MemoryFileError:
            valid = False
        if not valid:
            advice = f"`cbcl forget` {label!r} and learn it again."
            yield Finding(f"a thumbnail of {label!r} is damaged", advice)
