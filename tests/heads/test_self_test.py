"""The self-test: every example is tested once, against what is learned from the others alone."""

from __future__ import annotations

import copy
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbcl.heads.base import Settings, StoredExample
from cbcl.heads.centroids.self_test import (
    MAX_TESTED_EXAMPLES,
    SELF_TEST_FOLDS,
    _draw_folds,
    examine,
)
from cbcl.heads.self_test import Misclassified

SOME = pytest.mark.parametrize("settings", [Settings(), Settings(0.0, 3), Settings(1.0, 2, 12)])


def example(number: int, vector: list[float]) -> StoredExample:
    return StoredExample(0, b"", np.array(vector, dtype=np.float32), number=number)


def numbered(classes: dict[str, list[list[float]]]) -> dict[str, list[StoredExample]]:
    """Examples with numbers that count through all labels."""
    numbers = count()
    return {
        label: [example(next(numbers), vector) for vector in vectors]
        for label, vectors in classes.items()
    }


def apart(counts: dict[str, int], seed: int = 0) -> dict[str, list[StoredExample]]:
    """Labels far from each other, their examples close together."""
    rng = np.random.default_rng(seed)
    corners = 10.0 * np.eye(len(counts))
    return numbered(
        {
            label: (corner + rng.normal(scale=0.3, size=(n, len(counts)))).tolist()
            for corner, (label, n) in zip(corners, counts.items(), strict=True)
        }
    )


@SOME
def test_things_far_apart_are_all_told_apart(settings: Settings) -> None:
    examined = examine(apart({"cup": 12, "key": 8, "mug": 5, "pen": 3, "pot": 2}), settings)
    assert examined.labels == ("cup", "key", "mug", "pen", "pot")
    assert examined.asked == 30
    assert (
        examined.right + examined.unknown == 30
    )  # one in ten is further from its own than the others are
    assert examined.unknown <= 6
    assert examined.matrix.sum(axis=1).tolist() == [12, 8, 5, 3, 2]
    assert all(missed.answer is None for missed in examined.wrong)
    assert examined.problem is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 5))
def test_the_matrix_adds_up(counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = {f"label {number}": rng.normal(size=(n, 3)).tolist() for number, n in enumerate(counts)}
    examined = examine(numbered(drawn), Settings())
    t = len(counts)
    assert examined.matrix.shape == (t, t + 1)
    assert examined.matrix.sum(axis=1).tolist() == [n if n > 1 else 0 for n in counts]
    assert examined.asked == examined.right + len(examined.wrong)
    assert examined.unknown == sum(missed.answer is None for missed in examined.wrong)
    assert len({missed.example for missed in examined.wrong}) == len(examined.wrong)
    assert (examined.problem is not None) == (examined.asked == 0)


def test_an_example_has_no_part_in_what_it_is_asked_about() -> None:
    # Two lie amid the other label: only if they had been learned would they be recognized, since
    # each centroid is an example here.
    cup, key, like_cup, like_key = [0.0, 9.0], [9.0, 0.0], [0.0, 8.5], [8.5, 0.0]
    examples = numbered({"cup": [cup] * 4 + [like_key], "key": [key] * 4 + [like_cup]})
    examined = examine(examples, Settings(radius=0.0))
    assert examined.matrix.tolist() == [[4, 1, 0], [1, 4, 0]]
    assert examined.wrong == (Misclassified(4, "cup", "key"), Misclassified(9, "key", "cup"))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_with_few_examples_all_but_one_are_learned(n: int) -> None:
    for before in range(SELF_TEST_FOLDS):  # wherever the dealing has got to
        folds = _draw_folds([before + 2, n], seed=0)[1]
        assert (
            sorted(np.bincount(folds, minlength=SELF_TEST_FOLDS).tolist())
            == [0] * (SELF_TEST_FOLDS - n) + [1] * n
        )


def test_a_label_with_one_example_is_learned_but_not_asked_about() -> None:
    examples = apart({"cup": 5, "key": 5, "pen": 1})
    stray = example(99, (examples["pen"][0].vector + 0.1).tolist())
    examined = examine({**examples, "cup": [*examples["cup"], stray]}, Settings())
    assert [
        label for label, row in zip(examined.labels, examined.matrix, strict=True) if not row.any()
    ] == ["pen"]
    assert examined.matrix[2].sum() == 0
    assert Misclassified(99, "cup", "pen") in examined.wrong


def test_what_is_like_nothing_else_is_unknown() -> None:
    examples = apart({"cup": 9, "key": 9})
    strange = example(99, [-30.0, -30.0])
    examined = examine({**examples, "cup": [*examples["cup"], strange]}, Settings(radius=1.0))
    assert Misclassified(99, "cup", None) in examined.wrong


def test_with_too_few_to_tell_how_far_is_too_far_it_goes_by_what_it_is_told() -> None:
    examples = numbered({"cup": [[9.0, 1.0], [1.0, 9.0]]})
    assert examine(examples, Settings()).right == 2
    assert examine(examples, Settings(), 0.8).unknown == 2


def test_without_two_examples_of_anything_it_says_why() -> None:
    for examples, why in (
        (apart({"cup": 1, "key": 1}), "every label has a single example"),
        ({}, "private"),
        ({"cup": []}, "private"),
    ):
        examined = examine(examples, Settings())
        assert examined.problem is not None
        assert why in examined.problem
        assert (examined.asked, examined.right, examined.unknown, examined.wrong) == (0, 0, 0, ())


def test_it_is_the_same_every_time_and_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    examples = numbered(
        {label: rng.normal(size=(7, 4)).tolist() for label in ("key", "cup", "pen")}
    )
    before = copy.deepcopy(examples)
    first, second = (
        examine(examples, Settings()),
        examine(dict(reversed(examples.items())), Settings()),
    )
    assert first.wrong == second.wrong
    assert first.wrong
    np.testing.assert_array_equal(first.matrix, second.matrix)
    for label, some in examples.items():
        for one, old in zip(some, before[label], strict=True):
            assert one.number == old.number
            np.testing.assert_array_equal(one.vector, old.vector)


def test_of_very_many_examples_as_many_of_each_label_are_asked_about_as_can_be() -> None:
    folds = _draw_folds([20_000, 300, 4000, 1], seed=0)
    asked = [int(np.sum(some >= 0)) for some in folds]
    assert asked == [MAX_TESTED_EXAMPLES // 4, 300, MAX_TESTED_EXAMPLES // 4, 0]
    assert np.ptp(np.bincount(np.concatenate([some[some >= 0] for some in folds]))) <= 1
