"""A file is written whole or not at all, and is the same file under every name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from cbcl.files import identity, write_atomically


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
