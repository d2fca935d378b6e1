"""Problems of a long watch, each reported once until it is over."""

from __future__ import annotations

from collections.abc import Callable


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

    def report(self, subject: str, problem: str) -> None:
        if subject not in self._open:
            self._open.add(subject)
            self._tell(problem)

    def resolve(self, subject: str) -> None:
        self._open.discard(subject)
