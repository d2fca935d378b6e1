"""Scores: what they are of each other, of simple runs, and of no data."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any
from zlib import compress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbcl_study import scores


def run(increments: list[int], tested: list[int], right: list[list[int]]) -> dict[str, Any]:
    return {"increments": increments, "tested": tested, "right": right}


@st.composite
def runs(draw: st.DrawFn, fewest: int = 0) -> dict[str, Any]:
    """Any run of up to five increments; a class may have no test vectors if `fewest` is 0."""
    increments = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    tested = draw(
        st.lists(st.integers(fewest, 20), min_size=sum(increments), max_size=sum(increments))
    )
    ends = np.cumsum(increments)
    return run(
        increments, tested, [[draw(st.integers(0, n)) for n in tested[:end]] for end in ends]
    )


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))


@given(runs())
def test_scores_are_shares_or_nan(record: dict[str, Any]) -> None:
    for found in (
        scores.accuracies(record),
        scores.class_means(record),
        scores.groups(record).ravel(),
    ):
        assert (np.isnan(found) | ((found >= 0.0) & (found <= 1.0))).all()
    assert (
        len(scores.accuracies(record))
        == len(scores.class_means(record))
        == len(record["increments"])
    )


@given(runs(fewest=1))
def test_with_test_vectors_of_every_class_only_the_future_is_nan(record: dict[str, Any]) -> None:
    found = scores.groups(record)
    np.testing.assert_array_equal(np.isnan(found), np.triu(np.ones_like(found, dtype=bool), 1))
    assert not np.isnan(scores.accuracies(record)).any()


@given(runs(fewest=1))
def test_accuracy_is_the_mean_of_the_groups_weighted_by_their_test_vectors(
    record: dict[str, Any],
) -> None:
    ends = np.cumsum(record["increments"])
    weights = np.array(
        [
            sum(record["tested"][end - n : end])
            for end, n in zip(ends, record["increments"], strict=True)
        ]
    )
    for t, row in enumerate(scores.groups(record)):
        assert same(
            np.average(row[: t + 1], weights=weights[: t + 1]), scores.accuracies(record)[t]
        )


@given(runs(), st.integers(1, 50))
def test_with_as_many_test_vectors_of_every_class_both_means_are_one(
    record: dict[str, Any], n: int
) -> None:
    alike = record | {
        "tested": [n] * len(record["tested"]),
        "right": [[min(hits, n) for hits in row] for row in record["right"]],
    }
    np.testing.assert_allclose(scores.accuracies(alike), scores.class_means(alike))


def test_a_large_class_counts_for_more_in_top_1_only() -> None:
    record = run([2], [90, 10], [[90, 0]])
    assert scores.accuracies(record).tolist() == [0.9]
    assert scores.class_means(record).tolist() == [0.5]


@given(runs())
def test_average_last_and_drop_are_of_the_accuracies(record: dict[str, Any]) -> None:
    found = scores.accuracies(record)
    known = found[~np.isnan(found)]
    assert same(scores.average(record), float(known.mean()) if len(known) else math.nan)
    assert same(scores.last(record), found[-1])
    assert same(scores.drop(record), found[0] - found[-1])


def test_a_class_without_test_vectors_is_neither_right_nor_wrong() -> None:
    record = run([1, 1], [0, 10], [[0], [0, 5]])
    np.testing.assert_array_equal(scores.accuracies(record), [math.nan, 0.5])
    np.testing.assert_array_equal(scores.class_means(record), [math.nan, 0.5])
    np.testing.assert_array_equal(scores.groups(record), [[math.nan, math.nan], [math.nan, 0.5]])
    assert scores.average(record) == 0.5
    assert math.isnan(scores.drop(record))
    assert math.isnan(scores.forgetting(record))
    assert math.isnan(scores.omega(record).base)


def test_forgetting_is_from_the_best_ever_before_the_end_and_not_from_the_first() -> None:
    record = run([1, 1, 1], [10, 10, 10], [[5], [9, 8], [6, 6, 10]])
    assert scores.forgetting(record) == pytest.approx(((0.9 - 0.6) + (0.8 - 0.6)) / 2)


def test_a_gain_is_forgetting_below_zero_and_one_increment_forgets_nothing_known() -> None:
    assert scores.forgetting(run([1, 1], [10, 10], [[5], [7, 8]])) == pytest.approx(-0.2)
    assert math.isnan(scores.forgetting(run([2], [10, 10], [[5, 6]])))


@given(runs(fewest=1))
def test_forgetting_agrees_with_the_definition_written_out(record: dict[str, Any]) -> None:
    matrix = scores.groups(record)
    end = len(matrix) - 1
    lost = [max(matrix[t][j] for t in range(j, end)) - matrix[end][j] for j in range(end)]
    assert same(scores.forgetting(record), sum(lost) / end if end else math.nan)


def test_omega_leaves_out_the_first_increment_and_divides_all_three() -> None:
    record = run([2, 1, 1], [10, 10, 10, 10], [[10, 10], [8, 6, 5], [6, 4, 0, 7]])
    found = scores.omega(record, offline=0.5)
    assert found.base == pytest.approx((0.7 + 0.5) / 2 / 0.5)
    assert found.new == pytest.approx((0.5 + 0.7) / 2 / 0.5)
    assert found.all == pytest.approx((19 / 30 + 17 / 40) / 2 / 0.5)


def test_one_increment_has_no_omega_and_nothing_is_divided_by_zero() -> None:
    assert all(math.isnan(value) for value in scores.omega(run([2], [10, 10], [[5, 6]])))
    with pytest.raises(ValueError, match=r"offline=0\.0 cannot be divided by"):
        scores.omega(run([2], [10, 10], [[5, 6]]), offline=0.0)


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_confusion_comes_back_as_it_went_in(side: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(0, scores.MAX_CONFUSION + 1, size=(side, side))
    text = scores.encode_confusion(matrix)
    assert text.isascii()
    np.testing.assert_array_equal(scores.confusion({"confusion": text}), matrix)
    assert scores.encode_confusion(matrix.astype(np.uint16)) == text


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 2]], r"a square: got an array of shape \(1, 2\)"),
        ([1, 2], r"a square: got an array of shape \(2,\)"),
        ([[-1]], "whole numbers from 0 to 65535"),
        ([[65536]], "whole numbers from 0 to 65535"),
        ([[0.5]], "whole numbers from 0 to 65535"),
    ],
)
def test_what_is_no_confusion_is_refused(matrix: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scores.encode_confusion(matrix)


def test_a_broken_confusion_is_refused() -> None:
    text = b64encode(compress(bytes(6))).decode()
    with pytest.raises(ValueError, match="3 cells are no square"):
        scores.confusion({"confusion": text})


def test_the_deviation_is_the_samples() -> None:
    values = [0.1, 0.2, 0.4, 0.8]
    found = scores.summary(values)
    assert found.std == pytest.approx(np.std(values, ddof=1))
    assert found.std > np.std(values)
    assert found.n == 4


def test_nothing_has_no_mean_and_one_has_no_deviation() -> None:
    assert scores.summary([0.5, math.nan])[::2] == (0.5, 1)
    assert math.isnan(scores.summary([0.5, math.nan]).std)
    mean, std, n = scores.summary([])
    assert math.isnan(mean)
    assert math.isnan(std)
    assert n == 0


@given(st.lists(st.integers(0, 10), min_size=2, max_size=6))
def test_a_curve_is_the_summary_of_each_increment(firsts: list[int]) -> None:
    records = [run([1, 2], [10, 10, 10], [[hits], [hits, 0, 10]]) for hits in firsts]
    found = scores.curve(records)
    assert found.classes_seen.tolist() == [1, 3]
    assert found.n == len(firsts)
    for t in range(2):
        want = scores.summary(float(scores.accuracies(record)[t]) for record in records)
        assert (found.mean[t], found.std[t]) == (want.mean, want.std)


def test_a_curve_of_one_run_has_no_spread() -> None:
    found = scores.curve([run([1, 1], [10, 10], [[9], [5, 5]])])
    assert found.mean.tolist() == [0.9, 0.5]
    assert np.isnan(found.std).all()


def test_runs_of_different_increments_make_no_curve() -> None:
    one, other = run([1, 1], [1, 1], [[1], [1, 1]]), run([2], [1, 1], [[1, 1]])
    for records in ([], [one, other]):
        with pytest.raises(ValueError, match="make no curve: give at least one run, all alike"):
            scores.curve(records)
