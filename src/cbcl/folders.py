"""Folders of the cache, imported networks, certificates and tokens.

All are in $CBCL_HOME if it is set, else where the operating system keeps such files.
"""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def cache_folder() -> Path:
    """Return the folder of files that can be made again."""
    home = os.environ.get("CBCL_HOME")
    return Path(home, "cache") if home else user_cache_path("cbcl", appauthor=False)


def backbones_folder() -> Path:
    """Return the folder of imported networks."""
    return _data_folder() / "backbones"


def access_folder() -> Path:
    """Return the folder of certificates with their keys, and of access tokens."""
    return _data_folder() / "access"


def _data_folder() -> Path:
    home = os.environ.get("CBCL_HOME")
    return Path(home) if home else user_data_path("cbcl", appauthor=False)
