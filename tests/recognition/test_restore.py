"""Another memory takes the place of one, which is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cbcl import BackboneError, MemoryFileError, Recognizer, load_backbone
from cbcl.memory.check import check


def memory_of(path: Path, *labels: str, **options: bool) -> Path:
    rng = np.random.default_rng(0)
    with Recognizer(path, "identity", **options) as recognizer:  # type: ignore[arg-type]
        for label in labels:
            recognizer.learn(label, rng.normal(size=(3, 8)))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return memory_of(tmp_path / "things.cbcl", "cup", "key")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return memory_of(tmp_path / "backup.cbcl", "pen")


def test_a_recognizer_goes_on_with_what_was_restored(path: Path, backup: Path) -> None:
    kept = path.with_name("kept.cbcl")
    with Recognizer(path, "identity") as recognizer:
        assert recognizer.labels() == {"cup": 3, "key": 3}
        recognizer.restore(backup, kept=kept)
        assert recognizer.labels() == {"pen": 3}
        assert recognizer.recognize(np.ones(8)).ranking[0].label == "pen"
        recognizer.learn("lid", np.eye(8)[:2])
        recognizer.restore(kept, kept=path.with_name("again.cbcl"), move=True)
        assert recognizer.labels() == {"cup": 3, "key": 3}
        assert [step.action for step in recognizer.history()] == ["learn", "learn"]
    assert not kept.exists()
    assert check(path) == check(backup) == check(path.with_name("again.cbcl")) == []
    with Recognizer(path.with_name("again.cbcl"), "identity") as recognizer:
        assert recognizer.labels() == {"lid": 2, "pen": 3}


def test_what_cannot_be_used_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    letters = tmp_path / "letters.cbcl"
    counter = load_backbone(
        lambda words: [[word.count(letter) for letter in "abcdefgh"] for word in words],
        name="letters",
    )
    with Recognizer(letters, counter) as recognizer:
        recognizer.learn("fruit", ["cab", "bag"])
    kept = tmp_path / "kept.cbcl"
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(BackboneError, match="cannot be put together"):
            recognizer.restore(letters, kept=kept)
        with pytest.raises(MemoryFileError, match="is not a memory"):
            recognizer.restore(tmp_path / "nothing.cbcl", kept=kept)
        assert recognizer.labels() == {"cup": 3, "key": 3}
    diary = memory_of(tmp_path / "diary.cbcl", "me", private=True)
    with (
        Recognizer(diary, "identity", private=True) as recognizer,
        pytest.raises(BackboneError, match="private"),
    ):
        recognizer.restore(path, kept=kept)
    assert not kept.exists()


@pytest.mark.parametrize("links", [True, False])
def test_a_restore_that_fails_leaves_the_memory_in_its_place(
    links: bool, path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    with Recognizer(path, "identity") as recognizer:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", fail)
            if not links:
                patch.setattr("os.link", refuse)
            with pytest.raises(MemoryFileError, match="No space"):
                recognizer.restore(backup, kept=path.with_name("kept.cbcl"))
        assert recognizer.labels() == {"cup": 3, "key": 3}
    assert sorted(file.name for file in path.parent.iterdir()) == ["backup.cbcl", "things.cbcl"]


def test_a_taken_name_is_not_overwritten(path: Path, backup: Path) -> None:
    kept = memory_of(path.with_name("kept.cbcl"), "old")
    with (
        Recognizer(path, "identity") as recognizer,
        pytest.raises(MemoryFileError, match="File exists"),
    ):
        recognizer.restore(backup, kept=kept)
    with Recognizer(kept, "identity") as recognizer:
        assert recognizer.labels() == {"old": 3}


def test_a_recognizer_of_another_memory_has_the_same_options(path: Path, tmp_path: Path) -> None:
    with (
        Recognizer(path, "identity", head="vote", radius=0.5) as recognizer,
        recognizer.beside(tmp_path / "new.cbcl") as other,
    ):
        other.learn("cup", np.eye(8)[:3])
        assert other.snapshot().settings.radius == 0.5
        assert recognizer.labels() == {"cup": 3, "key": 3}
