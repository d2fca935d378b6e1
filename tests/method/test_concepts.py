"""Agg-Var: what is learned is what Algorithm 1 says, whoever computes it."""

from __future__ import annotations

import math
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reference
from support.strategies import PLANS, radii, vectors
from threadpoolctl import threadpool_limits

from cbcl import agg_var
from cbcl.method.arrays import Float32s, Matrix
from cbcl.method.centroids import concepts
from cbcl.method.centroids.concepts import BLAS_FROM, Concepts, cluster
from cbcl.method.centroids.kernel import KERNEL, NUMPY

Plan: TypeAlias = dict[str, Any]
many = settings(max_examples=150, deadline=None)
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def cluster_by(plan: Plan, x: Matrix, radius: float, known: Concepts | None = None) -> Concepts:
    with patch.multiple(concepts, **plan):
        return cluster(x, None, radius, known)


def assert_same(got: Concepts, want: Concepts) -> None:
    np.testing.assert_array_equal(got.centroids, want.centroids)
    np.testing.assert_array_equal(got.counts, want.counts)
    assert got.centroids.dtype == np.float32
    assert got.counts.dtype == np.int64


def features(n: int, d: int = 96, seed: int = 0) -> Float32s:
    """Something like the output of a network: correlated, not negative."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, 12)) @ rng.normal(size=(12, d))
    return np.maximum(low + 1.5 * rng.normal(size=(n, d)), 0).astype(np.float32)


@each_plan
@many
@given(st.data())
def test_concepts_are_those_of_the_literal_algorithm(plan: Plan, data: st.DataObject) -> None:
    x = data.draw(vectors())
    radius = data.draw(radii(x))
    assert_same(cluster_by(plan, x, radius), reference.agg_var(x, radius))


@each_plan
@pytest.mark.parametrize("scale", [0.9, 1.1, 1.3])
def test_concepts_of_features_are_those_of_the_literal_algorithm(plan: Plan, scale: float) -> None:
    x = features(300)
    radius = scale * float(np.linalg.norm(x - x.mean(axis=0), axis=1).mean())
    assert_same(cluster_by(plan, x, radius), reference.agg_var(x, radius))


@pytest.mark.parametrize("seed", range(5))
def test_float64_throughout_agrees_where_no_call_is_close(seed: int) -> None:
    x = features(200, seed=seed)
    radius = 1.2 * float(np.linalg.norm(x - x.mean(axis=0), axis=1).mean())
    centroids, counts, closest_call = reference.agg_var_float64(x.astype(np.float64), radius)
    # Else the float32 state may decide otherwise, and another seed is needed.
    assert closest_call > 1e-6
    got = agg_var(x, radius)
    assert got.counts.tolist() == counts
    np.testing.assert_allclose(got.centroids, centroids, rtol=1e-5, atol=1e-6)


@many
@given(st.data())
def test_learning_in_two_goes_is_learning_in_one(data: st.DataObject) -> None:
    x = data.draw(vectors(least=2))
    radius = data.draw(radii(x))
    cut = data.draw(st.integers(1, len(x) - 1))
    assert_same(agg_var(x[cut:], radius, agg_var(x[:cut], radius)), agg_var(x, radius))


def test_a_vector_exactly_at_the_radius_does_not_join() -> None:
    assert agg_var([[0.0], [2.0]], radius=2.0).counts.tolist() == [1, 1]
    assert agg_var([[0.0], [2.0]], radius=math.nextafter(2.0, 3.0)).counts.tolist() == [2]


def test_the_first_of_two_equally_near_centroids_takes_the_vector() -> None:
    assert agg_var([[0.0], [4.0], [2.0]], radius=3.0).counts.tolist() == [2, 1]


def test_an_infinite_radius_gives_the_mean_and_zero_gives_every_vector() -> None:
    x = features(100)
    mean = x.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(agg_var(x, math.inf).centroids, mean, rtol=1e-5)
    np.testing.assert_array_equal(agg_var(x, 0.0).centroids, x)


@pytest.mark.parametrize("kernel", [KERNEL, NUMPY])
def test_a_large_class_is_learned_in_chunks_as_in_one(kernel: object) -> None:
    # More than one chunk, and past the number of centroids from which a BLAS is used.
    x = features(3000, d=700)
    radius = 1.1 * float(np.linalg.norm(x - x.mean(axis=0), axis=1).mean())
    plan = {"KERNEL": kernel}
    got = cluster_by(plan, x, radius)
    with threadpool_limits(1):
        assert_same(cluster_by(plan, x, radius), got)
    halves = cluster_by(plan, x[1234:], radius, cluster_by(plan, x[:1234], radius))
    assert_same(halves, got)
    assert_same(cluster(x.astype(np.float64), None, radius), got)
    assert_same(cluster(np.asfortranarray(x), np.arange(len(x)), radius), got)
    assert len(got.counts) > BLAS_FROM // 700


@each_plan
@many
@given(st.data())
def test_any_magnitudes_beside_each_other_are_decided_alike(
    plan: Plan, data: st.DataObject
) -> None:
    d = data.draw(st.sampled_from([1, 2, 9]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = (rng.normal(size=(12, d)) * 10.0 ** rng.integers(-45, 38, size=(12, 1))).astype(np.float32)
    m = data.draw(st.integers(1, 5))
    known = Concepts(x[:m], 10 ** rng.integers(0, 12, size=m))
    radius = data.draw(radii(x))
    assert_same(cluster_by(plan, x[m:], radius, known), reference.agg_var(x[m:], radius, known))


@each_plan
def test_what_the_distance_itself_rounds_away_is_a_tie(plan: Plan) -> None:
    known = Concepts(np.array([[1e-7], [2e-7]], dtype=np.float32), np.array([1, 1]))
    far = np.array([[1e10]], dtype=np.float32)
    assert cluster_by(plan, far, math.inf, known).counts.tolist() == [2, 1]


@each_plan
def test_a_vector_without_a_bound_may_join_a_centroid_that_has_one(plan: Plan) -> None:
    known = Concepts(
        np.array([[3.5e14, 0], [-6.3e14, 6.3e14]], dtype=np.float32), np.array([10**11, 1])
    )
    x = np.array([[3e25, 0], [1e14, 7e14]], dtype=np.float32)
    assert_same(cluster_by(plan, x, math.inf, known), reference.agg_var(x, math.inf, known))


def test_an_unaligned_buffer_is_learned_like_any_other() -> None:
    x = features(20, d=9)
    unaligned = np.frombuffer(b"?" + x.tobytes(), dtype=np.float32, offset=1).reshape(x.shape)
    assert not unaligned.flags.aligned
    assert_same(agg_var(unaligned, 5.0), agg_var(x, 5.0))


def test_concepts_of_another_make_are_checked_and_converted() -> None:
    make: Any = Concepts
    known = make([[0.0, 0.0], [5.0, 5.0]], [1, 2])
    assert agg_var([[5.0, 4.0]], 2.0, known).counts.tolist() == [1, 3]
    for broken, message in (
        (make(np.ones((2, 2)), [1]), "a count of at least 1 for each of 2 centroids"),
        (make(np.ones((1, 2)), [0]), "a count of at least 1 for each of 1 centroids"),
        (make([[math.nan, 1.0]], [1]), "centroids hold NaN"),
        (make(np.ones((0, 2)), []), "centroids must be a matrix"),
    ):
        with pytest.raises(ValueError, match=message):
            agg_var([[1.0, 2.0]], 1.0, broken)


def test_inputs_are_neither_changed_nor_kept() -> None:
    x = features(50)
    before = x.copy()
    got = agg_var(x, 0.0)
    np.testing.assert_array_equal(x, before)
    assert not np.shares_memory(got.centroids, x)
    known = got.centroids.copy()
    agg_var(x, 1e9, got)
    np.testing.assert_array_equal(got.centroids, known)
    with pytest.raises(ValueError, match="read-only"):
        got.centroids[0] = 0


@each_plan
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39])
def test_numbers_that_are_not_finite_are_refused(plan: Plan, bad: float) -> None:
    x = np.ones((20, 3))
    x[13, 1] = bad
    for radius in (0.0, 1.0, math.inf):
        with pytest.raises(ValueError, match="hold NaN, infinity or a number too large for float"):
            cluster_by(plan, x, radius)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], 1.0), r"vectors must be a matrix, one row a vector: got .* shape \(2,\)"),
        ((np.empty((0, 3)), 1.0), r"got an array of shape \(0, 3\)"),
        (([[1.0]], -1.0), r"radius=-1.0 is not a distance: give a number of at least 0"),
        (([[1.0]], math.nan), "radius=nan is not a distance"),
        (([[1.0]], "wide"), "radius='wide' is not a distance"),
        (
            ([[1.0]], 1.0, agg_var([[1.0, 2.0]], 1.0)),
            "vectors have 1 features, but the known centroids have 2",
        ),
    ],
)
def test_bad_input_is_refused_in_so_many_words(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agg_var(*arguments)  # type: ignore[arg-type]
