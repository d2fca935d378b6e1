"""Kill processes that learn, forget, rename, merge and undo, at random moments, and find no loss.

    python tests/support/kill_loop.py MEMORY KILLS SEED

Each process writes a line to a file, unbuffered, after each call that returned. After each kill,
the memory must open, `check` must be clean, and the state must be that of the last line, or the one
after the call that was under way. Half of the kills are on a memory of the discriminant, half on
one of the vote.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from cbcl import LabelError, Recognizer
from cbcl.memory.check import check
from cbcl.memory.packing import pack_class
from cbcl.memory.rows import NEGATIVES, ClassRow

LABELS = ["cup", "key", "pen", "owl"]
NOTHING = "nothing"  # is there yet, or a process was killed before its first step
OPTIONS: dict[str, dict[str, Any]] = {"discriminant": {}, "vote": {"radius": 5.0}}


def do(recognizer: Recognizer, rng: random.Random, head: str) -> None:
    action = rng.choice(["learn", "learn", "learn", "forget", "rename", "merge", "undo"])
    one, two = rng.sample(LABELS, 2)
    none_of_these = head == "discriminant" and rng.random() < 0.2
    vectors = (
        np.random.default_rng(rng.getrandbits(32))
        .normal(size=(rng.randint(1, 40), 64))
        .astype(np.float32)
    )
    if action != "learn" and not recognizer.labels():
        return
    try:
        match action:
            case "learn":
                recognizer.learn(None if none_of_these else one, vectors)
            case "forget":
                recognizer.forget(one, for_good=rng.random() < 0.1)
            case "undo":
                if any(step.can_be_undone for step in recognizer.history()):
                    recognizer.undo()
            case _:
                getattr(recognizer, action)(one, two)
    except LabelError:
        pass  # not known: an answer, too


def state(recognizer: Recognizer) -> str:
    """Describe the history and all that is known, to the last bit."""
    memory = recognizer._memory
    if not memory.exists():
        return NOTHING
    view = memory.view()
    classes: dict[str, ClassRow | None] = {**memory.load(view)}
    classes[NEGATIVES] = memory.load_negatives(view)
    stored = [pack_class(label, row) for label, row in classes.items() if row is not None]
    digest = sha256(repr(stored).encode()).hexdigest()[:16]
    return f"{len(recognizer.history())} steps, {recognizer.labels()}, {digest}"


def work(path: Path, log: int, seed: int, head: str) -> None:
    rng = random.Random(seed)
    with Recognizer(path, "identity", **OPTIONS[head]) as recognizer:
        while True:
            do(recognizer, rng, head)
            os.write(log, f"{state(recognizer)}\n".encode())


def one_more(path: Path, seed: int, done: int, head: str) -> str:
    """Return the state after so many calls and the next, repeated in a copy."""
    rng = random.Random(seed)
    with Recognizer(path, "identity", **OPTIONS[head]) as recognizer:
        for _ in range(done + 1):
            do(recognizer, rng, head)
        return state(recognizer)


def kill(path: Path, kills: int, seed: int, head: str) -> tuple[int, int]:
    """Return how many calls were acknowledged, and how many done but not yet acknowledged."""
    rng = random.Random(seed)
    calls = under_way = 0
    log_path = path.with_suffix(".log")
    for number in range(kills):
        with Recognizer(path, "identity") as recognizer:
            before = state(recognizer)
        copy = path.with_name("copy.cbcl")
        copy.unlink(missing_ok=True)
        if path.exists():
            copy.write_bytes(path.read_bytes())
        log = os.open(log_path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
        child = os.fork()
        if child == 0:
            work(path, log, number, head)
        time.sleep(rng.expovariate(1 / 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(log)
        lines = log_path.read_text().splitlines()
        promised = lines[-1] if lines else before
        with Recognizer(path, "identity") as recognizer:
            found = state(recognizer)
        findings = [] if found == NOTHING else check(path)
        allowed = [promised, one_more(copy, number, len(lines), head)]
        if findings or found not in allowed:
            sys.exit(
                f"{head}, kill {number}: promised {promised}, found {found}, allowed {allowed},"
                f" {findings}"
            )
        calls += len(lines)
        under_way += found != promised
    return calls, under_way


def main(path: Path, kills: int, seed: int) -> None:
    by_vote = path.with_stem(f"{path.stem}-vote")
    first = kill(path, kills - kills // 2, seed, "discriminant")
    second = kill(by_vote, kills // 2, seed, "vote")
    calls, under_way = first[0] + second[0], first[1] + second[1]
    sys.stdout.write(
        f"{kills} kills, {calls} calls acknowledged, none lost, {under_way} done but not yet "
        "acknowledged; check clean\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
