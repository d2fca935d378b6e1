"""Check of a memory file: every problem in it, and what to do about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.heads.base import ExamplePlaces
from cbcl.memory.connection import (
    CHECK,
    change_identity,
    connect,
    explained,
    find_structural_damage,
    prepare,
    read_identity,
    wal_size,
)
from cbcl.memory.packing import unpack_class, unpack_earlier, unpack_example, unpack_step
from cbcl.memory.rows import ANY_PLACE, damaged, select, show_label
from cbcl.memory.state import STEP_COLUMNS, MemoryState, read_state, read_value
from cbcl.memory.transaction import CLASS_COLUMNS

RESTORE = "restore a copy of the file, or learn anew into another"


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
        with closing(_connect(path, write=False)) as connection:
            return [*_pages(connection, path), *_rows(connection, path)]
    except MemoryFileError as error:
        return [_as_finding(error)]


def repair(path: Path) -> bool:
    """Rebuild the indexes of a memory file; tell whether it was done.

    An end of a row that cannot be is removed, where the index of labels has none. If anything else
    is wrong, the file is not changed.
    """
    try:
        return _repair(path)
    except MemoryFileError as error:
        if error.advice != CHECK:
            raise
        raise MemoryFileError(path, f"{error.problem} beyond repair", RESTORE) from error


def _repair(path: Path) -> bool:
    with closing(_connect(path, write=True)) as connection, explained(path):
        connection.execute("BEGIN IMMEDIATE")
        identity = read_identity(connection)
        prepare(connection)
        if not find_structural_damage(connection):
            return False  # closing it rolls back
        indexed = connection.execute(
            "SELECT class FROM classes INDEXED BY known WHERE until IS NULL"
        ).fetchall()
        connection.execute("REINDEX")
        connection.executemany(
            "UPDATE classes SET until = NULL WHERE class = ? AND until <= since", indexed
        )
        findings = [*_rows(connection, path)]
        if findings or find_structural_damage(connection):
            return False
        change_identity(connection, identity)
        connection.execute("COMMIT")
        return True


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    with explained(path):
        opened = connect(path, write=write)
    if opened is None:
        raise MemoryFileError(path, "does not exist")
    return opened.connection


def _as_finding(error: MemoryFileError) -> Finding:
    advice = RESTORE if error.advice in ("", CHECK) else error.advice
    return Finding(f"{error.subject} {error.problem}", f"{advice}.")


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    with explained(path):
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        cut_off = path.stat().st_size % size and not wal_size(path)  # which would complete it
        messages = find_structural_damage(connection)
    if cut_off:
        yield Finding("the file is cut off in the middle of a page", "restore a copy of the file.")
    for message in messages:
        advice = "try `cbcl check --repair`; else `cbcl export` what can be read, then import it."
        yield Finding(f"the file's structure is damaged: {message}", advice)


def _rows(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    """Yield what is wrong with the rows of the tables, whatever their indexes say."""
    try:
        with explained(path):
            state = read_state(connection, path, check_index=False)
            read_value(connection, "backbone", path)
            for row in connection.execute(f"SELECT {STEP_COLUMNS} FROM steps"):
                unpack_step(row, path)
            places: dict[int, ExamplePlaces] = {}
            yield from _classes(connection, state, path, places)
            yield from _thumbnails(connection, state, path, places)
    except MemoryFileError as error:
        yield _as_finding(error)


def _classes(
    connection: sqlite3.Connection, state: MemoryState, path: Path, places: dict[int, ExamplePlaces]
) -> Iterator[Finding]:
    """Yield the damaged classes; of the others, note the places that examples can have."""
    query = f"SELECT class, label, since, until, {CLASS_COLUMNS} FROM classes ORDER BY class"
    rows = select(connection, path, query)
    for number, label, since, until, *row in rows:
        name = show_label(label)
        try:
            if until is not None and not since < until <= state.step:
                raise damaged(path, "a row ends before it begins")
            if until is None:
                known = unpack_class(row, label, state.head, state.about, path)
                places[number] = state.head.summarize(known).places
            else:
                places[number] = unpack_earlier(row, label, state.about, path).places
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
    connection: sqlite3.Connection, state: MemoryState, path: Path, places: dict[int, ExamplePlaces]
) -> Iterator[Finding]:
    rows = select(
        connection,
        path,
        "SELECT label AS owner, classes.class AS row, picture, centroid, rank, ifnull(jpeg, x''),"
        " ifnull(vector, x''), pictures.checksum"
        " FROM examples LEFT JOIN pictures USING (picture) LEFT JOIN classes USING (class)",
    )
    for label, number, *row in rows:
        if number is None:
            yield Finding("a thumbnail belongs to no label", "it is never shown, and does no harm.")
            continue
        try:
            unpack_example(row, label, state.about, path, places.get(number, ANY_PLACE))
        except MemoryFileError:
            name = show_label(label)
            advice = f"`cbcl forget` {name!r} and learn it again."
            yield Finding(f"a thumbnail of {name!r} is damaged", advice)
