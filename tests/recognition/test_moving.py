"""Examples that are kept move to another label, or are removed, several in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cells import CELLS, grids
from support.memory_contents import known
from support.nearest_head import NEAREST

from cbcl import LabelError, MemoryFileError, Recognizer
from cbcl.memory.check import check
from cbcl.method.discriminant.statistics import MAX_VIEWS
from cbcl.vision.decoding import Pixels

POOL = grids(70)


@pytest.fixture(params=["discriminant", "vote", NEAREST.name])
def head(request: pytest.FixtureRequest) -> Any:
    """Both heads: what any memory promises is tested with each."""
    return request.param


def taught(path: Path, lessons: Mapping[str, Sequence[Pixels]], **options: Any) -> Recognizer:
    recognizer = Recognizer(path, CELLS, **options)
    for label, pictures in lessons.items():
        recognizer.learn(label, pictures)
    return recognizer


def numbers(recognizer: Recognizer, label: str) -> list[int]:
    return [example.number for example in recognizer.snapshot().examples(label)]


def answers(recognizer: Recognizer) -> list[tuple[str | None, float]]:
    return [(one.label, round(one.confidence, 6)) for one in recognizer.recognize_many(POOL[:30])]


def test_moved_examples_are_as_if_they_had_been_taught_there(tmp_path: Path, head: Any) -> None:
    lessons = {"watch": POOL[:6], "phone": POOL[6:11]}
    with (
        taught(tmp_path / "a.cbcl", lessons, head=head) as moved,
        taught(tmp_path / "b.cbcl", {"watch": POOL[:3], "phone": POOL[6:11]}, head=head) as wanted,
    ):
        wanted.learn("phone", POOL[3:6])
        before = known(moved)
        result = moved.move(reversed(numbers(moved, "watch")[3:]), "phone")
        assert (result.moved, result.copies, result.gone) == ({"watch": 3}, 0, ())
        assert moved.labels() == {"phone": 8, "watch": 3}
        assert answers(moved) == answers(wanted)
        assert check(tmp_path / "a.cbcl") == []
        assert moved.history()[0].summary == "watch (3) → phone"
        assert moved.undo().action == "move"
        assert known(moved) == before


def test_examples_keep_their_numbers_and_pictures_where_they_go(tmp_path: Path, head: Any) -> None:
    with taught(tmp_path / "a.cbcl", {"watch": POOL[:4], "cup": POOL[4:8]}, head=head) as things:
        chosen = [numbers(things, "watch")[1], numbers(things, "cup")[2]]
        jpegs = [things.snapshot().thumbnail(number) for number in chosen]
        result = things.move(chosen, "phone")
        assert result.moved == {"watch": 1, "cup": 1}
        assert numbers(things, "phone") == chosen
        assert [things.snapshot().thumbnail(number) for number in chosen] == jpegs
        assert things.recognize(POOL[1]).label == "phone"


def test_a_moved_picture_is_known_again_where_it_is_now(tmp_path: Path) -> None:
    many = MAX_VIEWS + 20  # so that the first are folded, and seen again in their thumbnails
    with taught(tmp_path / "a.cbcl", {"watch": POOL[:many], "cup": POOL[60:63]}) as things:
        own = numbers(things, "watch")
        things.move([own[0], own[5], own[many - 1]], "phone")
        assert things.labels() == {"cup": 3, "phone": 3, "watch": many - 3}
        for picture in (0, 5, many - 1):
            assert things.recognize(POOL[picture]).label == "phone"
            result = things.learn("cup", [POOL[picture]])
            assert result.moved == {"phone": 1}
        assert things.labels() == {"cup": 6, "watch": many - 3}
        assert check(tmp_path / "a.cbcl") == []


def test_a_label_that_loses_its_last_example_is_gone(tmp_path: Path, head: Any) -> None:
    with taught(tmp_path / "a.cbcl", {"watch": POOL[:3], "cup": POOL[4:8]}, head=head) as things:
        before = known(things)
        result = things.move(numbers(things, "watch"), "Cup")
        assert (result.gone, result.spelled_alike) == (("watch",), {"Cup": "cup"})
        assert things.labels() == {"Cup": 3, "cup": 4}
        things.undo()
        assert things.unlearn(numbers(things, "watch")) == {"watch": 3}
        assert things.labels() == {"cup": 4}
        assert things.history()[0].summary == "watch (3)"
        things.undo()
        assert known(things) == before


def test_several_are_removed_as_if_they_had_never_been_shown(tmp_path: Path, head: Any) -> None:
    with (
        taught(tmp_path / "a.cbcl", {"watch": POOL[:9], "cup": POOL[9:14]}, head=head) as things,
        taught(tmp_path / "b.cbcl", {"watch": POOL[2:8], "cup": POOL[9:13]}, head=head) as wanted,
    ):
        watches, cups = numbers(things, "watch"), numbers(things, "cup")
        gone = [watches[0], cups[4], watches[8], watches[1], watches[0]]
        assert things.unlearn(gone) == {"watch": 3, "cup": 1}
        assert answers(things) == answers(wanted)
        with pytest.raises(LabelError, match=rf"example {gone[0]} does not exist"):
            things.unlearn([watches[3], gone[0]])
        assert things.labels() == {"cup": 4, "watch": 6}


def test_what_becomes_none_of_these_is_unknown_and_may_become_something(tmp_path: Path) -> None:
    with taught(tmp_path / "a.cbcl", {"watch": POOL[:5], "cup": POOL[5:9]}) as things:
        chosen = numbers(things, "watch")[:2]
        assert things.move(chosen, None).moved == {"watch": 2}
        assert (things.labels(), things.snapshot().n_negatives()) == ({"cup": 4, "watch": 3}, 2)
        assert things.recognize(POOL[0]).label is None
        assert things.history()[0].summary == "watch (2) → none of these"
        assert things.move(chosen[:1], "cup").moved == {"": 1}
        assert (things.labels(), things.snapshot().n_negatives()) == ({"cup": 5, "watch": 3}, 1)
        assert things.history()[0].summary == "none of these (1) → cup"


def test_what_the_other_label_has_already_is_counted_once(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(-1, 2, (8, 8, 1))  # nearly the same, not quite
    near = np.clip(POOL[0] + noise.repeat(16, axis=0).repeat(16, axis=1), 0, 255).astype(np.uint8)
    with taught(tmp_path / "a.cbcl", {"watch": [POOL[0], POOL[1]], "cup": [near]}) as things:
        result = things.move(numbers(things, "watch"), "cup")
        assert (result.moved, result.copies, result.gone) == ({"watch": 2}, 1, ("watch",))
        assert things.labels() == {"cup": 2}


def test_the_budget_of_the_vote_holds_when_examples_move(tmp_path: Path) -> None:
    options: dict[str, Any] = {"radius": 0.0, "max_centroids": 6}
    lessons = {"watch": POOL[:3], "cup": POOL[3:5], "key": POOL[5:6]}
    with taught(tmp_path / "a.cbcl", lessons, **options) as things:
        things.move(numbers(things, "watch")[:2], "phone")
        assert things.labels() == {"cup": 2, "key": 1, "phone": 2, "watch": 1}
        assert sum(len(one.counts) for one in things.snapshot().concepts().values()) <= 6
        things.learn("key", POOL[10:14])
        things.move(numbers(things, "key")[-2:], "watch")
        assert sum(len(one.counts) for one in things.snapshot().concepts().values()) <= 6
        assert sum(things.labels().values()) == 10
        assert check(tmp_path / "a.cbcl") == []


def test_what_cannot_be_moved_is_told_and_nothing_changes(tmp_path: Path, head: Any) -> None:
    with taught(tmp_path / "a.cbcl", {"watch": POOL[:3], "cup": POOL[3:5]}, head=head) as things:
        before, (first, *_) = known(things), numbers(things, "watch")
        with pytest.raises(LabelError, match=r"'watch' has example \d+ already"):
            things.move([first, *numbers(things, "cup")], "watch")
        with pytest.raises(LabelError, match="example 999 does not exist"):
            things.move([first, 999], "phone")
        with pytest.raises(LabelError, match="cannot be a label"):
            things.move([first], "unknown")
        with pytest.raises(LabelError, match="no example was given"):
            things.move([], "phone")
        if head == "vote":
            with pytest.raises(LabelError, match="which cannot learn"):
                things.move([first], None)
        assert known(things) == before
    with pytest.raises(MemoryFileError):
        Recognizer(tmp_path / "none.cbcl", CELLS).move([1], "cup")
