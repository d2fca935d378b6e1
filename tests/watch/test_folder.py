"""A watched folder: which photos are new, and when they are whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cbcl.errors import PictureError
from cbcl.watch import folder as folder_module
from cbcl.watch.folder import PhotoFolder
from cbcl.watch.frames import ProblemLog


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def watched(tmp_path: Path, told: list[str]) -> Callable[..., PhotoFolder]:
    (tmp_path / "in").mkdir()
    return lambda **options: PhotoFolder(tmp_path / "in", ProblemLog(told.append), **options)


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


def test_a_photo_is_new_once_and_when_two_polls_find_it_the_same(
    watched: Callable[..., PhotoFolder], tmp_path: Path
) -> None:
    photos = watched()
    photo = tmp_path / "in" / "a.jpg"
    photo.write_bytes(b"half")
    assert photos.poll() == []
    photo.write_bytes(b"half and half")
    assert photos.poll() == []
    assert names(photos.poll()) == ["a.jpg"]
    assert photos.poll() == []


def test_a_photo_that_is_written_again_is_new_again(
    watched: Callable[..., PhotoFolder], tmp_path: Path
) -> None:
    photo = tmp_path / "in" / "latest.jpg"
    photo.write_bytes(b"one")
    photos = watched()
    os.utime(photo, ns=(1, 1))  # as long as before: only its time tells
    photos.poll()
    assert names(photos.poll()) == ["latest.jpg"]


def test_a_photo_renamed_into_the_folder_is_new(
    watched: Callable[..., PhotoFolder], tmp_path: Path
) -> None:
    photos = watched()
    (tmp_path / "elsewhere.jpg").write_bytes(b"whole")
    (tmp_path / "elsewhere.jpg").rename(tmp_path / "in" / "b.jpg")
    photos.poll()
    assert names(photos.poll()) == ["b.jpg"]


@pytest.mark.parametrize(("existing", "expected"), [(False, ["b.jpg"]), (True, ["a.jpg", "b.jpg"])])
def test_photos_that_are_there_at_first_are_left_unless_asked_for(
    watched: Callable[..., PhotoFolder], tmp_path: Path, existing: bool, expected: list[str]
) -> None:
    (tmp_path / "in" / "a.jpg").write_bytes(b"a")
    photos = watched(existing=existing)
    (tmp_path / "in" / "b.jpg").write_bytes(b"b")
    photos.poll()
    assert names(photos.poll()) == expected


def test_hidden_files_empty_ones_and_the_memory_are_left_out_but_not_those_in_folders(
    watched: Callable[..., PhotoFolder], tmp_path: Path
) -> None:
    photos = watched(leave_out=[tmp_path / "in" / "things.cbcl"])
    (tmp_path / "in" / "monday").mkdir()
    (tmp_path / "in" / ".hidden").mkdir()
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "in" / "empty.jpg").touch()
    for name in (".a.jpg", "things.cbcl", "monday/b.jpg", ".hidden/c.jpg"):
        (tmp_path / "in" / name).write_bytes(b"x")
    photos.poll()
    assert names(photos.poll()) == ["b.jpg"]


def test_photos_are_known_again_after_their_folder_vanished(
    watched: Callable[..., PhotoFolder], tmp_path: Path, told: list[str]
) -> None:
    (tmp_path / "in" / "a.jpg").write_bytes(b"a")
    photos = watched(every=0.01)
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        photos.poll()
    (tmp_path / "in").mkdir()  # an empty place to mount a disk
    assert photos.poll() == []
    (tmp_path / "in").rmdir()
    (tmp_path / "away").rename(tmp_path / "in")
    photos.poll()
    (tmp_path / "in" / "b.jpg").write_bytes(b"b")
    frame = next(photos.frames())
    assert (Path(frame.source).name, frame.data) == ("b.jpg", b"b")
    assert told == []


def test_a_folder_that_vanishes_is_told_once_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    told: list[str] = []

    def tell(problem: str) -> None:
        told.append(problem)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.jpg").write_bytes(b"a")

    photos = PhotoFolder(tmp_path / "in", ProblemLog(tell), every=0.01)
    shutil.rmtree(tmp_path / "in")
    frames = photos.frames()
    assert next(frames).data == b"a"
    assert told == [
        f"{tmp_path / 'in'} cannot be read (No such file or directory): waiting for it."
    ]


def test_no_more_than_so_many_photos_that_are_gone_are_known(
    watched: Callable[..., PhotoFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "MAX_MISSING", 2)
    photos = watched()
    for number in range(4):
        path = tmp_path / "in" / f"{number}.jpg"
        path.write_bytes(b"x")
        photos.poll()
        assert names(photos.poll()) == [path.name]
        path.unlink()
    photos.poll()
    assert len(photos._handled) <= 2


def test_what_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"nowhere is not a folder to watch \(No such file"):
        PhotoFolder(tmp_path / "nowhere", ProblemLog(print))
