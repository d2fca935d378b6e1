"""Changes to a memory that cbcl would never make: drawn from a grammar, made by SQLite alone."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from endurance.row_changes import ODD_ROWS
from endurance.sql import Words, connect

Rule: TypeAlias = Callable[[sqlite3.Connection, random.Random], str]

CREATIONS = (
    "CREATE TABLE evil ({definition})",
    "CREATE INDEX evil ON {table} ({term})",
    "CREATE TRIGGER evil {event} ON {table} BEGIN {action}; END",
    "CREATE VIEW evil AS {select}",
    "CREATE VIRTUAL TABLE evil USING {module}",
)
DISGUISES = ("'sqlite_evil'", "'sqlite_stat1'", "CAST(x'ff41' AS TEXT)")  # as SQLite's own
SCHEMA_EDITS = (  # which no statement may make
    "UPDATE sqlite_schema SET rootpage = {number} WHERE name = '{name}'",
    "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema"
    " WHERE name = '{name}') WHERE name = '{name}'",
    "UPDATE sqlite_schema SET sql = {text} WHERE name = '{name}'",
    "UPDATE sqlite_schema SET sql = sql || ' ' WHERE name = '{name}'",
    "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = '{name}'",
    "UPDATE sqlite_schema SET sql = replace(sql, 'TEXT', 'BLOB') WHERE name = '{name}'",
    "UPDATE sqlite_schema SET sql = upper(sql) WHERE name = '{name}'",
    "UPDATE sqlite_schema SET name = {text} WHERE name = '{name}'",
    "UPDATE sqlite_schema SET tbl_name = {text} WHERE name = '{name}'",
    "UPDATE sqlite_schema SET type = {text} WHERE name = '{name}'",
    "UPDATE sqlite_schema SET type = 'view' WHERE name = '{name}'",
    "INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = '{name}'",
    "INSERT INTO sqlite_schema VALUES ('table', {text}, {text}, {number}, {text})",
    "DELETE FROM sqlite_schema WHERE name = '{name}'",
)
ALTERATIONS = (
    "ALTER TABLE {table} ADD COLUMN evil BLOB",
    "ALTER TABLE {table} ADD COLUMN evil ANY AS ({expression})",
    "ALTER TABLE {table} RENAME COLUMN {column} TO evil",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} RENAME TO evil",
    "DROP INDEX {index}",
    "DROP TABLE {table}",
    "DROP TABLE {table}; CREATE VIEW {table} ({columns}) AS {select}",
    "CREATE TEMP TABLE {table} AS SELECT 1",
)
SETTINGS = (
    *(f"PRAGMA {name} = {{number}}" for name in ("user_version", "application_id")),
    *(f"PRAGMA {name} = {{number}}" for name in ("schema_version", "default_cache_size")),
    "PRAGMA max_page_count = {number}",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = FULL; VACUUM",
    "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM",
)
ROW_EDITS = (
    "INSERT INTO {table} ({unnumbered}) SELECT {unnumbered} FROM {table}",
    "DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})",
    "DELETE FROM {table}",
    "UPDATE {table} SET rowid = rowid + {number}",
    *(f"UPDATE classes SET {name} = {{number}} WHERE class = 2" for name in ("since", "until")),
    "UPDATE classes SET class = {number} WHERE class = 2",
    "UPDATE steps SET undone = {number}",
    "UPDATE examples SET picture = {number}, rank = {number}",
    "UPDATE examples SET centroid = {number}",
    "INSERT INTO examples SELECT 1, picture, 0, 0 FROM examples, classes, steps",
    "INSERT INTO memory VALUES ('photo', zeroblob(9), x'00')",
    "INSERT INTO sqlite_sequence VALUES ('evil', 9)",
)


class Change(NamedTuple):
    """Something that was done to a file."""

    words: str
    is_edit: bool  # of rows that cbcl could have written: the contents may be others then


def change(path: Path, rng: random.Random) -> list[Change]:
    """Try one to three changes to a file, each on what those before it left."""
    rules: list[tuple[Rule, bool]] = [
        *((partial(_run, templates), False) for templates in (CREATIONS, SCHEMA_EDITS) * 2),
        *((partial(_run, templates), False) for templates in (ALTERATIONS, SETTINGS)),
        *((rule, True) for rule in (partial(_run, ROW_EDITS), *ODD_ROWS)),
    ]
    changes = []
    for _ in range(rng.randint(1, 3)):
        rule, is_edit = rng.choice(rules)
        words = str(rule)
        with (
            closing(connect(path)) as connection,
            suppress(sqlite3.Error, struct.error, ValueError, TypeError, LookupError),
        ):
            words = rule(connection, rng)
        changes.append(Change(words, is_edit))
    return changes


def _run(templates: Sequence[str], connection: sqlite3.Connection, rng: random.Random) -> str:
    """Run a statement; half of what it creates hides as SQLite's own."""
    connection.execute("PRAGMA writable_schema = ON")
    sql = Words(rng).fill(rng.choice(templates))
    connection.executescript(sql)
    if templates is CREATIONS and rng.random() < 0.5:
        name = rng.choice(DISGUISES)
        connection.execute(
            f"UPDATE sqlite_schema SET name = {name}, sql = replace(sql, 'evil', {name}),"
            f" tbl_name = replace(tbl_name, 'evil', {name}) WHERE name = 'evil'"
        )
    return sql
