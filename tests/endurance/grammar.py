"""Changes to a memory that cbcl would never make: drawn from a grammar, made by SQLite alone."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from endurance.row_changes import RowChanges
from endurance.schema_changes import SchemaChanges
from endurance.sql import connect


class Change(NamedTuple):
    """Something that was done to a file."""

    words: str
    is_edit: bool  # of rows that cbcl could have written: the contents may be others then


def change(path: Path, rng: random.Random) -> list[Change]:
    """Try one to three changes to a file, each on what those before it left."""
    schema, rows = SchemaChanges(rng), RowChanges(rng)
    rules: list[tuple[Callable[[sqlite3.Connection], str], bool]] = [
        *((rule, False) for rule in (schema.create, schema.rewrite_schema) * 2),
        *((rule, False) for rule in (schema.alter, schema.pragma)),
        *((rule, True) for rule in (rows.wrong_type, rows.edit_row, rows.odd_history)),
        *((rule, True) for rule in (rows.odd_class, rows.odd_picture, rows.odd_description)),
    ]
    changes = []
    for _ in range(rng.randint(1, 3)):
        rule, is_edit = rng.choice(rules)
        words = rule.__name__
        with (
            closing(connect(path)) as connection,
            suppress(sqlite3.Error, struct.error, ValueError, TypeError, LookupError),
        ):
            words = rule(connection)
        changes.append(Change(words, is_edit))
    return changes
