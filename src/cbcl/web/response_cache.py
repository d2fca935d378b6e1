"""Response cache: JSON that is computed once for each revision of a memory."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from pydantic import BaseModel

from cbcl.recognition.snapshot import Snapshot


class MemoryRevision(NamedTuple):
    """A state of a memory: which file, since another may replace it, and its latest step."""

    file: tuple[int, int]
    revision: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> MemoryRevision:
        return cls(snapshot.file, snapshot.revision)


class ResponseCache:
    """One response, kept until the memory changes."""

    def __init__(
        self, current: Callable[[], Snapshot], compute: Callable[[Snapshot], BaseModel]
    ) -> None:
        self._current = current
        self._compute = compute
        self._lock = Lock()
        self._cached: tuple[Snapshot, str] | None = None

    def __call__(self) -> str:
        with self._lock:
            snapshot = self._current()
            if self._cached is None or self._cached[0] is not snapshot:
                self._cached = snapshot, self._compute(snapshot).model_dump_json()
            return self._cached[1]

    def clear(self) -> None:
        with self._lock:
            self._cached = None
