"""Reading rows of a memory file, where damage can make any value one of another type."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from cbcl.memory.rows import damaged

# By the names of columns; all others are checked with the checksum that covers them.
TYPES: dict[str, tuple[type, ...]] = {
    "centroid": (int,),
    "class": (int,),
    "label": (str,),
    "picture": (int,),
    "rank": (int,),
    "since": (int,),
    "undone": (int,),
    "until": (int, NoneType),
}


def select(
    connection: sqlite3.Connection, path: Path, query: str, values: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query; a MemoryFileError where one cannot have been written."""
    rows = connection.execute(query, values)
    names = [column[0] for column in rows.description]
    types = [TYPES.get(name, (object,)) for name in names]
    for row in rows:
        if not all(map(isinstance, row, types)):
            raise damaged(path, f"a row of {', '.join(names[:3])} is not what was written")
        yield row


def select_one(
    connection: sqlite3.Connection, path: Path, query: str, values: Sequence[object] = ()
) -> tuple[Any, ...] | None:
    """Return the first row of a query; None: there is none."""
    return next(select(connection, path, query, values), None)
