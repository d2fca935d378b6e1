"""The parts that an ablation swaps, and CBCL made of them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reference
from support.strategies import vectors
from support.streams import digits, stream

from cbcl import CBCLClassifier, agg_var, reduce
from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.centroids import concepts
from cbcl.method.centroids.budget import ShrinkFunction, merge
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.search import Index, Search
from cbcl.method.centroids.tuning import ClassRows, Tuning
from cbcl_study.ablations import (
    _farthest,
    agglomerative,
    fixed,
    k_means,
    merge_evenly,
    rank_vote,
    remove,
    voters,
)
from cbcl_study.hybrid import ClusterFunction, Hybrid


def assert_equal(hybrid: Hybrid, judge: CBCLClassifier, queries: Float32s) -> None:
    assert hybrid.knowledge is not None
    np.testing.assert_array_equal(hybrid.predict(queries), judge.predict(queries))
    assert (hybrid.knowledge.radius, hybrid.knowledge.n_voters) == (judge.radius_, judge.n_voters_)
    assert [*hybrid.knowledge.concepts] == [*judge.concepts_]
    np.testing.assert_array_equal(hybrid.knowledge.index.centroids, judge.centroids_)
    np.testing.assert_array_equal(hybrid.knowledge.index.counts, judge.counts_)


@pytest.mark.parametrize("most", [None, 30, 6])
@pytest.mark.parametrize("seed", range(5))
def test_with_no_part_swapped_it_is_cbcl_bit_for_bit(most: int | None, seed: int) -> None:
    hybrid, judge = (
        Hybrid(max_centroids=most, seed=seed),
        CBCLClassifier(max_centroids=most, random_state=seed),
    )
    for x, y in stream(seed):
        assert_equal(
            hybrid.partial_fit(x, y), judge.partial_fit(x, y), np.concatenate([x, x[::-1] + 0.5])
        )


@pytest.mark.parametrize("most", [None, 120])
def test_with_no_part_swapped_it_is_cbcl_on_the_digits(most: int | None) -> None:
    x, y, queries, _ = digits(0)
    hybrid, judge = (
        Hybrid(max_centroids=most, seed=3),
        CBCLClassifier(max_centroids=most, random_state=3),
    )
    for some in ("01", "234", "56789"):
        rows = np.isin(y, [*some])
        assert_equal(
            hybrid.partial_fit(x[rows], y[rows]), judge.partial_fit(x[rows], y[rows]), queries
        )


@pytest.mark.parametrize(("scale", "n"), [(math.inf, 1), (0.0, 3)])
def test_nearest_class_mean_and_nearest_neighbours_are_hybrids(scale: float, n: int) -> None:
    hybrid, judge = (
        Hybrid(choose=fixed(scale, n)),
        CBCLClassifier(radius=scale, n_voters=n),
    )
    for x, y in stream(1):
        assert_equal(hybrid.partial_fit(x, y), judge.partial_fit(x, y), x + 0.5)


def test_a_fixed_radius_is_measured_on_the_first_increment_that_has_two_vectors_of_a_class() -> (
    None
):
    x = np.array([[0.0], [9.0], [0.0], [2.0], [50.0]])
    choose = fixed(1.5, 4)
    unknown = choose(x, [ClassRows(np.array([0])), ClassRows(np.array([1]))], None, 0)
    assert unknown == Tuning(math.inf, 4)
    known = choose(x, [ClassRows(np.array([2, 3]))], unknown, 0)
    assert known.radius == pytest.approx(1.5 * math.sqrt(2))
    assert known.n_voters == 4
    assert choose(x, [ClassRows(np.array([0, 4]))], known, 0) is known


@pytest.mark.parametrize("scale", [-1.0, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="is not a distance"):
        fixed(scale, 1)


def test_a_single_voter_is_what_cbcl_chooses_with_a_budget() -> None:
    x, y, queries, _ = digits(1)
    one = Hybrid(choose=voters(1), max_centroids=100).partial_fit(x, y)
    assert_equal(one, CBCLClassifier(max_centroids=100).fit(x, y), queries)
    assert one.knowledge is not None
    assert one.knowledge.n_voters == 1


def test_with_a_budget_the_weights_of_votes_do_not_matter_and_without_one_they_do() -> None:
    x, y, queries, _ = digits(1)
    rank: dict[str, Any] = {"vote": rank_vote}
    one: dict[str, Any] = {"choose": voters(1)}
    plain, *others = (
        Hybrid(**parts, max_centroids=100).partial_fit(x, y).predict(queries)
        for parts in ({}, rank, one)
    )
    for answers in others:
        np.testing.assert_array_equal(answers, plain)
    five, ranked = (Hybrid(choose=voters(5), **parts).partial_fit(x, y) for parts in ({}, rank))
    assert five.knowledge is not None
    assert five.knowledge.n_voters == 5
    assert (five.predict(queries) != ranked.predict(queries)).any()
    assert (five.predict(queries) != Hybrid(**one).partial_fit(x, y).predict(queries)).any()


CLUSTERS: dict[str, ClusterFunction] = {
    "k-means": k_means(0),
    "average": agglomerative,
    "ward": partial(agglomerative, linkage="ward"),
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_other_clusterings_make_as_many_centroids_and_count_every_vector(
    cluster: ClusterFunction, data: st.DataObject
) -> None:
    x = data.draw(vectors(least=2, most=25, d=3))
    x = x / (np.abs(x).max() or 1.0)
    rows = np.random.default_rng(0).permutation(len(x))
    cut = data.draw(st.integers(1, len(x) - 1))
    radius = data.draw(st.sampled_from([0.0, 0.1, 0.3, 1.0, math.inf]))
    before = cluster(x, rows[:cut], radius, None)
    after = cluster(x, rows[cut:], radius, before)
    distinct = len(np.unique(x[rows[:cut]], axis=0))
    assert min(distinct, len(agg_var(x[rows[:cut]], radius).counts)) <= len(before.counts) <= cut
    assert (before.size, after.size) == (cut, len(x))
    assert len(after.counts) <= len(agg_var(x[rows[cut:]], radius, before).counts)
    total = np.average(after.centroids, axis=0, weights=after.counts)
    np.testing.assert_allclose(total, x.mean(axis=0, dtype=np.float64), atol=1e-5)


def test_points_that_look_like_distances_are_points() -> None:
    x = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]], dtype=np.float32)
    assert len(agglomerative(x, np.arange(3), 2.0).counts) < 3


def test_a_swapped_part_is_used() -> None:
    x, y, queries, _ = digits(2)
    rest: dict[str, Any] = {"widen": None, "max_centroids": 100, "seed": 1}
    plain = Hybrid(choose=fixed(1.1, 5), **rest).partial_fit(x, y)
    others = [
        Hybrid(choose=fixed(1.0, 5), **rest),
        Hybrid(choose=fixed(1.1, 5), cluster=k_means(1), **rest),
        Hybrid(choose=fixed(1.1, 5), cluster=agglomerative, **rest),
        Hybrid(choose=fixed(1.1, 5), shrink=remove, **rest),
    ]
    for other in others:
        other.partial_fit(x, y)
        assert not np.array_equal(other.state()["centroids"], plain.state()["centroids"])
    ranks = Hybrid(choose=fixed(1.1, 5), vote=rank_vote, **rest).partial_fit(x, y)
    np.testing.assert_array_equal(ranks.state()["centroids"], plain.state()["centroids"])
    assert (ranks.predict(queries) != plain.predict(queries)).any()


def test_at_one_centroid_a_class_all_clusterings_are_the_mean() -> None:
    x, rows = digits(0)[0], np.arange(200)
    mean = concepts.cluster(x, rows, math.inf).centroids
    for cluster in CLUSTERS.values():
        np.testing.assert_allclose(
            cluster(x, rows, math.inf, None).centroids, mean, rtol=1e-4, atol=1e-4
        )


# To make room


def test_counting_each_centroid_once_draws_a_class_towards_its_outliers() -> None:
    known = Concepts(np.array([[0.0], [0.2], [9.0]], dtype=np.float32), np.array([99, 99, 1]))
    evenly = merge_evenly(known, 1, seed=0)
    assert merge(known, 1, seed=0).centroids[0, 0] < 0.2 < 3.0 < evenly.centroids[0, 0]
    assert evenly.counts.tolist() == [199]


def test_removing_keeps_the_first_and_counts_the_others_with_the_nearest() -> None:
    before = Concepts(
        np.array([[0.0], [10.0], [9.0], [1.0]], dtype=np.float32), np.array([1, 2, 3, 4])
    )
    after = remove(before, 2, seed=0)
    assert after.centroids.tolist() == [[0.0], [10.0]]
    assert after.counts.tolist() == [5, 5]


@pytest.mark.parametrize("shrink", [remove, merge_evenly])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_budget_holds_and_counts_are_conserved(
    shrink: ShrinkFunction, data: st.DataObject
) -> None:
    known = [agg_var(data.draw(vectors(d=3)), 0.0) for _ in range(data.draw(st.integers(1, 4)))]
    total = sum(len(one.counts) for one in known)
    limit = data.draw(st.integers(len(known), total))
    after = reduce(known, limit, shrink=shrink)
    assert sum(len(one.counts) for one in after) <= limit
    assert [one.size for one in after] == [one.size for one in known]


# The vote of the published code


def votes_by_rank(queries: Any, classes: list[Concepts], n: int) -> Float64s:
    return rank_vote(Search(Index(classes), n), np.array(queries, dtype=np.float32))


def test_the_rank_vote_is_that_of_the_published_code() -> None:
    rng = np.random.default_rng(3)
    classes = [agg_var(rng.normal(size=(6, 5)) + label, 1.5) for label in range(4)]
    queries = rng.normal(size=(30, 5)).astype(np.float32) + 1
    got = votes_by_rank(queries, classes, 4)
    for query, row in zip(queries, got, strict=True):
        pairs = sorted(
            (reference.distance(query, centroid), y)
            for y, known in enumerate(classes)
            for centroid in known.centroids
        )
        far, near = pairs[-1][0], pairs[0][0]
        votes = [0.0] * 4
        for rank, (distance, y) in enumerate(pairs[:4], start=1):
            votes[y] += (1 / rank) * (far - distance) / (far - near) / classes[y].size
        np.testing.assert_allclose(row, votes, rtol=1e-12)


def test_the_rank_vote_knows_zero_and_equal_distances() -> None:
    pair = Concepts(np.array([[0.0], [2.0]], dtype=np.float32), np.array([1, 1]))
    one = Concepts(np.array([[9.0]], dtype=np.float32), np.array([2]))
    assert votes_by_rank([[0.0]], [pair, one], 1).tolist() == [[0.5, 0.0]]
    assert votes_by_rank([[1.0]], [pair], 2).tolist() == [[0.75]]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_farthest_is_that_which_measuring_all_would_find(data: st.DataObject) -> None:
    centroids = data.draw(vectors())
    queries = data.draw(vectors(most=4, d=centroids.shape[1]))
    every = [[reference.distance(query, one) for one in centroids] for query in queries]
    assert _farthest(centroids, queries).tolist() == [max(distances) for distances in every]
