"""Memory files of a folder: which there are, how much each knows, and copies."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from cbcl.memory.connection import explained
from cbcl.memory.store import Memory
from cbcl.memory.wal import wal_of

MEMORY_SUFFIX = ".cbcl"
FIRST_NAME = f"things{MEMORY_SUFFIX}"  # of the memory that is begun in an empty folder


def list_files(folder: Path) -> list[Path]:
    """Return all that is in a folder; MemoryFileError: it cannot be read."""
    with explained(folder):
        return [*folder.iterdir()]


def find_memories(folder: Path) -> list[Path]:
    """Return the memory files of a folder, the one changed latest first."""
    files = [path for path in list_files(folder) if _is_memory_file(path)]
    return sorted(files, key=lambda path: (-time_changed(path), path.name))


def first_memory(folder: Path) -> Path:
    """Return the memory to open in a folder: the one changed latest, or a new one."""
    return next(iter(find_memories(folder)), folder / FIRST_NAME)


def time_changed(path: Path) -> float:
    """Return when a memory was changed; what is new is in its WAL at first."""
    times = [0.0]
    for file in (path, wal_of(path)):
        with suppress(OSError):  # there is none yet, or no longer
            times.append(file.stat().st_mtime)
    return max(times)


def count_labels(path: Path) -> int:
    """Return how many labels a memory knows, without reading what it knows of them."""
    with closing(Memory(path)) as memory:
        return len(memory.view().classes) if memory.exists() else 0


def copy_memory(source: Path, new: Path) -> None:
    """Write a copy of a memory, without its history."""
    with closing(Memory(source)) as memory:
        memory.copy(new)


def _is_memory_file(path: Path) -> bool:
    name = path.name
    return name.endswith(MEMORY_SUFFIX) and not name.startswith(".") and path.is_file()
