"""Cache of vectors: a file that can be deleted at any time.

The key is the SHA-256 of the picture's bytes and the backbone's fingerprint. A cache never raises:
one that cannot be read or written stays unused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from zlib import crc32

import numpy as np

from cbcl.files import cache_folder
from cbcl.vision.decoding import Floats

MAX_BYTES = 2_000_000_000
SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS vectors (backbone BLOB, picture BLOB, vector BLOB, sum INTEGER);
CREATE UNIQUE INDEX IF NOT EXISTS of ON vectors (backbone, picture);
"""
BYTES_IN_USE = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)


class VectorCache:
    """Cached vectors of one backbone."""

    def __init__(self, fingerprint: str, path: Path | None = None) -> None:
        self.fingerprint = bytes.fromhex(fingerprint)
        self.path = path or cache_folder() / "vectors.sqlite"
        self.process = os.getpid()  # after a fork, the child needs a cache of its own
        self._lock = Lock()
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection | None:
        with suppress(sqlite3.Error, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return _connect(self.path)
            except sqlite3.OperationalError:
                return None
            except sqlite3.DatabaseError:  # damaged: begin with an empty one
                for ending in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
                return _connect(self.path)
        return None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def get(self, picture: bytes) -> Floats | None:
        """Return the vector of a picture, given by the digest of its bytes; None: not cached."""
        row = None
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                row = self._connection.execute(
                    "SELECT vector, sum FROM vectors WHERE backbone = ? AND picture = ?",
                    (self.fingerprint, picture),
                ).fetchone()
        if row is None or not _is_valid(*row):
            return None
        return np.frombuffer(row[0], dtype="<f4").astype(np.float32)

    def put(self, vectors: Sequence[tuple[bytes, Floats]]) -> None:
        """Keep vectors by the digests of their pictures; the oldest make room."""
        rows = []
        for picture, vector in vectors:
            blob = vector.astype("<f4").tobytes()
            rows.append((self.fingerprint, picture, blob, crc32(blob)))
        with self._lock, suppress(sqlite3.Error):
            if self._connection is None or not rows:
                return
            with self._connection as connection:  # all or nothing
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)
                (in_use,) = connection.execute(BYTES_IN_USE).fetchone()
                if in_use > MAX_BYTES:
                    connection.execute(
                        "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors"
                        " ORDER BY rowid LIMIT (SELECT count(*) / 4 FROM vectors))"
                    )


class FreshVectors:
    """Cache of a worker, without a file: it finds nothing, and lists what is put into it."""

    def __init__(self) -> None:
        self.vectors: list[tuple[bytes, Floats]] = []

    def get(self, picture: bytes) -> None:
        """Return None: nothing is cached."""

    def put(self, vectors: Sequence[tuple[bytes, Floats]]) -> None:
        self.vectors += vectors


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.executescript(SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _is_valid(vector: object, total: object) -> bool:
    return isinstance(vector, bytes) and len(vector) % 4 == 0 and crc32(vector) == total
