"""`cbcl backbones measure`: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.measuring import HOW, network, things

from cbcl.recognition import cosines


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    place = tmp_path_factory.mktemp("measured")
    return [str(things(place / "birds", 1)), str(things(place / "cups", 2))]


measure = partial(run, "backbones", "measure")


def test_the_numbers_of_a_file_are_written_into_its_description(
    folders: list[str], tmp_path: Path
) -> None:
    file = network(tmp_path)
    done = measure(file, *folders)
    assert done.exit_code == 0, done.output
    assert "measured on 480 photos of 40 things: same 0." in done.output
    assert f"written into {tmp_path / 'net.json'}." in done.output
    description = json.loads((tmp_path / "net.json").read_text())
    row = description.pop("measured")
    assert description == HOW
    assert row["command"] == "cbcl backbones measure net.onnx birds cups"
    assert (row["data"], row["photos"], row["classes"]) == (["birds", "cups"], 480, 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.onnx"]


def test_those_of_a_name_are_printed_and_written_only_where_it_is_said(
    folders: list[str], tmp_path: Path
) -> None:
    done = measure("pixels", *folders)
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert [*printed] == ["pixels"]
    table = tmp_path / "table.json"
    table.write_text('{"other": {}}')
    done = measure("pixels", *folders, "--output", table, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert json.loads(table.read_text()) == {"other": {}, **printed}


def test_a_broken_photo_is_told_and_the_rest_is_measured(
    folders: list[str], tmp_path: Path
) -> None:
    place = shutil.copytree(folders[0], tmp_path / "birds")
    (place / "thing 3" / "more.jpg").write_bytes(b"no picture")
    file = network(tmp_path)
    done = measure(file, place, folders[1])
    assert done.exit_code == 1
    assert "skipped: " in done.stderr
    assert "more.jpg" in done.stderr
    assert "measured" in json.loads((tmp_path / "net.json").read_text())


def test_what_cannot_be_measured_is_one_sentence_and_nothing_is_written(
    folders: list[str], tmp_path: Path
) -> None:
    file = network(tmp_path)
    before = (tmp_path / "net.json").read_bytes()
    for words, problem in (
        ([file, folders[0], tmp_path / "none"], "none is not a folder: give two different folders"),
        ([file, folders[0], folders[0]], "the folders are the same: give two different folders, "),
        ([file, folders[0], f"{folders[1]}/thing 1"], "has 1 folders of at least 12 photos"),
        (["visual-words", *folders], "visual-words is made from the first pictures"),
        (["identity", *folders], "identity takes no pictures"),
        ([file, *folders, "-o", tmp_path / "net.onnx"], "net.onnx is not a JSON object"),
    ):
        done = measure(*words)
        assert done.exit_code == 1, done.output
        assert problem in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert measure(file, folders[0]).exit_code == 2
    assert (tmp_path / "net.json").read_bytes() == before


def test_ctrl_c_writes_nothing(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cosines, "_compute", interrupt)
    file = network(tmp_path)
    done = measure(file, *folders)
    assert done.exit_code != 0
    assert json.loads((tmp_path / "net.json").read_text()) == HOW
