"""Opening a memory file, which may be missing, foreign, newer, damaged, hostile, locked or on a read-only disk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from cbcl.errors import MemoryFileError
from cbcl.memory.schema import APPLICATION_ID, MIGRATIONS, VERSION

PATIENCE = 60.0  # seconds to wait for another process to finish its step


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection | None:
    """A connection to a checked memory; None where there is none yet (unless it is to be created)."""
    if not path.exists() and not create:
        return None
    if path.is_dir():
        raise MemoryFileError(f"{path} is a folder: a memory is a file, such as {path / 'things.cbcl'}.")
    if create and not path.parent.is_dir():
        raise MemoryFileError(f"{path.parent} does not exist: make that folder first.")
    try:
        connection = _connection(path, "mode=rwc" if create else "mode=rw")
        return _checked(connection, path, create=create)
    except sqlite3.OperationalError:
        wal = path.with_name(path.name + "-wal")
        if create or (wal.exists() and wal.stat().st_size):
            raise
        # Where not even the lock file can be made, nobody can write: the file will stay as it is.
        return _checked(_connection(path, "mode=ro&immutable=1"), path, create=False)


def prepare(connection: sqlite3.Connection) -> bool:
    """Inside a transaction: bring the file to the present version; whether it was empty before."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for migration in MIGRATIONS[version:]:
        for statement in filter(str.strip, migration.split(";")):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    return version == 0


def _connection(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
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


def _checked(connection: sqlite3.Connection, path: Path, *, create: bool) -> sqlite3.Connection | None:
    try:
        connection.execute("BEGIN")  # all from one moment: another process may be making it
        kind = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema = _schema(connection)
        connection.execute("COMMIT")
        if not schema and kind == version == 0:  # nothing yet, or stopped before the first step
            if not create:
                connection.close()
            return connection if create else None
        if kind != APPLICATION_ID:
            raise MemoryFileError(f"{path} is not a memory of cbcl, but another program's database.")
        if version > VERSION:
            raise MemoryFileError(
                f"{path} was written by a newer cbcl (format {version}, and this one knows {VERSION}): update cbcl."
            )
        if schema != _expected():
            raise MemoryFileError(f"{path} has tables that cbcl did not make: it is damaged, or not to be trusted.")
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
def _expected() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        prepare(connection)
        return _schema(connection)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite says, as one of our errors."""
    try:
        yield
    except (UnicodeDecodeError, json.JSONDecodeError) as error:  # text that cbcl did not write
        raise MemoryFileError(_MEANINGS["malformed"].format(path=path)) from error
    except sqlite3.Error as error:
        said = str(error)
        for words, meaning in _MEANINGS.items():
            if words in said:
                raise MemoryFileError(meaning.format(path=path)) from error
        raise MemoryFileError(f"{path} cannot be used: {said}.") from error


_MEANINGS = {
    "locked": "{path} is being written by another process, which does not finish: try again later.",
    "full": "{path}: no room is left on the disk. Nothing was changed; make room and try again.",
    "readonly": "{path} cannot be written: it, or its folder, is read-only.",
    "not a database": "{path} is not a memory of cbcl.",
    "malformed": "{path} is damaged: see `cbcl check {path}`.",
    "unable to open": "{path} cannot be opened: is it, or its folder, yours to read and write?",
    "disk I/O error": "{path} cannot be read or written: the disk has an error or no room. Nothing was changed.",
}
