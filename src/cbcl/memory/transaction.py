"""Transactions on a memory: a step ends rows, adds rows, and writes a line of history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cbcl.errors import MemoryFileError, first_line
from cbcl.heads.base import ExamplePlaces, Settings, StoredExample, find_head
from cbcl.memory.packing import pack_class, pack_picture, pack_step, unpack_earlier, unpack_step
from cbcl.memory.rows import check_place, select, show_label
from cbcl.memory.state import STEP_COLUMNS, MemoryState

MAX_UNDO = 20  # steps that can be undone
MAX_HISTORY = 1000  # steps in the history

CLASS_COLUMNS = "centroids, counts, spread, sketches, statistics, checksum"


class Step(NamedTuple):
    """A line of the history."""

    step: int
    time: str
    action: str
    about: dict[str, Any]
    undone: bool
    can_be_undone: bool

    @property
    def labels(self) -> list[str]:
        """The labels of the step; of one that changes labels into another, that one is the last."""
        about = self.about
        listed = [*about.get("pictures", {}), *about.get("labels", [])]
        return listed + [str(about[key]) for key in ("label", "new", "into") if key in about]

    @property
    def summary(self) -> str:
        """The labels of the step, in a few words: "cup (3), key (1)", "mug → cup"."""
        about = self.about
        undone = f"{about['action']} " if "action" in about else ""
        into = f" → {show_label(about['into'])}" if "into" in about else ""
        if "pictures" in about:
            counts = about["pictures"].items()
            parts = (f"{show_label(label)} ({count})" for label, count in counts)
            return undone + ", ".join(parts) + into
        if "strangers" in about:
            return undone + str(about["strangers"])
        if "labels" in about:
            return undone + ", ".join(map(show_label, about["labels"]))
        labels = (show_label(str(about[key])) for key in ("label", "new", "into") if key in about)
        return undone + " → ".join(labels)


class Transaction:
    """A step that is being written."""

    def __init__(self, connection: sqlite3.Connection, view: MemoryState, path: Path) -> None:
        self.view = view
        self.step, self._settings = 0, view.settings
        self._changes: dict[str, int | None] = {}  # rows by label; None: it has none any more
        self._is_undo = False
        self._connection, self._path = connection, path

    @property
    def state(self) -> MemoryState | None:
        """The state after the step; None: it has to be read, since an old one is restored."""
        if self._is_undo:
            return None
        if not self.step:
            return self.view
        return self.view.after(self.step, self._settings, self._changes)

    def add_step(self, action: str, about: Mapping[str, object], settings: Settings) -> None:
        """Write the line of history, before anything else."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._readable("these settings"):
            row = pack_step(time, action, about, settings)
        added = self._connection.execute(
            f"INSERT INTO steps ({STEP_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row
        )
        self.step, self._settings = added.lastrowid or 0, settings

    def remembers(self, label: str) -> bool:
        """Tell whether a label is known now or in a state that can be restored by undoing."""
        rows = self._connection.execute("SELECT 1 FROM classes WHERE label = ?", (label,))
        return rows.fetchone() is not None

    def retire_class(self, label: str) -> None:
        """End the row of a class."""
        self._connection.execute(
            "UPDATE classes SET until = ? WHERE class = ?", (self.step, self.view.rows[label])
        )
        self._changes[label] = None

    def replace_class(self, label: str, known: object, examples: Iterable[StoredExample]) -> None:
        """Write a class in place of its old row, and its examples in the order learned.

        The empty label is that of the negatives.
        """
        head = find_head(self._settings.head)
        if not isinstance(known, head.kind):
            raise ValueError(f"{label!r} is not what a memory of the {head.name} keeps.")
        summary = head.summarize(known)
        dimension = self.view.about.dimension
        if summary.dimension != dimension:
            raise ValueError(f"{label!r} has vectors of another length than {dimension}.")
        if label in self.view.rows:
            self.retire_class(label)
        with self._readable(repr(show_label(label))):
            added = self._connection.execute(
                f"INSERT INTO classes (label, since, {CLASS_COLUMNS})"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (label, self.step, *pack_class(label, known, head)),
            )
            rows = [
                (
                    added.lastrowid,
                    self._add(example, summary.places),
                    example.place,
                    example.rank,
                )
                for example in examples
            ]
        self._connection.executemany("INSERT INTO examples VALUES (?, ?, ?, ?)", rows)
        self._changes[label] = added.lastrowid

    def _add(self, example: StoredExample, places: ExamplePlaces) -> int | None:
        """Return the number of an example of a class, written if it is new."""
        check_place(example, places)
        if example.number:
            return example.number
        added = self._connection.execute(
            "INSERT INTO pictures (jpeg, vector, checksum) VALUES (?, ?, ?)",
            pack_picture(example, self.view.about),
        )
        return added.lastrowid

    @contextmanager
    def _readable(self, part: str) -> Iterator[None]:
        """Refuse to write what could not be read again."""
        try:
            yield
        except ValueError as error:
            problem = f"cannot hold {part}, since {first_line(error)}"
            raise MemoryFileError(self._path, problem, "nothing was changed") from error

    def undo(self) -> Step | None:
        """Undo the latest step that is not undone yet; None: there is none."""
        query = (
            f"SELECT step, undone, {STEP_COLUMNS} FROM steps"
            " WHERE undone = 0 AND action != 'undo' ORDER BY step DESC LIMIT 1"
        )
        row = next(select(self._connection, self._path, query), None)
        if row is None:
            return None
        step = as_step(row, self._path)
        self._check_restorable(step)
        self._is_undo = True
        self.add_step("undo", {"action": step.action, **step.about}, self.view.settings)
        self._drop("since = ?", step.step)
        self._connection.execute(
            "UPDATE classes NOT INDEXED SET until = NULL WHERE until = ?", (step.step,)
        )
        self._connection.execute(
            "UPDATE steps SET undone = ? WHERE step = ?", (self.step, step.step)
        )
        return step

    def _check_restorable(self, step: Step) -> None:
        rows = select(
            self._connection,
            self._path,
            f"SELECT label, {CLASS_COLUMNS} FROM classes NOT INDEXED WHERE until = ?",
            (step.step,),
        )
        for label, *row in rows:
            try:
                unpack_earlier(row, label, self.view.about, self._path)
            except MemoryFileError as error:
                name = show_label(label)
                problem = f"cannot undo {step.action}, since what was known of {name!r} is damaged"
                advice = "forget any label for good to remove the damaged data"
                raise MemoryFileError(self._path, problem, advice) from error

    def erase_history(self) -> None:
        """Delete what is no longer known, and all labels in the history; nothing can be undone."""
        self._drop("until <= ?", self.step)
        for orphans in (
            "examples WHERE class NOT IN (SELECT class FROM classes)",
            "pictures WHERE picture NOT IN (SELECT picture FROM examples NOT INDEXED)",
        ):
            self._connection.execute(f"DELETE FROM {orphans}")
        rows = self._connection.execute(f"SELECT step, {STEP_COLUMNS} FROM steps").fetchall()
        for number, *row in rows:
            time, action, _, settings = unpack_step(row, self._path)
            blank = pack_step(time, action, {}, settings)
            self._connection.execute(
                "UPDATE steps SET about = ?, checksum = ?, undone = iif(undone = 0, -1, undone)"
                " WHERE step = ?",
                (blank[2], blank[-1], number),
            )

    def prune(self) -> None:
        """Delete what is too old to be undone or told."""
        if not self.step:
            return
        oldest = self._connection.execute(
            "SELECT step FROM steps WHERE undone = 0 AND action != 'undo'"
            " ORDER BY step DESC LIMIT 1 OFFSET ?",
            (MAX_UNDO - 1,),
        ).fetchone()
        if oldest is not None:
            self._prune_classes(oldest[0])
            self._connection.execute(
                "UPDATE steps SET undone = -1 WHERE undone = 0 AND step < ?", oldest
            )
        self._connection.execute(  # except the step whose settings hold
            "DELETE FROM steps WHERE step <= ? AND (undone != 0 OR action = 'undo') AND step !="
            " (SELECT max(step) FROM steps WHERE undone <= 0 AND action != 'undo')",
            (self.step - MAX_HISTORY,),
        )

    def _prune_classes(self, oldest: int) -> None:
        """Delete rows that ended before a step; the table must say it of those that an index has.

        That index is all that is read, whatever the number of labels; a row that it lacks stays.
        """
        indexed = self._connection.execute(
            "SELECT class FROM classes INDEXED BY until WHERE until < ?", (oldest,)
        ).fetchall()
        ended = "SELECT class FROM classes NOT INDEXED WHERE class = ? AND until < ?"
        rows = (self._connection.execute(ended, (row, oldest)).fetchone() for (row,) in indexed)
        self._delete([row for row in rows if row is not None])

    def _drop(self, condition: str, step: int) -> None:
        """Delete rows of classes; a damaged index must not decide which."""
        rows = self._connection.execute(
            f"SELECT class FROM classes NOT INDEXED WHERE {condition}", (step,)
        )
        self._delete(rows.fetchall())

    def _delete(self, rows: Sequence[tuple[int]]) -> None:
        """Delete rows of classes, and the pictures that no other row refers to."""
        for row in rows:
            pictures = self._connection.execute(
                "SELECT picture FROM examples WHERE class = ?", row
            ).fetchall()
            self._connection.execute("DELETE FROM examples WHERE class = ?", row)
            self._connection.executemany(
                "DELETE FROM pictures WHERE picture = ?"
                " AND NOT EXISTS (SELECT 1 FROM examples WHERE picture = ?)",
                [(picture, picture) for (picture,) in pictures],
            )
        self._connection.executemany("DELETE FROM classes WHERE class = ?", rows)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Commit what is done inside, or none of it."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def as_step(row: Sequence[Any], path: Path) -> Step:
    """Read a row of step, undone and STEP_COLUMNS."""
    number, undone, *columns = row
    time, action, about, _ = unpack_step(columns, path)
    return Step(number, time, action, about, undone > 0, undone == 0 and action != "undo")
