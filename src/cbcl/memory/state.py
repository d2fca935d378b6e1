"""State of a memory: what is known at one moment, read and checked once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from weakref import ReferenceType, ref

from cbcl.errors import MemoryFileError
from cbcl.heads.base import NEGATIVES, Head, Settings, find_head
from cbcl.memory.connection import find_structural_damage
from cbcl.memory.packing import checksum, unpack_info, unpack_step
from cbcl.memory.rows import MemoryInfo, check_installed, damaged, select

STEP_COLUMNS = "time, action, about, radius, n_voters, max_centroids, head, strangers, checksum"


RowChanges: TypeAlias = Mapping[str, int | None]  # numbers of new rows by label; None: it has none


@dataclass(frozen=True)
class MemoryState:
    """State of a memory at one moment.

    A step makes a new one. What it costs depends on the labels that it changes, and hardly on how
    many there are: only `classes` is as much work as there are labels, when it is first asked for.
    """

    about: MemoryInfo
    settings: Settings
    rows: Mapping[str, int]  # number of the row of each label and, by an empty one, of negatives
    step: int = 0  # the last one; 0: none
    changes: RowChanges = field(default_factory=dict, compare=False)  # by that step
    before: ReferenceType[MemoryState] | None = field(default=None, compare=False)  # it

    @property
    def head(self) -> Head[Any]:
        return find_head(self.settings.head)

    @cached_property
    def classes(self) -> dict[str, int]:
        """The number of the row of each label, in the order of the labels."""
        classes = dict(sorted(self.rows.items()))
        if self.negatives is not None:
            del classes[NEGATIVES]
        return classes

    @property
    def negatives(self) -> int | None:
        """The number of the row of the negatives; None: there are none."""
        return self.rows.get(NEGATIVES) if "negatives" in self.head.abilities else None

    def after(self, step: int, settings: Settings, changes: RowChanges) -> MemoryState:
        """Return the state after a step that gave labels other rows, or none."""
        rows = dict(self.rows)
        for label, row in changes.items():
            if row is None:
                rows.pop(label, None)
            else:
                rows[label] = row
        return MemoryState(self.about, settings, rows, step, changes, ref(self))

    def changes_since(self, earlier: MemoryState | None) -> RowChanges:
        """Return the labels whose rows are not those of an earlier state; None: there was none."""
        if earlier is None:
            return self.rows
        if self is earlier:
            return {}
        if self.before is not None and self.before() is earlier:
            return self.changes
        changes: dict[str, int | None] = dict.fromkeys(earlier.rows.keys() - self.rows.keys())
        for label, row in self.rows.items():
            if earlier.rows.get(label) != row:
                changes[label] = row
        return changes


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
    check_installed(settings.head, path)
    rows = _read_labels(connection, path, check_index=check_index)
    (step,) = connection.execute("SELECT ifnull(max(step), 0) FROM steps").fetchone()
    return MemoryState(about, settings, rows, step)


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
    return classes


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
