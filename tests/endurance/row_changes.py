"""Changes to the rows of a memory that cbcl would never make; many have the right checksum."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
from contextlib import closing, suppress

from cbcl.heads.base import Settings
from cbcl.memory.packing import checksum, step_checksum
from cbcl.memory.state import STEP_COLUMNS
from endurance.sql import COLUMNS, Words, connect

NESTED = "[" * 50_000 + "]" * 50_000


def wrong_type(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Write a value of any type into a row, as a few wrong bits do."""
    table = rng.choice([*COLUMNS])
    column = rng.choice(COLUMNS[table].split())
    schema = "SELECT sql FROM sqlite_schema WHERE name = ?"
    (strict,) = connection.execute(schema, (table,)).fetchone()
    loose = strict.replace(") STRICT", ")").replace("NOT NULL", "")
    numbers = [number for (number,) in connection.execute(f"SELECT rowid FROM {table}")]
    some = rng.sample(numbers, min(len(numbers), rng.choice((1, 1, 9))))
    rows = ", ".join(map(str, some))
    sql = f"UPDATE {table} SET {column} = {Words(rng)['value']} WHERE rowid IN ({rows})"
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


def odd_history(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Write a line of history that tells no step, with the right checksum."""
    about = rng.choice(
        (
            *('{"pictures": 5}', '{"pictures": {"cup": "many"}}', '{"labels": "cup"}'),
            *('{"labels": [5]}', '{"label": ["cup"]}', "[1]", "null", "", "{", NESTED),
            *('{"action": 7, "label": "cup"}', '{"pictures": {"cup": 1e999}}'),
            *('{"strangers": 5}', '{"strangers": "\\u001b[31m"}', '{"strangers": [[]]}'),
            *('{"label": "\\u001b[31m"}', '{"pictures": {"\\ud800": 1}}', "9" * 5000),
            json.dumps({"labels": ["x" * 1000] * 1000}),
        )
    )
    number = rng.randint(1, 8)
    query = f"SELECT {STEP_COLUMNS} FROM steps WHERE step = ?"
    time, action, _, *numbers, _ = connection.execute(query, (number,)).fetchone()
    row = (about, step_checksum(time, action, about, Settings(*numbers)), number)
    connection.execute("UPDATE steps SET about = ?, checksum = ? WHERE step = ?", row)
    return f"history {about[:40]}"


def odd_class(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Write data of a class that no learning gives, with the right checksum."""
    columns = "label, centroids, counts, spread, sketches, statistics"
    query = f"SELECT {columns} FROM classes WHERE until IS NULL ORDER BY class"
    label, *blobs = rng.choice(connection.execute(query).fetchall())
    places = [place for place, blob in enumerate(blobs) if blob and isinstance(blob, bytes)]
    place = rng.choice(places)
    blob = bytearray(blobs[place])
    match rng.randrange(4):
        case 0:
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        case 1:
            del blob[rng.randrange(len(blob)) :]
        case 2:
            blob += rng.randbytes(rng.choice((1, 8, 4096)))
        case _:
            start = rng.randrange(0, max(1, len(blob) - 8))
            value = rng.choice((-1, 0, (1 << 62) - 1, (1 << 63) - 1))
            blob[start : start + 8] = struct.pack("<q", value)
    blobs[place] = bytes(blob)
    right = checksum(label, *(one for one in blobs if one is not None))
    connection.execute(
        "UPDATE classes SET centroids = ?, counts = ?, spread = ?, sketches = ?,"
        " statistics = ?, checksum = ? WHERE label = ?",
        (*blobs, right, label),
    )
    return f"class {label}, part {place}"


def odd_picture(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Write a thumbnail, or its vector, that none is, with the right checksum."""
    query = "SELECT picture, jpeg, vector FROM pictures ORDER BY picture"
    number, jpeg, vector = rng.choice(connection.execute(query).fetchall())
    size = rng.choice((0, 1, 4, len(jpeg), 1 << 16, 1 << 17))
    odd = rng.choice((bytes(size), rng.randbytes(size), jpeg[: size // 2]))
    part = rng.choice(("jpeg", "vector"))
    jpeg, vector = (odd, vector) if part == "jpeg" else (jpeg, odd)
    connection.execute(
        "UPDATE pictures SET jpeg = ?, vector = ?, checksum = ? WHERE picture = ?",
        (jpeg, vector, checksum(jpeg, vector), number),
    )
    return f"{part} of {len(odd)} bytes"


def odd_description(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Describe the memory as none is, with the right checksum."""
    (value,) = connection.execute("SELECT value FROM memory WHERE name = 'about'").fetchone()
    about = json.loads(value)
    key = rng.choice([*about])
    odd: tuple[object, ...] = (None, -1, 0, 1, (1 << 24) - 1, 10**400, [], True, 1.5)
    about[key] = rng.choice((*odd, "", "x" * 100_000, "../../x"))
    text = json.dumps(about).encode()
    row = (text, checksum("about", text))
    connection.execute("UPDATE memory SET value = ?, checksum = ? WHERE name = 'about'", row)
    return f"{key} = {str(about[key])[:40]}"


ODD_ROWS = (wrong_type, odd_history, odd_class, odd_picture, odd_description)
