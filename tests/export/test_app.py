"""The app as a folder: what is in it, what it leaves alone, and what is refused in a sentence."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import Result
from support.app import fake_runtime
from support.cli import run
from support.photos import NAMES, views

import cbcl
from cbcl import Recognizer
from cbcl.export.app import PAGE_FILES

SOURCE = Path(cbcl.__file__).parent
STATIC = SOURCE / "export" / "static"
SCRIPTS = {path.name: path.read_text() for path in sorted((STATIC / "js").glob("*.js"))}
ENGLISH = json.loads((SOURCE / "web" / "static" / "words" / "en.json").read_text())


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "shop.cbcl"
    with Recognizer(path) as recognizer:
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:2]})
    return path


def export(memory: Path, folder: Path, *options: str) -> Result:
    runtime = fake_runtime(folder.parent / "runtime")
    return run("export", memory, "--app", folder, "--runtime", runtime, *options)


def described(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "app.json").read_text())
    return value


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_everything_that_the_app_asks_for_is_in_the_folder(memory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    done = export(memory, folder)
    assert done.exit_code == 0, done.output
    assert "2 things" in done.output
    files = files_in(folder)
    assert files == set(described(folder)["files"])
    assert files >= set(PAGE_FILES)
    page = (folder / "index.html").read_text()
    assert set(re.findall(r'(?:src|href)="([\w./-]+)"', page)) <= files
    for script in (folder / "js").glob("*.js"):
        imported = re.findall(r'from "\./(\w+\.js)"', script.read_text())
        assert {f"js/{name}" for name in imported} <= files
    listed = json.loads((folder / "files.js").read_text()[len("const FILES = ") : -2])
    assert set(listed["small"]) - {"./"} <= files
    icons = json.loads((folder / "manifest.json").read_text())["icons"]
    assert {icon["src"] for icon in icons} <= files
    assert not re.search(r"https?://", "".join(SCRIPTS.values()))


def test_the_model_takes_whole_photos_and_answers_as_python_does(
    memory: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "app"
    export(memory, folder, "--thumbnails")
    about = described(folder)
    assert about["labels"] == [*NAMES[:2]]
    graph = folder / about["model"]["file"]
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (pixels,) = views(NAMES[0], 1, seed=5)
    outputs = ["label", "example_distance"]
    (label,), (distances,) = session.run(outputs, {"pictures": pixels[np.newaxis]})
    assert label == NAMES[0]
    examples = about["examples"]
    assert examples["labels"] == [NAMES[0]] * 3 + [NAMES[1]] * 3
    assert sum(examples["sizes"]) == (folder / examples["file"]).stat().st_size
    with Recognizer(memory) as recognizer:
        evidence = recognizer.recognize(pixels).evidence
    nearest = sorted(distances[:3].tolist())
    assert nearest == pytest.approx([reason.distance for reason in evidence[:3]], abs=1e-3)


def test_no_picture_leaves_the_memory_unless_that_is_asked_for(
    memory: Path, tmp_path: Path
) -> None:
    export(memory, tmp_path / "app")
    assert described(tmp_path / "app")["examples"] is None
    assert not [path for path in files_in(tmp_path / "app") if path.startswith("examples")]


def test_a_private_memory_has_no_thumbnails_to_give(tmp_path: Path) -> None:
    private = tmp_path / "private.cbcl"
    with Recognizer(private, private=True) as recognizer:
        recognizer.learn("cat", views(NAMES[1], 2))
    done = export(private, tmp_path / "app", "--thumbnails")
    assert done.exit_code == 1
    assert "is private, and keeps no thumbnails: export it without them." in done.output
    assert export(private, tmp_path / "app").exit_code == 0


def test_the_vote_can_be_an_app(tmp_path: Path) -> None:
    path = tmp_path / "vote.cbcl"
    with Recognizer(path, head="vote") as recognizer:
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:2]})
    assert export(path, tmp_path / "app", "--thumbnails").exit_code == 0
    assert len(described(tmp_path / "app")["examples"]["labels"]) == 6


def test_an_app_is_replaced_by_the_next_and_other_files_stay(memory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    export(memory, folder, "--thumbnails")
    before = files_in(folder)
    (folder / "CNAME").write_text("shop.example")
    assert export(memory, folder).exit_code == 0
    left = {path for path in before if not path.startswith(("examples", "model"))}
    assert files_in(folder) == left | {"CNAME", described(folder)["model"]["file"]}


def test_what_is_neither_an_app_nor_empty_is_left_alone(memory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    assert export(memory, folder).exit_code == 0
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "index.html").write_text("my thesis")
    done = export(memory, folder)
    assert done.exit_code == 1
    assert "is not empty, and holds no app: give a new folder, or an empty one." in done.output
    assert files_in(folder) == {"index.html"}
    (folder / "app.json").write_text('{"files": "all"}')
    assert "has a file index.html that is not of an app" in export(memory, folder).output
    (folder / "app.json").write_text("{}")
    assert "has a file app.json that is not of an app" in export(memory, folder).output
    (folder / "app.json").write_text('{"files": ["../thesis/index.html"]}')
    assert "has a file index.html that is not of an app" in export(memory, folder).output
    assert (folder / "index.html").read_text() == "my thesis"
    assert "is not a folder" in export(memory, folder / "index.html").output


def test_an_empty_memory_and_other_backbones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    words = tmp_path / "words.cbcl"
    with Recognizer(words, "visual-words") as recognizer:
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:2]})
    assert "is no ONNX network, so it cannot be part" in export(words, folder).output
    empty = tmp_path / "empty.cbcl"
    with Recognizer(empty) as recognizer:
        recognizer.learn("cat", views(NAMES[1], 2))
        recognizer.forget("cat")
    assert "knows nothing: learn something first." in export(empty, folder).output
    assert "does not exist" in export(tmp_path / "none.cbcl", folder).output
    assert not folder.exists()


def test_options_that_do_not_go_together_are_refused(memory: Path, tmp_path: Path) -> None:
    export = ["export", memory]
    app = [*export, "--app", tmp_path / "app"]
    for given in ([*app, "--onnx", "x.onnx"], [*app, "--any-size"], [*export, "x", "--thumbnails"]):
        assert run(*given).exit_code == 2


def test_every_word_of_the_app_has_its_key() -> None:
    page = (STATIC / "index.html").read_text()
    said = set(re.findall(r'data-say(?:-[\w-]+)?="([\w.]+)"', page))
    for text in SCRIPTS.values():
        said |= set(re.findall(r'"((?:app|answer|camera)\.[a-z_]+)"', text))
    assert said - set(ENGLISH) == {"app.json"}  # the file
    assert {key for key in ENGLISH if key.startswith("app.")} <= said
    texts = re.findall(r">([^<>]*[A-Za-z][^<>]*)<", page)
    assert set(map(str.strip, texts)) == {"cbcl"}


def test_the_wheel_has_all_files_of_the_app() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["cbcl.export"]
    packed = {path for pattern in patterns for path in (SOURCE / "export").glob(pattern)}
    assert {path for path in STATIC.rglob("*") if path.suffix in (".html", ".css", ".js")} == packed


def test_every_id_of_the_scripts_is_in_the_page() -> None:
    ids = set(re.findall(r'\bid="([\w-]+)"', (STATIC / "index.html").read_text()))
    for text in SCRIPTS.values():
        sought = set(re.findall(r'\bfind\("([\w-]+)"\)', text))
        listed = re.findall(r"for \(const id of \[([^\]]*)\]\)", text)
        assert sought | {name for each in listed for name in re.findall(r'"([\w-]+)"', each)} <= ids
