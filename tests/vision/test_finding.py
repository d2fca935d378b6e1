"""Paths, folders and patterns become files in order, or an error says why not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from cbcl.errors import PictureError
from cbcl.vision.finding import find, find_labelled


def test_folders_and_patterns_are_the_files_in_them_in_order(tmp_path: Path) -> None:
    hidden = ("a/.hidden.jpg", ".git/x.jpg", "Thumbs.db", "b/desktop.ini", "__MACOSX/x.jpg")
    for name in ("b/2.jpg", "b/10.jpg", "a/1.jpg", *hidden):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find([tmp_path]) == [tmp_path / name for name in ("a/1.jpg", "b/10.jpg", "b/2.jpg")]
    assert find([str(tmp_path / "*" / "1*.jpg")]) == [tmp_path / "a/1.jpg", tmp_path / "b/10.jpg"]
    (tmp_path / "b").rename(tmp_path / "b[1]")
    assert find([tmp_path / "b[1]" / "?.jpg"]) == [tmp_path / "b[1]/2.jpg"]
    (tmp_path / "b[1]").rename(tmp_path / "b")
    for folders in ([tmp_path], [tmp_path / "a", tmp_path / "b"]):
        assert [label for label, _ in find_labelled(folders)] == ["a", "b", "b"]


def test_a_folder_that_cannot_be_learned_from_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for call in (lambda: find([tmp_path / "empty"]), lambda: find_labelled([tmp_path / "empty"])):
        with pytest.raises(PictureError, match="empty folder"):
            call()
    assert find([tmp_path / "nowhere.jpg"]) == [tmp_path / "nowhere.jpg"]
    with pytest.raises(PictureError, match=r"is not a pattern|matches no files"):
        find([tmp_path / "**x"])
    with pytest.raises(PictureError, match="matches no files"):
        find([str(tmp_path / "*.gif")])
    (tmp_path / "empty" / "1.jpg").touch()
    (tmp_path / "loose.jpg").touch()
    with pytest.raises(PictureError, match=r"loose\.jpg lies beside folders"):
        find_labelled([tmp_path])


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.jpg").touch()
    (tmp_path / "photos" / "ant").mkdir(parents=True)
    (tmp_path / "photos" / "ant" / "2.jpg").touch()
    (tmp_path / "photos" / "cup").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "ant" / "back").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "zoo").symlink_to(tmp_path / "photos" / "ant")
    (tmp_path / "dangling*").symlink_to(tmp_path / "nowhere")
    assert find([tmp_path / "dangling*"]) == [tmp_path / "dangling*"]
    (tmp_path / "bees").symlink_to(tmp_path / "elsewhere")
    assert [label for label, _ in find_labelled([tmp_path / "bees"])] == ["bees"]
    found = [(label, path.name) for label, path in find_labelled([tmp_path / "photos"])]
    assert found == [("ant", "2.jpg"), ("cup", "1.jpg")]


def test_folders_that_link_to_one_another_are_walked_once_by_their_own_names(
    tmp_path: Path,
) -> None:
    names = [f"{number:02}" for number in range(12)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo.jpg").touch()
        for other in names:
            (tmp_path / name / f"to {other}").symlink_to(tmp_path / other)
    assert find([tmp_path]) == [tmp_path / name / "photo.jpg" for name in names]
    assert [label for label, _ in find_labelled([tmp_path])] == names


def test_folders_nested_deeply_are_walked_or_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # so that the whole path is not too long for the system
    deep = Path("deep", *["d"] * 1200)
    for depth in range(1, 1202):
        Path(*deep.parts[:depth]).mkdir()
    (deep / "1.jpg").touch()
    assert find(["deep"]) == [deep / "1.jpg"]
    assert find_labelled(["deep"]) == [("d", deep / "1.jpg")]
    with suppress(PictureError):  # as far as Python's own search goes
        assert find(["deep/**/1.jpg"]) == [deep / "1.jpg"]
    (deep / "1.jpg").unlink()
    os.removedirs(deep)  # which does not recurse, as removing a tree does
