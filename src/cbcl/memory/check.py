"""Check of a memory file: every problem in it, and what to do about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.connection import connect, explained
from cbcl.memory.rows import (
    StoredStatistics,
    check_head,
    show_label,
    unpack_class,
    unpack_example,
    unpack_step,
)
from cbcl.memory.statistics_blob import MAX_COUNT
from cbcl.memory.transaction import (
    CLASS_COLUMNS,
    STEP_COLUMNS,
    MemoryState,
    read_state,
    read_value,
)


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
    state = read_state(connection, path)
    read_value(connection, "backbone", path)
    for row in connection.execute(f"SELECT {STEP_COLUMNS} FROM steps"):
        unpack_step(row, path)
    sizes: dict[int, int] = {}
    yield from _classes(connection, state, path, sizes)
    yield from _thumbnails(connection, state, path, sizes)


def _classes(
    connection: sqlite3.Connection, state: MemoryState, path: Path, sizes: dict[int, int]
) -> Iterator[Finding]:
    """Yield the damaged classes; of the others, note how many centroids or views there are."""
    rows = connection.execute(
        f"SELECT class, label, until, {CLASS_COLUMNS} FROM classes ORDER BY class"
    )
    for number, label, until, *row in rows:
        name = show_label(label)
        try:
            stored = unpack_class(row, label, state.about, path)
            if until is None:
                check_head(stored, state.settings, label, path)
            sizes[number] = (
                stored.statistics.n
                if isinstance(stored, StoredStatistics)
                else len(stored.concepts.counts)
            )
        except MemoryFileError:
            if until is None:
                advice = f"`cbcl forget` {name!r} and learn it again; all others are unharmed."
                yield Finding(f"what is known of {name!r} is damaged", advice)
            else:
                advice = (
                    "it cannot be undone to, and does no harm: `cbcl forget --for-good` of any"
                    " label removes it."
                )
                problem = f"what was known of {name!r} before step {until} is damaged"
                yield Finding(problem, advice)


def _thumbnails(
    connection: sqlite3.Connection, state: MemoryState, path: Path, sizes: dict[int, int]
) -> Iterator[Finding]:
    rows = connection.execute(
        "SELECT label, classes.class, picture, centroid, rank, ifnull(jpeg, x''),"
        " ifnull(vector, x''), pictures.checksum"
        " FROM examples LEFT JOIN pictures USING (picture) LEFT JOIN classes USING (class)"
    )
    for label, number, *row in rows:
        if number is None:
            yield Finding("a thumbnail belongs to no label", "it is never shown, and does no harm.")
            continue
        try:
            example = unpack_example(row, label, state.about, path)
            valid = example.centroid < sizes.get(number, MAX_COUNT)
        except MemoryFileError:
            valid = False
        if not valid:
            name = show_label(label)
            advice = f"`cbcl forget` {name!r} and learn it again."
            yield Finding(f"a thumbnail of {name!r} is damaged", advice)
