"""`cbcl watch`, run as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cli import run
from support.http_double import Reply, http_double
from support.photos import encoded, folders, views

from cbcl import Recognizer

TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("watch")
    photos = folders(place / "things", ("chelsea", "coffee"))
    with Recognizer(place / "things.cbcl") as recognizer:
        recognizer.learn_many(recognizer.embedder.find_labelled([photos]))
    return place / "things.cbcl"


@contextmanager
def watching(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Start `cbcl watch`, and wait until it does."""
    command = [sys.executable, "-m", "cbcl", "watch", *map(str, words), "--every", "0.05"]
    with subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            assert "Ctrl-C stops" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def photo(name: str, seed: int = 7) -> bytes:
    return encoded(views(name, 1, seed=seed)[0])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_each_new_photo_is_a_line_until_it_is_stopped(
    memory: Path, tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "old.jpg").write_bytes(photo("coffee"))
    with watching(memory, tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        (tmp_path / "broken.jpg").write_bytes(b"this is no picture")
        assert "broken.jpg is not a picture" in process.stderr.readline()
        for name in ("coffee", "chelsea"):
            (tmp_path / f"{name} 1.jpg").write_bytes(photo(name))
            line = process.stdout.readline()
            if name == "coffee":
                assert line == "time,source,label,confidence\n"
                line = process.stdout.readline()
            [(time, source, label, confidence)] = csv.reader(io.StringIO(line))
            assert (source, label) == (str(tmp_path / f"{name} 1.jpg"), name)
            assert time.endswith("+00:00")
            assert 0.5 < float(confidence) <= 1
        process.send_signal(how)
        rest, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, rest, errors) == (0, "", "stopped.\n")


def test_with_all_photos_that_are_there_are_answered_and_the_memory_is_none(
    memory: Path, tmp_path: Path
) -> None:
    (tmp_path / "things.cbcl").write_bytes(memory.read_bytes())
    (tmp_path / "old.jpg").write_bytes(photo("coffee"))
    with watching(tmp_path / "things.cbcl", tmp_path, "--all", "--format", "json") as process:
        assert process.stdout is not None
        sighting = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (Path(sighting["source"]).name, sighting["label"]) == ("old.jpg", "coffee")
    assert (rest, errors) == ("", "stopped.\n")


def test_a_changed_answer_of_a_camera_is_a_line(memory: Path) -> None:
    shown = photo("coffee")
    with http_double(lambda _: Reply(shown)) as server:
        url = f"{server.url}/api/door/latest.jpg"
        with watching(memory, url, "--format", "json", "--frames", "2") as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            asked = len(server.received)
            shown = photo("chelsea")
            second = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (first["label"], second["label"], first["source"]) == ("coffee", "chelsea", url)
    assert (rest, asked >= 2) == ("", True)


def test_a_photo_that_is_unknown_waits_in_the_inbox(memory: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with watching(memory, tmp_path / "in", "--inbox", tmp_path / "to name") as process:
        assert process.stdout is not None
        for name in ("rocket", "rocket", "coffee"):
            number = len([*(tmp_path / "in").iterdir()])
            (tmp_path / "in" / f"{number}.jpg").write_bytes(photo(name))
            if not number:
                process.stdout.readline()
            assert process.stdout.readline().split(",")[2] == name.replace("rocket", "")
    [kept] = (tmp_path / "to name").glob("*.jpg")
    assert kept.read_bytes() == photo("rocket")
    answer = json.loads(kept.with_name(f".{kept.name}.json").read_text())
    assert (answer["label"], Path(answer["source"]).name) == (None, "0.jpg")


def test_each_line_goes_to_a_webhook_a_command_and_frigate(memory: Path, tmp_path: Path) -> None:
    program = tmp_path / "note.py"
    program.write_text("import sys; open(sys.argv[1], 'w').write(sys.argv[2])")
    tracked = Reply(b'[{"id": "7"}]')
    shown = Reply(photo("coffee"))
    with http_double(lambda asked: tracked if "events?" in asked.path else shown) as server:
        sinks = [
            *("--webhook", f"{server.url}/hook"),
            *("--command", f"'{sys.executable}' '{program}' '{tmp_path / 'label'}'"),
            "--sub-label",
        ]
        with watching(memory, f"{server.url}/api/door/latest.jpg", *sinks) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)  # what waits is delivered all the same
            _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    posted = {one.path: json.loads(one.body) for one in server.received if one.method == "POST"}
    assert posted["/hook"]["label"] == posted["/api/events/7/sub_label"]["subLabel"] == "coffee"
    assert (tmp_path / "label").read_text() == "coffee"
    assert errors == "stopped.\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere.cbcl", "."], 1, "nowhere.cbcl does not exist: learn something first."),
        (["MEMORY", "nowhere"], 1, "nowhere is not a folder to watch (No such file or directory)."),
        (["MEMORY", ""], 2, "a path is empty."),
        (["MEMORY", ".", "--frames", "2"], 2, "--frames and --sub-label go with a camera."),
        (["MEMORY", ".", "--inbox", "in/side"], 2, "the inbox must not be in the folder"),
        (["MEMORY", ".", "--command", "no-such-program"], 1, "there is no such program."),
        (["MEMORY", ".", "--webhook", "nowhere"], 1, "the address of --webhook is not one of http"),
        (["MEMORY", ".", "--mqtt", "http://a/b"], 1, "is not one of MQTT"),
        (["MEMORY", "http://h/a.jpg", "--all"], 2, "--all goes with a folder."),
        (["MEMORY", "http://", "--every", "1"], 1, "is not one of http or https"),
    ],
)
def test_bad_input_is_one_sentence(
    memory: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("watch", *[str(memory) if word == "MEMORY" else word for word in words])
    assert result.exit_code == code
    assert sentence in result.stderr
