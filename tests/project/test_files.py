"""A file is written whole or not at all, and is the same file under every name."""

from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from cbcl.files import create_atomically, identity, name_also, write_atomically


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            write_atomically(path, b"new")
    assert [(file.name, file.read_bytes()) for file in path.parent.iterdir()] == [("file", b"old")]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_threads_that_write_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, together = tmp_path / "file", Barrier(2)
    monkeypatch.setattr("os.fsync", lambda _: together.wait(30))
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(write_atomically, path, data) for data in (b"short", b"much longer")]
    assert [job.result() for job in jobs] == [None, None]
    assert path.read_bytes() in (b"short", b"much longer")
    assert [*tmp_path.iterdir()] == [path]


def test_of_several_that_create_a_file_one_does_and_it_is_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    with ThreadPoolExecutor(8) as pool:
        created = [*pool.map(lambda n: create_atomically(path, b"%d" % n), range(8))]
    assert sum(created) == 1
    assert path.read_bytes() == b"%d" % created.index(True)
    assert [*path.parent.iterdir()] == [path]
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or sys.platform == "win32"


def test_a_file_has_one_identity_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "other").touch()
    (tmp_path / "soft").symlink_to(tmp_path / "file")
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    names = ("file", "soft", "hard", "other")
    same, *others = (identity(tmp_path / name) for name in names)
    assert same is not None
    assert [found == same for found in others] == [True, True, False]
    for nowhere in (tmp_path / "nowhere", "a\0b", "x" * 5000):
        assert identity(nowhere) is None


@pytest.mark.parametrize("links", [True, False])
def test_a_second_name_is_never_one_that_is_taken(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:  # as on a memory stick

        def refuse(*_: object) -> None:
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    path, new, taken = (tmp_path / name for name in ("a", "b", "c"))
    path.write_text("mine")
    taken.write_text("theirs")
    with pytest.raises(FileExistsError):
        name_also(path, taken)
    assert (path.read_text(), taken.read_text()) == ("mine", "theirs")
    name_also(path, new)
    assert new.read_text() == "mine"
    assert path.exists() == links
