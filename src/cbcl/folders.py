"""Where files go that are nobody's memory: what can be made again, and what the user imported."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def cache_folder() -> Path:
    """What can be made again: `cache` in $CBCL_HOME where that is set, else the system's place for such."""
    return (
        Path(home, "cache")
        if (home := os.environ.get("CBCL_HOME"))
        else user_cache_path("cbcl", appauthor=False)
    )


def backbones_folder() -> Path:
    """Imported networks: `backbones` in $CBCL_HOME where that is set, else the system's place for a user's data."""
    data = (
        Path(home)
        if (home := os.environ.get("CBCL_HOME"))
        else user_data_path("cbcl", appauthor=False)
    )
    return data / "backbones"
