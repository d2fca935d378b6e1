"""Frames: the pictures of a source, the time between two of them, and problems on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple


class WatchedFrame(NamedTuple):
    """The file of a picture, and its source."""

    source: str  # path of the photo, or name of the camera
    data: bytes


def ticks(seconds: float) -> Iterator[None]:
    """Yield at once, then after each period of `seconds`; a slow caller misses some."""
    while True:
        due = time.monotonic() + seconds
        yield
        time.sleep(max(0.0, due - time.monotonic()))


class ProblemLog:
    """Log that tells the first problem of each subject, and the next after it was resolved.

    >>> problems = ProblemLog(print)
    >>> problems.report("door", "door does not answer.")
    door does not answer.
    >>> problems.report("door", "door does not answer.")
    >>> problems.resolve("door")
    >>> problems.report("door", "door is off.")
    door is off.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._open: set[str] = set()

    def report(self, subject: str, problem: object) -> None:
        if subject not in self._open:
            self._open.add(subject)
            self._tell(str(problem))

    def resolve(self, subject: str) -> None:
        self._open.discard(subject)
