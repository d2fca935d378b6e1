"""The inbox: what is kept, what makes room, and what is never touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cbcl.errors import PictureError
from cbcl.recognition.answer import Answer
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.watch.frames import ProblemLog, WatchedFrame
from cbcl.watch.inbox import Inbox
from cbcl.watch.watcher import Sighting


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def opened(tmp_path: Path, told: list[str]) -> Callable[..., Inbox]:
    return lambda limit=3: Inbox(
        tmp_path / "inbox", ProblemLog(told.append), limit=limit, copy_cosine=0.9
    )


def put(inbox: Inbox, number: int, *, like: int | None = None, source: str = "door") -> None:
    """Keep a frame that looks like no other one, or like another."""
    rng = np.random.default_rng(number if like is None else like)
    vector = rng.normal(size=64).astype(np.float32)
    answer = Answer(None, 0.9, ranking=(), evidence=(), strangeness=1.5)
    sighting = Sighting(f"2026-11-16T12:00:{number:02}.000+00:00", source, answer)
    frame = WatchedFrame(source, b"jpeg %d" % number)
    inbox.put(frame, sighting, EmbeddedPicture(vector, b"", "a backbone"))


def photos(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_frame_is_kept_with_its_answer(opened: Callable[..., Inbox], tmp_path: Path) -> None:
    put(opened(), 1, source="http://frigate:5000/api/door/latest.jpg")
    put(opened(), 2, source="/in/my photo (1).PNG")
    put(opened(), 3, source="camera 0")
    assert photos(tmp_path / "inbox") == [
        "20261116T120001.000-latest.jpg",
        "20261116T120002.000-my_photo_1_.PNG",
        "20261116T120003.000-camera_0.jpg",
    ]
    assert (tmp_path / "inbox" / "20261116T120001.000-latest.jpg").read_bytes() == b"jpeg 1"
    answer = json.loads((tmp_path / "inbox" / ".20261116T120003.000-camera_0.jpg.json").read_text())
    assert (answer["label"], answer["source"], answer["confidence"]) == (None, "camera 0", 0.9)


def test_a_frame_like_one_that_was_kept_is_not_kept(
    opened: Callable[..., Inbox], tmp_path: Path
) -> None:
    inbox = opened()
    for number, like in [(1, 1), (2, 1), (3, 3), (4, 1)]:
        put(inbox, number, like=like)
    assert [name[13:15] for name in photos(tmp_path / "inbox")] == ["01", "03"]


def test_the_oldest_make_room_and_what_is_not_of_the_inbox_is_never_removed(
    opened: Callable[..., Inbox], tmp_path: Path
) -> None:
    inbox = opened(limit=2)
    (tmp_path / "inbox" / "0 my own.jpg").write_bytes(b"mine")
    for number in (1, 2, 3):
        put(inbox, number)
    (tmp_path / "inbox" / "20261116T120003.000-door.jpg").unlink()  # a person has named it
    put(inbox, 4)
    names = photos(tmp_path / "inbox")
    assert names == [
        "0 my own.jpg",
        "20261116T120002.000-door.jpg",
        "20261116T120004.000-door.jpg",
    ]
    hidden = {path.name for path in (tmp_path / "inbox").glob(".*")}
    assert hidden == {f".{name}.json" for name in names[1:]}


def test_an_inbox_that_cannot_be_written_to_is_told_once(
    opened: Callable[..., Inbox], tmp_path: Path, told: list[str]
) -> None:
    inbox = opened()
    (tmp_path / "inbox").rmdir()
    (tmp_path / "inbox").write_text("no folder")
    put(inbox, 1)
    put(inbox, 2)
    assert len(told) == 1
    assert told[0].startswith(f"{tmp_path / 'inbox'} cannot be written to (")
    with pytest.raises(PictureError, match="cannot be made a folder"):
        opened()
