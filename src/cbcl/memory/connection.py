"""Connections to a memory file, which may be missing, foreign, newer, damaged or locked."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from time import sleep
from typing import NamedTuple, TypeAlias

from cbcl.errors import MemoryFileError, first_line, reason
from cbcl.memory.packing import checksum
from cbcl.memory.schema import (
    APPLICATION_ID,
    ENTRIES,
    MIGRATIONS,
    NUMBERED_TABLES,
    VERSION,
)
from cbcl.memory.wal import MIN_IDENTITY, next_identity, read_wal, wal_of

LOCK_TIMEOUT_SECONDS = 60.0  # for another process to finish its step
END_WAL_MILLISECONDS = 2000  # to wait for others who read or write, while nobody here can
MAX_MESSAGES = 10  # of SQLite, about one damaged file
MAX_WAL_READS = 100  # while another process writes
WAL_PAUSE_SECONDS = 0.01
NO_FILE = (0, 0)

FileIdentity: TypeAlias = tuple[int, int]  # device and inode
FileSignature: TypeAlias = tuple[int, ...]
Schema: TypeAlias = Counter[tuple[str | None, ...]]  # type, name, table, SQL


class FileHandle(NamedTuple):
    """A connection to a checked memory."""

    connection: sqlite3.Connection
    file: FileIdentity  # whatever its name comes to mean
    frozen: FileSignature | None  # of a file that is read without locks, which may change

    @property
    def in_transaction(self) -> bool:
        return self.connection.in_transaction


def connect(path: Path, *, write: bool = False, create: bool = False) -> FileHandle | None:
    """Open a memory and check it; None where there is none yet, unless it is to be created.

    A file of an older format is migrated by the first write; until then, readers get a migrated
    copy in RAM.
    """
    status = _status(path)
    if status is None and not create:
        return None
    if status is None and not path.parent.is_dir():
        raise MemoryFileError(path.parent, "does not exist", "make that folder first")
    file = path.resolve()
    if status is not None:
        _check_wal(path)
    mode = "mode=rwc" if create else "mode=rw"
    try:
        connection = _check(_open(file, mode), path, create=create)
        frozen = None
    except sqlite3.OperationalError:
        if create or os.access(file.parent, os.W_OK) or wal_size(path):
            raise
        frozen = file_signature(path)
        connection = _check(_open(file, "mode=ro&immutable=1"), path, create=False)
    if connection is not None and not write and version_of(connection) < VERSION:
        frozen = file_signature(path)
        connection = _migrate_copy(connection)
    return None if connection is None else FileHandle(connection, file_identity(path), frozen)


def _check_wal(path: Path) -> None:
    """Raise an error if the WAL that would be applied to a file is that of another."""
    for _ in range(MAX_WAL_READS):
        identity = _identity_without_wal(path) if wal_size(path) else 0
        if identity < MIN_IDENTITY:
            return
        wal = read_wal(path, identity)
        if wal is None or wal.fits(identity):
            return
        if (identity, wal) == (_identity_without_wal(path), read_wal(path, identity)):
            break
        sleep(WAL_PAUSE_SECONDS)  # another process writes to both
    name = wal_of(path).name
    problem = f"was put in place of a memory whose process was killed: {name} belongs to another"
    advice = f"to go on with the file that is there, delete {name}; else put the other back"
    raise MemoryFileError(path, f"{problem} file", advice)


def _identity_without_wal(path: Path) -> int:
    """Read the identity that is in the file itself; 0: its first page cannot be read alone.

    SQLite reads it: whoever opens and closes the file by other means loses the process's locks.
    The page may tell of others that are still in the WAL, which only writable_schema permits.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            return read_identity(connection)
    except sqlite3.DatabaseError:
        return 0


def read_identity(connection: sqlite3.Connection) -> int:
    """Return the identity of a memory, which every step changes."""
    identity: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    return identity


