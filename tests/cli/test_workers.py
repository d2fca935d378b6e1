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
