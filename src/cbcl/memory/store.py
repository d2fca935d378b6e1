"""Memory: one SQLite file that holds what was learned, whatever happens to the process.

Every change is a step, and a step is a transaction: learn, forget, rename, merge, undo. A class
that changes gets a new row and its old row an end, so the last steps can be undone exactly, and a
row once read need never be read again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cbcl.errors import ChangedError, LabelError, MemoryFileError
from cbcl.files import name_also, part_of
from cbcl.heads.base import NEGATIVES, ClassRecord, Head, Sketches, StoredExample, unpack_sketches
from cbcl.memory.connection import (
    LOCK_TIMEOUT_SECONDS,
    NO_FILE,
    FileHandle,
    change_identity,
    compact,
    connect,
    end_wal,
    explained,
    file_identity,
    find_structural_damage,
    prepare,
    read_identity,
)
from cbcl.memory.indexes import SketchIndex, SpellingIndex
from cbcl.memory.open_file import OpenFile
from cbcl.memory.packing import checksum, unpack_class, unpack_example
from cbcl.memory.rows import MemoryInfo, damaged_class, select
from cbcl.memory.schema import ENTRIES
from cbcl.memory.state import (
    STEP_COLUMNS,
    MemoryState,
    StateSeen,
    data_version,
    read_value,
    see_state,
)
from cbcl.memory.transaction import CLASS_COLUMNS, Step, Transaction, as_step, transaction

CHECKPOINT_TIMEOUT_SECONDS = 5.0  # for readers, when something is forgotten for good
MAX_PLACES = 1000  # of examples that one query asks for
EXAMPLE_COLUMNS = "picture, centroid, rank, jpeg, vector, pictures.checksum"


class ExampleSummary(NamedTuple):
    """Examples that are kept of a label."""

    kept: int
    shown: list[int]  # the numbers of a few, one of each centroid first


class Memory(OpenFile):
    """A memory file; threads may share it, and processes, each with its own, may use one file."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._written: StateSeen | None = None  # by the connection that writes
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._read: StateSeen | None = None
        self._rows: dict[tuple[int, str], Any] = {}  # a row is that of its label alone
        self._sketches, self._spellings = SketchIndex(), SpellingIndex()

    def __reduce__(self) -> tuple[type[Memory], tuple[Path]]:
        return Memory, (self.path,)

    def exists(self) -> bool:
        """Tell whether anything was ever learned there."""
        with self._access(self._reading):
            return self._connect() is not None

    def view(self) -> MemoryState:
        """Return the present state; the same object as long as nothing changes."""
        with self._access(self._reading):
            connection = self._connection()
            with transaction(connection, "DEFERRED"):
                self._read = see_state(connection, self.path, self._read)
            return self._read.state

    def latest(self) -> MemoryState | None:
        """Return the present state; None: nothing was ever learned there."""
        return self.view() if self.exists() else None

    def load(self, view: MemoryState, labels: Iterable[str] | None = None) -> dict[str, Any]:
        """Return classes by label; None: all labels. The negatives are there if they are named."""
        with self._access(self._reading):
            if labels is None:
                wanted = view.classes
            else:
                wanted = {label: view.rows[label] for label in labels}
            classes = {label: self._class(view, row, label) for label, row in wanted.items()}
            if labels is None:
                present = {(row, label) for label, row in view.rows.items()}
                self._rows = {key: kept for key, kept in self._rows.items() if key in present}
            return classes

    def records(
        self, view: MemoryState, labels: Iterable[str] | None = None
    ) -> dict[str, ClassRecord[Any]]:
        """Return classes with their examples, which are read when they are asked for.

        None: all labels. The negatives are among the others if they are named.
        """
        named = view.classes if labels is None else dict.fromkeys(labels)
        known = self.load(view, [label for label in named if label in view.rows])
        return {
            label: ClassRecord(
                one, partial(self.thumbnails, view, label), partial(self.places, view, label)
            )
            for label, one in known.items()
        }

    def _class(self, view: MemoryState, row: int, label: str) -> Any:
        if (row, label) not in self._rows:
            columns = self._read_row(CLASS_COLUMNS, row)
            known = unpack_class(columns, label, view.head, view.about, self.path)
            self._rows[row, label] = known
        return self._rows[row, label]

    def find_taught(self, view: MemoryState, sketches: Iterable[int]) -> dict[int, str]:
        """Return the labels that views were taught as, by their sketches; '': as none of these.

        A sketch that no class has is left out; of two labels that have it, the first is returned.
        """
        with self._access(self._reading):
            self._sketches.follow(view, partial(self._read_sketches, view.head))
            found = self._sketches.find(sketches)
        return {own: min(those - {NEGATIVES}, default=NEGATIVES) for own, those in found.items()}

    def find_spelled_alike(self, view: MemoryState, labels: Iterable[str]) -> set[str]:
        """Return the labels that differ from one of these in case or space only, or not at all."""
        with self._access(self._reading):
            self._spellings.follow(view)
            return self._spellings.find(labels)

    def _read_sketches(self, head: Head[Any], row: int, label: str) -> Sketches:
        known = self._rows.get((row, label))
        summary = None if known is None else head.summarize(known)
        if summary is not None and summary.sketches is not None:
            return summary.sketches
        try:
            return unpack_sketches(self._read_row("sketches", row)[0] or b"")
        except (TypeError, ValueError):
            raise damaged_class(self.path, "what is known of", label) from None

    def check_writable(self) -> None:
        """Fail early, before work is done that could not be kept."""
        self.exists()
        with explained(self.path):
            there = file_identity(self.path) != NO_FILE
        if not os.access(self.path if there else self.path.parent, os.W_OK):
            advice = "it is read-only" if there else "its folder is missing or read-only"
            raise MemoryFileError(self.path, "cannot be written", advice)

    def checkpoint(self) -> None:
        """Move all steps from the WAL into the file, so that what was forgotten is nowhere else."""
        with self._access(self._writing):
            if self._writer is None:
                return
            connection = self._writer.connection
            hindrance = "another process is reading the file"
            _set_timeout(connection, CHECKPOINT_TIMEOUT_SECONDS)
            try:
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError:
                busy, hindrance = 1, "the disk has an error, or no room"
            finally:
                _set_timeout(connection, LOCK_TIMEOUT_SECONDS)
            if busy:
                raise MemoryFileError(
                    self.path,
                    f"has forgotten it, but {hindrance}",
                    "until the last process closes it, old pages stay on the disk",
                )

    def check_structure(self) -> None:
        """Raise an error if the pages of what is known are damaged, or their indexes wrong."""
        with self._access(self._reading):
            for table in ("memory", "steps", "classes"):
                if problems := find_structural_damage(self._connection(), table):
                    problem = f"is damaged, so that labels may be missing: {problems[0]}"
                    advice = "try `cbcl check --repair`, or restore a copy of the file"
                    raise MemoryFileError(self.path, problem, advice)

    def copy(self, path: Path) -> None:
        """Write the present state into a new file, without history and what was forgotten."""
        taken = MemoryFileError(path, "is there already", "give another name")
        if file_identity(path) != NO_FILE:
            raise taken
        self.view()  # which fails where a copy would be made of what is left
        part = part_of(path)
        try:
            with explained(self.path):
                handle = connect(self.path)  # a new one, since others want to read meanwhile
                if handle is None:
                    raise self.missing()
                with closing(handle.connection):
                    handle.connection.execute("VACUUM INTO ?", (str(part),))
            with explained(path), closing(Memory(part)) as copy, copy.writing() as writing:
                writing.add_step("copy", {}, writing.view.settings)
                writing.erase_history()
            with explained(path):
                compact(part)
                name_also(part, path)
        except FileExistsError as error:
            raise taken from error
        finally:
            for ending in ("", "-wal", "-shm", "-journal"):
                part.with_name(part.name + ending).unlink(missing_ok=True)

    def replace(self, new: Path, kept: Path) -> None:
        """Put another file in place of this one, which is kept under a name that must be free.

        No other process may have it open.
        """
        if self.path.is_symlink():
            raise MemoryFileError(self.path, "is a link", "give the file that it leads to")
        with self._access(self._writing), self._access(self._reading):
            for lock in (self._writing, self._reading):
                self._disconnect(lock)
            self._written = None
            if file_identity(self.path) == NO_FILE:
                new.rename(self.path)
                return
            end_wal(self.path)
            name_also(self.path, kept)
            try:
                _move_wal(self.path, kept)
                new.replace(self.path)
            except OSError:
                kept.replace(self.path)
                kept.unlink(missing_ok=True)  # which it is, unless both are names of one file
                raise

    def backbone_state(self) -> bytes:
        with self._access(self._reading):
            return read_value(self._connection(), "backbone", self.path)

    def thumbnails(self, view: MemoryState, label: str) -> list[StoredExample]:
        """Return the examples that are kept of a label, in the order learned."""
        with self._access(self._reading):
            number = view.rows[label]
            rows = self._select(
                f"SELECT {EXAMPLE_COLUMNS} FROM examples JOIN pictures USING (picture)"
                " WHERE class = ? ORDER BY examples.rowid",
                number,
            )
            places = view.head.summarize(self._class(view, number, label)).places
            return [unpack_example(row, label, view.about, self.path, places) for row in rows]

    def places(self, view: MemoryState, label: str) -> list[tuple[int, int]]:
        """Return number and place of the examples kept of a label, in the order learned."""
        with self._access(self._reading):
            rows = self._select(
                "SELECT picture, centroid FROM examples WHERE class = ? ORDER BY rowid",
                view.rows[label],
            )
            return [(number, place) for number, place in rows]

    def nearest(
        self, view: MemoryState, places: Iterable[tuple[str, int]], most: int
    ) -> dict[tuple[str, int], list[int]]:
        """Return the numbers of the examples nearest to places of labels, the nearest first."""
        wanted = {(view.rows[label], place): label for label, place in places}
        pairs = [*wanted]
        found: dict[tuple[str, int], list[int]] = {}
        with self._access(self._reading):
            for start in range(0, len(pairs), MAX_PLACES):
                some = pairs[start : start + MAX_PLACES]
                rows = self._select(
                    f"WITH wanted AS (VALUES {', '.join(['(?, ?)'] * len(some))})"
                    " SELECT class, centroid, picture FROM wanted CROSS JOIN examples"
                    " ON class = column1 AND centroid = column2 WHERE rank < ? ORDER BY rank",
                    *(number for pair in some for number in pair),
                    most,
                )
                for row, place, number in rows:
                    found.setdefault((wanted[row, place], place), []).append(number)
        return found

    def example(self, number: int) -> tuple[str, StoredExample]:
        """Return the label of an example, and the example; LabelError: it is not there."""
        with self._access(self._reading):
            was_closed = self._reader is None
            try:
                rows = self._select(
                    f"SELECT label, {EXAMPLE_COLUMNS} FROM examples JOIN classes USING (class)"
                    " JOIN pictures USING (picture) WHERE picture = ? AND until IS NULL",
                    number,
                )
                if (row := next(rows, None)) is None:
                    raise LabelError(f"example {number}", "does not exist, or no longer")
                label, *columns = row
                return label, unpack_example(columns, label, self.view().about, self.path)
            finally:
                if was_closed:  # an answer may outlive its recognizer
                    self._disconnect(self._reading)

    def summarize_examples(self, view: MemoryState, most: int) -> dict[str, ExampleSummary]:
        """Return how many examples are kept of each label, and the numbers of some to show."""
        with self._access(self._reading):
            kept = dict(self._select("SELECT class, count(*) FROM examples GROUP BY class"))
            shown: dict[int, list[int]] = {}
            rows = self._select(
                "SELECT class, picture FROM examples WHERE rank < ? ORDER BY rank, centroid", most
            )
            for row, number in rows:
                if len(numbers := shown.setdefault(row, [])) < most:
                    numbers.append(number)
        return {
            label: ExampleSummary(kept.get(row, 0), shown.get(row, []))
            for label, row in view.rows.items()
        }

    def history(self) -> list[Step]:
        """Return all steps, the latest first."""
        with self._access(self._reading):
            rows = self._select(
                f"SELECT step, undone, {STEP_COLUMNS} FROM steps ORDER BY step DESC"
            )
            return [as_step(row, self.path) for row in rows]

    @contextmanager
    def writing(self, new: MemoryInfo | None = None, state: bytes = b"") -> Iterator[Transaction]:
        """Lock the file for one step on its latest state, written whole or not at all.

        Where there is no memory yet, one is made if `new` describes it.
        """
        with self._access(self._writing):
            if self._writer is None:
                self._writer = connect(self.path, write=True, create=new is not None)
            if self._writer is None:
                raise self.missing()
            writer = self._writer
            connection = writer.connection
            with transaction(connection, "IMMEDIATE"):
                identity = read_identity(connection)
                if prepare(connection) and new is not None:
                    for name, value in zip(ENTRIES, (new.as_json(), state), strict=True):
                        row = (name, value, checksum(name, value))
                        connection.execute("INSERT INTO memory VALUES (?, ?, ?)", row)
                seen = see_state(connection, self.path, self._written)
                writing = Transaction(connection, seen.state, self.path)
                yield writing
                writing.prune()
                change_identity(connection, identity)
            after = writing.state
            self._written = None if after is None else seen._replace(state=after)
            self._check_in_place(self._writing)
            self._tell_reader(writer)

    def _tell_reader(self, writer: FileHandle) -> None:
        """Let the reading connection have the state just written, unless it is at work."""
        if self._written is None or not self._reading.acquire(blocking=False):
            return
        try:
            reader = self._reader
            if reader is None or reader.file != writer.file or reader.frozen is not None:
                return
            with suppress(sqlite3.Error):  # the step is written, whatever becomes of the reader
                version = data_version(reader.connection)
                if data_version(writer.connection) == self._written.version:  # nobody wrote since
                    self._read = StateSeen(reader.connection, version, self._written.state)
        finally:
            self._reading.release()

    def _select(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        return select(self._connection(), self.path, query, values)

    def _read_row(self, columns: str, row: int) -> tuple[Any, ...]:
        rows = self._select(f"SELECT {columns} FROM classes WHERE class = ?", row)
        if (read := next(rows, None)) is None:
            raise ChangedError(self.path, "was changed by another process meanwhile", "try again")
        return read


def _move_wal(path: Path, to: Path) -> None:
    """Move the WAL of a file that is too damaged to be without it along with the file."""
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(to.with_name(to.name + ending))


def _set_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")
