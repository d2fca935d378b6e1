"""Kill processes that learn, forget, rename, merge and undo, at random moments, and find no loss.

    python tests/support/kill_loop.py MEMORY KILLS SEED

Each process writes a line to a file, unbuffered, after each call that returned. After each kill,
the memory must open, `check` must be clean, and the state must be that of the last line, or the one
after the call that was under way.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

from cbcl import LabelError, Recognizer
from cbcl.memory.check import check

LABELS = ["cup", "key", "pen", "owl"]


def do(recognizer: Recognizer, rng: random.Random) -> None:
    action = rng.choice(["learn", "learn", "learn", "forget", "rename", "merge", "undo"])
    one, two = rng.sample(LABELS, 2)
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
                recognizer.learn(one, vectors)
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
    """Describe the history and the concepts, to the last bit."""
    concepts = recognizer.concepts().values()
    digest = sha256(b"".join(one.centroids.tobytes() for one in concepts)).hexdigest()[:16]
    return f"{len(recognizer.history())} steps, {recognizer.labels()}, {digest}"


def work(path: Path, log: int, seed: int) -> None:
    rng = random.Random(seed)
    with Recognizer(path, "identity", radius=5.0) as recognizer:
        while True:
            do(recognizer, rng)
            os.write(log, f"{state(recognizer)}\n".encode())


def one_more(path: Path, seed: int, done: int) -> str:
    """Return the state after so many calls and the next, repeated in a copy."""
    rng = random.Random(seed)
    with Recognizer(path, "identity", radius=5.0) as recognizer:
        for _ in range(done + 1):
            do(recognizer, rng)
        return state(recognizer)


def main(path: Path, kills: int, seed: int) -> None:
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
            work(path, log, number)
        time.sleep(rng.expovariate(1 / 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(log)
        lines = log_path.read_text().splitlines()
        promised = lines[-1] if lines else before
        findings = check(path) if path.exists() else []
        with Recognizer(path, "identity") as recognizer:
            found = state(recognizer)
        allowed = [promised, one_more(copy, number, len(lines))]
        if findings or found not in allowed:
            sys.exit(
                f"kill {number}: promised {promised}, found {found}, allowed {allowed}, {findings}"
            )
        calls += len(lines)
        under_way += found != promised
    sys.stdout.write(
        f"{kills} kills, {calls} calls acknowledged, none lost, {under_way} done but not yet "
        "acknowledged; check clean\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
