"""Open memory file: its connections, shared by threads, closed before a fork, watched for moves."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from weakref import WeakSet

from cbcl.errors import GoneError, MemoryFileError
from cbcl.memory.connection import (
    NO_FILE,
    FileHandle,
    FileIdentity,
    connect,
    explained,
    file_identity,
    file_signature,
    own_files,
)

_ABANDONED: list[FileHandle] = []  # never closed, since their file's name is another's by now
_OPEN_FILES: WeakSet[OpenFile] = WeakSet()  # all of this process


class OpenFile:
    """A memory file with one connection to read and one to write, each guarded by a lock."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # whatever the working folder comes to be
        self._reading, self._writing = RLock(), RLock()
        self._reader: FileHandle | None = None
        self._writer: FileHandle | None = None
        _OPEN_FILES.add(self)

    def close(self) -> None:
        """Close the file; it never fails, since what was learned is in it already."""
        for lock in (self._writing, self._reading):
            with suppress(MemoryFileError), self._access(lock):
                self._disconnect(lock)

    def _disconnect(self, lock: RLock) -> None:
        """Close the connection that this lock guards."""
        handle = self._writer if lock is self._writing else self._reader
        if handle is not None:
            handle.connection.close()
        self._drop_handle(lock)

    def _drop_handle(self, lock: RLock) -> None:
        if lock is self._writing:
            self._writer = None
        else:
            self._reader = None
            self._clear_cache()

    def _clear_cache(self) -> None:
        """Drop what was read through the connection that is gone."""

    def own_files(self) -> set[FileIdentity]:
        """Return the files of this memory and of all that this process has open.

        None may be read as something else: whoever closes such a file, however it was opened, gives
        up all locks on it that the process has.
        """
        with explained(self.path):
            opened = [file for file in _OPEN_FILES if file._reader or file._writer]
            return {inode for file in [*opened, self] for inode in own_files(file.path)}

    @contextmanager
    def _access(self, lock: RLock) -> Iterator[None]:
        with lock, explained(self.path):
            self._check_in_place(lock)
            yield

    def _check_in_place(self, lock: RLock) -> None:
        """Raise GoneError if the open file is no longer the one at its path."""
        handle = self._writer if lock is self._writing else self._reader
        if handle is None:
            return
        try:
            present = file_identity(self.path)
        except MemoryFileError:  # a folder, or something else, has its name now
            present = NO_FILE
        if present == handle.file:
            return
        if present == NO_FILE:  # moved or deleted, and its name is free: the WAL can be emptied
            with suppress(sqlite3.Error):
                handle.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._disconnect(lock)
            problem = "was moved or deleted while it was open"
            raise GoneError(self.path, problem, "what was learned is in the file")
        _ABANDONED.append(handle)
        self._drop_handle(lock)
        problem = "was replaced while it was open"
        raise GoneError(self.path, problem, "what was learned last may be lost")

    def _connect(self) -> sqlite3.Connection | None:
        frozen = self._reader and self._reader.frozen
        if frozen is not None and frozen != file_signature(self.path):
            self._disconnect(self._reading)  # somebody else wrote to it
        if self._reader is None:
            self._reader = connect(self.path)
        return self._reader and self._reader.connection

    def _connection(self) -> sqlite3.Connection:
        connection = self._connect()
        if connection is None:
            raise self._missing()
        return connection

    def _missing(self) -> MemoryFileError:
        return MemoryFileError(self.path, "does not exist", "learn something first")


_HELD: list[OpenFile] = []  # during a fork


def _before_fork() -> None:
    """Close everything: the child would rely on locks that are its parent's."""
    _HELD[:] = _OPEN_FILES
    for file in _HELD:
        for lock in (file._writing, file._reading):
            lock.acquire()
        writer = file._writer
        if writer is None or not writer.connection.in_transaction:  # else it is this thread's step
            file._disconnect(file._writing)
            file._disconnect(file._reading)


def _after_fork_in_parent() -> None:
    for file in _HELD:
        file._reading.release()
        file._writing.release()
    _HELD.clear()


def _after_fork_in_child() -> None:
    for file in _HELD:
        file._reading, file._writing = RLock(), RLock()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
