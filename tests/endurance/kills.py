"""Kill processes that teach by the library: at random moments, and at every call that writes.

Each process tells after each step that it returned from. After each kill, the memory must open,
`check` must be clean, the state must be that of the last step told, or the one after the step that
was under way, and the memory must be able to learn on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from cbcl import CBCLError, Recognizer
from endurance.scripts import Script, strikes
from endurance.steps import OPTIONS, do, draw, look, replace_files, state
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import KILLS, Strike, arm, fork, preloaded

MEAN_SECONDS = 0.06  # until a kill at a random moment


def kill_at_random(attack: Attack) -> Outcome:
    """Half of the kills are on a memory of the discriminant, half on one of the vote."""
    outcome = Outcome()
    rng = random.Random(attack.seed)
    acknowledged = under_way = 0
    for number in range(attack.count):
        head = [*OPTIONS][2 * number // attack.count]
        path = attack.folder / f"{head}.cbcl"
        before, _ = look(path)
        copy = attack.folder / "copy.cbcl"
        copy.unlink(missing_ok=True)
        if path.exists():
            copy.write_bytes(path.read_bytes())
        lines = _work_until_killed(path, number, head, rng.expovariate(1 / MEAN_SECONDS))
        promised = lines[-1] if lines else before
        allowed = [promised, _one_more(copy, number, len(lines), head)]
        _judge(outcome, path, allowed, f"kill {number} of seed {attack.seed}, {head}")
        acknowledged += len(lines)
        under_way += look(path)[0] != promised
        outcome.tried += 1
        attack.progress(outcome.tried)
    outcome.remarks.append(f"{acknowledged} calls acknowledged, {under_way} done but not yet so")
    return outcome


def _work_until_killed(path: Path, seed: int, head: str, seconds: float) -> list[str]:
    """Return the states that a process told before it was killed."""
    log_path = path.with_suffix(".log")
    log = os.open(log_path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
    child = os.fork()
    if child == 0:
        rng = random.Random(seed)
        with Recognizer(path, "identity", **OPTIONS[head]) as recognizer:
            while True:
                do(recognizer, rng, head)
                os.write(log, f"{state(recognizer)}\n".encode())
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(log)
    return log_path.read_text().splitlines()


def _one_more(path: Path, seed: int, done: int, head: str) -> str:
    """Return the state after so many calls and the next, repeated in a copy."""
    rng = random.Random(seed)
    with Recognizer(path, "identity", **OPTIONS[head]) as recognizer:
        for _ in range(done + 1):
            do(recognizer, rng, head)
        return state(recognizer)


def _judge(outcome: Outcome, path: Path, allowed: list[str], case: str) -> None:
    found, findings = look(path)
    if found not in allowed:
        outcome.lost += 1
        outcome.found.append(f"{case}: found {found}, allowed {allowed}")
    if findings:
        outcome.found.append(f"{case}: {findings}")


def kill_at_writes(attack: Attack) -> Outcome:
    """Kill before, halfway through and after every call that writes, of eight scripts or more."""
    outcome = Outcome()
    folder = attack.folder / "work"
    folder.mkdir()
    for script, how, number in strikes(attack, KILLS):
        replace_files(script.start, folder)
        path = folder / script.start_path.name
        done = _strike(script, path, how, number)
        case = f"seed {script.seed}, {script.head}, {how.name} at call {number}"
        _judge(outcome, path, script.states[done : done + 2], case)
        try:
            with Recognizer(path, "identity", **OPTIONS[script.head]) as recognizer:
                recognizer.learn("afterwards", draw(random.Random(0), 2))
        except CBCLError as error:
            outcome.found.append(f"{case}: it cannot learn on ({error})")
        outcome.tried += 1
        attack.progress(outcome.tried)
    return outcome


def _strike(script: Script, path: Path, how: Strike, number: int) -> int:
    """Let a process be killed at a call; return how many steps it told of."""
    reading, writing = os.pipe()

    def work() -> None:
        arm(path.parent, how, number)
        script.perform(path, lambda: os.write(writing, b"."))

    status = fork(work)
    os.close(writing)
    with os.fdopen(reading) as told:
        done = len(told.read())
    if status != -signal.SIGKILL:
        raise RuntimeError(f"{script.seed} was not killed at call {number}, but ended: {status}")
    return done


TRIALS = (
    Trial("kills at random moments", "kills", 25, 300, kill_at_random),
    Trial("kills at writes of the library", "kills", 70, 4000, preloaded(kill_at_writes)),
)
