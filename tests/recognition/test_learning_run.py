"""Runs: what joblib's workers embed is learned as by one process, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from support.memory_contents import known, pair, some
from support.photos import encoded, folders, noise, photo, views
from support.processes import until

from cbcl import Recognizer, load_backbone
from cbcl.cli.workers import start_workers
from cbcl.errors import PictureError, WorkerError
from cbcl.heads.base import Settings
from cbcl.vision import shards
from cbcl.vision.backbones.base import Function
from cbcl.vision.vector_cache import VectorCache

ENGINES = [
    "loky",
    pytest.param("dask", marks=pytest.mark.skipif(not find_spec("distributed"), reason="no dask")),
    pytest.param("ray", marks=pytest.mark.skipif(not find_spec("ray"), reason="no ray")),
]


def shrink(pictures: Sequence[Any]) -> Any:
    """Return the colours of the pictures, made small."""
    return [np.asarray(one.resize((8, 8)), dtype=np.float32).ravel() for one in pictures]


def shrinking(log: Path, fatal: Path | None = None) -> Function:
    """Return a backbone that logs each picture, and kills its process once, at the third."""

    def see(pictures: Sequence[Any]) -> Any:
        with log.open("a") as file:
            file.write("x\n" * len(pictures))
        if fatal is not None and not fatal.exists() and len(log.read_text()) > 4:
            fatal.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [np.asarray(one.resize((8, 8)), dtype=np.float32).ravel() for one in pictures]

    return Function(see, "shrinking", at_least=64)


def settled(recognizer: Recognizer) -> tuple[dict[str, Any], Settings]:
    return known(recognizer), recognizer.snapshot().settings


def learn_serially(folder: Path, photos: Path, **options: Any) -> tuple[dict[str, Any], Settings]:
    with Recognizer(folder / "serial.cbcl", cache=False, **options) as serial:
        serial.learn_many(serial.embedder.find_labelled([photos]), broken="report")
        return settled(serial)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_SIZE", 2)
    monkeypatch.setattr(shards, "ROUND_SHARDS", 2)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("options", [{}, {"head": "vote"}, {"max_centroids": 7}, {"private": True}])
def test_a_run_learns_what_one_step_learns_bit_for_bit(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    photos = folders(tmp_path / "photos", count=7)
    (photos / "coffee" / "broken.jpg").write_bytes(b"no picture")
    # The same picture under two labels: the latter takes it.
    (photos / "rocket" / "0.jpg").write_bytes((photos / "astronaut" / "3.jpg").read_bytes())
    backbone = load_backbone(shrink, name="small", at_least=64)
    serial = learn_serially(tmp_path, photos, backbone=backbone, **options)
    with Recognizer(tmp_path / "run.cbcl", backbone, **options) as recognizer:
        things = recognizer.embedder.find_labelled([photos])
        seen: list[tuple[int, int]] = []
        with parallel_config(backend="threading", n_jobs=3):
            result = recognizer.learn_each(
                things, broken="report", progress=lambda *one: seen.append(one)
            )
        assert settled(recognizer) == serial
        assert seen[-1] == (29, 29)
        assert seen == sorted(seen)
        assert result.pictures == {"astronaut": 7, "chelsea": 7, "coffee": 7, "rocket": 7}
        assert [Path(problem.subject).name for problem in result.problems] == ["broken.jpg"]
        by_vote = {*options} & {"head", "max_centroids"}
        assert len(recognizer.history()) == (1 if by_vote else 4)


def test_things_that_are_no_pictures_are_learned_in_runs_too(tmp_path: Path) -> None:
    things = {"a": some(40), "b": some(30, seed=1), None: some(5, seed=2)}
    with pair(tmp_path) as (one, run):
        one.learn_many(things)
        assert run.learn_each(things).pictures == {"a": 40, "b": 30, "": 5}
        assert known(run) == known(one)
        run.learn_each(things)  # nothing tells that these are the same: they are copies
        assert known(run) == known(one)


@pytest.mark.usefixtures("small_shards")
def test_a_broken_picture_is_named_and_ends_a_strict_run_after_the_labels_before_it(
    tmp_path: Path,
) -> None:
    backbone = load_backbone(shrink, name="small", at_least=64)
    good = [encoded(pixels) for pixels in views("coffee", 3)]
    with Recognizer(tmp_path / "run.cbcl", backbone) as recognizer:
        with pytest.raises(PictureError, match="picture 6 is not a picture"):
            recognizer.learn_each({"cup": good, "key": [good[0], good[1], b"broken"]}, n_jobs=1)
        assert [*recognizer.labels()] == ["cup"]
        with pytest.raises(PictureError, match="picture 1 "):
            recognizer.learn_each({"key": [b"broken", b"nothing"]}, broken="report")


@pytest.mark.usefixtures("small_shards")
def test_a_run_that_was_stopped_goes_on_and_one_that_ended_begins_anew_after_a_change(
    tmp_path: Path,
) -> None:
    photos, log = folders(tmp_path / "photos", count=6), tmp_path / "log"
    log.touch()
    backbone = shrinking(log)
    serial = learn_serially(tmp_path, photos, backbone=backbone)
    log.write_text("")

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    # Without the cache, so that only the steps tell.
    with Recognizer(tmp_path / "run.cbcl", backbone, cache=False) as recognizer:
        things = recognizer.embedder.find_labelled([photos])
        with pytest.raises(KeyboardInterrupt):
            recognizer.learn_each(things, progress=stop)
        assert [*recognizer.labels()] == ["astronaut", "chelsea"]
        log.write_text("")
        result = recognizer.learn_each(things)
        assert result.n_before == 2
        assert [*result.pictures] == ["coffee", "rocket"]
        assert len(log.read_text().split()) == 12
        assert settled(recognizer) == serial
        again = recognizer.learn_each(things)
        assert (again.n_before, again.pictures) == (4, {})
        recognizer.forget("coffee")
        assert recognizer.learn_each(things).n_before == 0
        assert "coffee" in recognizer.labels()
        recognizer.undo()
        assert "coffee" not in recognizer.labels()
        os.utime(photos / "rocket" / "0.jpg", (0, 0))  # other files are another run
        assert recognizer.learn_each(things).n_before == 0


def test_what_is_cached_is_not_embedded_again_and_has_the_same_thumbnails(tmp_path: Path) -> None:
    large = photo("astronaut").resize((900, 700))
    for number, pixels in enumerate([*views("coffee", 3), np.asarray(large)]):
        (tmp_path / f"{number}.jpg").write_bytes(encoded(pixels))
    log = tmp_path / "log"
    backbone = Function(shrinking(log).function, "thumbnails", at_least=200)
    files = sorted(tmp_path.glob("*.jpg"))
    with pair(tmp_path, backbone) as (one, two):
        one.learn_each({"a": files[:2], "b": files[2:]})
        two.learn_each({"a": files[:2], "b": files[2:]})
        assert len(log.read_text().split()) == 4
        assert known(one) == known(two)


DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from recognition.test_learning_run import shrinking
from cbcl import Recognizer
from cbcl.vision import shards
shards.SHARD_SIZE = 2
shards.ROUND_SHARDS = 4
folder = Path(sys.argv[2])
with Recognizer(folder / "run.cbcl", shrinking(folder / "log")) as recognizer:
    recognizer.learn_each(recognizer.embedder.find_labelled([folder / "photos"]), n_jobs=2)
"""


