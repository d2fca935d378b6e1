"""Changes to the schema and the rows of a memory that cbcl would never make, from a grammar.

A change is SQL that is run on the file by SQLite alone. What SQLite refuses is left out.
"""

from __future__ import annotations

import json
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from cbcl.memory.rows import Settings, _step_checksum, checksum
from cbcl.memory.transaction import STEP_COLUMNS

COLUMNS = {
    "memory": "name value checksum",
    "steps": "step time action about radius n_voters max_centroids head undone checksum",
    "classes": "class label since until centroids counts spread checksum sketches statistics",
    "pictures": "picture jpeg vector checksum",
    "examples": "class picture centroid rank",
    "sqlite_sequence": "name seq",
}
TABLES = [*COLUMNS]
INDEXES = ("known", "since", "until", "of_class", "of_picture", "sqlite_autoindex_memory_1")
NESTED = "[" * 50_000 + "]" * 50_000
MAX_BLOB = 1 << 20
MAX_INSTRUCTIONS = 1_000_000  # of SQLite's machine, for a statement


class Change(NamedTuple):
    """What was done to a file."""

    words: str
    is_edit: bool  # of rows that cbcl could have written: the contents may be others then


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a file with SQLite alone; a statement that does not end is stopped."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.set_progress_handler(lambda: 1, MAX_INSTRUCTIONS)
    return connection


