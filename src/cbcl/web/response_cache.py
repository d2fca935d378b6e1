"""Response cache: JSON that is computed once for each revision of a memory."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from pydantic import BaseModel


class MemoryRevision(NamedTuple):
    """A state of a memory: which file, since another may replace it, and its latest step."""

    file: tuple[int, int]
    revision: int


class ResponseCache:
    """One response, kept until the memory changes."""

    def __init__(
        self, current: Callable[[], MemoryRevision], compute: Callable[[int], BaseModel]
    ) -> None:
        self._current, self._compute = current, compute
        self._lock = Lock()
        self._cached: tuple[MemoryRevision, str] | None = None

    def __call__(self) -> str:
        with self._lock:
            revision = self._current()  # before computing: never newer than the response
            if self._cached is None or self._cached[0] != revision:
                self._cached = revision, self._compute(revision.revision).model_dump_json()
            return self._cached[1]

    def clear(self) -> None:
        with self._lock:
            self._cached = None