def change_identity(connection: sqlite3.Connection, before: int) -> None:
    """Write the identity that follows the one before a step; else that of a new file."""
    connection.execute(f"PRAGMA schema_version = {next_identity(before)}")


def _migrate_copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with closing(connection):
        connection.backup(copy)
    prepare(copy)
    return copy


def version_of(connection: sqlite3.Connection) -> int:
    """Return the format of the file; 0: it is empty."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _status(path: Path) -> os.stat_result | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryFileError(path, f"cannot be opened: {reason(error)}") from error
    except ValueError as error:  # a name that no file can have
        raise MemoryFileError(path, f"cannot be opened: {first_line(error)}") from error
    if stat.S_ISDIR(status.st_mode):
        raise MemoryFileError(path, "is a folder", "give a file in it, such as things.cbcl")
    if not stat.S_ISREG(status.st_mode):
        raise MemoryFileError(path, "is not a file that can be a memory")
    return status


def file_identity(path: Path) -> FileIdentity:
    """Return the device and inode of a memory file, or NO_FILE."""
    status = _status(path)
    return NO_FILE if status is None else (status.st_dev, status.st_ino)


def file_signature(path: Path) -> FileSignature:
    """Return what changes when somebody else writes to a memory that is read without locks."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, wal_size(path)


def wal_size(path: Path) -> int:
    wal = wal_of(path)
    return wal.stat().st_size if wal.exists() else 0


def own_files(path: Path) -> set[FileIdentity]:
    """Return the memory file and what SQLite puts beside it."""
    file = path.resolve()
    names = (file.name + ending for ending in ("", "-wal", "-shm"))
    return {file_identity(file.with_name(name)) for name in names} - {NO_FILE}


def prepare(connection: sqlite3.Connection) -> bool:
    """Migrate the database to the present format; return whether it was empty."""
    version = version_of(connection)
    if version < VERSION:
        _migrate(connection, version, VERSION)
    return version == 0


def _migrate(connection: sqlite3.Connection, version: int, to: int) -> None:
    connection.create_function("checksum_of", -1, checksum, deterministic=True)
    for migration in MIGRATIONS[version:to]:
        for statement in filter(str.strip, migration.split(";")):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {to}")


def find_structural_damage(connection: sqlite3.Connection, table: str = "") -> list[str]:
    """Return what is wrong with the pages of a file, or of a table and its indexes, in words."""
    rows = connection.execute(f"PRAGMA integrity_check({table or MAX_MESSAGES})")
    return [message for (message,) in rows if message != "ok"]


