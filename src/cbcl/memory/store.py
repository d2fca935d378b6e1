"""A memory: one SQLite file that holds what was learned, whatever happens to the process that writes it.

Nothing in it is changed but by a step, and a step is a transaction: learning, forgetting, renaming, merging, undoing. A
class that changes gets a new row and its old row an end, so the last steps can be undone exactly, and a row once read
need never be read again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple
from weakref import WeakSet

from cbcl.errors import ChangedError, GoneError, MemoryFileError
from cbcl.memory.connection import (
    PATIENCE,
    FileHandle,
    connect,
    explained,
    into_wal,
    own_files,
    prepare,
    state_of,
    which,
)
from cbcl.memory.rows import (
    MemoryInfo,
    Settings,
    StoredClass,
    StoredExample,
    checksum,
    read_about,
    read_step,
    read_stored,
    read_thumbnail,
)
from cbcl.memory.transaction import STEP, MemoryState, Step, Transaction, step_of

SHORT_PATIENCE = 5000  # milliseconds to wait for readers, when something is to be gone for good


_ABANDONED: list[
    object
] = []  # connections that must not even be closed: their file's name is another's by now
_MEMORIES: WeakSet[Memory] = WeakSet()  # all of this process


class ExampleSummary(NamedTuple):
    """The examples that are kept of a label."""

    kept: int
    shown: list[int]  # the numbers of a few, one of each centroid first


class Memory:
    """A memory file. Threads may share it, and read while one writes; so may processes, each with its own."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # whatever the working folder comes to be
        self._reading, self._writing = RLock(), RLock()
        self._reader: FileHandle | None = None
        self._writer: FileHandle | None = None
        self._seen: tuple[int, MemoryState] | None = (
            None  # and SQLite's number for it, which changes when the file does
        )
        self._rows: dict[int, StoredClass] = {}
        _MEMORIES.add(self)

    def close(self) -> None:
        """Let go of the file. It cannot fail: what was learned is in it, and what else is wrong was told before."""
        for lock in (self._writing, self._reading):
            with suppress(MemoryFileError), self._access(lock):
                self._let_go(lock)

    def _let_go(self, lock: RLock) -> None:
        """Close what this lock guards."""
        opened = self._writer if lock is self._writing else self._reader
        if opened is not None:
            opened.connection.close()
        self._lose(lock)

    def _lose(self, lock: RLock) -> None:
        if lock is self._writing:
            self._writer = None
        else:
            self._reader = self._seen = None
            self._rows = {}

    def exists(self) -> bool:
        """Whether anything was ever learned there."""
        with self._access(self._reading):
            return self._opened() is not None

    def view(self) -> MemoryState:
        """What is there now, by whomever it was put there; the same object as long as nothing changes."""
        with self._access(self._reading):
            connection = self._there()
            with _transaction(connection, "DEFERRED"):
                version = connection.execute("PRAGMA data_version").fetchone()[0]
                if self._seen is None or self._seen[0] != version:
                    self._seen = version, self._look(connection)
            return self._seen[1]

    def load(
        self, view: MemoryState, labels: Iterable[str] | None = None
    ) -> dict[str, StoredClass]:
        """What is known of some labels (None: all) in a view."""
        with self._access(self._reading):
            wanted = (
                view.classes if labels is None else {label: view.classes[label] for label in labels}
            )
            for label, row in wanted.items():
                if row not in self._rows:
                    self._rows[row] = self._stored(row, label, view.about)
            if labels is None:
                self._rows = {row: self._rows[row] for row in wanted.values()}
            return {label: self._rows[row] for label, row in wanted.items()}

    def check_writable(self) -> None:
        """Fail early, before work is done that could not be kept."""
        self.exists()
        with explained(self.path):
            place = self.path if which(self.path) != (0, 0) else self.path.parent
        if not os.access(place, os.W_OK):
            what = "it is" if place == self.path else "its folder is missing or"
            raise MemoryFileError(f"{self.path} cannot be written: {what} read-only.")

    def own_files(self) -> set[tuple[int, int]]:
        """The files of all memories that this process has open, by device and number, and of this one.

        None may be read as something else: whoever closes such a file, however it was opened, gives up all locks on it
        that the process has.
        """
        with explained(self.path):
            opened = [memory for memory in _MEMORIES if memory._reader or memory._writer]
            return {file for memory in [*opened, self] for file in own_files(memory.path)}

    def checkpoint(self) -> None:
        """Move all steps into the file itself, so that what was deleted is nowhere else."""
        with self._access(self._writing):
            if self._writer is None:
                return
            self._writer.connection.execute(f"PRAGMA busy_timeout = {SHORT_PATIENCE}")
            busy, *_ = self._writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._writer.connection.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")
            if busy:
                raise MemoryFileError(
                    f"it is forgotten, but another process is reading {self.path}: until the last one closes the file, "
                    "old pages stay on the disk."
                )

    def copy(self, path: Path) -> None:
        """Write all that is known now into a new file: what was forgotten, and what could be undone, stays behind."""
        if which(path) != (0, 0):
            raise MemoryFileError(f"{path} is there already: give another name.")
        making = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with explained(self.path):
                opened = connect(self.path)
                if opened is None:
                    raise self._missing()
                with closing(
                    opened.connection
                ):  # one of its own, since others want to read meanwhile
                    opened.connection.execute("VACUUM INTO ?", (str(making),))
            with explained(path), closing(Memory(making)) as made:
                with made.writing() as writing:
                    writing.begin("copy", {}, writing.view.settings)
                    writing.seal()
                made.checkpoint()
            with explained(path):
                into_wal(making)
                making.rename(path)
        finally:
            for ending in ("", "-wal", "-shm", "-journal"):
                making.with_name(making.name + ending).unlink(missing_ok=True)

    def backbone_state(self) -> bytes:
        with self._access(self._reading):
            return read_value(self._there(), "backbone", self.path)

    def thumbnails(self, view: MemoryState, label: str) -> list[StoredExample]:
        """The examples that are kept of a label, in the order they were learned."""
        return self._examples(view, label, "", "examples.rowid")

    def nearest(
        self, view: MemoryState, label: str, centroid: int, most: int
    ) -> list[StoredExample]:
        """Those of the examples kept of a label that are nearest to one of its centroids, the nearest first."""
        return self._examples(view, label, "AND centroid = ? AND rank < ?", "rank", centroid, most)

    def _examples(
        self, view: MemoryState, label: str, which: str, order: str, *more: int
    ) -> list[StoredExample]:
        with self._access(self._reading):
            rows = self._there().execute(
                "SELECT picture, centroid, rank, jpeg, vector, checksum FROM examples JOIN pictures USING (picture)"
                f" WHERE class = ? {which} ORDER BY {order}",
                (view.classes[label], *more),
            )
            return [
                read_thumbnail(row, view.about, f"{self.path}: a thumbnail of {label!r}")
                for row in rows
            ]

    def example(self, number: int) -> tuple[str, StoredExample] | None:
        """An example that is kept of a label, and that label; None: there is none of that number, or no longer."""
        with self._access(self._reading):
            about = self.view().about
            row = (
                self._there()
                .execute(
                    "SELECT label, picture, centroid, rank, jpeg, vector, pictures.checksum FROM examples"
                    " JOIN classes USING (class) JOIN pictures USING (picture) WHERE picture = ? AND until IS NULL",
                    (number,),
                )
                .fetchone()
            )
            return row and (
                row[0],
                read_thumbnail(row[1:], about, f"{self.path}: a thumbnail of {row[0]!r}"),
            )

    def albums(self, view: MemoryState, most: int) -> dict[str, ExampleSummary]:
        """How many examples are kept of each label, and the numbers of some to show."""
        with self._access(self._reading):
            kept = dict(
                self._there().execute("SELECT class, count(*) FROM examples GROUP BY class")
            )
            some: dict[int, list[int]] = {}
            for row, number in self._there().execute(
                "SELECT class, picture FROM examples WHERE rank < ? ORDER BY rank, centroid",
                (most,),
            ):
                if len(numbers := some.setdefault(row, [])) < most:
                    numbers.append(number)
        return {
            label: ExampleSummary(kept.get(row, 0), some.get(row, []))
            for label, row in view.classes.items()
        }

    def history(self) -> list[Step]:
        """What was done, the latest first."""
        with self._access(self._reading):
            rows = (
                self._there()
                .execute(f"SELECT step, undone, {STEP} FROM steps ORDER BY step DESC")
                .fetchall()
            )
            return [step_of(step, undone, row, self.path) for step, undone, *row in rows]

    @contextmanager
    def writing(self, new: MemoryInfo | None = None, state: bytes = b"") -> Iterator[Transaction]:
        """Sole right to write, from the latest state: all that is done inside is one step, there whole or not at all.

        Where there is no memory yet, one is made if `new` says of what kind.
        """
        with self._access(self._writing):
            if self._writer is None:
                self._writer = connect(self.path, write=True, create=new is not None)
            if self._writer is None:
                raise self._missing()
            connection = self._writer.connection
            with _transaction(connection, "IMMEDIATE"):
                if prepare(connection) and new is not None:
                    for name, value in (("about", new.as_json()), ("backbone", state)):
                        connection.execute(
                            "INSERT INTO memory VALUES (?, ?, ?)",
                            (name, value, checksum(name, value)),
                        )
                writing = Transaction(connection, self._look(connection), self.path)
                yield writing
                writing.sweep()
            self._still_there(self._writing)

    @contextmanager
    def _access(self, lock: RLock) -> Iterator[None]:
        with lock, explained(self.path):
            self._still_there(lock)
            yield

    def _still_there(self, lock: RLock) -> None:
        opened = self._writer if lock is self._writing else self._reader
        if opened is None:
            return
        try:
            found = which(self.path)
        except MemoryFileError:  # what has its name now is no file
            found = (0, 0)
        if found == opened.file:
            return
        if found == (
            0,
            0,
        ):  # moved away or deleted, and nothing else has its name: all can be put into it
            with suppress(sqlite3.Error):
                opened.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._let_go(lock)
            raise GoneError(
                f"{self.path} was moved or deleted while it was open. What was learned is in the file."
            )
        _ABANDONED.append(opened)
        self._lose(lock)
        raise GoneError(
            f"{self.path} was replaced while it was open: what was learned last may be lost."
        )

    def _opened(self) -> sqlite3.Connection | None:
        if self._reader is not None and self._reader.frozen not in (None, state_of(self.path)):
            self._let_go(self._reading)  # somebody who may write did
        if self._reader is None:
            self._reader = connect(self.path)
        return self._reader and self._reader.connection

    def _there(self) -> sqlite3.Connection:
        connection = self._opened()
        if connection is None:
            raise self._missing()
        return connection

    def _missing(self) -> MemoryFileError:
        return MemoryFileError(f"there is no memory at {self.path}: learn something first.")

    def _look(self, connection: sqlite3.Connection) -> MemoryState:
        about = read_about(read_value(connection, "about", self.path), self.path)
        last = connection.execute(
            f"SELECT {STEP} FROM steps WHERE undone <= 0 AND action != 'undo' ORDER BY step DESC LIMIT 1"
        ).fetchone()
        rows = connection.execute("SELECT label, class FROM classes WHERE until IS NULL")
        settings = read_step(last, str(self.path))[3] if last else Settings()
        (step,) = connection.execute("SELECT ifnull(max(step), 0) FROM steps").fetchone()
        return MemoryState(about, settings, dict(sorted(rows.fetchall())), step)

    def _stored(self, row: int, label: str, about: MemoryInfo) -> StoredClass:
        found = (
            self._there()
            .execute(
                "SELECT centroids, counts, spread, checksum FROM classes WHERE class = ?", (row,)
            )
            .fetchone()
        )
        if found is None:
            raise ChangedError(f"{self.path} was changed by another process meanwhile: try again.")
        return read_stored(found, label, about, f"{self.path}: what is known of {label!r}")


def read_value(connection: sqlite3.Connection, name: str, path: Path) -> bytes:
    row = connection.execute(
        "SELECT value, checksum FROM memory WHERE name = ?", (name,)
    ).fetchone()
    if row is None or checksum(name, row[0]) != row[1]:
        raise MemoryFileError(
            f"{path} is damaged: its {name} entry is not what was written. Restore a copy of it."
        )
    value: bytes = row[0]
    return value


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


_HELD: list[Memory] = []  # during a fork


def _before_fork() -> None:
    """Nothing may be open across a fork: the child would believe in locks that are its parent's."""
    _HELD[:] = _MEMORIES
    for memory in _HELD:
        for lock in (memory._writing, memory._reading):
            lock.acquire()
        if (
            memory._writer is None or not memory._writer.connection.in_transaction
        ):  # else it is this thread's own step
            memory._let_go(memory._writing)
            memory._let_go(memory._reading)


def _after_fork_in_parent() -> None:
    for memory in _HELD:
        memory._reading.release()
        memory._writing.release()
    _HELD.clear()


def _after_fork_in_child() -> None:
    for memory in _HELD:
        memory._reading, memory._writing = RLock(), RLock()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
