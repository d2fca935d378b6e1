"""SQL on memory files by SQLite alone: their tables, and values that nobody expects in them."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

COLUMNS = {
    "memory": "name value checksum",
    "steps": "step time action about radius n_voters max_centroids head strangers undone checksum",
    "classes": "class label since until centroids counts spread checksum sketches statistics",
    "pictures": "picture jpeg vector checksum",
    "examples": "class picture centroid rank",
    "sqlite_sequence": "name seq",
}
NUMBERED = ("steps", "classes", "pictures")
INDEXES = (
    *("known", "since", "until", "of_class", "of_picture", "of_checksum", "of_step"),
    "sqlite_autoindex_memory_1",
)
NUMBERS = (-1, 0, 1, 2, 3, 4, 5, 6, 9, 40, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 63) - 1)
TEXTS = (
    *("''", "NULL", "'classes'", "'x'", "x'00'", "CAST(x'ff' AS TEXT)", "'a''b\"'"),
    *("printf('%1000000s', 'x')", "char(0)", "'\U0001f511'"),
)
CHOICES = {  # what may stand for a word in braces
    "table": [*COLUMNS],
    "index": INDEXES,
    "name": [*COLUMNS, *INDEXES],
    "number": [*map(str, NUMBERS)],
    "text": TEXTS,
    "value": (
        *("NULL", "1e999", "-0.5", *map(str, NUMBERS), *TEXTS),
        *("zeroblob(0)", "randomblob(9)", "randomblob(24)", "zeroblob(1048576)"),
    ),
    "expression": (
        *("1", "NULL", "random()", "zeroblob(1000000)", "hex(zeroblob(1000000))", "1e999"),
        *("(SELECT count(*) FROM classes)", "load_extension('evil')", "json('[')"),
        *("abs(-9223372036854775808)", "CAST(x'ff' AS TEXT)"),
    ),
    "select": (
        "SELECT {expression} AS label",
        "SELECT * FROM classes",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "SELECT * FROM classes, classes AS b, classes AS c, pictures",
        "SELECT * FROM evil",
    ),
    "event": ("BEFORE INSERT", "AFTER INSERT", "BEFORE UPDATE", "AFTER UPDATE", "AFTER DELETE"),
    "action": (
        "DELETE FROM classes",
        "UPDATE classes SET label = label || 'x'",
        "INSERT INTO pictures (jpeg, vector, checksum) VALUES (zeroblob(9), x'', x'')",
        "SELECT RAISE(IGNORE)",
        "{select}",
    ),
    "definition": (
        "photo BLOB",
        "photo DEFAULT ({expression}), k PRIMARY KEY",
        "a, b AS ({expression}) STORED",
        "a, b AS (a || a) VIRTUAL",
        "a CHECK (a IN (1, 2)), b UNIQUE",
        "a REFERENCES classes (class) ON DELETE CASCADE",
        ", ".join(f"c{number}" for number in range(1500)),
    ),
    "term": (
        "{column} DESC",
        "{column}, rowid",
        "length({column})",
        "{column}) WHERE ({column} IS NOT NULL",
        "{column}) WHERE ({column} = 'x'",
    ),
    "module": ("fts5(a)", "fts4(a)", "rtree(i, a, b)", "dbstat", "csv(a)"),
}
MAX_INSTRUCTIONS = 1_000_000  # of SQLite's machine, for a statement


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a file with SQLite alone; a statement that does not end is stopped."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.set_progress_handler(lambda: 1, MAX_INSTRUCTIONS)
    return connection


class Words:
    """Draws what stands for the words in braces; columns are those of one table."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.table = rng.choice([*COLUMNS])

    def __getitem__(self, name: str) -> str:
        if name == "table":
            return self.table
        columns = COLUMNS[self.table].split()
        if name == "columns":
            return ", ".join(columns)
        if name == "unnumbered":  # without the key that SQLite counts up
            return ", ".join(columns[self.table in NUMBERED :])
        choices = columns if name == "column" else CHOICES[name]
        return self.fill(self._rng.choice(choices))

    def fill(self, template: str) -> str:
        return template.format_map(self)