class Grammar:
    """Draws changes with the random numbers of one case."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._rules: list[tuple[Callable[[sqlite3.Connection], str], bool]] = [
            (self._create, False),
            (self._create, False),
            (self._rewrite_schema, False),
            (self._rewrite_schema, False),
            (self._alter, False),
            (self._pragma, False),
            (self._wrong_type, True),
            (self._edit_row, True),
            (self._odd_history, True),
            (self._odd_class, True),
            (self._odd_picture, True),
            (self._odd_description, True),
        ]

    def change(self, path: Path) -> list[Change]:
        """Try one to three changes to a file, each on what those before it left."""
        changes = []
        for _ in range(self._rng.randint(1, 3)):
            rule, is_edit = self._rng.choice(self._rules)
            words = rule.__name__
            with (
                closing(connect(path)) as connection,
                suppress(sqlite3.Error, struct.error, ValueError, TypeError, LookupError),
            ):
                words = rule(connection)
            changes.append(Change(words, is_edit))
        return changes

    def _create(self, connection: sqlite3.Connection) -> str:
        """Create a table, index, view, trigger or virtual table; half of them hide as SQLite's."""
        kinds = (self._table, self._index, self._trigger, self._view, self._virtual_table)
        sql = self._rng.choice(kinds)("evil")
        connection.execute(sql)
        if self._rng.random() < 0.5:
            name = self._rng.choice(("'sqlite_evil'", "'sqlite_stat1'", "CAST(x'ff41' AS TEXT)"))
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                f"UPDATE sqlite_schema SET name = {name}, sql = replace(sql, 'evil', {name}),"
                f" tbl_name = replace(tbl_name, 'evil', {name}) WHERE name = 'evil'"
            )
        return sql

    def _expression(self) -> str:
        return self._rng.choice(
            (
                "1",
                "NULL",
                "random()",
                "zeroblob(1000000)",
                "hex(zeroblob(1000000))",
                "(SELECT count(*) FROM classes)",
                "load_extension('evil')",
                "abs(-9223372036854775808)",
                "json('[')",
                "CAST(x'ff' AS TEXT)",
                "1e999",
            )
        )

    def _select(self) -> str:
        return self._rng.choice(
            (
                f"SELECT {self._expression()} AS label",
                "SELECT * FROM classes",
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
                "SELECT * FROM classes, classes AS b, classes AS c, pictures",
                "SELECT * FROM evil",
            )
        )

    def _table(self, name: str) -> str:
        column = self._rng.choice(
            (
                "photo BLOB",
                f"photo DEFAULT ({self._expression()})",
                f"a, b AS ({self._expression()}) STORED",
                "a, b AS (a || a) VIRTUAL",
                "a CHECK (a IN (1, 2)), b UNIQUE",
                "a REFERENCES classes (class) ON DELETE CASCADE",
                ", ".join(f"c{number}" for number in range(self._rng.choice((3, 1500)))),
            )
        )
        key = self._rng.choice(("", ", k PRIMARY KEY"))
        ending = self._rng.choice(("", " WITHOUT ROWID" if key else "", " STRICT"))
        return f"CREATE TABLE {name} ({column}{key}){ending}"

    def _index(self, name: str) -> str:
        table = self._rng.choice(TABLES[:5])
        column = self._rng.choice(COLUMNS[table].split())
        unique = self._rng.choice(("", "UNIQUE "))
        term = self._rng.choice((column, f"{column} DESC", f"length({column})", f"{column}, rowid"))
        where = self._rng.choice(("", f" WHERE {column} IS NOT NULL", f" WHERE {column} = 'x'"))
        return f"CREATE {unique}INDEX {name} ON {table} ({term}){where}"

    def _trigger(self, name: str) -> str:
        when = self._rng.choice(("BEFORE", "AFTER"))
        event = self._rng.choice(("INSERT", "UPDATE", "DELETE"))
        body = self._rng.choice(
            (
                "DELETE FROM classes",
                "UPDATE classes SET label = label || 'x'",
                "INSERT INTO pictures (jpeg, vector, checksum) VALUES (zeroblob(9), x'', x'')",
                "SELECT RAISE(IGNORE)",
                f"{self._select()}",
            )
        )
        table = self._rng.choice(TABLES[:5])
        return f"CREATE TRIGGER {name} {when} {event} ON {table} BEGIN {body}; END"

    def _view(self, name: str) -> str:
        return f"CREATE VIEW {name} AS {self._select()}"

    def _virtual_table(self, name: str) -> str:
        module = self._rng.choice(("fts5(a)", "fts4(a)", "rtree(i, a, b)", "dbstat", "csv(a)"))
        return f"CREATE VIRTUAL TABLE {name} USING {module}"

    def _rewrite_schema(self, connection: sqlite3.Connection) -> str:
        """Change rows of the schema itself, as no statement may."""
        one = f"'{self._rng.choice([*TABLES, *INDEXES])}'"
        other = f"'{self._rng.choice([*TABLES, *INDEXES])}'"
        sql = self._rng.choice(
            (
                f"UPDATE sqlite_schema SET rootpage = {self._number()} WHERE name = {one}",
                "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema"
                f" WHERE name = {other}) WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = sql || ' ' WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = replace(sql, 'TEXT', 'BLOB') WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = upper(sql) WHERE name = {one}",
                f"UPDATE sqlite_schema SET name = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET tbl_name = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET type = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET type = 'view' WHERE name = {one}",
                f"INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = {one}",
                f"INSERT INTO sqlite_schema VALUES ('table', {self._text()}, {self._text()},"
                f" {self._number()}, {self._text()})",
                f"DELETE FROM sqlite_schema WHERE name = {one}",
            )
        )
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(sql)
        return sql

    def _alter(self, connection: sqlite3.Connection) -> str:
        table, index = self._rng.choice(TABLES[:5]), self._rng.choice(INDEXES)
        column = self._rng.choice(COLUMNS[table].split())
        sql = self._rng.choice(
            (
                f"ALTER TABLE {table} ADD COLUMN evil BLOB",
                f"ALTER TABLE {table} ADD COLUMN evil ANY AS ({self._expression()})",
                f"ALTER TABLE {table} RENAME COLUMN {column} TO evil",
                f"ALTER TABLE {table} DROP COLUMN {column}",
                f"ALTER TABLE {table} RENAME TO evil",
                f"DROP INDEX {index}",
                f"DROP TABLE {table}",
                f"CREATE TEMP TABLE {table} AS SELECT 1",
            )
        )
        connection.execute(sql)
        if sql.startswith("DROP TABLE") and self._rng.random() < 0.7:
            names = COLUMNS[table].replace(" ", ", ")
            view = f"CREATE VIEW {table} ({names}) AS {self._select()}"
            connection.execute(view)
            sql += f"; {view}"
        return sql

    def _pragma(self, connection: sqlite3.Connection) -> str:
        name = self._rng.choice(
            (
                "user_version",
                "application_id",
                "schema_version",
                "default_cache_size",
                "auto_vacuum",
                "page_size",
                "journal_mode",
                "max_page_count",
            )
        )
        value = {"journal_mode": "DELETE", "auto_vacuum": "FULL", "page_size": "512"}.get(name)
        sql = f"PRAGMA {name} = {value or self._number()}"
        connection.execute(sql)
        if value and self._rng.random() < 0.8:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(sql)
            connection.execute("VACUUM")
        return sql

    def _number(self) -> int:
        powers = (1 << 16, (1 << 31) - 1, 1 << 31, (1 << 63) - 1)
        return self._rng.choice((-1, 0, 1, 2, 3, 4, 5, 6, 9, 40, *powers))

    def _text(self) -> str:
        texts = ("''", "NULL", "'classes'", "'x'", "x'00'", "CAST(x'ff' AS TEXT)", "'a''b\"'")
        return self._rng.choice((*texts, "printf('%1000000s', 'x')", "char(0)", "'\U0001f511'"))

    def _value(self) -> str:
        size = self._rng.choice((0, 1, 9, 24, MAX_BLOB))
        values = ("NULL", "1e999", "-0.5", f"zeroblob({size})", f"randomblob({size})")
        return self._rng.choice((*values, str(self._number()), self._text()))

    def _wrong_type(self, connection: sqlite3.Connection) -> str:
        """Write a value of any type into a row, as a few wrong bits do."""
        table = self._rng.choice(TABLES)
        column = self._rng.choice(COLUMNS[table].split())
        schema = "SELECT sql FROM sqlite_schema WHERE name = ?"
        (strict,) = connection.execute(schema, (table,)).fetchone()
        loose = strict.replace(") STRICT", ")").replace("NOT NULL", "")
        rows = f"SELECT rowid FROM {table} ORDER BY random() LIMIT {self._rng.choice((1, 1, 9))}"
        sql = f"UPDATE {table} SET {column} = {self._value()} WHERE rowid IN ({rows})"
        path = connection.execute("PRAGMA database_list").fetchone()[2]
        for text, statement in ((loose, sql), (strict, "SELECT 1")):
            with closing(connect(path)) as other:
                other.execute("PRAGMA writable_schema = ON")
                other.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, table))
            with (
                closing(connect(path)) as other,
                suppress(sqlite3.Error),
            ):
                other.execute(statement)
        return sql

    def _edit_row(self, connection: sqlite3.Connection) -> str:
        """Repeat, remove and renumber rows."""
        table = self._rng.choice(TABLES)
        columns = COLUMNS[table].split()
        own = columns[1:] if table in ("steps", "classes", "pictures") else columns
        names = ", ".join(own)
        column = self._rng.choice(("since", "until", "class"))
        sql = self._rng.choice(
            (
                f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}",
                f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})",
                f"DELETE FROM {table}",
                f"UPDATE {table} SET rowid = rowid + {self._number()}",
                f"UPDATE classes SET {column} = {self._number()} WHERE class = 2",
                f"UPDATE steps SET undone = {self._number()}",
                f"UPDATE examples SET picture = {self._number()}, rank = {self._number()}",
                f"UPDATE examples SET centroid = {self._number()}",
                "INSERT INTO examples SELECT 1, picture, 0, 0 FROM examples, classes, steps",
                "INSERT INTO memory VALUES ('photo', zeroblob(9), x'00')",
                "INSERT INTO sqlite_sequence VALUES ('evil', 9)",
            )
        )
        connection.execute(sql)
        return sql

    def _odd_history(self, connection: sqlite3.Connection) -> str:
        """Write a line of history that tells no step, with the right checksum."""
        about = self._rng.choice(
            (
                *('{"pictures": 5}', '{"pictures": {"cup": "many"}}', '{"labels": "cup"}'),
                *('{"labels": [5]}', '{"label": ["cup"]}', "[1]", "null", "", "{", NESTED),
                *('{"action": 7, "label": "cup"}', '{"pictures": {"cup": 1e999}}'),
                *('{"label": "\\u001b[31m"}', '{"pictures": {"\\ud800": 1}}', "9" * 5000),
                json.dumps({"labels": ["x" * 1000] * 1000}),
            )
        )
        number = self._rng.randint(1, 8)
        query = f"SELECT {STEP_COLUMNS} FROM steps WHERE step = ?"
        time, action, _, *numbers, _ = connection.execute(query, (number,)).fetchone()
        row = (about, _step_checksum(time, action, about, Settings(*numbers)), number)
        connection.execute("UPDATE steps SET about = ?, checksum = ? WHERE step = ?", row)
        return f"history {about[:40]}"

    def _odd_class(self, connection: sqlite3.Connection) -> str:
        """Write data of a class that no learning gives, with the right checksum."""
        columns = "label, centroids, counts, spread, sketches, statistics"
        query = f"SELECT {columns} FROM classes WHERE until IS NULL ORDER BY random()"
        label, *blobs = connection.execute(query).fetchone()
        places = [place for place, blob in enumerate(blobs) if blob]
        place = self._rng.choice(places)
        blob = bytearray(blobs[place])
        match self._rng.randrange(4):
            case 0:
                blob[self._rng.randrange(len(blob))] ^= 1 << self._rng.randrange(8)
            case 1:
                del blob[self._rng.randrange(len(blob)) :]
            case 2:
                blob += self._rng.randbytes(self._rng.choice((1, 8, 4096)))
            case _:
                start = self._rng.randrange(0, max(1, len(blob) - 8))
                value = self._rng.choice((-1, 0, (1 << 62) - 1, (1 << 63) - 1))
                blob[start : start + 8] = struct.pack("<q", value)
        blobs[place] = bytes(blob)
        right = checksum(label, *(one for one in blobs if one is not None))
        connection.execute(
            "UPDATE classes SET centroids = ?, counts = ?, spread = ?, sketches = ?,"
            " statistics = ?, checksum = ? WHERE label = ?",
            (*blobs, right, label),
        )
        return f"class {label}, part {place}"

    def _odd_picture(self, connection: sqlite3.Connection) -> str:
        """Write a thumbnail, or its vector, that none is, with the right checksum."""
        query = "SELECT picture, jpeg, vector FROM pictures ORDER BY random()"
        number, jpeg, vector = connection.execute(query).fetchone()
        size = self._rng.choice((0, 1, 4, len(jpeg), 1 << 16, 1 << 17))
        odd = self._rng.choice((bytes(size), self._rng.randbytes(size), jpeg[: size // 2]))
        part = self._rng.choice(("jpeg", "vector"))
        jpeg, vector = (odd, vector) if part == "jpeg" else (jpeg, odd)
        connection.execute(
            "UPDATE pictures SET jpeg = ?, vector = ?, checksum = ? WHERE picture = ?",
            (jpeg, vector, checksum(jpeg, vector), number),
        )
        return f"{part} of {len(odd)} bytes"

    def _odd_description(self, connection: sqlite3.Connection) -> str:
        """Describe the memory as none is, with the right checksum."""
        (value,) = connection.execute("SELECT value FROM memory WHERE name = 'about'").fetchone()
        about = json.loads(value)
        key = self._rng.choice([*about])
        odd: tuple[object, ...] = (None, -1, 0, 1, (1 << 24) - 1, 10**400, [], True, 1.5)
        about[key] = self._rng.choice((*odd, "", "x" * 100_000, "../../x"))
        text = json.dumps(about).encode()
        row = (text, checksum("about", text))
        connection.execute("UPDATE memory SET value = ?, checksum = ? WHERE name = 'about'", row)
        return f"{key} = {str(about[key])[:40]}"
