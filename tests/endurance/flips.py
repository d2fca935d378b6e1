"""Flip single bits of memory files: every bit of the head of every page, and others at random.

A flipped bit is told, by an error or by `check`; or it does no harm, and all that can be read is as
before. What is known of a label is never another without an error, whatever `check` would say.
Nothing but a CBCLError is ever raised.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from cbcl import CBCLError, Recognizer, load_backbone
from cbcl.memory.check import check
from cbcl.memory.packing import pack_class
from cbcl.memory.store import Memory
from endurance.cases import Judge, Verdict, divide
from endurance.trial import Attack, Outcome, Trial

HEAD = 100  # bytes of each page, all of whose bits are flipped
PAGE = 4096
HEADS: tuple[Literal["vote", "discriminant"], ...] = ("vote", "discriminant")
UNDONE = 0.03  # of the files: what an undo leads to is compared, too


class Contents(NamedTuple):
    """All that can be read of a memory."""

    known: Any  # info, settings, and classes: labels and their data
    rest: Any  # thumbnails and history


def read(path: Path) -> Contents:
    with closing(Memory(path)) as memory:
        view = memory.view()
        classes = memory.load(view, sorted(view.rows))
        packed = [(label, pack_class(label, row, view.head)) for label, row in classes.items()]
        thumbnails = [
            (one.place, one.rank, one.jpeg, one.vector.tobytes())
            for label in classes
            for one in memory.thumbnails(view, label)
        ]
        known = view.about, view.settings, packed, memory.backbone_state()
        return Contents(known, (thumbnails, memory.history()))


def look_at(pictures: Sequence[Image.Image]) -> list[Any]:
    return [np.asarray(picture.resize((4, 4))).ravel() for picture in pictures]


LOOK = load_backbone(look_at, name="small", at_least=4)


def make_memories(folder: Path) -> list[Path]:
    """Make memories of both heads, of vectors and of pictures, with negatives and a history."""
    rng = np.random.default_rng(0)
    vectors, pictures = "identity", LOOK

    def draw(backbone: Any, count: int) -> Any:
        if backbone is vectors:
            return rng.normal(size=(count, 8)).astype(np.float32)
        return [*rng.integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)]

    paths: list[Path] = []
    for head, backbone in product(HEADS, (vectors, pictures)):
        path = folder / f"{len(paths)}.cbcl"
        with Recognizer(path, backbone, head=head, cache=False) as recognizer:
            for label in ("cup", "key", "pen", "key"):
                recognizer.learn(label, draw(backbone, 3))
            if head == "discriminant":
                recognizer.learn(None, draw(backbone, 2))
            recognizer.rename("pen", "pencil")
            recognizer.forget("cup")
            recognizer.undo()
        paths.append(path)
    return paths


class Specimen:
    """A memory whose bits are flipped, one at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.whole = path, path.read_bytes()
        self.contents, self.undone = read(path), self._undo()
        heads = range(0, len(self.whole), PAGE)
        self.head_bits = [8 * head + bit for head in heads for bit in range(8 * HEAD)]

    def _undo(self) -> Contents:
        """Return the contents after an undo, in a copy."""
        copy = self.path.with_name("copy.cbcl")
        copy.write_bytes(self.path.read_bytes())
        try:
            with Recognizer(copy) as recognizer:
                recognizer.undo()
            after = read(copy)
            return after._replace(rest=after.rest[0])  # without the times of the history
        finally:
            for ending in ("", "-wal", "-shm"):
                copy.with_name(copy.name + ending).unlink(missing_ok=True)

    def flip(self, bit: int, *, undo: bool) -> Verdict:
        """Flip a bit, read all, and put the bit back."""
        place, mask = bit // 8, 1 << bit % 8
        self._write(place, self.whole[place] ^ mask)
        before = self.path.stat()
        try:
            return self._judge(undo=undo)
        except Exception as error:
            return Verdict("raised", repr(error))
        finally:
            after = self.path.stat()
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                self._write(place, self.whole[place])
            else:
                self.path.write_bytes(self.whole)
            for ending in ("-wal", "-shm", "-journal"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def _write(self, place: int, byte: int) -> None:
        file = os.open(self.path, os.O_WRONLY)
        os.pwrite(file, bytes([byte]), place)
        os.close(file)

    def _judge(self, *, undo: bool) -> Verdict:
        try:
            contents = read(self.path)
        except CBCLError as error:
            if not check(self.path):
                return Verdict("told", f"it is refused ({error}), but `check` finds nothing")
            return Verdict("told")
        if contents.known != self.contents.known:
            return Verdict("other", "another content is read without an error", is_loss=True)
        if contents.rest != self.contents.rest:
            problem = "" if check(self.path) else "thumbnails or history are silently others"
            return Verdict("told by check", problem, is_loss=bool(problem))
        if undo and self._undo_differs() and not check(self.path):
            return Verdict("other", "undoing silently leads elsewhere", is_loss=True)
        return Verdict("harmless")

    def _undo_differs(self) -> bool:
        try:
            return self._undo() != self.undone
        except CBCLError:
            return False


def flip_bits(attack: Attack) -> Outcome:
    """Flip all bits of the heads of pages, in random order, then any others."""

    def make(folder: Path) -> Judge:
        specimens = [Specimen(path) for path in make_memories(folder)]
        heads = [(one, bit) for one in specimens for bit in one.head_bits]
        random.Random(attack.seed).shuffle(heads)

        def judge(case: int) -> Verdict:
            rng = random.Random(f"{attack.seed} {case}")
            if case < len(heads):
                specimen, bit = heads[case]
            else:
                specimen = rng.choice(specimens)
                bit = rng.randrange(8 * len(specimen.whole))
            verdict = specimen.flip(bit, undo=rng.random() < UNDONE)
            named = f"bit {bit} of {specimen.path.name}: {verdict.problem}"
            return verdict._replace(problem=named) if verdict.problem else verdict

        return judge

    return divide(attack, make)


TRIALS = (Trial("flipped bits", "files", 2000, 150_000, flip_bits),)
