"""Changes to the rows of a memory that cbcl would never make; many have the right checksum."""

from __future__ import annotations

import json
import sqlite3
import struct
from contextlib import closing, suppress

from cbcl.heads.base import Settings
from cbcl.memory.packing import checksum, step_checksum
from cbcl.memory.state import STEP_COLUMNS
from endurance.sql import COLUMNS, TABLES, Values, connect

NESTED = "[" * 50_000 + "]" * 50_000


class RowChanges(Values):
    """Draws values of wrong types, and rows that are missing, repeated or odd."""

    def wrong_type(self, connection: sqlite3.Connection) -> str:
        """Write a value of any type into a row, as a few wrong bits do."""
        table = self._rng.choice(TABLES)
        column = self._rng.choice(COLUMNS[table].split())
        schema = "SELECT sql FROM sqlite_schema WHERE name = ?"
        (strict,) = connection.execute(schema, (table,)).fetchone()
        loose = strict.replace(") STRICT", ")").replace("NOT NULL", "")
        numbers = [number for (number,) in connection.execute(f"SELECT rowid FROM {table}")]
        some = self._rng.sample(numbers, min(len(numbers), self._rng.choice((1, 1, 9))))
        rows = ", ".join(map(str, some))
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

    def edit_row(self, connection: sqlite3.Connection) -> str:
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

    def odd_history(self, connection: sqlite3.Connection) -> str:
        """Write a line of history that tells no step, with the right checksum."""
        about = self._rng.choice(
            (
                *('{"pictures": 5}', '{"pictures": {"cup": "many"}}', '{"labels": "cup"}'),
                *('{"labels": [5]}', '{"label": ["cup"]}', "[1]", "null", "", "{", NESTED),
                *('{"action": 7, "label": "cup"}', '{"pictures": {"cup": 1e999}}'),
                *('{"strangers": 5}', '{"strangers": "\\u001b[31m"}', '{"strangers": [[]]}'),
                *('{"label": "\\u001b[31m"}', '{"pictures": {"\\ud800": 1}}', "9" * 5000),
                json.dumps({"labels": ["x" * 1000] * 1000}),
            )
        )
        number = self._rng.randint(1, 8)
        query = f"SELECT {STEP_COLUMNS} FROM steps WHERE step = ?"
        time, action, _, *numbers, _ = connection.execute(query, (number,)).fetchone()
        row = (about, step_checksum(time, action, about, Settings(*numbers)), number)
        connection.execute("UPDATE steps SET about = ?, checksum = ? WHERE step = ?", row)
        return f"history {about[:40]}"

    def odd_class(self, connection: sqlite3.Connection) -> str:
        """Write data of a class that no learning gives, with the right checksum."""
        columns = "label, centroids, counts, spread, sketches, statistics"
        query = f"SELECT {columns} FROM classes WHERE until IS NULL ORDER BY class"
        label, *blobs = self._rng.choice(connection.execute(query).fetchall())
        places = [place for place, blob in enumerate(blobs) if blob and isinstance(blob, bytes)]
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

    def odd_picture(self, connection: sqlite3.Connection) -> str:
        """Write a thumbnail, or its vector, that none is, with the right checksum."""
        query = "SELECT picture, jpeg, vector FROM pictures ORDER BY picture"
        number, jpeg, vector = self._rng.choice(connection.execute(query).fetchall())
        size = self._rng.choice((0, 1, 4, len(jpeg), 1 << 16, 1 << 17))
        odd = self._rng.choice((bytes(size), self._rng.randbytes(size), jpeg[: size // 2]))
        part = self._rng.choice(("jpeg", "vector"))
        jpeg, vector = (odd, vector) if part == "jpeg" else (jpeg, odd)
        connection.execute(
            "UPDATE pictures SET jpeg = ?, vector = ?, checksum = ? WHERE picture = ?",
            (jpeg, vector, checksum(jpeg, vector), number),
        )
        return f"{part} of {len(odd)} bytes"

    def odd_description(self, connection: sqlite3.Connection) -> str:
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
