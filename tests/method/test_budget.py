"""Reduction: the budget holds, nothing is lost count of, and no class loses its last concept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from support import reference
from support.strategies import vectors

from cbcl import agg_var, reduce
from cbcl.errors import BudgetError
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.centroids import budget
from cbcl.method.centroids.budget import MAX_POINTS, k_means, merge, shares
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.kernel import NUMPY

sizes = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@st.composite
def classes(draw: st.DrawFn) -> list[Concepts]:
    return [agg_var(x, 0.0) for x in draw(st.lists(vectors(most=12, d=3), min_size=1, max_size=5))]


@given(sizes, st.data())
def test_shares_are_whole_proportional_and_add_up(parts: list[int], data: st.DataObject) -> None:
    limit = data.draw(st.integers(len(parts), sum(parts)))
    got = shares(parts, limit)
    assert got == reference.shares(parts, limit)
    assert sum(got) == limit
    assert all(1 <= share <= size for share, size in zip(got, parts, strict=True))
    exact = [size * limit / sum(parts) for size in parts]
    if min(exact) >= 1:
        assert all(abs(share - part) < 1 for share, part in zip(got, exact, strict=True))


@settings(max_examples=60, deadline=None)
@given(classes(), st.data())
def test_the_budget_holds_and_counts_are_conserved(
    known: list[Concepts], data: st.DataObject
) -> None:
    total = sum(len(concepts.counts) for concepts in known)
    limit = data.draw(st.integers(len(known), total + 1))
    new = data.draw(st.sets(st.integers(0, len(known) - 1)))
    got = reduce(known, limit, new=new)
    assert sum(len(concepts.counts) for concepts in got) <= limit
    for before, after in zip(known, got, strict=True):
        assert after.size == before.size
        assert len(after.counts) >= 1
        assert (after.centroids >= before.centroids.min(axis=0)).all()
        assert (after.centroids <= before.centroids.max(axis=0)).all()
        assert after.centroids.dtype == np.float32
    if total <= limit:
        assert all(before is after for before, after in zip(known, got, strict=True))


def points(n: int, seed: int = 0) -> Concepts:
    return agg_var(np.random.default_rng(seed).normal(size=(n, 8)), 0.0)


def test_old_classes_shrink_first_and_in_proportion() -> None:
    got = reduce([points(60), points(30, 1), points(20, 2)], 80, new={2})
    assert [len(concepts.counts) for concepts in got] == [40, 20, 20]


def test_newcomers_shrink_too_when_they_alone_are_too_many() -> None:
    got = reduce([points(60), points(30, 1), points(200, 2), points(100, 3)], 32, new={2, 3})
    assert [len(concepts.counts) for concepts in got] == [1, 1, 20, 10]


def groups_cost(points: Float32s, weights: Int64s, groups: Int64s) -> float:
    """The weighted squared distances of points to the mean of their group."""
    cost = 0.0
    for group in np.unique(groups):
        some = groups == group
        mean = np.average(points[some], axis=0, weights=weights[some])
        cost += float((weights[some, None] * (points[some] - mean) ** 2).sum())
    return cost


@pytest.mark.parametrize(("m", "n"), [(40, 7), (200, 60), (78, 72), (MAX_POINTS + 1, 5)])
def test_k_means_is_as_good_as_the_librarys(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    points = rng.normal(size=(m, 30), loc=5.0).astype(np.float32)
    weights = rng.integers(1, 20, m)
    ours = [groups_cost(points, weights, k_means(points, weights, n, seed)) for seed in range(5)]
    library = [
        KMeans(n, n_init=1, random_state=seed)
        .fit(points.astype(np.float64), sample_weight=weights)
        .inertia_
        for seed in range(5)
    ]
    assert np.mean(ours) == pytest.approx(np.mean(library), rel=0.06)


@pytest.mark.parametrize("seed", range(5))
def test_points_beside_a_very_far_one_are_told_apart_as_well(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(200, 16)).astype(np.float32)
    points[7] *= 1e6
    weights = np.random.default_rng(seed).integers(1, 20, 200)
    groups = k_means(points, weights, 20, seed)
    assert {*groups.tolist()} == {*range(20)}
    assert (groups == groups[7]).sum() == 1
    assert len(merge(Concepts(points, weights), 20, seed=seed).counts) == 20


def test_making_room_leaves_the_mean_of_a_class_where_it_is() -> None:
    rng = np.random.default_rng(0)
    concepts = agg_var(rng.normal(size=(500, 8)), radius=2.5)
    mean = np.average(concepts.centroids, axis=0, weights=concepts.counts)
    for n in range(len(concepts.counts) - 1, 0, -3):
        concepts = merge(concepts, n, seed=n)
        np.testing.assert_allclose(
            np.average(concepts.centroids, axis=0, weights=concepts.counts), mean, atol=1e-5
        )
    assert concepts.size == 500


@pytest.mark.parametrize("seed", range(5))
def test_merged_centroids_are_the_weighted_means_of_their_groups_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = (rng.normal(size=(150, 70)) * 10.0 ** rng.integers(-9, 9, size=(150, 1))).astype("f4")
    points[3], points[::7, ::5] = -0.0, 0.0
    known = Concepts(points, rng.integers(1, 40, size=150))
    merged = merge(known, 90, seed)
    groups = k_means(points, known.counts, 90, seed)
    members = [np.flatnonzero(groups == number) for number in dict.fromkeys(groups.tolist())]
    assert {1} < {len(rows) for rows in members}
    wide = points.astype(np.float64)
    means = [
        np.average(wide[rows], axis=0, weights=known.counts[rows])
        if len(rows) > 1
        else wide[rows[0]]
        for rows in members
    ]
    assert merged.centroids.tobytes() == np.array(means, dtype=np.float32).tobytes()
    assert merged.counts.tolist() == [known.counts[rows].sum() for rows in members]


def test_the_seed_reaches_the_k_means() -> None:
    before = points(200)
    first, again, other = (merge(before, 20, seed=seed).centroids for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_duplicates_may_leave_fewer_than_asked_for() -> None:
    twins = agg_var(np.ones((9, 2)), 0.0)
    got = merge(twins, 4, seed=0)
    assert got.centroids.tolist() == [[1.0, 1.0]]
    assert got.counts.tolist() == [9]


def test_huge_and_tiny_numbers_are_merged_as_well() -> None:
    for scale in (1e-44, 1e37):
        before = agg_var(
            np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32) * np.float32(scale),
            0.0,
        )
        got = merge(before, 5, seed=0)
        assert got.size == 30
        assert np.isfinite(got.centroids).all()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (0, "max_centroids=0 is not a count"),
        (math.inf, "max_centroids=inf is not a count"),
    ],
)
def test_a_budget_that_is_no_count_is_refused(limit: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reduce([points(3), points(3)], limit)


def test_more_classes_than_centroids_is_an_error_of_its_own() -> None:
    with pytest.raises(BudgetError, match="every class needs at least one centroid") as raised:
        reduce([points(3), points(3)], 1)
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.subject, error.problem) == ("max_centroids=1", "cannot hold 2 classes")
    assert error.public == str(error)


def kinds_of_points(kind: str, m: int, rng: np.random.Generator) -> Float32s:
    drawn = rng.normal(size=(m, 40)).astype(np.float32)
    if kind == "coarse":  # sums of distances tie
        return np.round(drawn[:, :4])
    if kind == "twins":
        drawn[m // 2 :] = drawn[: m - m // 2]
    return drawn


@pytest.mark.parametrize("kind", ["features", "coarse", "twins"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_groups_do_not_depend_on_the_kernel(
    kind: str, weighted: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 120))
    vectors = kinds_of_points(kind, m, rng)
    weights: Int64s = rng.integers(1, 30, m) if weighted else np.ones(m, dtype=np.int64)
    sizes = [m - 1, max(1, m - 3), max(1, m // 2), 1]
    compiled = [k_means(vectors, weights, n, seed) for n in sizes]
    monkeypatch.setattr(budget, "KERNEL", NUMPY)
    for n, groups in zip(sizes, compiled, strict=True):
        np.testing.assert_array_equal(k_means(vectors, weights, n, seed), groups)
