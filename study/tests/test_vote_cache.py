"""The cached vote: the winners of a whole search, whatever comes, goes or moves between steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cbcl.method.arrays import Float32s
from cbcl.method.centroids.budget import ShrinkFunction, merge
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.distances import norms_squared
from cbcl.method.centroids.kernel import KERNEL, NUMPY, Kernel, SearchLimits
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import Index, Search
from cbcl_study import projected_search, vote_cache
from cbcl_study.ablations import fixed, remove
from cbcl_study.hybrid import Hybrid
from cbcl_study.projected_search import ProjectedSearch, Projection, QueryVectors
from cbcl_study.vote_cache import VoteCache

CLASSES, EACH, D = 9, 40, 12


def vectors_and_queries(seed: int, coarse: bool) -> tuple[Float32s, Float32s]:
    """Classes that overlap; coarse ones, of whole numbers, tie and coincide."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(CLASSES, D))
    vectors = np.repeat(means, EACH, axis=0) + rng.normal(size=(CLASSES * EACH, D))
    queries = vectors[rng.permutation(len(vectors))] + 0.2 * rng.normal(size=vectors.shape)
    if coarse:
        vectors, queries = np.round(vectors[:, :3]), np.round(queries[:, :3])
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize(
    ("n", "limit", "coarse"), [*itertools.product((1, 3), (None, 100, 20), (False, True))]
)
@pytest.mark.parametrize("shrink", [merge, remove])
@pytest.mark.parametrize("least", [1, 60, 10**6])
def test_the_winners_are_those_of_a_whole_search(
    n: int,
    limit: int | None,
    coarse: bool,
    shrink: ShrinkFunction,
    least: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(projected_search, "MIN_CENTROIDS", least)
    vectors, queries = vectors_and_queries(seed=n, coarse=coarse)
    names = np.random.default_rng(1).permutation([f"class {i}" for i in range(CLASSES)])
    learner = Hybrid(choose=fixed(0.5, n), shrink=shrink, max_centroids=limit)
    cache = VoteCache(QueryVectors(queries))
    for number, label in enumerate(names):
        rows = slice(number * EACH, (number + 1) * EACH)
        learner.partial_fit(vectors[rows], [label] * EACH)
        assert learner.knowledge is not None
        q = (number + 1) * EACH
        whole = learner.knowledge.winners(queries[:q])
        assert cache.winners(learner.knowledge, q).tobytes() == whole.tobytes()


def test_a_class_may_go_and_another_number_of_voters_come() -> None:
    vectors, queries = vectors_and_queries(seed=0, coarse=False)
    learner = Hybrid(choose=fixed(0.5, 2)).partial_fit(vectors, np.arange(len(vectors)) // EACH)
    everything = learner.knowledge
    assert everything is not None
    less = everything.without(4)
    assert less is not None
    cache = VoteCache(QueryVectors(queries))
    for knowledge in (everything, less, CentroidModel(less.concepts, less.radius, 5), everything):
        for q in (100, len(queries), 50):
            whole = knowledge.winners(queries[:q])
            assert cache.winners(knowledge, q).tobytes() == whole.tobytes()


def test_only_new_centroids_are_searched_for_vectors_seen_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[int, int]] = []

    class Counted(Search):
        def nearest(self, block: Float32s, n: int, limits: SearchLimits | None = None):  # type: ignore[no-untyped-def]
            searched.append((len(block), self.m))
            return super().nearest(block, n, limits)

    monkeypatch.setattr(vote_cache, "Search", Counted)
    vectors, queries = vectors_and_queries(seed=0, coarse=False)
    one, two, three = (
        Concepts(vectors[start : start + 20], np.ones(20, dtype=np.int64)) for start in (0, 40, 80)
    )
    other = Concepts(np.concatenate([two.centroids[1:], queries[:1]]), two.counts)
    cache = VoteCache(QueryVectors(queries))
    cache.winners(CentroidModel({"a": one, "b": two}, 0.0, 1), 50)
    assert searched == [(50, 40)]
    searched.clear()
    cache.winners(CentroidModel({"a": one, "ab": three, "b": other}, 0.0, 1), 60)
    assert searched[0] == (50, 21)  # a class, and the one that changed
    assert sum(rows for rows, m in searched if m == 60) in range(10, 15)  # the new vectors


def test_caches_go_their_own_ways_after_a_copy() -> None:
    vectors, queries = vectors_and_queries(seed=0, coarse=False)
    both = Hybrid(choose=fixed(0.5, 1)).partial_fit(vectors[:80], ["a"] * 40 + ["b"] * 40)
    assert both.knowledge is not None
    cache = VoteCache(QueryVectors(queries))
    cache.winners(both.knowledge, 50)
    other = cache.copy()
    alone = both.knowledge.without("a")
    assert alone is not None
    assert not other.winners(alone, 60).any()
    assert (cache.winners(both.knowledge, 60) == both.knowledge.winners(queries[:60])).all()


@pytest.mark.parametrize("kernel", [KERNEL, NUMPY])
def test_a_search_with_limits_finds_what_is_nearer_and_nothing_else(kernel: Kernel) -> None:
    vectors, queries = vectors_and_queries(seed=2, coarse=True)
    index = Index([Concepts(vectors, np.ones(len(vectors), dtype=np.int64))])
    search = Search(index, 6, kernel)
    whole = search.nearest(queries, 6)
    distances = np.random.default_rng(0).choice([0.0, 1.0, np.sqrt(2.0), 5.0, np.inf], len(queries))
    found = search.nearest(queries, 6, SearchLimits(distances, norms_squared(queries)))
    nearer = whole.distances < distances[:, np.newaxis]
    assert (found.indices == np.where(nearer, whole.indices, -1)).all()
    expected = np.where(nearer, whole.distances, distances[:, np.newaxis])
    assert found.distances.tobytes() == expected.tobytes()


@pytest.mark.skipif(KERNEL is NUMPY, reason="the numpy kernel searches all features")
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e12])
@pytest.mark.parametrize("coarse", [False, True])
def test_a_search_by_coordinates_finds_what_is_nearer_and_nothing_else(
    scale: float, coarse: bool
) -> None:
    vectors, queries = vectors_and_queries(seed=3, coarse=coarse)
    vectors, queries = vectors * np.float32(scale), queries * np.float32(scale)
    index = Index([Concepts(vectors, np.ones(len(vectors), dtype=np.int64))])
    projection = Projection(queries)
    search = ProjectedSearch(index, projection.coordinates(vectors))
    whole = Search(index, 6).nearest(queries, 6)
    factors = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0, 9.0], len(queries))
    limits = np.where(factors == 9.0, np.inf, factors * whole.distances[:, 2])
    found = search.nearest(
        queries,
        projection.coordinates(queries),
        6,
        SearchLimits(limits, norms_squared(queries)),
    )
    nearer = whole.distances < limits[:, np.newaxis]
    assert nearer.any()
    assert (found.indices == np.where(nearer, whole.indices, -1)).all()
    assert (found.distances[nearer] == whole.distances[nearer]).all()


def test_the_inner_product_of_coordinates_is_no_less_than_that_of_vectors() -> None:
    vectors, queries = vectors_and_queries(seed=4, coarse=False)
    projection = Projection(queries)
    (a, _), (c, _) = projection.coordinates(queries), projection.coordinates(vectors)
    exact = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    by_coordinates = a.astype(np.float64) @ c.T.astype(np.float64)
    assert (by_coordinates >= exact - 1e-5).all()
    assert (by_coordinates - exact).mean() > 1e-3  # and no copy of it
