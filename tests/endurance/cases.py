"""Numbered cases that a judge decides, each worker with a judge and files of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple, TypeAlias

from endurance.trial import Attack, Outcome
from endurance.workers import Batch, Input, Limits, LostWorkError, attack_in_workers, fast_folder

LIMITS = Limits(megabytes=300.0, seconds=20.0)  # of a case
BATCH = 2000  # cases at most, after which a judge is made anew


class Verdict(NamedTuple):
    """What became of one case."""

    kind: str  # "told", "refused", ...: they are counted
    problem: str = ""  # a fault, in words
    is_loss: bool = False


Judge: TypeAlias = Callable[[int], Verdict]


class JudgedCases:
    """Cases by their number. The judge is made in the worker, in an empty folder."""

    def __init__(self, seed: int, make: Callable[[Path], Judge], folder: Path) -> None:
        self.seed, self._make, self._folder = seed, make, folder
        self._judge: Judge | None = None

    def inputs(self, batch: Batch) -> Iterator[Input]:
        self._judge = self._make_judge()
        for case in range(batch.start, batch.stop):
            yield Input(f"case {case} of seed {self.seed}", b"")

    def _make_judge(self) -> Judge:
        return self._make(Path(mkdtemp(dir=self._folder)))

    def examine(self, _: Batch, given: Input) -> str:
        judge = self._judge or self._make_judge()
        verdict = judge(int(given.name.split()[1]))
        if verdict.problem:
            raise (
                LostWorkError(verdict.problem)
                if verdict.is_loss
                else AssertionError(verdict.problem)
            )
        return verdict.kind


def divide(attack: Attack, make: Callable[[Path], Judge]) -> Outcome:
    """Judge the cases 0 to `count` on all cores, on files in RAM."""
    size = min(BATCH, -(-attack.count // (os.cpu_count() or 1)))
    starts = range(0, attack.count, size)
    batches = [Batch("a case", start, min(start + size, attack.count)) for start in starts]
    with fast_folder(attack.folder) as folder:
        return attack_in_workers(attack, JudgedCases(attack.seed, make, folder), batches, LIMITS)
