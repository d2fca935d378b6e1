"""The watch: which answers are told, of photos and of a camera."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cbcl import Recognizer, load_backbone
from cbcl.errors import MemoryFileError, PictureError
from cbcl.recognition.answer import Answer
from cbcl.watch import watcher as watcher_module
from cbcl.watch.frames import ProblemLog, WatchedFrame
from cbcl.watch.watcher import Agreement, Sighting, Watcher


def count_letters(words: Sequence[bytes]) -> list[list[int]]:
    if b"broken" in words:
        raise PictureError("picture 1", "is broken")
    return [[word.count(letter) for letter in b"abcdefgh"] for word in words]


@pytest.fixture
def recognizer(tmp_path: Path) -> Iterator[Recognizer]:
    backbone = load_backbone(count_letters, name="letters")
    with Recognizer(tmp_path / "words.cbcl", backbone, head="vote") as recognizer:
        recognizer.learn("a", [b"aaa", b"aaaa"])
        recognizer.learn("b", [b"bbb", b"bbbb"])
        yield recognizer


class Listener:
    """All that a watch tells."""

    def __init__(self) -> None:
        self.sightings: list[Sighting] = []
        self.kept: list[tuple[bytes, str | None]] = []
        self.labels: list[list[str]] = []
        self.problems: list[str] = []

    def watch(self, recognizer: Recognizer, words: Iterable[bytes], **options: Any) -> None:
        Watcher(
            recognizer=recognizer,
            problems=ProblemLog(self.problems.append),
            tell=[self.sightings.append],
            keep=lambda frame, sighting, _: self.kept.append((frame.data, sighting.answer.label)),
            announce=lambda labels: self.labels.append([*labels]),
            **options,
        ).watch(WatchedFrame("door", word) for word in words)

    def told(self) -> list[str | None]:
        return [sighting.answer.label for sighting in self.sightings]


def test_each_photo_is_told_and_a_broken_one_ends_nothing(recognizer: Recognizer) -> None:
    heard = Listener()
    heard.watch(recognizer, [b"aa", b"broken", b"broken", b"bb", b"bb", b"broken"])
    assert heard.told() == ["a", "b", "b"]
    assert heard.problems == ["door is broken.", "door is broken."]  # and fine in between


def test_of_a_camera_a_changed_answer_is_told_when_frames_agree(recognizer: Recognizer) -> None:
    heard = Listener()
    heard.watch(recognizer, [b"aa", b"bb", *[b"aa"] * 4, b"bb", b"bb"], agreement=Agreement(2))
    assert heard.told() == ["a", "b"]


def test_a_frame_below_the_confidence_is_kept_and_does_not_count(recognizer: Recognizer) -> None:
    heard = Listener()
    words = [b"aa", b"ab", b"aa", b"bb", b"bb"]
    sure = recognizer.recognize(b"aa").confidence
    assert recognizer.recognize(b"ab").confidence < sure
    heard.watch(recognizer, words, agreement=Agreement(2), min_confidence=sure)
    assert heard.told() == ["a", "b"]
    assert [word for word, _ in heard.kept] == [b"ab"]


def test_an_unknown_answer_is_kept_and_told(
    recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Listener()
    unknown = Answer(None, 0.9, ranking=(), evidence=(), strangeness=1.5)
    monkeypatch.setattr(recognizer, "recognize", lambda _: unknown)
    heard.watch(recognizer, [b"hh", b"hh", b"hh"], agreement=Agreement(2))
    assert heard.told() == [None]
    assert heard.kept == [(b"hh", None)] * 3


def test_what_is_taught_meanwhile_is_announced_and_answered(recognizer: Recognizer) -> None:
    heard = Listener()

    def words() -> Iterator[bytes]:
        yield b"aa"
        recognizer.learn("c", [b"ccc"])
        yield b"cc"

    heard.watch(recognizer, words())
    assert heard.told() == ["a", "c"]
    assert heard.labels == [["a", "b"], ["a", "b", "c"]]


def test_a_memory_that_cannot_be_read_is_waited_for(
    recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Listener()
    recognize = recognizer.recognize
    failures = iter([True, True])

    def recognize_later(picture: object) -> Any:
        if next(failures, False):
            raise MemoryFileError("words.cbcl", "is locked")
        return recognize(picture)

    monkeypatch.setattr(recognizer, "recognize", recognize_later)
    monkeypatch.setattr(watcher_module, "RETRY_SECONDS", 0.0)
    heard.watch(recognizer, [b"aa"])
    assert heard.told() == ["a"]
    assert heard.problems == ["words.cbcl is locked. Waiting for it."]


def test_a_sighting_as_json_has_its_time_and_source(recognizer: Recognizer) -> None:
    heard = Listener()
    heard.watch(recognizer, [b"aa"])
    fields = heard.sightings[0].as_dict()
    assert [*fields] == ["time", "source", "label", "confidence", "strangeness", "ranking"]
    assert fields["source"] == "door"
    assert fields["time"].endswith("+00:00")
