"""What is worked out of a memory once for each of its states, as the JSON to be sent."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from pydantic import BaseModel


class MemoryRevision(NamedTuple):
    """What a memory is at a moment: which file, since another may be put in its place, and how far it has come."""

    file: tuple[int, int]
    revision: int


class ResponseCache:
    """Something worked out, and kept until the memory is another."""

    def __init__(
        self, state: Callable[[], MemoryRevision], work: Callable[[int], BaseModel]
    ) -> None:
        self._state, self._work = state, work
        self._lock = Lock()
        self._kept: tuple[MemoryRevision, str] | None = None

    def __call__(self) -> str:
        with self._lock:
            state = self._state()  # before working, so that it is not newer than what is told
            if self._kept is None or self._kept[0] != state:
                self._kept = state, self._work(state.revision).model_dump_json()
            return self._kept[1]

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._kept = None
