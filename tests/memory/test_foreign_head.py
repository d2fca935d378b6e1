"""Heads of other packages: offered where they are installed, told of where they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.api import Page, refused
from support.cli import run, said
from support.memory_contents import some
from support.nearest_head import NEAREST
from support.photos import encoded, views

from cbcl import MemoryFileError, Recognizer
from cbcl.heads import base

pytest_plugins = ["support.api_fixtures"]
PROBLEM = "learns by a head 'nearest' that is not installed here: install the package that has it."


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory that learned by a head that has gone since."""
    path = tmp_path / "things.cbcl"
    with Recognizer(path, "identity", head=NEAREST.name) as recognizer:
        recognizer.learn("cup", some(2))
        recognizer.export(tmp_path / "things")
    monkeypatch.delitem(base._loaded, NEAREST.name)
    return path


def test_a_recognizer_tells_that_the_head_of_a_memory_is_not_installed(path: Path) -> None:
    with Recognizer(path, "identity") as recognizer:
        for use in (
            recognizer.labels,
            lambda: recognizer.recognize(some(1)[0]),
            lambda: recognizer.learn("key", some(2)),
            lambda: recognizer.forget("cup"),
        ):
            with pytest.raises(MemoryFileError) as error:
                use()
            assert error.value.public == f"things.cbcl {PROBLEM}"
        assert [step.action for step in recognizer.history()] == ["learn"]
    with (
        Recognizer(path.with_name("copy.cbcl"), "identity") as copy,
        pytest.raises(MemoryFileError, match="is not installed here"),
    ):
        copy.import_(path.with_name("things"))


def test_a_command_tells_that_the_head_of_a_memory_is_not_installed(path: Path) -> None:
    for command in ("show", "undo", "check"):
        result = run(command, path)
        assert result.exit_code == 1
        assert PROBLEM.removesuffix(".").split(": ")[0] in result.output


def test_the_server_tells_that_the_head_of_a_memory_is_not_installed(
    path: Path, open_page: Callable[..., Page]
) -> None:
    told = refused(open_page(path, through="identity").get("/api/labels"), "memory")
    assert told["message"] == f"things.cbcl {PROBLEM}"


def test_a_command_offers_the_head_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(base._loaded, NEAREST.name)
    assert "[discriminant|vote]" in said("learn", "--help")
    installed = tmp_path / "packages" / "nearest-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        f"[{base.GROUP}]\n{NEAREST.name} = support.nearest_head:NEAREST\n"
    )
    monkeypatch.syspath_prepend(installed.parent)
    assert "[discriminant|vote|nearest]" in said("learn", "--help")
    memory = tmp_path / "things.cbcl"
    photo = tmp_path / "cup.jpg"
    photo.write_bytes(encoded(views("coffee", 1)[0]))
    said("learn", memory, photo, "--label", "cup", "--head", NEAREST.name)
    assert f"head {NEAREST.name}" in said("show", memory)


def test_what_a_head_lacks_is_told_without_an_upgrade_that_it_has_not(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    memory = tmp_path / "things.cbcl"
    photo = tmp_path / "cup" / "cup.jpg"
    photo.parent.mkdir()
    photo.write_bytes(encoded(views("coffee", 1)[0]))
    said("learn", memory, photo.parent, "--head", NEAREST.name)
    no_setting = "learns by the nearest, which has no strangers setting.\n"
    for words, told in (
        (["strangers", memory], no_setting),
        (["strangers", memory, "often"], no_setting),
        (["show", memory, "--unknown"], no_setting),
        (["learn", memory, "--none", photo], 'the nearest, which cannot learn "none of these".\n'),
        (["tune", memory, photo.parent], "the nearest, which has no radius and no number of"),
    ):
        result = run(*words)
        assert result.exit_code == 1
        assert told in result.output
    page = open_page(memory)
    response = page.http.put("/api/strangers", json={"strangers": "often"})
    assert refused(response, "memory")["message"] == f"things.cbcl {no_setting.strip()}"
    assert "upgrade" not in refused(page.learn_negatives(photo.read_bytes()), "label")["message"]
