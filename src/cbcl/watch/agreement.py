"""Agreement of frames: an answer counts when several in a row give it."""

from __future__ import annotations


class Agreement:
    """The latest answer that `frames` frames in a row gave.

    >>> agreement = Agreement(2)
    >>> [agreement.changes_to(label) for label in ["cup", "key", "key", "cup", "key", None, None]]
    [False, False, True, False, False, False, True]
    """

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._label: str | None = None  # of the latest frames; None: unknown
        self._count = 0
        self._agreed: tuple[str | None] | None = None  # None: nothing yet

    def changes_to(self, label: str | None) -> bool:
        """Count one more frame; tell whether it changes the answer agreed on."""
        self._count = self._count + 1 if label == self._label else 1
        self._label = label
        if self._count < self._frames or self._agreed == (label,):
            return False
        self._agreed = (label,)
        return True
