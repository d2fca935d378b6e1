"""Many thousand mixed operations, compared with a fresh learner that was fed the same stream.

Along the way: what is known equals, bit for bit, what a fresh memory learns from the pictures that
survived, and so do the answers. At the end: resident memory and open descriptors are what they were
after the first tenth, and so is the processor time of learning and of asking.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np

from cbcl import LabelError, MemoryFileError, Recognizer
from cbcl.heads.base import NEGATIVES
from cbcl.memory.check import check
from endurance.model import Batch, Model, bits_of, teach, vectors_of
from endurance.steps import OPTIONS
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import fast_folder
from endurance.writes import start, wait

LABELS = [f"thing {number}" for number in range(12)]
WEIGHTS = {
    "learn": 40,
    "recognize": 26,
    "forget": 9,
    "rename": 6,
    "merge": 4,
    "undo": 8,
    "none_of_these": 3,
    "forget_negatives": 0.5,
    "forget_for_good": 0.5,
    "reopen": 1.5,
    "exchange": 0.3,
    "together": 0.3,
    "compare": 0.9,
}
MAX_GROWTH_MB = 20.0
MAX_SLOWER = 3.0  # times, of the median: other processes may be at work, too
TENTHS = 10
ASKED = 5  # vectors, whenever the answers are compared


class Soak:
    """One memory that is used on and on, and the model of it."""

    def __init__(self, folder: Path, head: str, seed: int) -> None:
        self._folder, self._head = folder, head
        self._rng, self._seed = random.Random(seed), seed
        self.path, self.model = folder / "things.cbcl", Model()
        self.recognizer = self._open(self.path)
        self.seconds: dict[str, list[float]] = {"learn": [], "recognize": []}
        self._n_batches = 0

    def _open(self, path: Path) -> Recognizer:
        return Recognizer(path, "identity", **OPTIONS[self._head])

    def _batch(self) -> Batch:
        self._n_batches += 1
        return self._seed * 1_000_003 + self._n_batches, self._rng.randint(1, 6)

    def do(self) -> str:
        """Do one thing; return what is wrong then, if anything."""
        (name,) = self._rng.choices([*WEIGHTS], [*WEIGHTS.values()])
        try:
            problem: str | None = getattr(self, f"_{name}")()
        except Exception as error:
            problem = repr(error)
        return f"{name}: {problem}" if problem else ""

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        self.seconds[name].append(time.process_time() - begun)

    def _learn(self) -> None:
        label, batch = self._rng.choice(LABELS), self._batch()
        vectors = vectors_of(batch)
        with self._timed("learn"):
            self.recognizer.learn(label, vectors)
        self.model.learn(label, batch)

    def _none_of_these(self) -> None:
        if self._head == "vote":
            return
        batch = self._batch()
        self.recognizer.learn(None, vectors_of(batch))
        self.model.learn(NEGATIVES, batch)

    def _recognize(self) -> str | None:
        (vector,) = vectors_of((self._rng.getrandbits(32), 1))
        if not self.model.labels:
            return self._refused(MemoryFileError, lambda: self.recognizer.recognize(vector))
        with self._timed("recognize"):
            answer = self.recognizer.recognize(vector)
        known = {entry.label for entry in answer.ranking}
        return None if known <= {*self.model.labels} else f"it ranks {known}"

    def _refused(self, error: type[Exception], call: Callable[[], object]) -> str | None:
        """Tell if something is done that cannot be."""
        with suppress(error):
            call()
            return "it should have been refused"
        return None

    def _forget(self, *, for_good: bool = False) -> str | None:
        label = self._rng.choice(LABELS)
        call = partial(self.recognizer.forget, label, for_good=for_good)
        if not self.recognizer.path.exists():
            return None
        if label not in self.model.state:
            return None if for_good else self._refused(LabelError, call)
        call()
        self.model.forget(label, for_good=for_good)
        return None

    def _forget_for_good(self) -> str | None:
        return self._forget(for_good=True)

    def _forget_negatives(self) -> str | None:
        if NEGATIVES in self.model.state:
            self.recognizer.forget(None)
            self.model.forget(NEGATIVES)
        return None

    def _rename(self) -> str | None:
        label, new = self._rng.sample(LABELS, 2)
        if not self.recognizer.path.exists():
            return None
        if label not in self.model.state or new in self.model.state:
            return self._refused(LabelError, lambda: self.recognizer.rename(label, new))
        self.recognizer.rename(label, new)
        self.model.rename(label, new)
        return None

    def _merge(self) -> str | None:
        label, into = self._rng.sample(LABELS, 2)
        if not self.recognizer.path.exists():
            return None
        if not {label, into} <= {*self.model.state}:
            return self._refused(LabelError, lambda: self.recognizer.merge(label, into))
        self.recognizer.merge(label, into)
        self.model.merge(label, into)
        return None

    def _undo(self) -> str | None:
        if not self.model.can_undo:
            return self._refused(MemoryFileError, self.recognizer.undo)
        self.recognizer.undo()
        self.model.undo()
        return None

    def _reopen(self) -> str | None:
        self.recognizer.close()
        found = check(self.path) if self.path.exists() else []
        self.recognizer = self._open(self.path)
        return f"{found}" if found else None

    def _exchange(self) -> str | None:
        """Export, and import it elsewhere; save a copy."""
        if not self.model.labels:
            return None
        with TemporaryDirectory(dir=self._folder) as folder:
            self.recognizer.export(Path(folder) / "out")
            self.recognizer.save_copy(Path(folder) / "copy.cbcl")
            expected = bits_of(self.recognizer)
            with self._open(Path(folder) / "in.cbcl") as other:
                other.import_(Path(folder) / "out")
                imported = bits_of(other)
            with self._open(Path(folder) / "copy.cbcl") as other:
                copied = bits_of(other)
        if imported != expected or copied != expected:
            return "what was imported, or copied, is not what was exported"
        return None

    def _together(self) -> str | None:
        """Learn from two threads here, and from another process, all at once."""
        batches = {label: self._batch() for label in self._rng.sample(LABELS, 3)}
        elsewhere, *here = batches
        before = self.recognizer.snapshot().revision

        def learn(label: str) -> None:
            self.recognizer.learn(label, vectors_of(batches[label]))

        def learn_elsewhere() -> None:
            with self._open(self.path) as other:
                other.learn(elsewhere, vectors_of(batches[elsewhere]))

        child = start(learn_elsewhere)
        threads = [Thread(target=learn, args=(label,)) for label in here]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if status := wait(child):
            return f"the other process ended with {status}"
        steps = [step for step in self.recognizer.history() if step.step > before]
        for step in reversed(steps):
            for label in step.about["pictures"]:
                self.model.learn(label, batches[label])
        return None if len(steps) == len(batches) else f"{len(steps)} of 3 steps were taken"

    def _compare(self) -> str | None:
        """Compare all that is known, and some answers, with a fresh memory's."""
        if not self.model.state:
            return None
        with (
            TemporaryDirectory(dir=self._folder) as folder,
            self._open(Path(folder) / "fresh.cbcl") as fresh,
        ):
            teach(fresh, self.model.state)
            ours, theirs = bits_of(self.recognizer), bits_of(fresh)
            if ours.keys() != theirs.keys():
                return f"it knows {[*ours]}, but was taught {[*theirs]}"
            if other := [label for label in ours if ours[label] != theirs[label]]:
                return f"{other} are not what a fresh memory learns"
            if not self.model.labels:
                return None
            asked = vectors_of((self._rng.getrandbits(32), ASKED))
            answers = [self._answers(one, asked) for one in (self.recognizer, fresh)]
        return None if answers[0] == answers[1] else "a fresh memory answers otherwise"

    def _answers(self, recognizer: Recognizer, asked: np.ndarray[Any, Any]) -> list[Any]:
        answers = recognizer.recognize_many(asked)
        return [(answer.label, answer.confidence, answer.ranking) for answer in answers]


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(attack: Attack, head: str) -> Outcome:
    outcome = Outcome()
    tenth = max(1, attack.count // TENTHS)
    memory: list[float] = []
    descriptors: list[int] = []
    marks: list[dict[str, int]] = []  # how many were timed by the end of each tenth
    with fast_folder(attack.folder) as folder:
        used = Soak(folder, head, attack.seed)
        for number in range(tenth * TENTHS):
            if problem := used.do():
                outcome.lost += 1
                outcome.found.append(f"operation {number} of seed {attack.seed}, {problem}")
                break
            outcome.tried += 1
            memory.append(resident_mb())
            descriptors.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
            if outcome.tried % tenth == 0:
                marks.append({name: len(each) for name, each in used.seconds.items()})
                attack.progress(outcome.tried)
        used.recognizer.close()
        outcome.figures["file: MB"] = round(used.path.stat().st_size / 1e6, 3)
    if len(marks) == TENTHS:
        _compare_tenths(outcome, used.seconds, marks)
        _compare_use(outcome, memory, descriptors, tenth)
    return outcome


def _compare_tenths(
    outcome: Outcome, seconds: dict[str, list[float]], marks: list[dict[str, int]]
) -> None:
    """Compare processor time in the second tenth, after the warm-up, and in the last."""
    for name, own in seconds.items():
        parts = {
            "second tenth": own[marks[0][name] : marks[1][name]],
            "last tenth": own[marks[-2][name] : marks[-1][name]],
        }
        for when, part in parts.items():
            for percent in (50, 99):
                value = float(np.percentile(part, percent)) * 1e3
                outcome.figures[f"{name}, p{percent}, {when}: ms"] = round(value, 2)
        before, after = (float(np.median(part)) for part in parts.values())
        if after > MAX_SLOWER * before:
            outcome.found.append(f"{name} took {1e3 * before:.1f} ms, and {1e3 * after:.1f} later")


def _compare_use(outcome: Outcome, memory: list[float], descriptors: list[int], tenth: int) -> None:
    """Compare what the process holds in the second tenth, and in the last."""
    before, after = (float(np.mean(part)) for part in (memory[tenth : 2 * tenth], memory[-tenth:]))
    outcome.figures |= {"resident, second tenth: MB": round(before, 1)}
    outcome.figures |= {"resident, last tenth: MB": round(after, 1)}
    if after - before > MAX_GROWTH_MB:
        outcome.found.append(f"resident memory grew from {before:.0f} to {after:.0f} MB")
    first, last = max(descriptors[tenth : 2 * tenth]), max(descriptors[-tenth:])
    outcome.figures |= {"descriptors, second tenth": first, "descriptors, last tenth": last}
    if last > first:
        outcome.found.append(f"open descriptors grew from {first} to {last}")


def soak_discriminant(attack: Attack) -> Outcome:
    return soak(attack, "discriminant")


def soak_vote(attack: Attack) -> Outcome:
    return soak(attack, "vote")


TRIALS: tuple[Trial, ...] = (
    Trial("soak", "operations", 1000, 100_000, soak_discriminant),
    Trial("soak of the vote", "operations", 500, 20_000, soak_vote),
)
