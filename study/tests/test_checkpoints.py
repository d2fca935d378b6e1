"""A run that is stopped goes on at its increment, and ends as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from cbcl.errors import DataError
from cbcl_study import runs
from cbcl_study.checkpoints import Checkpoint
from cbcl_study.data.vectors import Features, features
from cbcl_study.learners import LearnerKind
from cbcl_study.records import Run
from cbcl_study.runs import perform

RUN = Run("digits", "identity", "mine", None, 2, None, None, 10, 0)
TIMES = ("seconds",)  # of a record, which no two runs share


class Killed(BaseException):
    """A kill, which no learner catches."""


class Means:
    """Nearest class mean, kept in a file; it may be killed in an increment."""

    def __init__(self, killed_in: int | None = None) -> None:
        self.killed_in, self.learned = killed_in, 0
        self.means: dict[str, NDArray[Any]] = {}

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        vectors, labels = np.asarray(X), np.asarray(y)
        if len(self.means) // 2 == self.killed_in:
            raise Killed
        for label in np.unique(labels):
            self.means[str(label)] = vectors[labels == label].mean(axis=0)
        self.learned += 1
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        means = np.stack([*self.means.values()])
        distances = np.linalg.norm(np.asarray(X)[:, np.newaxis] - means, axis=2)
        labels: NDArray[Any] = np.array([*self.means])[distances.argmin(axis=1)]
        return labels

    def state(self) -> dict[str, NDArray[Any]]:
        return {"means": np.stack([*self.means.values()])}

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, **self.means)  # type: ignore[arg-type]

    def load(self, path: Path) -> None:
        with np.load(path) as arrays:
            self.means = dict(arrays)


@pytest.fixture(scope="module")
def digits() -> Features:
    return features("digits", "identity")


def run(data: Features, learner: Means, folder: Path) -> dict[str, Any]:
    record = perform(RUN, data, lambda *_: learner, Checkpoint(folder, "run"))
    return {name: value for name, value in record.items() if name not in TIMES}


def kill(data: Features, folder: Path, killed_in: int) -> Checkpoint:
    """Kill a run in an increment, and return what it leaves."""
    with pytest.raises(Killed):
        run(data, Means(killed_in), folder)
    return Checkpoint(folder, "run")


@pytest.mark.parametrize("killed_in", [1, 2, 4])
def test_a_killed_run_goes_on_and_gives_the_same_record(
    digits: Features, tmp_path: Path, killed_in: int
) -> None:
    whole = run(digits, Means(), tmp_path / "other")
    kill(digits, tmp_path, killed_in)
    again = Means()
    assert run(digits, again, tmp_path) == whole
    assert again.learned == 5 - killed_in


def test_a_run_that_is_killed_twice_still_goes_on(digits: Features, tmp_path: Path) -> None:
    for killed_in in (2, 3):
        kill(digits, tmp_path, killed_in)
    again = Means()
    run(digits, again, tmp_path)
    assert again.learned == 2


def test_a_kill_between_learner_and_scores_leaves_the_increment_before(
    digits: Features, tmp_path: Path
) -> None:
    checkpoint = kill(digits, tmp_path, 2)
    later = Means()
    later.means = {"nonsense": np.zeros(64)}
    later.save(checkpoint.folder / "learner-3.pt")
    again = Means()
    assert run(digits, again, tmp_path) == run(digits, Means(), tmp_path / "other")
    assert again.learned == 3


def test_one_learner_is_kept_and_the_folder_goes_with_the_run(
    digits: Features, tmp_path: Path
) -> None:
    checkpoint = kill(digits, tmp_path, 3)
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == [
        "learner-3.pt",
        "scores.json",
    ]
    checkpoint.remove()
    assert not checkpoint.folder.exists()
    checkpoint.remove()  # twice does no harm


def test_other_runs_have_other_checkpoints(digits: Features, tmp_path: Path) -> None:
    kill(digits, tmp_path, 3)
    assert Checkpoint(tmp_path, "another").resume(Means()) is None


@pytest.mark.parametrize("name", ["scores.json", "learner-2.pt"])
def test_a_damaged_checkpoint_is_told_and_how_to_begin_anew(
    digits: Features, tmp_path: Path, name: str
) -> None:
    folder = kill(digits, tmp_path, 2).folder
    (folder / name).write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"checkpoint that is damaged.*: remove that folder"):
        run(digits, Means(), tmp_path)
    rmtree(folder)
    assert run(digits, Means(), tmp_path)["right"]


def test_a_checkpoint_stays_until_the_run_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = LearnerKind("", lambda *_: Means(), budgeted=False)
    monkeypatch.setattr(runs, "learner_kind", lambda _: learner)
    kept = tmp_path / "study" / runs.UNDERWAY

    def full(*_: object) -> None:
        assert [*kept.glob("*/learner-4.pt")]
        raise DataError("the disk", "is full")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "append", full)
        with pytest.raises(DataError, match="is full"):
            runs.execute([RUN], tmp_path, home=tmp_path, workers=1, progress=lambda *_: None)
    assert [*kept.glob("*/learner-4.pt")]
    runs.execute([RUN], tmp_path, home=tmp_path, workers=1, progress=lambda *_: None)
    assert not [*kept.iterdir()]
