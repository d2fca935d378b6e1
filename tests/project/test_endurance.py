"""The harness's own workers: what crashes, hangs, grows or raises is found, with its input."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from endurance.cases import Verdict, divide
from endurance.trial import Attack, Outcome
from endurance.workers import Batch, Input, Limits, attack_in_workers, unpack, wants_memory

LIMITS = Limits(megabytes=50.0, seconds=0.2)


class Faulty:
    """A reader that does wrong with one of its inputs."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def inputs(self, batch: Batch) -> Iterator[Input]:
        for number in range(batch.start, batch.stop):
            yield Input(f"number {number}", b"input %d" % number)

    def examine(self, _: Batch, given: Input) -> str:
        if given.data == b"input 3":
            self._fail()
        return "read"

    def _fail(self) -> None:
        match self.fault:
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    pass
            case "grow":
                bytearray(80_000_000)[::4096] = b"1" * len(range(0, 80_000_000, 4096))
            case "raise":
                raise KeyError("unexpected")
            case "exit":
                raise SystemExit


def attack(fault: str, attacker: type[Faulty] = Faulty) -> Outcome:
    batches = [Batch("numbers", 0, 5), Batch("numbers", 5, 10)]
    outline = Attack(10, 0, Path(), lambda _: None)
    return attack_in_workers(outline, attacker(fault), batches, LIMITS)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("crash", r"crashes \(SIGKILL\)"),
        ("hang", "takes too many seconds of the processor"),
        ("grow", "takes [0-9]+ MB of 50"),
        ("raise", "KeyError: 'unexpected'"),
        ("exit", "SystemExit"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests may leave threads
def test_a_fault_is_found_with_the_input_that_causes_it(fault: str, sentence: str) -> None:
    (finding,) = attack(fault).found
    name, _, rest = finding.partition(": ")
    assert name == "number 3"
    assert re.match(sentence, rest)
    assert unpack(rest.rpartition("unpack('")[2].removesuffix("')")) == b"input 3"


class Collecting(Faulty):
    """A reader whose second input has garbage collected, as any may."""

    def examine(self, batch: Batch, given: Input) -> str:
        if given.data == b"input 1":
            gc.collect()
        return super().examine(batch, given)


is_collected_in_children = False
os.register_at_fork(after_in_child=lambda: is_collected_in_children and gc.collect())


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_garbage_of_the_parent_hides_nothing_that_grows(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "is_collected_in_children", at_once)
    cycle: list[object] = [bytearray(b"1" * 60_000_000)]
    cycle.append(cycle)
    del cycle
    assert len(attack("grow", Collecting).found) == 1


class Freeing(Faulty):
    """A reader that frees memory of its parent, of which the system then gets all that is free."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        bytearray(31_000_000)  # once it is freed, the heap keeps up to twice as much
        self.blocks = [bytearray(b"1" * 1_000_000) for _ in range(66)]
        del self.blocks[6:]

    def examine(self, batch: Batch, given: Input) -> str:
        if given.data == b"input 1":
            self.blocks.clear()
        return super().examine(batch, given)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_free_memory_of_the_parent_hides_nothing_that_grows() -> None:
    assert len(attack("grow", Freeing).found) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_where_there_is_no_fault_nothing_is_found() -> None:
    outcome = attack("none")
    assert (outcome.found, outcome.tried, outcome.remarks) == ([], 10, ["read 10"])
    assert set(outcome.figures) == {"numbers: peak MB", "numbers: seconds"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_judged_cases_are_counted_and_a_loss_is_both_found_and_lost(tmp_path: Path) -> None:
    verdicts = {3: Verdict("other", "a label is gone", is_loss=True), 5: Verdict("told", "twice")}
    outline = Attack(10, 7, tmp_path, lambda _: None)
    outcome = divide(outline, lambda _: lambda case: verdicts.get(case, Verdict("told")))
    assert sorted(outcome.found) == [
        "case 3 of seed 7: LostWorkError: a label is gone",
        "case 5 of seed 7: AssertionError: twice",
    ]
    assert (outcome.tried, outcome.lost, outcome.remarks) == (10, 1, ["told 8"])


def test_a_refusal_for_want_of_memory_is_told_from_others() -> None:
    error = ValueError("is broken")
    assert not wants_memory(error)
    error.__cause__ = MemoryError()
    assert wants_memory(error)
