"""`cbcl learn --jobs`: workers, Ctrl-C, and clusters that are not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import run, said
from support.memory_contents import known
from support.photos import folders, noise
from support.processes import until

from cbcl import Recognizer


def test_what_ctrl_c_stops_is_learned_so_far_and_goes_on_with_the_same_command(
    tmp_path: Path,
) -> None:
    photos, memory = noise(tmp_path / "photos", count=500), tmp_path / "things.cbcl"
    words = [
        *("learn", str(memory), str(photos), "--backbone", "pixels", "--no-cache", "--jobs", "2"),
    ]
    # In a session of its own, so that Ctrl-C comes to the workers, too, as on a terminal.
    process = subprocess.Popen(
        [sys.executable, "-m", "cbcl", *words], stderr=subprocess.PIPE, start_new_session=True
    )
    with Recognizer(memory, "pixels", cache=False) as recognizer:
        until(lambda: bool(recognizer.history()), process)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
        assert process.returncode == 1
        n_known = len(recognizer.labels())
        assert 0 < n_known < 4
        things = "1 thing" if n_known == 1 else f"{n_known} things"
        again = "the same command goes on from there"
        assert told.decode() == f"Error: stopped. {memory} knows {things}: {again}.\n"
        told_again = said(*words)
        assert f"went on after {things} that had been learned when this was" in told_again
        assert f"{memory} knows 4 things." in told_again
        with Recognizer(tmp_path / "serial.cbcl", "pixels", cache=False) as serial:
            serial.learn_many(serial.embedder.find_labelled([photos]))
            assert known(recognizer) == known(serial)


FULL = """
import resource, signal, sys
from cbcl.cli.commands import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # beyond the limit, writing fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, 250_000))
main()
"""


def test_what_a_full_disk_stops_is_learned_so_far_and_goes_on_with_the_same_command(
    tmp_path: Path,
) -> None:
    photos = noise(tmp_path / "photos", count=20)
    memory = tmp_path / "things.cbcl"
    words = ["learn", str(memory), str(photos), "--backbone", "pixels", "--no-cache", "--jobs", "1"]
    done = subprocess.run([sys.executable, "-c", FULL, *words], capture_output=True, text=True)
    assert done.returncode == 1
    with Recognizer(memory) as recognizer:
        n_known = len(recognizer.labels())
    assert 0 < n_known < 4
    things = "1 thing" if n_known == 1 else f"{n_known} things"
    assert "no room" in done.stderr
    assert "nothing was changed" not in done.stderr
    again = f" {memory} knows {things}: the same command goes on from there.\n"
    assert done.stderr.endswith(again)
    assert f"went on after {things} that had been learned" in said(*words)


def test_a_run_that_learned_nothing_before_an_error_tells_the_error_alone(tmp_path: Path) -> None:
    photos = folders(tmp_path / "photos", ("coffee",), count=2)
    (photos / "coffee" / "notes.txt").write_text("hello")
    result = run("learn", tmp_path / "a.cbcl", photos, "--jobs", "1", "--strict")
    assert result.exit_code == 1
    assert result.output.endswith("it is text.\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--address", "tcp://127.0.0.1:1"], "give --backend dask or ray, too."),
        (["--backend", "loky", "--address", "a:1"], "give --backend dask or ray, too."),
        (["--jobs", "0"], "0 is not in the range x>=1."),
        (["--backend", "ray", "--address", "127.0.0.1:1"], "ray at 127.0.0.1:1 cannot be reached"),
        (["--backend", "dask", "--address", "nowhere"], "dask at nowhere cannot be reached"),
    ],
)
def test_workers_that_are_not_there_are_told_in_a_sentence(
    tmp_path: Path, words: list[str], told: str
) -> None:
    if words[0] == "--backend" and words[1] != "loky":
        pytest.importorskip("distributed" if words[1] == "dask" else "ray")
    folders(tmp_path / "photos", ("coffee",), count=1)
    assert told in run("learn", tmp_path / "a.cbcl", tmp_path / "photos", *words).output
    assert not (tmp_path / "a.cbcl").exists()


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_an_engine_that_is_not_installed_is_told_with_its_extra(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed" if engine == "dask" else "ray", None)
    folders(tmp_path / "photos", ("coffee",), count=1)
    told = run("learn", tmp_path / "a.cbcl", tmp_path / "photos", "--backend", engine).output
    assert f'needs the extra "{engine}": pip install "cbcl[{engine}]"' in told
