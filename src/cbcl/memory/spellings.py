"""Search for labels that differ only in case or space."""

from __future__ import annotations

from collections.abc import Iterable

from cbcl.memory.state import MemoryState


def spelling(label: str) -> str:
    """Return a label without what people vary: its case, and how many spaces part its words.

    >>> spelling("Tea  Cup")
    'tea cup'
    """
    return " ".join(label.casefold().split())


class SpellingIndex:
    """Labels of a memory by spelling: what a step changes is all that is worked out again."""

    def __init__(self) -> None:
        self._state: MemoryState | None = None
        self._labels: dict[str, set[str]] = {}

    def follow(self, state: MemoryState) -> None:
        """Hold the labels of a state."""
        for label, row in state.changes_since(self._state).items():
            alike = self._labels.setdefault(spelling(label), set())
            if row is None:
                alike.discard(label)
            else:
                alike.add(label)
        self._state = state

    def find(self, labels: Iterable[str]) -> set[str]:
        """Return all labels that are spelled as one of these."""
        nothing: set[str] = set()
        return nothing.union(*(self._labels.get(spelling(label), nothing) for label in labels))
