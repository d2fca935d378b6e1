"""Memory files changed by others than cbcl: by SQLite, by a few wrong bits, by who knows how."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from safetensors.numpy import load, save

from cbcl import LabelError, MemoryFileError
from cbcl.heads.base import Settings
from cbcl.memory.exchange import export, import_
from cbcl.memory.packing import checksum, step_checksum
from cbcl.memory.state import STEP_COLUMNS
from cbcl.memory.store import Memory
from cbcl.memory.transaction import CLASS_COLUMNS


def execute(path: Path, statement: str, *values: object) -> list[Any]:
    """Return what SQLite answers about a memory file, which it may change."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.create_function("checksum_of", -1, checksum)
        return connection.execute(statement, values).fetchall()


def rewrite(path: Path, label: str, **blobs: bytes | None) -> None:
    """Change the row of a class as one who knows the checksum does."""
    for name, blob in blobs.items():
        execute(path, f"UPDATE classes SET {name} = ? WHERE label = ?", blob, label)
    (row,) = execute(path, f"SELECT {CLASS_COLUMNS} FROM classes WHERE label = ?", label)
    right = checksum(label, *(blob for blob in row[:-1] if blob is not None))
    execute(path, "UPDATE classes SET checksum = ? WHERE label = ?", right, label)


def rewrite_step(path: Path, **changes: object) -> None:
    """Change the last line of the history as one who knows the checksum does."""
    query = f"SELECT step, {STEP_COLUMNS} FROM steps ORDER BY step DESC LIMIT 1"
    ((step, *row),) = execute(path, query)
    line = dict(zip(STEP_COLUMNS.split(", "), row, strict=True)) | changes
    time, action, about, *settings, _ = line.values()
    right = step_checksum(time, action, about, Settings(*settings))
    for name, value in {**changes, "checksum": right}.items():
        execute(path, f"UPDATE steps SET {name} = ? WHERE step = ?", value, step)


def flip(path: Path, bits: Iterable[int]) -> Iterator[int]:
    """Flip one bit of a closed memory file after the other; yield each, and put it back."""
    whole = path.read_bytes()
    for bit in bits:
        data = bytearray(whole)
        data[bit // 8] ^= 1 << (bit % 8)
        write_alone(path, data)
        yield bit
    write_alone(path, whole)


def write_alone(path: Path, data: bytes | bytearray) -> None:
    """Write a memory file, and delete the log of what was there."""
    path.write_bytes(data)
    for extra in path.parent.glob(f"{path.name}-*"):
        extra.unlink()


Change: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], None]  # of words, and of arrays


def replaced(where: tuple[Any, ...], what: object) -> Change:
    """Return the change that puts something else at a place in the words of an export."""

    def change(words: dict[str, Any], _: dict[str, Any]) -> None:
        place: Any = words
        for step in where[:-1]:
            place = place[step]
        place[where[-1]] = what

    return change


def import_changed(memory: Memory, change: Change, name: str = "changed") -> str:
    """Import what a memory exports after a change of its words or arrays; return the problem."""
    files, _ = export(memory, memory.path.with_name(name))
    words, tensors = json.loads(files[1].read_text()), load(files[0].read_bytes())
    change(words, tensors)
    files[1].write_text(json.dumps(words))
    files[0].write_bytes(save(tensors))
    with closing(Memory(memory.path.with_name("imported.cbcl"))) as copy:
        with pytest.raises((MemoryFileError, LabelError)) as error:
            import_(files[0], copy)
        assert not copy.path.exists()
    return str(error.value)
