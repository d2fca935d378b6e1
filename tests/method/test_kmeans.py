"""Weighted k-means: its seeds are the same, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest

from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.centroids import kmeans
from cbcl.method.centroids.kernel import NUMPY
from cbcl.method.centroids.kmeans import k_means


def points(kind: str, m: int, rng: np.random.Generator) -> Float32s:
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
    vectors = points(kind, m, rng)
    weights: Int64s = rng.integers(1, 30, m) if weighted else np.ones(m, dtype=np.int64)
    sizes = [m - 1, max(1, m - 3), max(1, m // 2), 1]
    compiled = [k_means(vectors, weights, n, seed) for n in sizes]
    monkeypatch.setattr(kmeans, "KERNEL", NUMPY)
    for n, groups in zip(sizes, compiled, strict=True):
        np.testing.assert_array_equal(k_means(vectors, weights, n, seed), groups)
