"""k-means from inner products: scikit-learn's groups, or none."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from cbcl.method.arrays import Float64s, Int64s
from cbcl_study.gram_kmeans import k_means_groups


def features(p: int, d: int, seed: int) -> Float64s:
    """Something like the output of a network: correlated, not negative."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(p, 12)) @ rng.normal(size=(12, d))
    return np.maximum(low + 1.5 * rng.normal(size=(p, d)), 0).astype(np.float32).astype(np.float64)


def sklearn_groups(points: Float64s, weights: Int64s, m: int, seed: int) -> Int64s:
    means = KMeans(m, n_init=1, random_state=seed, algorithm="lloyd")
    groups: Int64s = means.fit_predict(points, sample_weight=weights)
    return groups


@pytest.mark.parametrize(("p", "d", "m"), [(500, 300, 120), (90, 700, 89), (60, 5, 7), (9, 40, 1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_groups_are_those_of_scikit_learn(
    p: int, d: int, m: int, weighted: bool, seed: int
) -> None:
    points = features(p, d, seed)
    weights = np.ones(p, dtype=np.int64)
    if weighted:
        weights = np.random.default_rng(seed).integers(1, 50, p)
    got = k_means_groups(points, weights, m, seed)
    assert got is not None
    np.testing.assert_array_equal(got, sklearn_groups(points, weights, m, seed))


@pytest.mark.parametrize("seed", range(20))
def test_points_of_whole_numbers_have_the_groups_of_scikit_learn_or_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = np.round(rng.normal(size=(60, 2)) * 4), np.ones(60, dtype=np.int64)
    got = k_means_groups(points, weights, 9, seed)
    if got is not None:
        np.testing.assert_array_equal(got, sklearn_groups(points, weights, 9, seed))


def test_where_two_means_are_as_near_there_is_no_answer() -> None:
    points = np.array([[-1.0], [1.0], [0.0], [-1.1], [1.1]])
    assert any(
        k_means_groups(points, np.ones(5, dtype=np.int64), 2, seed) is None for seed in range(9)
    )
