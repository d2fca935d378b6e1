"""Open memory file: its connections, shared by threads, closed before a fork, watched for moves."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from weakref import WeakSet

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be replaced
    fcntl = None  # type: ignore[assignment]

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

_ABANDONED: list[FileHandle] = []  # never closed, where it would delete another file's log
SHARED_BYTES = (1 << 30) + 2, 510  # of a database, which every connection locks: begin and length
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
        handle = self._handle(lock)
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
        handle = self._handle(lock)
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
        self._abandon(handle.file, lock)
        problem = "was replaced while it was open"
        raise GoneError(self.path, problem, "what was learned last may be lost")

    def _abandon(self, file: FileIdentity, lock: RLock) -> None:
        """Give up the connections to a file that has lost its name to another.

        All at once, before any is made anew: with the last one, all locks of this process on the
        shared -shm are gone, and the new file's connections rely on theirs. So those to the new
        file are closed first, where there are some: a thread was at work when the others were told.
        """
        writes = lock is self._writing  # then waiting for readers is allowed
        locks = [own for own in (self._writing, self._reading) if own.acquire(blocking=writes)]
        try:
            handles = {own: self._handle(own) for own in locks}
            idle = {own: one for own, one in handles.items() if one and not one.in_transaction}
            for own, handle in idle.items():
                if handle.file != file and close_nameless(handle):
                    self._drop_handle(own)
            newer = self._is_newer_open(file)
            for own, handle in idle.items():
                if handle.file == file:
                    self._drop_handle(own)
                    if newer or not close_nameless(handle):
                        _ABANDONED.append(handle)
        finally:
            for own in locks:
                own.release()

    def _is_newer_open(self, file: FileIdentity) -> bool:
        """Tell whether this process has a connection to what took the place of a file."""
        return any(
            other.path.resolve() == self.path.resolve()
            and handle is not None
            and handle.file != file
            for other in _OPEN_FILES
            for handle in (other._reader, other._writer)
        )

    def _handle(self, lock: RLock) -> FileHandle | None:
        """Return the connection that a lock guards."""
        return self._writer if lock is self._writing else self._reader

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
            raise self.missing()
        return connection

    def missing(self) -> MemoryFileError:
        """Return the error for a file that is not there, or has nothing in it yet."""
        problem = "does not exist" if file_identity(self.path) == NO_FILE else "is empty"
        return MemoryFileError(self.path, problem, "learn something first")


def close_nameless(handle: FileHandle) -> bool:
    """Close a connection whose file's name is another's; return False where that is not safe.

    SQLite deletes -wal and -shm by their names with the last connection, unless it cannot lock the
    file by itself: a lock of an open file description (of Linux) keeps it from that.
    """
    if handle.frozen is not None:  # there is no log
        handle.connection.close()
        return True
    has_locks = hasattr(fcntl, "F_OFD_SETLK") and sys.maxsize > 1 << 32
    guard = _reopen(handle.file) if has_locks else None
    if guard is None:
        return False
    try:
        lock = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, *SHARED_BYTES, 0)
        fcntl.fcntl(guard, fcntl.F_OFD_SETLK, lock)
        handle.connection.close()
    except OSError:  # another process has locked it for itself
        return False
    finally:
        os.close(guard)
    return True


def _reopen(file: FileIdentity) -> int | None:
    """Return a new descriptor of a file that this process has open, whatever its name."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            status = descriptor.stat()
            if (status.st_dev, status.st_ino) == file:
                return os.open(descriptor, os.O_RDWR | os.O_CLOEXEC)
    return None


_HELD: list[OpenFile] = []  # during a fork


def _before_fork() -> None:
    """Close everything: the child would rely on locks that are its parent's."""
    _HELD[:] = _OPEN_FILES
    for file in _HELD:
        for lock in (file._writing, file._reading):
            lock.acquire()
        writer = file._writer
        if writer is None or not writer.in_transaction:  # else it is this thread's step
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
