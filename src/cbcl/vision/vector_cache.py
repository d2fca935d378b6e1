"""Vectors that were computed before: a file that can be deleted at any time.

The key is what the picture's bytes hash to and the backbone's fingerprint. Nothing here may fail the work it saves: a
cache that cannot be used is not used.
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

from cbcl.folders import cache_folder
from cbcl.vision.decoding import Floats

MAX_BYTES = 2_000_000_000


class VectorCache:
    """The vectors of one backbone."""

    def __init__(self, fingerprint: str, path: Path | None = None) -> None:
        self.fingerprint = bytes.fromhex(fingerprint)
        self.path = path or cache_folder() / "vectors.sqlite"
        self.process = os.getpid()  # another, after a fork, needs its own
        self._lock = Lock()
        self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection | None:
        for _ in range(2):
            connection = None
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(
                    self.path, timeout=5.0, isolation_level=None, check_same_thread=False
                )
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (backbone BLOB, picture BLOB, vector BLOB, sum INTEGER)"
                )
                connection.execute(
                    "CREATE UNIQUE INDEX IF NOT EXISTS of ON vectors (backbone, picture)"
                )
                return connection
            except (sqlite3.Error, OSError) as error:
                if connection is not None:
                    connection.close()
                if isinstance(error, sqlite3.OperationalError | OSError):
                    return None
                with suppress(OSError):  # damaged: it can be made again
                    for ending in ("", "-wal", "-shm"):
                        self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        return None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def get(self, picture: bytes) -> Floats | None:
        """The vector of a picture, by the digest of its bytes."""
        with self._lock:
            if self._connection is None:
                return None
            try:
                row = self._connection.execute(
                    "SELECT vector, sum FROM vectors WHERE backbone = ? AND picture = ?",
                    (self.fingerprint, picture),
                ).fetchone()
            except sqlite3.Error:
                return None
        return (
            np.frombuffer(row[0], dtype="<f4").astype(np.float32) if row and _sound(*row) else None
        )

    def put(self, found: Sequence[tuple[bytes, Floats]]) -> None:
        """Keep vectors by their pictures' digests; the oldest make room."""
        rows = [
            (self.fingerprint, picture, vector.astype("<f4").tobytes()) for picture, vector in found
        ]
        with self._lock:
            if self._connection is None or not rows:
                return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
                    [(*row, crc32(row[2])) for row in rows],
                )
                pages, free, size = (
                    self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "freelist_count", "page_size")
                )
                if (pages - free) * size > MAX_BYTES:
                    self._connection.execute(
                        "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY rowid LIMIT"
                        " (SELECT count(*) / 4 FROM vectors))"
                    )
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


def _sound(vector: object, total: object) -> bool:
    return isinstance(vector, bytes) and len(vector) % 4 == 0 and crc32(vector) == total
