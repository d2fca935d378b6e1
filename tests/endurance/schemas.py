"""Open memories whose schema or rows were made up: each is refused in a sentence, or does no harm.

What is accepted has the contents of the memory that it was made of, and keeps them when another
label is learned, unless a row was changed that cbcl could have written so; it can then be used in
every way, and nothing but a CBCLError is raised.
A case is ended after 20 seconds, and may take 300 MB.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from cbcl import CBCLError, Recognizer
from cbcl.memory.check import check
from endurance.cases import Judge, Verdict, divide
from endurance.flips import LOOK, Contents, make_memories, read
from endurance.grammar import change
from endurance.trial import Attack, Outcome, Trial

USED = 0.1  # of the memories that are accepted, with edited rows


def picture_for(backbone: Any) -> Any:
    if backbone == "identity":
        return np.ones(8, np.float32)
    return np.full((8, 8, 3), 200, np.uint8)


def use_everything(path: Path, backbone: Any, folder: Path) -> Iterator[Callable[[], object]]:
    """Yield all that can be done to a memory, changes last."""
    picture = picture_for(backbone)
    with Recognizer(path, backbone, cache=False) as recognizer:
        yield recognizer.labels
        yield lambda: recognizer.recognize(picture)
        yield lambda: recognizer.snapshot().things()
        yield lambda: recognizer.snapshot().examine()
        yield lambda: recognizer.snapshot().advise()
        yield lambda: [step.summary for step in recognizer.history()]
        yield lambda: [one.jpeg for one in recognizer.snapshot().examples("cup")]
        yield lambda: [one.jpeg for one in recognizer.snapshot().negatives()]
        yield lambda: recognizer.export(folder / "out")
        yield lambda: recognizer.save_copy(folder / "copy.cbcl")
        with Recognizer(folder / "ours.cbcl", backbone, cache=False) as ours:
            yield lambda: ours.adopt(path)
        yield lambda: recognizer.learn("cup", [picture])
        yield lambda: recognizer.merge("pencil", "cup")
        for _ in range(3):
            yield recognizer.undo
        yield lambda: recognizer.forget("key", for_good=True)


class Subject:
    """A memory, and its contents, of which others are made."""

    def __init__(self, path: Path, backbone: Any) -> None:
        self.path, self.backbone = path, backbone
        self.whole, self.contents = path.read_bytes(), read(path)

    def judge(self, rng: random.Random) -> Verdict:
        """Change the memory and see what becomes of it."""
        self._restore()
        changes = change(self.path, rng)
        words = "; ".join(one.words[:150] for one in changes)
        verdict = self._see(any(one.is_edit for one in changes), rng)
        return (
            verdict._replace(problem=f"{words}: {verdict.problem}") if verdict.problem else verdict
        )

    def _restore(self) -> None:
        for ending in ("-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        self.path.write_bytes(self.whole)

    def _see(self, is_edit: bool, rng: random.Random) -> Verdict:
        try:
            findings = check(self.path)
            contents: Contents | None = None
            try:
                contents = read(self.path)
            except CBCLError:
                if not findings:
                    return Verdict("refused", "it is refused, but `check` finds nothing")
            if contents is not None and contents.known != self.contents.known and not is_edit:
                return Verdict("other", "another content is read without an error", is_loss=True)
            may_learn = contents is not None and not is_edit and not findings
            if may_learn and self._learning_changes_others():
                return Verdict("other", "learning one label changes others", is_loss=True)
            if contents is None and rng.random() > USED / 10:
                return Verdict("refused")
            if contents is None or not is_edit or rng.random() < USED:
                self._use()
            return Verdict("refused" if contents is None else "accepted")
        except Exception as error:
            return Verdict("raised", repr(error))

    def _learning_changes_others(self) -> bool:
        """Learn a new label, and tell whether the others, or what else is there, have changed."""
        with Recognizer(self.path, self.backbone, cache=False) as recognizer:
            recognizer.learn("fox", [picture_for(self.backbone)])
        after = read(self.path)
        classes = [(label, bits) for label, bits in after.known[2] if label != "fox"]
        return classes != self.contents.known[2] or check(self.path) != []

    def _use(self) -> None:
        folder = self.path.with_name("use")
        folder.mkdir()
        try:
            for use in use_everything(self.path, self.backbone, folder):
                with suppress(CBCLError):
                    use()
        finally:
            rmtree(folder)


def make_up(attack: Attack) -> Outcome:
    def make(folder: Path) -> Judge:
        backbones = ("identity", LOOK) * 2
        paths = make_memories(folder)
        subjects = [Subject(*both) for both in zip(paths, backbones, strict=True)]

        def judge(case: int) -> Verdict:
            rng = random.Random(f"{attack.seed} {case}")
            return rng.choice(subjects).judge(rng)

        return judge

    return divide(attack, make)


TRIALS = (Trial("made-up schemas and rows", "files", 800, 60_000, make_up),)
