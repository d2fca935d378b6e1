"""State of a memory in one process: read and checked once, however many steps follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

import numpy as np
import pytest
from support.memory_contents import some
from support.memory_files import execute
from support.nearest_head import NEAREST

from cbcl import CBCLError, MemoryFileError, Recognizer, __version__
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.memory import indexes
from cbcl.memory.store import Memory

Edit = Callable[[Recognizer], object]


def make(path: Path, n_labels: int, head: Literal["vote", "discriminant"]) -> Recognizer:
    recognizer = Recognizer(path, "identity", head=head)
    recognizer.learn_many({f"label {n:04d}": some(2, n) for n in range(n_labels)})
    for seed in range(25):  # until there is something to prune
        recognizer.learn("label 0000", some(1, 10_000 + seed))
    return recognizer


def count_work(recognizer: Recognizer, step: Callable[[], object]) -> int:
    """Return how many hundreds of SQLite's operations a step takes."""
    memory, work = recognizer._memory, 0

    def tick() -> int:
        nonlocal work
        work += 1
        return 0

    assert memory._reader is not None
    assert memory._writer is not None
    connections = (memory._reader.connection, memory._writer.connection)
    for connection in connections:
        connection.set_progress_handler(tick, 100)
    step()
    for connection in connections:
        connection.set_progress_handler(None, 0)
    return work


def count_calls(step: Callable[[], object]) -> int:
    """Return how many calls of Python's and C's functions a step takes."""
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("head", ["vote", "discriminant", NEAREST.name])
def test_a_step_is_no_more_work_among_many_labels(
    tmp_path: Path, head: Literal["vote", "discriminant"]
) -> None:
    work, calls = {}, {}
    for n_labels in (10, 500):
        with make(tmp_path / f"{n_labels}.cbcl", n_labels, head) as recognizer:
            more = partial(recognizer.learn, "label 0001", some(1, 1))
            work[n_labels] = count_work(recognizer, more)
            recognizer.learn("a", some(1, 1))  # which reads all labels, once
            new = partial(recognizer.learn, "b", some(2, 2))
            calls[n_labels] = count_calls(new)
    assert work[500] <= work[10] + 3
    assert 100 < calls[500] <= calls[10] + 50


EDITS: dict[str, Edit] = {
    "learn": lambda recognizer: recognizer.learn("label 0001", some(2, 101)),
    "add": lambda recognizer: recognizer.learn_many({"a": some(2, 102), "z": some(2, 103)}),
    "negatives": lambda recognizer: recognizer.learn(None, some(2, 104)),
    "more negatives": lambda recognizer: recognizer.learn(None, some(2, 105)),
    "move": lambda recognizer: recognizer.learn("label 0002", some(2, 103)),  # all that "z" had
    "rename": lambda recognizer: recognizer.rename("label 0002", "b"),
    "merge": lambda recognizer: recognizer.merge("b", "label 0001"),
    "forget": lambda recognizer: recognizer.forget("label 0003"),
    "undo": lambda recognizer: recognizer.undo(),
    "forget negatives": lambda recognizer: recognizer.forget(None),
    "undo that": lambda recognizer: recognizer.undo(),
    "forget for good": lambda recognizer: recognizer.forget("label 0003", for_good=True),
    "nothing to undo": lambda recognizer: recognizer.undo(),
    "fail": lambda recognizer: recognizer.rename("label 0001", "a"),
}
FAILING = ("nothing to undo", "fail")


def test_what_a_process_has_written_is_what_another_reads(tmp_path: Path) -> None:
    """After every kind of step, to the order of the labels."""
    with make(tmp_path / "things.cbcl", 5, "discriminant") as recognizer:
        for name, edit in EDITS.items():
            before = recognizer._memory.view()
            with pytest.raises(CBCLError) if name in FAILING else nullcontext():
                edit(recognizer)
            with closing(Memory(recognizer.path)) as other:
                expected = other.view()
            ours = recognizer._memory.view()
            assert (ours, [*ours.classes]) == (expected, [*expected.classes]), name
            assert (ours == before) == (ours is before), name
            with recognizer._memory.writing() as writing:
                assert writing.view == expected, name


@pytest.mark.parametrize("n_recent", [0, 20, 4096])
def test_what_is_found_step_by_step_is_found_by_one_who_reads_all(
    tmp_path: Path, n_recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MAX_RECENT", n_recent)
    with make(tmp_path / "things.cbcl", 5, "discriminant") as recognizer:
        memory = recognizer._memory
        seeds = (*range(5), *range(101, 106))
        sight = DirectionSight(np.concatenate([some(2, seed) for seed in seeds]))
        sought = sight.sketches.tolist()
        for name, edit in EDITS.items():
            with pytest.raises(CBCLError) if name in FAILING else nullcontext():
                edit(recognizer)
            view = memory.view()
            with closing(Memory(recognizer.path)) as other:
                assert memory.find_taught(view, sought) == other.find_taught(view, sought), name
            alike = {"a", "b", "label 0001", "label 0003"} & view.classes.keys()
            spelled = ["A", "LABEL  0001", "Label 0003", "B", "nothing"]
            assert memory.find_spelled_alike(view, spelled) == alike, name


def test_what_another_process_writes_is_seen_between_steps(tmp_path: Path) -> None:
    with (
        make(tmp_path / "things.cbcl", 3, "discriminant") as ours,
        Recognizer(tmp_path / "things.cbcl", "identity") as theirs,
    ):
        for number in range(4):
            ours.learn("cup", some(1, number))
            theirs.learn(f"key {number}", some(1, 50 + number))
            assert ours.labels() == theirs.labels()
            theirs.learn("cup", some(1, 90 + number))
            ours.learn(f"pen {number}", some(1, 70 + number))
            assert ours.labels() == theirs.labels()
        assert ours.labels()["cup"] == 8


def test_what_is_damaged_by_another_between_steps_is_told(tmp_path: Path) -> None:
    with make(tmp_path / "things.cbcl", 3, "vote") as recognizer:
        execute(recognizer.path, "UPDATE memory SET value = x'00' WHERE name = 'about'")
        for use in (recognizer.labels, lambda: recognizer.learn("cup", some(1))):
            with pytest.raises(MemoryFileError, match="is damaged"):
                use()


def test_a_reader_that_fails_does_not_fail_a_step_that_is_written(tmp_path: Path) -> None:
    with (
        make(tmp_path / "things.cbcl", 3, "vote") as recognizer,
        recognizer._memory.writing() as writing,
    ):
        writing.add_step("forget", {"label": "label 0001"}, writing.view.settings)
        writing.retire_class("label 0001")
        assert recognizer._memory._reader is not None
        recognizer._memory._reader.connection.close()
    with Recognizer(tmp_path / "things.cbcl", "identity") as recognizer:
        assert [*recognizer.labels()] == ["label 0000", "label 0002"]


def test_a_step_does_not_look_for_the_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That reads files, and took as long as a fifth of a step."""
    with make(tmp_path / "things.cbcl", 3, "discriminant") as recognizer:
        monkeypatch.delattr("importlib.metadata.Distribution.from_name")
        assert recognizer.learn("cup", some(1)).totals == {"cup": 1}
        assert recognizer._memory.view().about.made == __version__