def compact(path: Path) -> None:
    """Make a file that SQLite copied like those that we make: in WAL mode, without free pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        change_identity(connection, before=0)
        connection.execute("PRAGMA journal_mode = WAL")


def end_wal(path: Path) -> None:
    """Write all of the WAL into its file, which can then be moved by itself, and delete it.

    MemoryFileError: another connection is open. A file too damaged for that keeps its WAL.
    """
    try:
        with closing(_open(path.resolve(), "mode=rw")) as connection:
            connection.execute(f"PRAGMA busy_timeout = {END_WAL_MILLISECONDS}")
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return
        if code != sqlite3.SQLITE_BUSY:
            raise
        problem = "is open in another program, too"
        raise MemoryFileError(path, problem, "close it there, then try again") from error


def _restore_modes(file: Path) -> None:
    """Let who may write a memory write its log, too: while it was read-only, so was the log."""
    for ending in ("-wal", "-shm"):
        with suppress(OSError):  # there is none, or it is another user's
            beside = file.with_name(file.name + ending)
            log, memory = beside.lstat(), file.stat()
            ours = stat.S_ISREG(log.st_mode) and log.st_uid == memory.st_uid
            if ours and memory.st_mode & ~log.st_mode & 0o222:
                beside.chmod(stat.S_IMODE(memory.st_mode))


def _open(file: Path, mode: str) -> sqlite3.Connection:
    _restore_modes(file)
    connection = sqlite3.connect(
        f"{file.as_uri()}?{mode}",
        uri=True,
        timeout=LOCK_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma in (
            "trusted_schema = OFF",  # a file's own views and triggers may call nothing
            "cell_size_check = ON",  # and a damaged page is an error, not a surprise
            "synchronous = FULL",  # acknowledged is on the disk
            "secure_delete = ON",  # and forgotten is overwritten
        ):
            connection.execute(f"PRAGMA {pragma}")
        if "rwc" in mode:
            connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(
    connection: sqlite3.Connection, path: Path, *, create: bool
) -> sqlite3.Connection | None:
    try:
        connection.execute("BEGIN")  # all from one moment: another process may be making it
        kind = connection.execute("PRAGMA application_id").fetchone()[0]
        version = version_of(connection)
        schema = _schema(connection)
        known = schema == _expected_schema(version) if version <= VERSION else False
        foreign_rows = known and version > 0 and _has_foreign_rows(connection)
        connection.execute("COMMIT")
        if not schema and kind == version == 0:  # nothing yet, or stopped before the first step
            if not create:
                connection.close()
            return connection if create else None
        if kind != APPLICATION_ID:
            raise MemoryFileError(path, "is not a memory of cbcl, but another program's database")
        if version > VERSION:
            problem = f"was written by a newer cbcl (format {version}; this one knows {VERSION})"
            raise MemoryFileError(path, problem, "update cbcl")
        if not known or foreign_rows:
            problem = f"has {'rows' if known else 'tables'} that cbcl did not make"
            raise MemoryFileError(path, problem, "it is damaged, or not to be trusted")
    except BaseException:
        connection.close()
        raise
    return connection


def _schema(connection: sqlite3.Connection) -> Schema:
    """Return every table, index, view and trigger, those that SQLite makes for itself, too."""
    return Counter(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def _has_foreign_rows(connection: sqlite3.Connection) -> bool:
    """Tell whether the two small tables have rows that no step would ever delete."""
    entries = [name for (name,) in connection.execute("SELECT name FROM memory")]
    counters = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    names = [*entries, *(name for name, _ in counters)]
    return (
        len(names) != len({*names})
        or not {*names} <= {*ENTRIES, *NUMBERED_TABLES}
        or any(type(number) is not int for _, number in counters)
    )


@cache
def _expected_schema(version: int) -> Schema:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _migrate(connection, 0, version)
        return _schema(connection)


CHECK = "`cbcl check` tells more"

# What SQLite's primary result codes mean to the user of a memory: problem and advice.
_PROBLEMS = {
    sqlite3.SQLITE_BUSY: (
        "is being written by another process, which does not finish",
        "try again later",
    ),
    sqlite3.SQLITE_FULL: (
        "cannot be written, since no room is left on the disk",
        "make room and try again; nothing of this step was saved",
    ),
    sqlite3.SQLITE_READONLY: ("cannot be written", "it, or its folder, is read-only"),
    sqlite3.SQLITE_NOTADB: ("is not a memory of cbcl", ""),
    sqlite3.SQLITE_CORRUPT: ("is damaged", CHECK),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        "check that it and its folder may be read and written, and that there is room",
    ),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written",
        "the disk has an error, or no room",
    ),
}
_PROBLEMS[sqlite3.SQLITE_LOCKED] = _PROBLEMS[sqlite3.SQLITE_BUSY]


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and the system as MemoryFileError."""
    try:
        yield
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise MemoryFileError(path, *_PROBLEMS[sqlite3.SQLITE_CORRUPT]) from error
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        unforeseen = (f"cannot be used: {first_line(error)}", "")
        raise MemoryFileError(path, *_PROBLEMS.get(primary, unforeseen)) from error
    except OSError as error:
        raise MemoryFileError(path, f"cannot be opened: {reason(error)}") from error
