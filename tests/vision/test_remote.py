"""Pictures in places that fsspec opens are found, read and learned as those of a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli import said
from support.memory_contents import known
from support.photos import folders

from cbcl import PictureError, Recognizer
from cbcl.vision import decoding
from cbcl.vision.decoding import read
from cbcl.vision.finding import find_remote

fsspec: Any = pytest.importorskip("fsspec")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    """A place with the same photos as a folder beside the test, and a few hidden files."""
    photos = folders(tmp_path / "photos")
    (photos / "coffee" / "cold").mkdir()
    (photos / "coffee" / "0.jpg").rename(photos / "coffee" / "cold" / "0.jpg")
    (photos / "coffee" / ".hidden").write_bytes(b"no picture")
    (photos / "rocket" / "Thumbs.db").write_bytes(b"no picture")
    files = fsspec.filesystem("memory")
    files.put(str(photos), "/photos", recursive=True)
    yield "memory://photos"
    files.rm("/photos", recursive=True)


def test_a_place_is_found_in_the_order_of_a_folder_and_learned_to_the_same_bits(
    place: str, tmp_path: Path
) -> None:
    with (
        Recognizer(tmp_path / "here.cbcl", "pixels", cache=False) as here,
        Recognizer(tmp_path / "there.cbcl", "pixels", cache=False) as there,
        Recognizer(tmp_path / "run.cbcl", "pixels", cache=False) as run,
    ):
        local = here.embedder.find_labelled([tmp_path / "photos"])
        remote = there.embedder.find_labelled([place])
        top, base = str(tmp_path / "photos"), "memory:///photos"
        assert local.keys() == remote.keys()
        for label, paths in local.items():
            at_place = [str(path).replace(base, top) for path in remote[label]]
            assert at_place == [str(path) for path in paths]
        here.learn_many(local)
        there.learn_many(remote)
        assert known(there) == known(here)
        run.learn_each(run.embedder.find_labelled([f"file://{top}"]), n_jobs=1)
        assert known(run) == known(here)
        assert run.learn_each(run.embedder.find_labelled([f"file://{top}"])).n_before == 4
        answer = there.recognize(f"{place}/rocket/1.jpg")
        assert answer.label == "rocket"
        assert answer.picture == "memory:///photos/rocket/1.jpg"
        assert [*there.embedder.find_labelled([f"{place}/astronaut/"])] == ["astronaut"]


def test_a_place_is_learned_by_the_command_line(place: str, tmp_path: Path) -> None:
    told = said("learn", tmp_path / "a.cbcl", place, "--backbone", "pixels")
    assert "a.cbcl knows 4 things." in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("memory://nowhere", "memory://nowhere has no files, or does not exist: "),
        ("nosuch://photos", "nosuch://photos cannot be read: Protocol not known: nosuch."),
    ],
)
def test_a_place_that_cannot_be_found_is_told(url: str, told: str) -> None:
    with pytest.raises(PictureError) as error:
        find_remote(url)
    assert str(error.value).startswith(told)


def test_a_file_beside_folders_has_no_label(place: str, tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe("/photos/loose.jpg", b"")
    with (
        Recognizer(tmp_path / "a.cbcl", "pixels") as recognizer,
        pytest.raises(PictureError, match=r"loose.jpg lies beside folders of pictures"),
    ):
        recognizer.embedder.find_labelled([place])


def test_a_file_is_read_within_the_limit(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_PICTURE_BYTES", 100)
    with pytest.raises(PictureError, match=r"rocket/1\.jpg has more than 0 MB"):
        read(f"{place}/rocket/1.jpg")
    with pytest.raises(PictureError, match=r"rocket/9\.jpg does not exist"):
        read(f"{place}/rocket/9.jpg")


def test_without_fsspec_the_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(PictureError, match=r'pip install "cbcl\[fsspec\]"'):
        find_remote("s3://photos")
