"""The folders of cbcl, atomic writes, and the identity of files.

The folders of the cache, of imported networks, and of certificates and tokens are in $CBCL_HOME if
it is set, else where the operating system keeps such files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import TypeAlias

from platformdirs import user_cache_path, user_data_path

Identity: TypeAlias = tuple[int, int]  # device and inode


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


def part_of(path: Path) -> Path:
    """Return the path of a temporary file beside `path` that this thread alone writes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.part")


def write_atomically(path: Path, data: bytes, *, secret: bool = False) -> None:
    """Write a file as a whole: no reader and no power cut finds a part of it.

    A secret file can be read and written by its owner only.
    """
    with _written_part(path, data, secret=secret) as part:
        part.replace(path)


def create_atomically(path: Path, data: bytes) -> bool:
    """Write a secret file unless it exists; return whether this process wrote it."""
    with _written_part(path, data, secret=True) as part:
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return False
        return True


@contextmanager
def _written_part(path: Path, data: bytes, *, secret: bool) -> Iterator[Path]:
    path.parent.mkdir(mode=0o700 if secret else 0o777, parents=True, exist_ok=True)
    part = part_of(path)
    try:
        with open(part, "wb", opener=_open_secret if secret else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)


def name_also(path: Path, new: Path) -> None:
    """Give a file a second name; where there are no hard links, rename it.

    FileExistsError: another file has the name.
    """
    try:
        os.link(path, new)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, "File exists", str(new)) from None
        path.rename(new)


def _open_secret(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def identity(path: str | os.PathLike[str]) -> Identity | None:
    """Return device and inode of the file at a path; None: there is no file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
