"""Checkpoints of long runs: a run that was killed goes on at the increment that it was in."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError
from shutil import rmtree
from typing import Any, Protocol, runtime_checkable

from cbcl.errors import DataError
from cbcl.files import write_atomically

UNREADABLE = (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, UnpicklingError)


@runtime_checkable
class Resumable(Protocol):
    """A learner whose increments take long enough to be kept."""

    def save(self, path: Path) -> None: ...

    def load(self, path: Path) -> object: ...


class Checkpoint:
    """The state of a run: its learner after the last whole increment, and the scores so far.

    The scores are written after the learner, and name it: a kill between the two leaves the
    increment before.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / sha256(key.encode()).hexdigest()[:16]
        self.scores = self.folder / "scores.json"

    def resume(self, learner: Resumable) -> dict[str, Any] | None:
        """Bring a new learner to where the run was, and return the scores; None: at its start."""
        if not self.scores.exists():
            return None
        try:
            scores: dict[str, Any] = json.loads(self.scores.read_bytes())
            learner.load(self._learner(scores))
        except UNREADABLE as error:
            problem = "holds a checkpoint that is damaged, or was made on another kind of device"
            advice = "remove that folder, and the run begins anew"
            raise DataError(self.folder, problem, advice) from error
        return scores

    def keep(self, learner: Resumable, scores: dict[str, Any]) -> None:
        """Write a checkpoint in the place of the last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        learner.save(self._learner(scores))
        write_atomically(self.scores, json.dumps(scores).encode())
        for other in self.folder.glob("learner-*.pt"):
            if other != self._learner(scores):
                other.unlink(missing_ok=True)  # another process may run the same

    def remove(self) -> None:
        """Remove it: the run is recorded."""
        rmtree(self.folder, ignore_errors=True)

    def _learner(self, scores: dict[str, Any]) -> Path:
        return self.folder / f"learner-{len(scores['right'])}.pt"
