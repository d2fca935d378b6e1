"""The write-ahead log of a killed process: applied to its own file, and to no other."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.memory_contents import some
from support.memory_files import execute

from cbcl import MemoryFileError, Recognizer
from cbcl.memory.check import check


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return learn(tmp_path / "things.cbcl", "cup", "key", "pen")


def learn(path: Path, *labels: str) -> Path:
    with Recognizer(path, "identity") as recognizer:
        for label in labels:
            recognizer.learn(label, some(3, sum(label.encode())))
    return path


def known(path: Path) -> set[str]:
    with Recognizer(path, "identity") as recognizer:
        return {*recognizer.labels()}


KILLED = """
import os, sys
import numpy as np
from cbcl import Recognizer
recognizer = Recognizer(sys.argv[1], "identity")
for label in sys.argv[3:]:
    rng = np.random.default_rng([*label.encode()])
    recognizer.learn(label, rng.normal(size=(int(sys.argv[2]), 8)))
os._exit(9)
"""


def kill_after(path: Path, *labels: str, size: int = 3) -> None:
    """Let a process learn labels and end without closing the memory."""
    subprocess.run([sys.executable, "-c", KILLED, str(path), str(size), *labels], check=False)
    assert path.with_name("things.cbcl-wal").stat().st_size > 0


def refused(path: Path) -> str:
    """Return the sentence, the same from every side; nothing is changed."""
    before = path.read_bytes(), path.with_name("things.cbcl-wal").read_bytes()
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(MemoryFileError) as reading:
            recognizer.labels()
        with pytest.raises(MemoryFileError, match=r"things\.cbcl-wal"):
            recognizer.learn("fox", some(2))
    assert "things.cbcl-wal" in check(path)[0].problem
    assert (path.read_bytes(), path.with_name("things.cbcl-wal").read_bytes()) == before
    return str(reading.value)


def accept_file(path: Path) -> None:
    """Do as the sentence says, to go on with the file that is there."""
    for ending in ("-wal", "-shm"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@pytest.mark.parametrize("killed", [("fox",), ("fox", "owl", "elk", "emu"), ("cup", "key")])
def test_an_older_copy_put_in_place_of_a_killed_memory_is_not_mixed_with_it(
    path: Path, tmp_path: Path, killed: tuple[str, ...]
) -> None:
    shutil.copy(path, tmp_path / "backup")
    learn(path, "dog", "cat")
    kill_after(path, *killed)
    shutil.copyfile(tmp_path / "backup", path)
    assert "belongs to another file" in refused(path)
    accept_file(path)
    assert known(path) == {"cup", "key", "pen"}
    assert check(path) == []


@pytest.mark.parametrize("other", ["saved copy", "another memory"])
def test_another_file_put_in_place_of_a_killed_memory_is_not_mixed_with_it(
    path: Path, tmp_path: Path, other: str
) -> None:
    if other == "saved copy":
        with Recognizer(path, "identity") as recognizer:
            recognizer.save_copy(tmp_path / "other.cbcl")
    else:
        learn(tmp_path / "other.cbcl", "dog")
    expected = known(tmp_path / "other.cbcl")
    kill_after(path, "fox")
    (tmp_path / "other.cbcl").replace(path)
    assert "belongs to another file" in refused(path)
    accept_file(path)
    assert known(path) == expected


@pytest.mark.parametrize("size", [3, 20])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_what_a_killed_process_learned_is_there_whatever_was_moved_into_the_file(
    path: Path, n: int, size: int
) -> None:
    labels = [f"label {number}" for number in range(n)]
    kill_after(path, *labels, size=size)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:  # which stays open
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert known(path) == {"cup", "key", "pen", *labels}
    kill_after(path, "fox")
    assert known(path) == {"cup", "key", "pen", "fox", *labels}
    assert check(path) == []


def test_a_new_memory_whose_process_was_killed_is_there(tmp_path: Path) -> None:
    kill_after(tmp_path / "things.cbcl", "cup")
    assert known(tmp_path / "things.cbcl") == {"cup"}


def test_all_three_files_can_be_copied(path: Path, tmp_path: Path) -> None:
    kill_after(path, "fox")
    (tmp_path / "elsewhere").mkdir()
    for file in tmp_path.glob("things.cbcl*"):
        shutil.copy(file, tmp_path / "elsewhere")
    assert known(tmp_path / "elsewhere" / "things.cbcl") == {"cup", "key", "pen", "fox"}


def test_each_step_changes_the_identity_by_one_and_a_copy_has_another(
    path: Path, tmp_path: Path
) -> None:
    def identity(file: Path) -> int:
        ((number,),) = execute(file, "PRAGMA schema_version")
        return int(number)

    before = identity(path)
    learn(path, "dog", "cat")
    assert identity(path) == before + 2
    with Recognizer(path, "identity") as recognizer:
        recognizer.save_copy(tmp_path / "copy.cbcl")
    assert abs(identity(tmp_path / "copy.cbcl") - before) > 10


def test_the_wal_of_a_deleted_memory_is_not_applied_to_a_new_one(path: Path) -> None:
    kill_after(path, "fox")
    path.unlink()
    assert known(learn(path, "dog")) == {"dog"}


def test_a_process_killed_while_it_moves_its_steps_into_the_file_loses_nothing(
    path: Path, tmp_path: Path
) -> None:
    """The first page is written first, and tells of pages that the file does not have yet."""
    labels = [f"label {number}" for number in range(40)]
    kill_after(path, *labels)
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("things.cbcl*"):
        shutil.copy(file, tmp_path / "copy")
    copy = tmp_path / "copy" / "things.cbcl"
    execute(copy, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert copy.stat().st_size > path.stat().st_size
    with path.open("r+b") as opened:
        opened.write(copy.read_bytes()[:4096])
    assert known(path) == {"cup", "key", "pen", *labels}
    assert check(path) == []


def test_a_plain_copy_of_the_state_before_is_the_file_itself(path: Path, tmp_path: Path) -> None:
    """It has the same bytes: what the killed process acknowledged is applied, and sound."""
    shutil.copy(path, tmp_path / "backup")
    kill_after(path, "fox", "owl")
    assert path.read_bytes() == (tmp_path / "backup").read_bytes()
    shutil.copyfile(tmp_path / "backup", path)
    assert known(path) == {"cup", "key", "pen", "fox", "owl"}
    assert check(path) == []


def test_a_page_that_a_killed_process_wrote_half_is_no_damage(path: Path) -> None:
    """It is in the log, from which the file is completed."""
    kill_after(path, *(f"label {number}" for number in range(40)))
    with path.open("ab") as opened:
        opened.write(bytes(100))
    assert check(path) == []
    assert len(known(path)) == 43
    assert path.stat().st_size % 4096 == 0
