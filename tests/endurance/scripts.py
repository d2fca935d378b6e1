"""Scripts of steps that processes take on a memory, while each of their writes is struck at."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cbcl import Recognizer
from cbcl.memory.connection import wal_size
from endurance.steps import LABELS, OPTIONS, do, draw, look, replace_files
from endurance.trial import Attack
from endurance.writes import Strike, fork, kinds_of, places, read_trace

STEPS = 5
LONG_LOG = 970 * 4120  # bytes: with 1,000 frames, SQLite moves the log into the file
SCRIPTS = 8  # two of each kind
KINDS = ("new", "closed", "killed", "killed with a long log")  # files that a script begins with


@dataclass
class Script:
    """Some steps on a memory: a process opens it, takes them and closes it."""

    seed: int
    start: Path  # a folder with the files that it begins with
    states: list[str] = field(default_factory=list)  # before the first step, and after each
    calls: str = ""  # that write: the letters of their kinds

    @property
    def head(self) -> str:
        return [*OPTIONS][self.seed % 2]

    @property
    def kind(self) -> str:
        return KINDS[self.seed // 2 % len(KINDS)]

    @property
    def start_path(self) -> Path:
        return self.start / "things.cbcl"

    def perform(self, path: Path, told: Callable[[], object]) -> None:
        """Take the steps on a copy of the first files; tell of each that was taken."""
        rng = random.Random(self.seed)
        with Recognizer(path, "identity", **OPTIONS[self.head]) as recognizer:
            for _ in range(STEPS):
                do(recognizer, rng, self.head)
                told()


def prepare(seed: int, folder: Path) -> Script:
    """Make the files that a script begins with, and run it without being struck at."""
    script = Script(seed, folder / f"start {seed}")
    script.start.mkdir()
    if script.kind != "new" and fork(lambda: _make_first_files(script)):
        raise RuntimeError(f"the memory of seed {seed} cannot be made")
    copy = folder / f"copy {seed}"
    copy.mkdir()
    path = copy / script.start_path.name

    replace_files(script.start, copy)
    script.calls = kinds_of(read_trace(lambda: script.perform(path, lambda: None), copy))
    replace_files(script.start, copy)
    script.states.append(look(path)[0])
    replace_files(script.start, copy)
    script.perform(path, lambda: script.states.append(look(path)[0]))
    return script


def _make_first_files(script: Script) -> None:
    rng = random.Random(f"first files of {script.seed}")
    recognizer = Recognizer(script.start_path, "identity", **OPTIONS[script.head])
    for _ in range(STEPS):
        do(recognizer, rng, script.head)
    while "long" in script.kind and wal_size(script.start_path) < LONG_LOG:
        recognizer.learn(rng.choice(LABELS), draw(rng, 20))
    if script.kind == "closed":
        recognizer.close()


def strikes(attack: Attack, hows: tuple[Strike, ...]) -> Iterator[tuple[Script, Strike, int]]:
    """Yield where to strike: at every call of some scripts, or at a random part of these calls."""
    rng = random.Random(attack.seed)
    seed, left = attack.seed, attack.count
    while left > 0:
        scripts = [prepare(number, attack.folder) for number in range(seed, seed + SCRIPTS)]
        every = [
            (script, how, number)
            for script in scripts
            for number, how in places(script.calls, hows)
        ]
        chosen = every if len(every) <= left else rng.sample(every, left)
        yield from chosen
        seed, left = seed + SCRIPTS, left - len(chosen)
