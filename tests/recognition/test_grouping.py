"""Pictures without a name are grouped by what they show, and those taught before are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.photos import encoded, views

from cbcl import Recognizer, load_backbone
from cbcl.recognition.suggestions import group_alike

THINGS = ("coffee", "chelsea", "rocket")


def test_rows_around_a_direction_are_a_group_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 50))
    which = rng.permutation(np.repeat(np.arange(4), [9, 5, 2, 1]))
    rows = (centres[which] + 0.1 * rng.normal(size=(17, 50))).astype(np.float32)
    groups = group_alike(rows, least_cosine=0.6)
    assert [len(group) for group in groups] == [9, 5, 2]  # the single one is in none
    for group in groups:
        assert len({*which[group].tolist()}) == 1
    order = rng.permutation(17)
    again = group_alike(rows[order], least_cosine=0.6)
    assert [{*order[group].tolist()} for group in again] == [{*group} for group in groups]


def test_the_most_typical_picture_comes_first() -> None:
    angles = np.radians([0.0, 10.0, 20.0])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert group_alike(rows, least_cosine=0.9)[0][0] == 1


@pytest.mark.parametrize("rows", [np.empty((0, 3)), np.ones((1, 3)), np.zeros((2, 3))])
def test_nothing_one_picture_or_no_direction_at_all_is_no_group(rows: np.ndarray) -> None:
    assert group_alike(rows.astype(np.float32), least_cosine=0.6) == []


def test_photos_of_three_things_are_three_groups(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "m.cbcl", cache=False) as recognizer:
        pictures = [encoded(view) for name in THINGS for view in views(name, 4, seed=3)]
        groups = recognizer.snapshot().group_alike(recognizer.look(pictures))
        assert recognizer.snapshot().group_alike([]) == []
    assert sorted(sorted(group) for group in groups) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_of_a_backbone_without_a_name_only_the_same_pictures_are_grouped(tmp_path: Path) -> None:
    numbers = load_backbone(lambda rows: rows, name="numbers")
    with Recognizer(tmp_path / "m.cbcl", numbers) as recognizer:
        seen = recognizer.look([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [1.0, 0.0]])
        assert recognizer.snapshot().group_alike(seen) == [[0, 3]]


def test_a_picture_that_was_taught_or_nearly_so_is_found_with_its_label(tmp_path: Path) -> None:
    cup, other, stranger = (encoded(view) for view in views("coffee", 3, seed=1))
    (near,) = [encoded(np.asarray(view)[2:, 2:]) for view in views("coffee", 1, seed=1)]
    (cat,) = [encoded(view) for view in views("chelsea", 1)]
    with Recognizer(tmp_path / "m.cbcl", cache=False) as recognizer:
        recognizer.learn("cup", [cup])
        recognizer.learn(None, [cat])
        seen = recognizer.look([cup, near, other, stranger, cat])
        taught = [answer.taught for answer in recognizer.recognize_many(seen)]
        assert taught == ["cup", "cup", None, None, ""]
        assert recognizer.learn("cup", seen[:2]).copies == {"cup": 2}
        recognizer.rename("cup", "mug")
        recognizer.forget(None)
        taught = [answer.taught for answer in recognizer.recognize_many(seen)]
        assert taught == ["mug", "mug", None, None, None]


def test_the_vote_does_not_know_what_it_was_taught(tmp_path: Path) -> None:
    (cup,) = [encoded(view) for view in views("coffee", 1)]
    with Recognizer(tmp_path / "m.cbcl", head="vote", cache=False) as recognizer:
        seen = recognizer.look([cup])
        recognizer.learn("cup", [cup])
        assert recognizer.recognize(seen[0]).taught is None
