"""Suggestions: labels that are the same or need examples, photos to name first or together."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.heads import answers
from support.photos import encoded, views

from cbcl import Recognizer, agg_var, load_backbone
from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.confidence import Scale, spread_of
from cbcl.method.centroids.model import CentroidModel
from cbcl.recognition.answer import Answer
from cbcl.recognition.suggestions import (
    MAX_NEIGHBOURS,
    MAX_SIMILAR,
    MAX_WANTED,
    SimilarLabels,
    find_nearest,
    find_similar,
    find_wanted,
    group_alike,
    worth_asking,
)

SHOTS = pytest.mark.parametrize("shots", [1, 3, 10])
THINGS = ("coffee", "chelsea", "rocket")
RADII = pytest.mark.parametrize("radius", [math.inf, 0.0], ids=["one centroid", "many"])


def things(t: int, shots: int, seed: int = 0, d: int = 256) -> dict[str, Float32s]:
    """Vectors of t different things, such as networks make: of many features, all positive."""
    rng = np.random.default_rng(seed)
    means = rng.exponential(size=(t, 1, d))
    vectors = np.abs(means + rng.normal(scale=0.5, size=(t, shots, d))).astype(np.float32)
    return {f"thing {number:03}": some for number, some in enumerate(vectors)}


def known(classes: dict[str, Float32s], radius: float = math.inf) -> tuple[CentroidModel, Scale]:
    concepts = {label: agg_var(vectors, radius) for label, vectors in sorted(classes.items())}
    knowledge = CentroidModel(concepts, radius, 1)
    spreads = [spread_of(vectors, radius) for vectors in classes.values()]
    return knowledge, Scale.of(spreads, knowledge.index, initial_limit=0.8)


def similar(classes: dict[str, Float32s], radius: float = math.inf) -> tuple[SimilarLabels, ...]:
    knowledge, scale = known(classes, radius)
    return find_similar(knowledge.concepts, scale.usual)


def pairs(classes: dict[str, Float32s], radius: float = math.inf) -> list[tuple[str, str]]:
    return [(label, other) for label, other, _ in similar(classes, radius)]


def halves(classes: dict[str, Float32s]) -> dict[str, Float32s]:
    """Put every second picture of each thing under another label."""
    return {f"{label} {half}": some[half::2] for label, some in classes.items() for half in (0, 1)}


@RADII
@SHOTS
@pytest.mark.parametrize("t", [2, 3, 10, 300])
def test_different_things_are_not_asked_about(t: int, shots: int, radius: float) -> None:
    assert pairs(things(t, shots), radius) == []


@RADII
@pytest.mark.parametrize("t", [1, 2, 10, 300])
def test_one_thing_under_two_labels_is_asked_about(t: int, radius: float) -> None:
    classes = things(t, 10)
    whole = classes.pop("thing 000")
    assert pairs({**classes, "cup": whole[:5], "mug": whole[5:]}, radius) == [("cup", "mug")]


@SHOTS
@pytest.mark.parametrize("t", [2, 3, 10])
def test_two_labels_of_the_same_pictures_are_the_same(t: int, shots: int) -> None:
    classes = things(t, shots)
    classes["again"] = classes["thing 001"]
    (found,) = similar(classes)
    assert found[:2] == ("again", "thing 001")
    assert found.closeness == 1.0


def test_a_label_with_one_example_is_found_in_one_with_many() -> None:
    classes = things(10, 11)
    classes["again"] = classes["thing 004"][10:]
    classes["thing 004"] = classes["thing 004"][:10]
    assert pairs(classes) == [("again", "thing 004")]


def test_two_pairs_that_are_the_same_do_not_hide_each_other() -> None:
    classes = things(2, 10)
    assert sorted(pairs(halves(classes))) == [
        ("thing 000 0", "thing 000 1"),
        ("thing 001 0", "thing 001 1"),
    ]


def test_the_closest_come_first_and_few_are_asked_about() -> None:
    classes = [*things(30, 10).items()]
    found = similar({**halves(dict(classes[:8])), **dict(classes[8:])})
    assert len(found) == MAX_SIMILAR
    closeness = [pair.closeness for pair in found]
    assert closeness == sorted(closeness, reverse=True)
    assert all(label[:-2] == other[:-2] for label, other, _ in found)


def test_the_order_of_the_labels_and_the_size_of_the_numbers_do_not_matter() -> None:
    classes = things(10, 6)
    classes["again"] = classes["thing 004"][3:]
    large = {label: 1000 * vectors for label, vectors in reversed(classes.items())}
    assert pairs(large) == pairs(classes) == [("again", "thing 004")]


def test_one_label_alone_is_like_no_other() -> None:
    assert pairs(things(1, 3)) == []


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_labels_that_are_all_the_same_are_asked_about_pair_by_pair(scale: float) -> None:
    (vectors,) = things(1, 5).values()
    assert pairs(dict.fromkeys(("cup", "mug", "pot"), np.float32(scale) * vectors)) == [
        ("cup", "mug")
    ]


def test_the_labels_nearest_to_one_are_those_of_the_comparison() -> None:
    classes = things(30, 4)
    classes["thing 007 again"] = classes["thing 007"] + np.float32(0.01)
    knowledge, scale = known(classes)
    found = find_nearest("thing 007", knowledge.concepts, scale.usual)
    assert found[0] == "thing 007 again"
    assert len(found) == len({*found}) == MAX_NEIGHBOURS
    assert "thing 007" not in found
    few = {label: knowledge.concepts[label] for label in ("thing 001", "thing 002")}
    assert find_nearest("thing 002", few, scale.usual) == ["thing 001"]


def test_few_examples_are_wanted_first_and_then_what_is_missed_most() -> None:
    labels = ("cup", "key", "mug", "pen")
    matrix = np.array([[3, 1, 0, 0, 0], [0, 2, 2, 0, 0], [0, 0, 0, 1, 3], [0, 0, 0, 1, 0]])
    examined = SelfTestResult(labels, matrix, ())
    found = find_wanted({"cup": 4, "key": 4, "mug": 4, "pen": 2}, examined)
    assert [(one.label, one.examples, one.reason) for one in found] == [
        ("pen", 2, "I have only two photos of it."),
        ("mug", 4, "I would not recognize any of its 4 photos. Add a few more views."),
        ("key", 4, "I would not recognize 2 of its 4 photos. Add a few more views."),
    ]


def test_nothing_is_wanted_where_all_is_well() -> None:
    examined = SelfTestResult(("cup", "key"), np.array([[11, 1, 0], [0, 12, 0]]), ())
    assert (
        find_wanted({"cup": 12, "key": 12}, examined)
        == find_wanted({"cup": 3})
        == find_wanted({})
        == ()
    )


def test_the_fewest_are_wanted_first_and_few_are_asked_for() -> None:
    found = find_wanted({"cup": 2, "key": 1, "mug": 2, "nut": 1, "pen": 1})
    assert [one.label for one in found] == ["key", "nut", "pen"]
    assert len(found) == MAX_WANTED


def asked(pool: Float32s, classes: dict[str, Float32s]) -> list[int]:
    return worth_asking(pool, answers(pool, *known(classes)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 200), st.integers(0, 3))
def test_every_picture_is_asked_about_once(n: int, seed: int) -> None:
    pool = np.concatenate([*things(40, 5, seed).values()])[:n]
    assert sorted(asked(pool, things(3, 2, seed))) == [*range(n)]


def test_a_picture_is_not_asked_about_again_while_others_are_open() -> None:
    classes = things(6, 2)
    new = np.stack([classes.pop(f"thing 00{number}")[0] for number in (3, 4, 5)])
    pool = np.repeat(new, 4, axis=0)
    order = asked(pool, classes)
    assert sorted(row // 4 for row in order[:3]) == [0, 1, 2]


def test_a_thing_in_many_pictures_comes_before_a_thing_in_one() -> None:
    classes = things(6, 6)
    many, one = classes.pop("thing 004"), classes.pop("thing 005")[:1]
    order = asked(np.concatenate([one, many]), classes)
    assert order[0] != 0
    assert order[1] == 0


def test_what_is_known_is_asked_about_after_what_is_new() -> None:
    classes = things(10, 12)
    new = np.concatenate([classes.pop(f"thing 00{number}")[:4] for number in (7, 8, 9)])
    old = np.concatenate([vectors[8:] for vectors in classes.values()])
    learned = {label: vectors[:8] for label, vectors in classes.items()}
    order = asked(np.concatenate([old, new]), learned)
    # One of each, and none of what is known.
    assert sorted((row - len(old)) // 4 for row in order[:3]) == [0, 1, 2]


def test_no_pictures_are_no_questions_and_nothing_known_is_no_obstacle() -> None:
    assert worth_asking(np.empty((0, 8), dtype=np.float32), []) == []
    pool = np.concatenate([vectors[:3] for vectors in things(2, 3).values()])
    unknown = [Answer(None, math.nan, (), (), math.nan)] * len(pool)
    order = worth_asking(pool, unknown)
    assert sorted(order) == sorted(worth_asking(0 * pool, unknown)) == [*range(6)]
    assert sorted(row // 3 for row in order[:2]) == [0, 1]


def test_asking_changes_nothing() -> None:
    classes = things(5, 4)
    pool = np.concatenate([*classes.values()])
    knowledge, scale = known(classes)
    made = answers(pool, knowledge, scale)
    concepts = knowledge.concepts
    before = pickle.dumps((pool, concepts, made))
    first = find_similar(concepts, scale.usual), worth_asking(pool, made)
    assert (find_similar(concepts, scale.usual), worth_asking(pool, made)) == first
    assert pickle.dumps((pool, concepts, made)) == before


# Pictures that look alike, and those taught before.


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
