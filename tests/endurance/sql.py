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
TABLES = [*COLUMNS]
INDEXES = (
    *("known", "since", "until", "of_class", "of_picture", "of_checksum", "of_step"),
    "sqlite_autoindex_memory_1",
)
MAX_BLOB = 1 << 20
MAX_INSTRUCTIONS = 1_000_000  # of SQLite's machine, for a statement


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a file with SQLite alone; a statement that does not end is stopped."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.set_progress_handler(lambda: 1, MAX_INSTRUCTIONS)
    return connection


class Values:
    """Draws values and expressions with the random numbers of one case."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

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
