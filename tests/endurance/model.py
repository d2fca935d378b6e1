"""A memory as one would write it down on paper: which pictures each label was shown, and undo.

What a label was shown is an expression: a tuple of batches, each a seed and a size, and of merges,
each an expression of its own. A fresh learner that is fed it must come to the same bits.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from cbcl import Recognizer
from cbcl.heads.base import NEGATIVES
from cbcl.memory.packing import pack_class
from cbcl.memory.transaction import MAX_UNDO

FEATURES = 16
Batch: TypeAlias = tuple[int, int]  # seed and size
Shown: TypeAlias = tuple[Any, ...]  # of batches, and of what was merged into the label, in order
State: TypeAlias = dict[str, Shown]


def vectors_of(batch: Batch) -> np.ndarray[Any, Any]:
    """Return the vectors of a batch: around one of twelve centres, as those of things are."""
    seed, size = batch
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(seed % 12).normal(size=FEATURES) * 2.0
    return (centre + rng.normal(size=(size, FEATURES))).astype(np.float32)


class Model:
    """What is known of each label, and the states that can be restored."""

    def __init__(self) -> None:
        self.state: State = {}
        self._before: list[State] = []  # each of the last twenty steps

    @property
    def labels(self) -> list[str]:
        return sorted(label for label in self.state if label != NEGATIVES)

    @property
    def can_undo(self) -> bool:
        return bool(self._before)

    def learn(self, label: str, batch: Batch) -> None:
        self._step({**self.state, label: (*self.state.get(label, ()), batch)})

    def forget(self, label: str, *, for_good: bool = False) -> None:
        self._step({own: shown for own, shown in self.state.items() if own != label})
        if for_good:
            self._before.clear()

    def rename(self, label: str, new: str) -> None:
        shown = self.state[label]
        self._step({own: one for own, one in self.state.items() if own != label} | {new: shown})

    def merge(self, label: str, into: str) -> None:
        both = (*self.state[into], self.state[label])
        self._step({own: one for own, one in self.state.items() if own != label} | {into: both})

    def undo(self) -> None:
        self.state = self._before.pop()

    def _step(self, after: State) -> None:
        self._before = [*self._before, self.state][-MAX_UNDO:]
        self.state = after


def teach(fresh: Recognizer, state: State) -> None:
    """Teach a fresh memory all that is known, each label in as few goes as possible."""
    for label, shown in sorted(state.items()):
        _show(fresh, label, shown, depth=0)


def _show(fresh: Recognizer, label: str, shown: Shown, depth: int) -> None:
    left = shown
    while left:
        batches = [*takewhile(_is_batch, left)]
        if batches:
            vectors = np.concatenate([vectors_of(batch) for batch in batches])
            fresh.learn(label or None, vectors)
        left = left[len(batches) :]
        if left:
            other = f"merged {depth}"
            _show(fresh, other, left[0], depth + 1)
            fresh.merge(other, label)
            left = left[1:]


def _is_batch(part: Any) -> bool:
    return isinstance(part[0], int)


def bits_of(recognizer: Recognizer) -> dict[str, Any]:
    """Return all that is known, bit by bit."""
    memory = recognizer._memory
    view = memory.view()
    classes = memory.load(view, sorted(view.rows))
    return {label: pack_class(label, stored, view.head) for label, stored in classes.items()}
