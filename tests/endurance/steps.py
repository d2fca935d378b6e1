"""Steps on a memory, drawn at random, and the state that they lead to, to the last bit."""

from __future__ import annotations

import random
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from cbcl import CBCLError, LabelError, Recognizer
from cbcl.memory.check import check
from cbcl.memory.packing import pack_class

LABELS = ["cup", "key", "pen", "owl"]
NOTHING = "nothing"  # is there yet, or a process was killed before its first step
OPTIONS: dict[str, dict[str, Any]] = {"discriminant": {}, "vote": {"radius": 5.0}}
FEATURES = 64


def draw(rng: random.Random, count: int) -> np.ndarray[Any, Any]:
    """Draw vectors to learn or to ask about."""
    generator = np.random.default_rng(rng.getrandbits(32))
    return generator.normal(size=(count, FEATURES)).astype(np.float32)


def do(recognizer: Recognizer, rng: random.Random, head: str) -> None:
    """Take one step: learn, forget, rename, merge or undo."""
    action = rng.choice(["learn", "learn", "learn", "forget", "rename", "merge", "undo"])
    one, two = rng.sample(LABELS, 2)
    none_of_these = head == "discriminant" and rng.random() < 0.2
    vectors = draw(rng, rng.randint(1, 40))
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
    known = memory.load(view, sorted(view.rows))
    stored = [pack_class(*one, view.head) for one in known.items()]
    digest = sha256(repr(stored).encode()).hexdigest()[:16]
    return f"{len(recognizer.history())} steps, {recognizer.labels()}, {digest}"


def look(path: Path) -> tuple[str, list[str]]:
    """Open a memory; return its state, and what `check` finds wrong with it."""
    try:
        with Recognizer(path) as recognizer:
            found = state(recognizer)
    except CBCLError as error:
        found = f"refused: {error}"
    return found, [] if found == NOTHING else [finding.problem for finding in check(path)]


def replace_files(source: Path, target: Path) -> None:
    """Let a folder hold what another does, and nothing else."""
    for file in target.iterdir():
        file.unlink()
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)
