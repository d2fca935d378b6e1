"""Examples that may be why an answer is wrong: found, and set aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.photos import views

from cbcl import LabelError, Recognizer, load_backbone

VECTORS = load_backbone(
    lambda vectors: [np.asarray(v, np.float32) for v in vectors], name="vectors"
)


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory in which two photos of a coffee were taught as a cat."""
    path = tmp_path_factory.mktemp("suspects") / "things.cbcl"
    coffees = views("coffee", 5)
    with Recognizer(path) as recognizer:
        recognizer.learn("cat", [*views("chelsea", 3), coffees[0]])
        recognizer.learn("mug", coffees[1:4])
        recognizer.learn("rocket", views("rocket", 3))
    return path


def test_the_photo_taught_with_the_wrong_label_is_found_first(mistaken: Path) -> None:
    with Recognizer(mistaken) as recognizer:
        wrong = recognizer.snapshot().examples("cat")[3].number
        (photo,) = views("coffee", 1)  # the very photo, which is answered as it was taught
        assert recognizer.recognize(photo).label == "cat"
        suspects = recognizer.snapshot().suspects(photo)
    assert suspects[0].example.number == wrong
    assert suspects[0].answer is not None
    assert suspects[0].answer.label == "mug"
    assert len(suspects) == 3  # of four
    others = [one.answer.label if one.answer else None for one in suspects[1:]]
    assert others == ["cat", "cat"]


def test_the_answer_without_an_example_is_that_after_it_was_unlearned(mistaken: Path) -> None:
    with Recognizer(mistaken) as recognizer:
        (photo,) = views("coffee", 1)
        for example, answer in recognizer.snapshot().suspects(photo):
            recognizer.unlearn(example.number)
            now = recognizer.recognize(photo)
            recognizer.undo()
            assert answer is not None
            assert (now.label, now.confidence) == (answer.label, answer.confidence)


def test_a_wrong_unknown_is_due_to_what_was_taught_as_none_of_these(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("cat", views("chelsea", 3))
        recognizer.learn("mug", views("coffee", 3))
        stranger = views("coffee", 4)[3]
        recognizer.learn(None, [stranger])
        assert recognizer.recognize(stranger).label is None
        (suspect,) = recognizer.snapshot().suspects(stranger)
        assert suspect.example.number == recognizer.snapshot().negatives()[0].number
        assert suspect.answer is not None
        assert suspect.answer.label == "mug"


def test_without_its_only_example_nothing_is_known(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "things.cbcl", VECTORS) as recognizer:
        recognizer.learn("cup", [[1.0, 0.0, 0.0]])
        assert recognizer.snapshot().suspects([1.0, 0.0, 0.0]) == []  # vectors have no thumbnails
    with Recognizer(tmp_path / "photos.cbcl") as recognizer:
        recognizer.learn("cat", views("chelsea", 1))
        (suspect,) = recognizer.snapshot().suspects(views("chelsea", 1)[0])
        assert suspect.answer is None


def test_a_memory_by_the_vote_says_that_it_cannot_tell(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "things.cbcl", VECTORS, head="vote") as recognizer:
        recognizer.learn("cup", [[1.0, 0.0, 0.0]])
        with pytest.raises(LabelError, match="learns by the vote"):
            recognizer.snapshot().suspects([1.0, 0.0, 0.0])
