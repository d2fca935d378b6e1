"""State of a memory: what is known at one moment, read and checked once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.connection import find_structural_damage
from cbcl.memory.packing import checksum, unpack_info, unpack_step
from cbcl.memory.rows import NEGATIVES, MemoryInfo, Settings, damaged
from cbcl.memory.select import select

STEP_COLUMNS = "time, action, about, radius, n_voters, max_centroids, head, checksum"


class MemoryState(NamedTuple):
    """State of a memory at one moment."""

    about: MemoryInfo
    settings: Settings
    classes: dict[str, int]  # label -> number of its row, in the order of the labels
    step: int = 0  # the last one; 0: none
    negatives: int | None = None  # number of their row; None: there are none

    @property
    def rows(self) -> dict[str, int]:
        """The classes, and the negatives, if any, whose label is empty."""
        return self.classes | ({} if self.negatives is None else {NEGATIVES: self.negatives})

    def row(self, label: str) -> int:
        """Return the number of the row of a label, or of the negatives."""
        if label == NEGATIVES and self.negatives is not None:
            return self.negatives
        return self.classes[label]

    def after(
        self, step: int, settings: Settings, changes: Mapping[str, int | None]
    ) -> MemoryState:
        """Return the state after a step that gave labels other rows, or none."""
        rows = self.rows
        is_new = not rows.keys() >= changes.keys()
        for label, row in changes.items():
            if row is None:
                rows.pop(label, None)
            else:
                rows[label] = row
        return _as_state(self.about, settings, dict(sorted(rows.items())) if is_new else rows, step)


class StateSeen(NamedTuple):
    """State that a connection has seen, which holds as long as no other connection writes."""

    connection: sqlite3.Connection
    version: int  # SQLite's data_version: another one after others wrote
    state: MemoryState


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection, of any process, has written."""
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version


def see_state(
    connection: sqlite3.Connection, path: Path, before: StateSeen | None = None
) -> StateSeen:
    """Return the state that a transaction sees: that before, unless another connection wrote."""
    version = data_version(connection)
    if before is not None and (before.connection, before.version) == (connection, version):
        return before
    return StateSeen(connection, version, read_state(connection, path))


def read_state(
    connection: sqlite3.Connection, path: Path, *, check_index: bool = True
) -> MemoryState:
    """Read what is known from the tables; raise an error if an index does not agree with them."""
    about = unpack_info(read_value(connection, "about", path), path)
    settings = _last_settings(connection, path, "undone <= 0 AND action != 'undo'")
    if settings is None:  # all is undone, but the head stays
        undone = _last_settings(connection, path, "action = 'undo'") or Settings()
        settings = Settings(head=undone.head)
    rows = _read_labels(connection, path, check_index=check_index)
    (step,) = connection.execute("SELECT ifnull(max(step), 0) FROM steps").fetchone()
    return _as_state(about, settings, rows, step)


def _as_state(
    about: MemoryInfo, settings: Settings, rows: dict[str, int], step: int
) -> MemoryState:
    negatives = rows.pop(NEGATIVES, None) if settings.head == "discriminant" else None
    return MemoryState(about, settings, rows, step, negatives)


def _read_labels(
    connection: sqlite3.Connection, path: Path, *, check_index: bool
) -> dict[str, int]:
    """Return the row of each label, read twice: one damaged page alone hides no label."""
    query = "SELECT label, class FROM classes {} WHERE until IS NULL"
    rows = [*select(connection, path, query.format("NOT INDEXED"))]
    classes = dict(rows)
    if not len(rows) == len(classes) == len({*classes.values()}):
        raise damaged(path, "a label has two rows, or a row two labels")
    if check_index and Counter(rows) != Counter(
        connection.execute(query.format("INDEXED BY known"))
    ):
        raise _index_damaged(path)
    if check_index and find_structural_damage(connection, "examples"):
        raise _index_damaged(path)  # it could give a label the photos of another
    return dict(sorted(classes.items()))


def _index_damaged(path: Path) -> MemoryFileError:
    problem = "is damaged, since an index does not agree with its table"
    return MemoryFileError(path, problem, "try `cbcl check --repair`")


def _last_settings(connection: sqlite3.Connection, path: Path, condition: str) -> Settings | None:
    row = connection.execute(
        f"SELECT {STEP_COLUMNS} FROM steps WHERE {condition} ORDER BY step DESC LIMIT 1"
    ).fetchone()
    return None if row is None else unpack_step(row, path)[3]


def read_value(connection: sqlite3.Connection, name: str, path: Path) -> bytes:
    """Return an entry of the table `memory`."""
    rows = connection.execute("SELECT value, checksum FROM memory WHERE name = ?", (name,))
    row = rows.fetchone()
    value = b"" if row is None else row[0]
    if row is None or not isinstance(value, bytes) or checksum(name, value) != row[1]:
        raise damaged(path, f"its entry {name!r} is not what was written")
    return value