def test_a_killed_driver_goes_on_and_neither_embeds_nor_learns_anything_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    photos, log = noise(tmp_path / "photos", count=100), tmp_path / "log"
    command = [sys.executable, "-c", DRIVER, str(Path(__file__).parents[1]), str(tmp_path)]
    driver = subprocess.Popen(command, start_new_session=True)
    memory = Recognizer(tmp_path / "run.cbcl", shrinking(log))
    until(lambda: len(memory.history()) > 1, driver)
    driver.kill()
    driver.wait()
    os.killpg(driver.pid, signal.SIGKILL)  # and its workers, before the log is emptied
    n_steps = len(memory.history())
    with closing(VectorCache(shrinking(log).fingerprint)) as cache:
        assert cache._connection is not None
        (cached,) = cache._connection.execute("SELECT count(*) FROM vectors").fetchone()
    assert 100 * n_steps <= cached < 400
    log.write_text("")
    subprocess.run(command, check=True)
    assert len(log.read_text().split()) == 400 - cached
    assert settled(memory) == learn_serially(tmp_path, photos, backbone=shrinking(log))
    assert [step.labels for step in memory.history()][::-1] == [[name] for name in memory.labels()]
    memory.close()


@pytest.mark.filterwarnings("ignore")  # those of the engines
@pytest.mark.parametrize("engine", ENGINES)
def test_real_workers_learn_the_same_and_one_may_be_killed(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, log = folders(tmp_path / "photos", count=5), tmp_path / "log"
    backbone = shrinking(log, tmp_path / "fatal")
    network = learn_serially(tmp_path, photos, backbone="efficientnet-lite0")
    (tmp_path / "serial.cbcl").unlink()
    small = learn_serially(tmp_path, photos, backbone=shrinking(log))
    log.write_text("")
    monkeypatch.setattr(shards, "SHARD_SIZE", 2)
    with (
        start_workers(2, engine, None) as n_jobs,
        Recognizer(tmp_path / "a.cbcl", "efficientnet-lite0", cache=False) as one,
        Recognizer(tmp_path / "b.cbcl", backbone, cache=False) as other,
    ):
        one.learn_each(one.embedder.find_labelled([photos]), n_jobs=n_jobs)
        assert settled(one) == network
        other.learn_each(other.embedder.find_labelled([photos]), n_jobs=n_jobs)
        assert (tmp_path / "fatal").exists()
        assert settled(other) == small


def test_workers_that_always_die_are_told(tmp_path: Path) -> None:
    def see(_: Sequence[Any]) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    photos = folders(tmp_path / "photos", ("coffee", "rocket"), count=1)
    with Recognizer(tmp_path / "a.cbcl", Function(see, "fatal", at_least=8)) as recognizer:
        things = recognizer.embedder.find_labelled([photos])
        with pytest.raises(WorkerError, match="the workers failed 4 times, one after another"):
            recognizer.learn_each(things, n_jobs=2)
        assert recognizer.labels() == {}
