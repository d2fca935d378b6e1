"""Flip single bits of the log (`-wal`) that a killed process left beside a memory.

SQLite takes the log to end at the first frame whose checksum is wrong, as it must after a power
cut. So the memory is refused, or in the state after one of the steps that were acknowledged, to the
last bit, with a clean `check`; never in any other.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from cbcl import Recognizer
from cbcl.memory.wal import FRAME, HEADER, wal_of
from endurance.cases import Judge, Verdict, divide
from endurance.flips import PAGE
from endurance.steps import OPTIONS, do, look, state
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import fork

STEPS = 8  # in the log


class KilledMemory:
    """A memory whose process was killed, and the states that it told of."""

    def __init__(self, folder: Path, head: str, seed: int) -> None:
        self.path = folder / f"{head}.cbcl"
        told = folder / f"{head}.txt"

        def work() -> None:
            rng = random.Random(seed)
            with Recognizer(self.path, "identity", **OPTIONS[head]) as recognizer:
                do(recognizer, rng, head)
                recognizer.learn("first", [[1.0] * 64])
            lines = [look(self.path)[0]]
            recognizer = Recognizer(self.path, "identity", **OPTIONS[head])
            for _ in range(STEPS):
                do(recognizer, rng, head)
                lines.append(state(recognizer))
            told.write_text("\n".join(lines))
            os._exit(0)  # without closing the memory

        if fork(work):
            raise RuntimeError(f"the memory of {head} cannot be made")
        self.states = told.read_text().splitlines()
        self.files = {file: file.read_bytes() for file in (self.path, wal_of(self.path))}
        log = self.files[wal_of(self.path)]
        frames = range(HEADER.size, len(log), FRAME.size + PAGE)
        heads = [(0, HEADER.size), *((frame, FRAME.size) for frame in frames)]
        self.head_bits = [8 * start + bit for start, size in heads for bit in range(8 * size)]

    def flip(self, bit: int) -> Verdict:
        """Put the files back, but for one bit of the log, and open the memory."""
        self.path.with_name(f"{self.path.name}-shm").unlink(missing_ok=True)
        for file, data in self.files.items():
            changed = bytearray(data)
            if file == wal_of(self.path):
                changed[bit // 8] ^= 1 << bit % 8
            file.write_bytes(changed)
        found, findings = look(self.path)
        if found.startswith("refused"):
            return Verdict("told")
        if found not in self.states or findings:
            problem = f"bit {bit} of the log of {self.path.name}: {found} {findings}"
            return Verdict("other", problem, is_loss=True)
        return Verdict("harmless" if found == self.states[-1] else "an earlier step")


def flip_logs(attack: Attack) -> Outcome:
    """Flip bits of the heads of frames, and as many others."""

    def make(folder: Path) -> Judge:
        memories = [KilledMemory(folder, head, attack.seed) for head in OPTIONS]

        def judge(case: int) -> Verdict:
            rng = random.Random(f"{attack.seed} {case}")
            memory = rng.choice(memories)
            size = len(memory.files[wal_of(memory.path)])
            bit = rng.choice((rng.choice(memory.head_bits), rng.randrange(8 * size)))
            return memory.flip(bit)

        return judge

    return divide(attack, make)


TRIALS = (Trial("flipped bits of a log", "files", 200, 10_000, flip_logs),)
