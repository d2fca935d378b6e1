"""Many small cases, divided among processes, each case bounded in seconds and in memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from endurance.trial import Attack, Outcome
from endurance.writes import RAM, start, wait

WORKERS = 2
MAX_SECONDS = 20  # of a case; then its process is ended
MAX_MB = 300  # that a case may add to the most that its process took before
WARM_UP = 50  # cases, after which a process has loaded what it needs
MAX_ENDED = 20  # processes ended by a case; then there is no point in going on
REPORT_SECONDS = 0.5


class Verdict(NamedTuple):
    """What became of one case."""

    kind: str  # "told", "refused", ...: they are counted
    problem: str = ""  # a fault, in words
    is_loss: bool = False


Judge: TypeAlias = Callable[[int], Verdict]


def divide(attack: Attack, make: Callable[[Path], Judge]) -> Outcome:
    """Judge the cases 0 to `count`; each process makes its judge, in a folder of its own in RAM."""
    outcome, kinds = Outcome(), Counter[str]()
    with TemporaryDirectory(dir=RAM if RAM.is_dir() else attack.folder) as folder:
        workers = [_Worker(attack, make, Path(folder), part) for part in range(WORKERS)]
        while running := [worker for worker in workers if not worker.lines.closed]:
            ready, _, _ = select([worker.lines for worker in running], [], [])
            for worker in running:
                if worker.lines in ready:
                    worker.hear(outcome, kinds)
            attack.progress(outcome.tried)
    outcome.remarks.append(", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common()))
    return outcome


@dataclass
class _Report:
    """What a process has done since it last spoke."""

    tried: int = 0
    lost: int = 0
    seconds: float = 0.0  # of the slowest case
    found: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, case: str, seconds: float) -> None:
        self.tried += 1
        self.lost += verdict.is_loss
        self.seconds = max(self.seconds, seconds)
        self.kinds[verdict.kind] += 1
        if verdict.problem:
            self.found.append(f"{case}: {verdict.problem}")


class _Worker:
    """A process that judges every n-th case, begun anew after a case that ended it."""

    def __init__(
        self, attack: Attack, make: Callable[[Path], Judge], folder: Path, part: int
    ) -> None:
        self._attack, self._make, self._part = attack, make, part
        self._folder, self._place = folder, folder / f"case of {part}"
        self._begun = 0
        self._begin(part)

    def _begin(self, first: int) -> None:
        self._begun += 1
        self._place.write_text(str(first))
        reading, writing = os.pipe()
        self._child = start(lambda: self._work(first, writing))
        os.close(writing)
        self.lines = os.fdopen(reading)

    def _work(self, first: int, writing: int) -> None:
        folder = self._folder / f"{self._part}.{self._begun}"
        folder.mkdir()
        judge = self._make(folder)
        place = os.open(self._place, os.O_CREAT | os.O_WRONLY)
        told, least, spoken = _Report(), 0.0, time.monotonic()
        for done, case in enumerate(range(first, self._attack.count, WORKERS)):
            os.pwrite(place, f"{case:12}".encode(), 0)
            signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)  # which ends the process
            begun = time.monotonic()
            verdict = judge(case)
            now = time.monotonic()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            if done > WARM_UP and peak - least > MAX_MB and not verdict.problem:
                verdict = verdict._replace(problem=f"it took {peak - least:.0f} MB")
            least = peak
            case_of = f"case {case} of seed {self._attack.seed}"
            told.add(verdict, case_of, now - begun)
            if now - spoken > REPORT_SECONDS or case + WORKERS >= self._attack.count:
                os.write(writing, f"{json.dumps(vars(told) | {'peak': peak})}\n".encode())
                told, spoken = _Report(), now

    def hear(self, outcome: Outcome, kinds: Counter[str]) -> None:
        """Add what the process says; note its end, if that was one of a case."""
        if line := self.lines.readline():
            told = json.loads(line)
            outcome.tried += told["tried"]
            outcome.lost += told["lost"]
            outcome.found += told["found"]
            kinds.update(told["kinds"])
            for name, key in (("slowest: seconds", "seconds"), ("peak of a process: MB", "peak")):
                outcome.figures[name] = round(max(outcome.figures.get(name, 0), told[key]), 2)
            return
        self.lines.close()
        if status := wait(self._child):
            case = int(self._place.read_text())
            outcome.tried += 1
            outcome.found.append(
                f"case {case} of seed {self._attack.seed}: its process ended with {status}"
            )
            if case + WORKERS < self._attack.count and self._begun < MAX_ENDED:
                self._begin(case + WORKERS)
