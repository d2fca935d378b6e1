"""Where files go that are nobody's memory: what can be made again, and what the user imported."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def cache_folder() -> Path:
    """What can be made again: `cache` in $CBCL_HOME where that is set, else the system's place for such."""
    return Path(home, "cache") if (home := os.environ.get("CBCL_HOME")) else user_cache_path("cbcl", appauthor=False)


def backbones_folder() -> Path:
    """Imported networks: `backbones` in $CBCL_HOME where that is set, else the system's place for a user's data."""
    data = Path(home) if (home := os.environ.get("CBCL_HOME")) else user_data_path("cbcl", appauthor=False)
    return data / "backbones"


def write_whole(path: Path, data: bytes) -> None:
    """A file that is there whole or not at all, also for one who reads meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
