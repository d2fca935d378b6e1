"""The vote: labels are those of Algorithm 2, with every kernel and batch size."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from support import reference
from support.strategies import radii, vectors
from threadpoolctl import threadpool_limits

from cbcl import agg_var, vote
from cbcl.method.blocks import BLOCK_ROWS
from cbcl.method.centroids import search
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.kernel import KERNEL, NUMPY, Kernel
from cbcl.method.centroids.search import MAX_COMPILED_VOTERS, TILE_CENTROIDS, Index, Search
from cbcl.method.centroids.voting import tally, votes_by_class

KERNELS = pytest.mark.parametrize("kernel", [KERNEL, NUMPY], ids=["compiled", "numpy"])
many = settings(max_examples=150, deadline=None)


def concepts_of(rows: list[list[float]], counts: list[int]) -> Concepts:
    return Concepts(np.array(rows, dtype=np.float32), np.array(counts))


@many
@given(st.data())
def test_votes_are_those_of_the_literal_algorithm(data: st.DataObject) -> None:
    x = data.draw(vectors(least=2))
    radius = data.draw(radii(x))
    cut = data.draw(st.integers(1, len(x) - 1))
    classes = [
        agg_var(x[:cut], radius),
        agg_var(x[cut:], radius),
        agg_var(x[: cut // 2 + 1], radius),
    ]
    queries = np.concatenate([x[:5], data.draw(vectors(most=5, d=x.shape[1]))])
    n = data.draw(st.integers(1, 12))
    got = vote(queries, classes, n)
    want = np.array([reference.votes(query, classes, n) for query in queries])
    assert got.argmax(axis=1).tolist() == want.argmax(axis=1).tolist()
    coincident = want.max(axis=1) > 1e290
    np.testing.assert_array_equal(got[~coincident], want[~coincident])
    assert (want[coincident] > 0)[got[coincident] > 1e290].all()


@KERNELS
@many
@given(st.data())
def test_the_nearest_are_those_that_measuring_all_would_find(
    kernel: Kernel, data: st.DataObject
) -> None:
    x = data.draw(vectors())
    queries = np.concatenate([x[:3], data.draw(vectors(most=4, d=x.shape[1]))])
    n = data.draw(st.integers(1, len(x)))
    with patch.object(search, "KERNEL", kernel):
        got = Search(Index([agg_var(x, 0.0)]), n).nearest(queries)
    for query, indices, distances in zip(queries, got.indices, got.distances, strict=True):
        every = np.array([reference.distance(query, centroid) for centroid in x])
        order = np.argsort(every, kind="stable")[:n]
        assert indices.tolist() == order.tolist()
        assert distances.tolist() == every[order].tolist()


@KERNELS
@pytest.mark.parametrize("n", [1, 10, MAX_COMPILED_VOTERS + 1])
@pytest.mark.parametrize("lattice", [False, True], ids=["real", "ties"])
def test_many_centroids_are_searched_tile_after_tile(kernel: Kernel, n: int, lattice: bool) -> None:
    rng = np.random.default_rng(n)
    m = 2 * TILE_CENTROIDS + 700  # three tiles, the last with an incomplete span
    x = (rng.integers(0, 5, (m, 4)) if lattice else rng.normal(size=(m, 4))).astype(np.float32)
    x[TILE_CENTROIDS + 5] = 1e30  # no bound holds for it
    queries = np.concatenate([x[:20] + np.float32(0.5), x[TILE_CENTROIDS + 4 : TILE_CENTROIDS + 6]])
    with patch.object(search, "KERNEL", kernel):
        got = Search(Index([agg_var(x, 0.0)]), n).nearest(queries)
    for query, indices in zip(queries, got.indices, strict=True):
        every = np.array([reference.distance(query, centroid) for centroid in x])
        assert indices.tolist() == np.argsort(every, kind="stable")[:n].tolist()


@many
@given(st.data())
def test_votes_by_class_are_the_votes_that_are_not_0(data: st.DataObject) -> None:
    x = data.draw(vectors(least=2))
    index = Index([agg_var(x[start::3], data.draw(radii(x))) for start in range(min(3, len(x)))])
    n = data.draw(st.integers(1, 12))
    voters = Search(index, n).voters(
        np.concatenate([x[:3], data.draw(vectors(most=3, d=x.shape[1]))])
    )
    every = tally(voters, index.owners, index.sizes)
    for indices, distances, votes in zip(*voters, every, strict=True):
        got = votes_by_class(index.owners[indices], distances, index.sizes)
        assert list(got.items()) == [(int(y), float(votes[y])) for y in np.flatnonzero(votes)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_on_centroids_of_several_classes_the_smallest_class_wins_then_the_first(n: int) -> None:
    here = [[7.0]]
    big, small, same = (
        concepts_of([*here, [9.0]], [3, 2]),
        concepts_of(here, [2]),
        concepts_of(here, [2]),
    )
    assert vote(here, [big, small, same], n).argmax() == 1
    assert vote(here, [same, big, small], n).argmax() == 0
    crowd = concepts_of(here * 4, [1, 1, 1, 1])  # coincides four times, and has four vectors
    assert vote(here, [crowd, small], n).argmax() == 1


def test_what_the_distance_itself_rounds_away_is_a_tie() -> None:
    tiny = [concepts_of([[1e-7]], [1]), concepts_of([[2e-7]], [1])]
    assert vote([[1e10]], tiny, 1).argmax() == 0


def test_a_vector_on_very_many_centroids_is_as_good_as_on_one() -> None:
    x = np.zeros((3000, 3), dtype=np.float32)
    x[::2] = -0.0
    classes = [agg_var(x, 0.0), agg_var(x[:1000], 0.0), agg_var(x + 1, 0.0)]
    assert (vote(x[:64], classes, 5).argmax(axis=1) == 1).all()


def test_class_size_weighs_in_where_several_vote() -> None:
    near, far = concepts_of([[0.0]], [9]), concepts_of([[3.0]], [1])
    assert vote([[1.0]], [near, far], n_voters=1).argmax() == 0
    assert vote([[1.0]], [near, far], n_voters=2).argmax() == 1  # 1/1/9 against 1/2/1


@pytest.mark.parametrize(
    ("radius", "rival"),
    [(math.inf, NearestCentroid()), (0.0, KNeighborsClassifier(1, algorithm="brute"))],
    ids=["nearest class mean", "nearest neighbour"],
)
def test_one_voter_is_nearest_class_mean_or_neighbour(radius: float, rival: Any) -> None:
    x, y, queries = three_blobs()
    classes = [agg_var(x[y == label], radius) for label in range(3)]
    want = rival.fit(x, y).predict(queries)
    np.testing.assert_array_equal(vote(queries, classes, 1).argmax(axis=1), want)


def test_neither_batch_nor_threads_nor_order_change_a_vote() -> None:
    x, y, queries = three_blobs(d=256)
    classes = [agg_var(x[y == label], 20.0) for label in range(3)]
    whole = vote(queries, classes, 5)
    one_by_one = np.concatenate([vote(query[np.newaxis], classes, 5) for query in queries])
    np.testing.assert_array_equal(one_by_one, whole)
    np.testing.assert_array_equal(vote(queries[::-1], classes, 5)[::-1], whole)
    assert 60 * len(queries) > 2 * BLOCK_ROWS  # several blocks, on several threads
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            np.testing.assert_array_equal(
                vote(np.repeat(queries, 60, axis=0), classes, 5)[::60], whole
            )


def test_bad_input_is_refused_in_so_many_words() -> None:
    classes = [agg_var([[1.0, 2.0]], 1.0)]
    for arguments, message in (
        (([[1.0]], classes, 1), "vectors have 1 features, but the concepts have 2"),
        (([[1.0, math.nan]], classes, 1), "hold NaN, infinity or a number too large"),
        (
            ([[1.0, 2.0]], classes, 0),
            "n_voters=0 is not a count: give a whole number of at least 1",
        ),
        (([[1.0, 2.0]], [], 1), "give the concepts of at least one class"),
        (([[1.0, 2.0]], [*classes, agg_var([[1.0]], 1.0)], 1), r"centroids of \[1, 2\] features"),
    ):
        with pytest.raises(ValueError, match=message):
            vote(*arguments)


def three_blobs(d: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [40, 25, 60])
    x = (rng.normal(size=(len(y), d)) + y[:, np.newaxis]).astype(np.float32)
    return x, y, (rng.normal(size=(50, d)) + 1).astype(np.float32)
