"""Kill commands, exports, imports and copies at every call that writes.

A command that was killed has done all or nothing: every memory is as before or as after it, every
other file is missing or whole, and the same command, given again, does what it would have done.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image

from cbcl import Recognizer
from cbcl.cli.commands import main
from endurance.steps import look, replace_files
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import (
    KILLS,
    Strike,
    arm,
    fork,
    kinds_of,
    places,
    preloaded,
    read_trace,
)

Contents: TypeAlias = dict[str, str]  # name of a file -> state of a memory, or digest


@dataclass(frozen=True)
class Command:
    """Something to do with the memories of a folder; the working folder has the photos."""

    name: str
    do: Callable[[Path], object]


def cbcl(words: str) -> Command:
    """Return a command of the command line: files that begin with @ are of the folder."""

    def do(folder: Path) -> None:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        arguments = [word.replace("@", f"{folder}/") for word in words.split()]
        main(arguments, standalone_mode=False)

    return Command(f"cbcl {words}", do)


def adopt(folder: Path, into: str = "a.cbcl") -> None:
    with Recognizer(folder / into) as recognizer:
        recognizer.adopt(folder / "b.cbcl")


def move(folder: Path) -> None:
    with Recognizer(folder / "a.cbcl") as recognizer:
        recognizer.move([recognizer.snapshot().examples("mug")[0].number], "key")


def save_copy(folder: Path) -> None:
    with Recognizer(folder / "a.cbcl") as recognizer:
        recognizer.save_copy(folder / "d.cbcl")


EDITS = (  # one after the other, on what those before it left
    cbcl("learn @a.cbcl --backbone pixels --no-cache --label cup cup"),
    cbcl("learn @a.cbcl --no-cache key pen"),
    cbcl("learn @a.cbcl --no-cache --label cup owl/0.png"),
    cbcl("learn @a.cbcl --no-cache --none owl"),
    cbcl("rename @a.cbcl cup mug"),
    Command("move a photo", move),
    cbcl("merge @a.cbcl mug key"),
    cbcl("undo @a.cbcl"),
    cbcl("forget @a.cbcl pen"),
    cbcl("undo @a.cbcl"),
    cbcl("forget @a.cbcl --none"),
    cbcl("forget @a.cbcl pen --for-good"),
    cbcl("learn @v.cbcl --backbone pixels --no-cache --head vote cup key"),
    cbcl("upgrade @v.cbcl"),
)
EXCHANGES = (
    cbcl("export @a.cbcl @a.safetensors"),
    cbcl("import @e.cbcl @a.safetensors"),
    Command("adopt", adopt),
    Command("adopt into a new memory", partial(adopt, into="c.cbcl")),
    Command("save a copy", save_copy),
)
SETTING_UP = (  # for the exchanges
    cbcl("learn @a.cbcl --backbone pixels --no-cache cup key"),
    cbcl("learn @a.cbcl --no-cache --none pen/0.png"),
    cbcl("learn @b.cbcl --backbone pixels --no-cache key pen owl"),
)


@dataclass(frozen=True)
class Killing:
    """A command to be killed, on a copy of the files before it."""

    command: Command
    before: Path
    first: Contents
    last: Contents

    def strike(self, how: Strike, at: int, work: Path) -> list[str]:
        """Kill the command at a call that writes; return what is wrong then."""
        case = f"{self.command.name}, {how.name} at call {at}"
        replace_files(self.before, work)

        def run() -> None:
            arm(work, how, at)
            self.command.do(work)

        if (status := fork(run)) != -signal.SIGKILL:
            raise RuntimeError(f"{case}: it was not killed, but ended with {status}")
        found = contents(work)
        wrong = [
            f"{case}: {name} is {found.get(name)}"
            for name in {*self.first, *self.last, *found}
            if found.get(name) not in (self.first.get(name), self.last.get(name))
        ]
        if found == self.first:
            status = fork(lambda: self.command.do(work))
            if status or contents(work) != self.last:
                wrong.append(f"{case}: given again, it ends with {status}")
        return wrong


def contents(folder: Path) -> Contents:
    """Describe the memories of a folder, and the other files, without parts that were left."""
    described = {}
    for file in sorted(folder.iterdir()):
        if file.suffix == ".cbcl" and not file.name.startswith("."):
            described[file.name] = str(look(file))
    for file in folder.iterdir():
        if file.suffix in (".safetensors", ".json"):
            described[file.name] = sha256(file.read_bytes()).hexdigest()
    return {name: text for name, text in described.items() if not text.startswith("('nothing'")}


def make_photos(folder: Path) -> None:
    """Write three pictures of each of four things."""
    rng = np.random.default_rng(0)
    for label in ("cup", "key", "pen", "owl"):
        (folder / label).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")


def kill_edits(attack: Attack) -> Outcome:
    return _kill(attack, EDITS)


def kill_exchanges(attack: Attack) -> Outcome:
    return _kill(attack, EXCHANGES, SETTING_UP)


def _kill(
    attack: Attack, commands: Sequence[Command], setting_up: Sequence[Command] = ()
) -> Outcome:
    work = attack.folder / "work"
    work.mkdir()
    make_photos(attack.folder / "photos")
    os.chdir(attack.folder / "photos")
    for command in setting_up:
        read_trace(partial(command.do, work), work)
    cases, n_calls = [], 0
    for number, command in enumerate(commands):
        before = attack.folder / f"before {number}"
        before.mkdir()
        replace_files(work, before)
        first, calls = contents(work), read_trace(partial(command.do, work), work)
        n_calls += len(calls)
        killing = Killing(command, before, first, contents(work))
        cases += [(killing, how, at) for at, how in places(kinds_of(calls), KILLS)]
    rng, outcome = random.Random(attack.seed), Outcome()
    for killing, how, at in (
        cases if len(cases) <= attack.count else rng.sample(cases, attack.count)
    ):
        wrong = killing.strike(how, at, work)
        outcome.found += wrong
        outcome.lost += bool(wrong)
        outcome.tried += 1
        attack.progress(outcome.tried)
    outcome.remarks.append(f"{len(commands)} commands, {n_calls} writes in all")
    return outcome


TRIALS = (
    Trial("kills at writes of commands", "kills", 40, 3200, preloaded(kill_edits)),
    Trial("kills at writes of exports and imports", "kills", 30, 1800, preloaded(kill_exchanges)),
)
