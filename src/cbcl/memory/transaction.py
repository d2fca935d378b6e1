"""A step on a memory in the making: rows that end, rows that begin, and a line in the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cbcl.errors import MemoryFileError
from cbcl.memory.rows import (
    MemoryInfo,
    Settings,
    StoredClass,
    StoredExample,
    read_step,
    read_stored,
    write_picture,
    write_step,
    write_stored,
)

UNDOABLE = 20  # steps that can be taken back
REMEMBERED = 1000  # steps that history tells of

STEP = "time, action, about, radius, n_voters, max_centroids, checksum"


class MemoryState(NamedTuple):
    """The memory at one moment."""

    about: MemoryInfo
    settings: Settings
    classes: dict[str, int]  # label -> the number of its row, in the order of the labels
    step: int = 0  # the last that was done; 0: none


class Step(NamedTuple):
    """What was done, and when."""

    step: int
    time: str
    action: str
    about: dict[str, Any]
    undone: bool
    can_be_undone: bool

    @property
    def summary(self) -> str:
        """What the step was about, in a few words: "cup (3), key (1)", "mug → cup"."""
        about = self.about
        undone = f"{about['action']} " if "action" in about else ""
        if "pictures" in about:
            counts = (f"{label} ({count})" for label, count in about["pictures"].items())
            return undone + ", ".join(counts)
        if "labels" in about:
            return undone + ", ".join(about["labels"])
        return undone + " → ".join(
            str(about[key]) for key in ("label", "new", "into") if key in about
        )


class Transaction:
    """A step in the making."""

    def __init__(self, connection: sqlite3.Connection, view: MemoryState, path: Path) -> None:
        self.view = view
        self.step = 0
        self._connection, self._path = connection, path

    def begin(self, action: str, about: Mapping[str, object], settings: Settings) -> None:
        """Say what is being done, before it is done."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        added = self._connection.execute(
            f"INSERT INTO steps ({STEP}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            write_step(time, action, about, settings),
        )
        self.step = added.lastrowid or 0

    def remembers(self, label: str) -> bool:
        """Whether a label was known in what can still be undone to."""
        return (
            self._connection.execute("SELECT 1 FROM classes WHERE label = ?", (label,)).fetchone()
            is not None
        )

    def end(self, label: str) -> None:
        self._connection.execute(
            "UPDATE classes SET until = ? WHERE class = ?", (self.step, self.view.classes[label])
        )

    def put(self, label: str, stored: StoredClass, thumbnails: Iterable[StoredExample]) -> None:
        """A class as it is from now on, in place of what it was; its examples in the order they were learned."""
        if stored.concepts.centroids.shape[1] != self.view.about.dimension:
            raise ValueError(
                f"{label!r} has vectors of another length than {self.view.about.dimension}."
            )
        if label in self.view.classes:
            self.end(label)
        added = self._connection.execute(
            "INSERT INTO classes (label, since, centroids, counts, spread, checksum) VALUES (?, ?, ?, ?, ?, ?)",
            (label, self.step, *write_stored(label, stored)),
        )
        self._connection.executemany(
            "INSERT INTO examples VALUES (?, ?, ?, ?)",
            [
                (added.lastrowid, one.number or self._add(one), one.centroid, one.rank)
                for one in thumbnails
            ],
        )

    def _add(self, picture: StoredExample) -> int | None:
        return self._connection.execute(
            "INSERT INTO pictures (jpeg, vector, checksum) VALUES (?, ?, ?)", write_picture(picture)
        ).lastrowid

    def undo(self) -> Step | None:
        """Take back the latest step that is not taken back yet; None: there is none."""
        found = self._connection.execute(
            f"SELECT step, undone, {STEP} FROM steps WHERE undone = 0 AND action != 'undo' ORDER BY step DESC LIMIT 1"
        ).fetchone()
        if found is None:
            return None
        number, undone, *row = found
        step = step_of(number, undone, row, self._path)
        columns = "label, centroids, counts, spread, checksum"
        for label, *back in self._connection.execute(
            f"SELECT {columns} FROM classes WHERE until = ?", (step.step,)
        ):
            try:
                read_stored(tuple(back), label, self.view.about, label)
            except MemoryFileError as error:
                raise MemoryFileError(
                    f"{self._path}: {step.action} cannot be undone, since what was known of {label!r} is damaged. "
                    "Forgetting anything for good clears it."
                ) from error
        self.begin("undo", {"action": step.action, **step.about}, self.view.settings)
        self._drop("since = ?", step.step)
        self._connection.execute("UPDATE classes SET until = NULL WHERE until = ?", (step.step,))
        self._connection.execute(
            "UPDATE steps SET undone = ? WHERE step = ?", (self.step, step.step)
        )
        return step

    def seal(self) -> None:
        """Leave nothing of what is no longer known, not even its name: no step so far can be undone."""
        self._drop("until <= ?", self.step)
        for number, *row in self._connection.execute(f"SELECT step, {STEP} FROM steps").fetchall():
            time, action, _, settings = read_step(row, str(self._path))
            blank = write_step(time, action, {}, settings)
            self._connection.execute(
                "UPDATE steps SET about = ?, checksum = ?, undone = iif(undone = 0, -1, undone) WHERE step = ?",
                (blank[2], blank[-1], number),
            )

    def sweep(self) -> None:
        """Leave out what is too old to be undone or told."""
        if not self.step:
            return
        oldest = self._connection.execute(
            "SELECT step FROM steps WHERE undone = 0 AND action != 'undo' ORDER BY step DESC LIMIT 1 OFFSET ?",
            (UNDOABLE - 1,),
        ).fetchone()
        if oldest is not None:
            self._drop("until < ?", oldest[0])
            self._connection.execute(
                "UPDATE steps SET undone = -1 WHERE undone = 0 AND step < ?", oldest
            )
        self._connection.execute(  # but what learning goes on with must stay
            "DELETE FROM steps WHERE step <= ? AND (undone != 0 OR action = 'undo') AND step !="
            " (SELECT max(step) FROM steps WHERE undone <= 0 AND action != 'undo')",
            (self.step - REMEMBERED,),
        )

    def _drop(self, which: str, step: int) -> None:
        """Delete rows of classes, and the pictures that no other row has."""
        rows = self._connection.execute(
            f"SELECT class FROM classes WHERE {which}", (step,)
        ).fetchall()
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


def step_of(number: int, undone: int, row: Sequence[Any], path: Path) -> Step:
    time, action, about, _ = read_step(row, str(path))
    return Step(number, time, action, about, undone > 0, undone == 0 and action != "undo")
