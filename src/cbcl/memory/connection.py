"""Opening a memory file, which may be missing, foreign, newer, damaged, hostile, locked or on a read-only disk."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cbcl.errors import MemoryFileError
from cbcl.memory.rows import checksum
from cbcl.memory.schema import APPLICATION_ID, MIGRATIONS, VERSION

PATIENCE = 60.0  # seconds to wait for another process to finish its step

FileSignature: TypeAlias = tuple[int, ...]


class FileHandle(NamedTuple):
    """A connection to a checked memory."""

    connection: sqlite3.Connection
    file: tuple[int, int]  # which file it is, whatever its name comes to mean
    frozen: (
        FileSignature | None
    )  # where nothing can be written, not even locks: the state that was opened, which may change


def connect(path: Path, *, write: bool = False, create: bool = False) -> FileHandle | None:
    """A memory, checked; None where there is none yet (unless it is to be created).

    One of an older format is brought to the present one by the first step that is written; until then, who only reads
    has a copy of it, in memory.
    """
    status = _status(path)
    if status is None and not create:
        return None
    if status is None and not path.parent.is_dir():
        raise MemoryFileError(f"{path.parent} does not exist: make that folder first.")
    file = path.resolve()
    try:
        connection = _checked(
            _connection(file, "mode=rwc" if create else "mode=rw"), path, create=create
        )
        frozen = None
    except sqlite3.OperationalError:
        if create or os.access(file.parent, os.W_OK) or wal_size(path):
            raise
        frozen = state_of(path)
        connection = _checked(_connection(file, "mode=ro&immutable=1"), path, create=False)
    if connection is not None and not write and version_of(connection) < VERSION:
        frozen = state_of(path)
        connection = _renewed(connection)
    return None if connection is None else FileHandle(connection, which(path), frozen)


def _renewed(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with closing(connection):
        connection.backup(copy)
    prepare(copy)
    return copy


def version_of(connection: sqlite3.Connection) -> int:
    """The format of the file; 0: it is empty."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _status(path: Path) -> os.stat_result | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MemoryFileError(
            f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}."
        ) from error
    if stat.S_ISDIR(status.st_mode):
        raise MemoryFileError(
            f"{path} is a folder: a memory is a file, such as {path / 'things.cbcl'}."
        )
    if not stat.S_ISREG(status.st_mode):
        raise MemoryFileError(f"{path} is not a file that can be a memory.")
    return status


def which(path: Path) -> tuple[int, int]:
    """Which file a path leads to; (0, 0): to none."""
    status = _status(path)
    return (0, 0) if status is None else (status.st_dev, status.st_ino)


def state_of(path: Path) -> FileSignature:
    """What changes when somebody writes to a memory that we cannot."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, wal_size(path)


def wal_size(path: Path) -> int:
    file = path.resolve()
    wal = file.with_name(f"{file.name}-wal")
    return wal.stat().st_size if wal.exists() else 0


def own_files(path: Path) -> set[tuple[int, int]]:
    """The memory and what SQLite puts beside it."""
    file = path.resolve()
    return {which(file.with_name(file.name + ending)) for ending in ("", "-wal", "-shm")} - {(0, 0)}


def prepare(connection: sqlite3.Connection) -> bool:
    """Inside a transaction: bring the file to the present version; whether it was empty before."""
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


def into_wal(path: Path) -> None:
    """Have a file that SQLite copied be as those that we make."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _connection(file: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{file.as_uri()}?{how}",
        uri=True,
        timeout=PATIENCE,
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
        if "rwc" in how:
            connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _checked(
    connection: sqlite3.Connection, path: Path, *, create: bool
) -> sqlite3.Connection | None:
    try:
        connection.execute("BEGIN")  # all from one moment: another process may be making it
        kind = connection.execute("PRAGMA application_id").fetchone()[0]
        version = version_of(connection)
        schema = _schema(connection)
        connection.execute("COMMIT")
        if not schema and kind == version == 0:  # nothing yet, or stopped before the first step
            if not create:
                connection.close()
            return connection if create else None
        if kind != APPLICATION_ID:
            raise MemoryFileError(
                f"{path} is not a memory of cbcl, but another program's database."
            )
        if version > VERSION:
            raise MemoryFileError(
                f"{path} was written by a newer cbcl (format {version}, and this one knows {VERSION}): update cbcl."
            )
        if schema != _expected(version):
            raise MemoryFileError(
                f"{path} has tables that cbcl did not make: it is damaged, or not to be trusted."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return set(rows.fetchall())


@cache
def _expected(version: int) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _migrate(connection, 0, version)
        return _schema(connection)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite and the system say, as one of our errors."""
    try:
        yield
    except (
        UnicodeDecodeError,
        json.JSONDecodeError,
        RecursionError,
    ) as error:  # text that cbcl did not write
        raise MemoryFileError(_MEANINGS["malformed"].format(path=path)) from error
    except sqlite3.Error as error:
        said = str(error)
        for words, meaning in _MEANINGS.items():
            if words in said:
                raise MemoryFileError(meaning.format(path=path)) from error
        raise MemoryFileError(f"{path} cannot be used: {said}.") from error
    except OSError as error:
        raise MemoryFileError(
            f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}."
        ) from error


_MEANINGS = {
    "locked": "{path} is being written by another process, which does not finish: try again later.",
    "full": "{path}: no room is left on the disk. Nothing was changed; make room and try again.",
    "readonly": "{path} cannot be written: it, or its folder, is read-only.",
    "not a database": "{path} is not a memory of cbcl.",
    "malformed": "{path} is damaged: see `cbcl check {path}`.",
    "unable to open": "{path} cannot be opened: is it, or its folder, yours to read and write, and is there room?",
    "disk I/O error": "{path} cannot be read or written: the disk has an error, or no room.",
}
