"""Atomic writes, and which file a path leads to."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int]  # device and inode


def part_of(path: Path) -> Path:
    """Return the path, beside the one given, of a file that this thread alone writes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.part")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, also for a reader at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def identity(path: str | os.PathLike[str]) -> Identity | None:
    """Return the device and inode of the file that a path leads to, or None if there is no file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
