"""Let the disk be full, or a sync fail, at every call that writes.

A step that fails says so in a sentence (a CBCLError) and changes nothing, in the eyes of another
process, too; when there is room again, the same step, in the same process, succeeds. What was
acknowledged before stays.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from socket import socket, socketpair
from typing import TypeAlias

from cbcl import CBCLError, Recognizer
from endurance.scripts import STEPS, Script, strikes
from endurance.steps import OPTIONS, do, look, replace_files
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import Strike, arm, disarm, preloaded, start, wait

Failure: TypeAlias = tuple[int, str, str, list[str]]  # step, sentence, state, findings

DONE = "has forgotten it, but"  # what was forgotten for good is still on the disk
HOWS = (Strike.FULL, Strike.FULL_HALFWAY, Strike.FAIL_SYNC)


def fill_disk(attack: Attack) -> Outcome:
    outcome, n_told = Outcome(), 0
    folder = attack.folder / "work"
    folder.mkdir()
    for script, how, number in strikes(attack, HOWS):
        replace_files(script.start, folder)
        path = folder / script.start_path.name
        failed, status = _perform(script, path, how, number)
        problems = [f"it ended with {status}, as printed above"] if status else []
        problems += [
            f"step {step} failed ({sentence}), but others see {found} {findings}"
            for step, sentence, found, findings in failed
            if found != script.states[step + (DONE in sentence)] or findings
        ]
        found, findings = look(path)
        if found != script.states[-1] or findings:
            problems.append(f"after {failed}, it ended with {found} {findings}")
        case = f"seed {script.seed}, {script.head}, {how.name} at call {number}"
        outcome.found += [f"{case}: {problem}" for problem in problems]
        outcome.lost += bool(problems)
        outcome.tried += 1
        n_told += bool(failed)
        attack.progress(outcome.tried)
    outcome.remarks.append(f"{n_told} processes were told of it, and took the step again")
    return outcome


def _perform(script: Script, path: Path, how: Strike, number: int) -> tuple[list[Failure], int]:
    """Take the steps of a script in a child; look at the memory from here when one fails.

    Returned are the failures, and the exit status.
    """
    ours, theirs = socketpair()
    child = start(lambda: _take_steps(script, path, how, number, theirs))
    theirs.close()
    failed: list[Failure] = []
    with ours, ours.makefile("rw") as talk:
        for line in talk:
            step, sentence = json.loads(line)
            failed.append((step, sentence, *look(path)))
            talk.write("go on\n")
            talk.flush()
    return failed, wait(child)


def _take_steps(script: Script, path: Path, how: Strike, number: int, parent: socket) -> None:
    rng = random.Random(script.seed)
    with (
        Recognizer(path, "identity", **OPTIONS[script.head]) as recognizer,
        parent.makefile("rw") as talk,
    ):
        arm(path.parent, how, number)
        for step in range(STEPS):
            before = copy.deepcopy(rng)
            try:
                do(recognizer, rng, script.head)
            except CBCLError as error:
                disarm()
                talk.write(json.dumps([step, str(error)]) + "\n")
                talk.flush()
                talk.readline()
                do(recognizer, before, script.head)
                rng = before


TRIALS = (Trial("full disk at every write", "processes", 50, 2700, preloaded(fill_disk)),)
