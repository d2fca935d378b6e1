"""Statistics of one class: they add up, can be taken apart, and no end of a call matters."""

from __future__ import annotations

import numpy as np
import pytest
from support.statistics import bits, draw_classes, unlearn

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import (
    MAX_SKETCHES,
    MAX_VIEWS,
    MAX_WITNESSES,
    ClassStatistics,
    learn_class,
    merge_summaries,
    sketch,
    unlearn_view,
)

DIMENSIONS = [1, 3, 63, 64, 200]
NEAR = 0.92


def draw(n: int, d: int, seed: int = 0) -> Float32s:
    return draw_classes(1, n, d, seed)[1][0]


def learn(views: Float32s, *more: Float32s, least_cosine: float = 0.9999) -> ClassStatistics:
    known = learn_class(views, None, least_cosine)[0]
    for rows in more:
        known = learn_class(rows, known, least_cosine)[0]
    return known


def scatter(known: ClassStatistics) -> Float64s:
    axes = known.axes.astype(np.float64)
    rest = np.zeros(known.dimension) if known.rest is None else known.rest
    products: Float64s = axes.T @ axes + np.diag(rest)
    return products


def scatter_of(views: Float32s) -> Float64s:
    away = views.astype(np.float64) - views.mean(axis=0, dtype=np.float64)
    products: Float64s = away.T @ away
    return products


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("n", [2, 23, 24, 25, 31, 32, 33, 40, 41, 70])
def test_learning_in_two_goes_is_learning_in_one(n: int, d: int) -> None:
    views = draw(n, d)
    want = bits(learn(views))
    for cut in {1, n // 2, n - 1, *(c for c in (8, 16, 23, 24, 25, 32) if c < n)}:
        assert bits(learn(views[:cut], views[cut:])) == want
    assert bits(learn(*views[:, np.newaxis])) == want


def test_near_copies_count_once_wherever_a_call_ends() -> None:
    rng = np.random.default_rng(0)
    views = draw(60, 200)
    frames = as_directions(
        np.repeat(views, 3, axis=0) ** 2 * np.sign(np.repeat(views, 3, axis=0))
        + rng.normal(size=(180, 200)) * 3e-4
    )
    late = np.concatenate([frames, frames[::5]])  # also of views that are long folded
    known, is_view = learn_class(late, None, NEAR)
    assert is_view[:180:3].all()
    assert not is_view[:180].reshape(-1, 3)[:, 1:].any()
    for cut in (1, 50, 90, 100, 107, 190):
        assert bits(learn(late[:cut], late[cut:], least_cosine=NEAR)) == bits(known)
    assert bits(learn(*late[:, np.newaxis], least_cosine=NEAR)) == bits(known)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_same_vectors_add_nothing(d: int) -> None:
    views = draw(45, d)
    known = learn(views)
    assert known.n == len(views)
    again, is_view = learn_class(views[::-1], known)
    assert bits(again) == bits(known)
    assert not is_view.any()
    assert not learn_class(views, known)[1].any()
    assert learn_class(draw(45, d, seed=1), known)[1].all()
    assert learn(np.repeat(views, 2, axis=0)).n == len(views)


def test_the_latest_sketches_are_kept_wherever_a_call_ends() -> None:
    views = draw(MAX_SKETCHES + 30, 64)
    known = learn(views)
    assert len(known.sketches) == MAX_SKETCHES
    late = np.concatenate([views, views[-10:], views[:30]])  # of which ten are still known
    whole = learn(late)
    assert whole.n == len(views) + 30
    assert bits(learn(late[: len(views)], late[len(views) :])) == bits(whole)


def test_sketches_of_the_same_rows_are_the_same_and_of_others_are_not() -> None:
    for d in DIMENSIONS:
        coded = learn(draw(20, d)).views
        sketches = sketch(coded)
        assert len({*sketches.tolist()}) == 20
        assert sketch(coded.take(np.array([3])))[0] == sketches[3]
    signed = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=np.float32)
    assert learn(signed).n == 1


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("n", [1, 2, 24])
def test_while_views_are_kept_mean_and_scatter_are_theirs(n: int, d: int) -> None:
    known = learn(draw(n, d))
    views = known.directions
    assert len(views) == known.n == n
    assert known.axes.shape == (n - 1, d)
    np.testing.assert_allclose(known.mean, views.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(scatter(known), scatter_of(views), atol=1e-5)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("n", [25, 33, 200])
def test_a_summary_keeps_the_mean_and_most_of_the_scatter(n: int, d: int) -> None:
    views = draw(n, d)
    known = learn(views)
    assert known.n == n
    assert len(known.views) == MAX_WITNESSES
    assert known.summary is not None
    assert 0 < n - known.summary.n <= MAX_WITNESSES
    np.testing.assert_allclose(known.mean, views.mean(axis=0), atol=2e-3 * np.abs(views).max())
    kept, whole = scatter(known), scatter_of(views)
    assert np.trace(kept) == pytest.approx(np.trace(whole), rel=0.02)
    np.testing.assert_allclose(np.diag(kept), np.diag(whole), atol=0.05 * np.diag(whole).max())
    strongest = np.linalg.eigh(whole)[1][:, -1]
    assert strongest @ kept @ strongest == pytest.approx(strongest @ whole @ strongest, rel=0.15)


@pytest.mark.parametrize("d", [3, 200])
def test_another_order_of_views_changes_little(d: int) -> None:
    views = draw(60, d)
    these, those = learn(views), learn(views[::-1])
    np.testing.assert_allclose(these.mean, those.mean, atol=2e-3 * np.abs(views).max())
    assert np.trace(scatter(these)) == pytest.approx(np.trace(scatter(those)), rel=0.02)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_view_taken_out_before_folding_was_never_learned(d: int) -> None:
    views = draw(MAX_VIEWS, d)
    known = learn(views)
    for row in (0, 11, 23):
        assert bits(unlearn(known, row)) == bits(learn(np.delete(views, row, axis=0)))
    only = learn(views[:1])
    assert unlearn_view(only, 0) is None
    with pytest.raises(ValueError, match="no longer kept"):
        unlearn_view(learn(draw(40, d)), 3)


@pytest.mark.parametrize("d", [3, 200])
@pytest.mark.parametrize("row", [0, 25, 35, 39])
def test_a_view_taken_out_after_folding_is_nearly_as_if_never_learned(d: int, row: int) -> None:
    views = draw(40, d)  # 32 are folded, and the latest eight kept
    without = unlearn(learn(views), row, views[row])
    others = np.delete(views, row, axis=0)
    never = learn(others)
    assert (without.n, len(without.sketches)) == (39, 39)
    assert learn_class(views[row][np.newaxis], without)[1].all()
    assert not learn_class(others, without)[1].any()
    np.testing.assert_allclose(without.mean, never.mean, atol=2e-3 * np.abs(views).max())
    kept, whole = scatter(without), scatter_of(others)
    assert np.trace(kept) == pytest.approx(np.trace(whole), rel=0.03)
    assert np.linalg.norm(kept - whole) < 1.5 * np.linalg.norm(scatter(never) - whole) + 0.01


@pytest.mark.parametrize("d", [3, 200])
def test_all_views_can_be_taken_out_one_after_another(d: int) -> None:
    views = draw(40, d)
    known = learn(views)
    for row, view in enumerate(views[:-1]):
        known = unlearn(known, 0, view)
        assert known.n == 39 - row
        assert np.isfinite(known.mean).all()
        assert np.isfinite(known.axes).all()
    assert unlearn_view(known, 0, views[-1]) is None


def test_a_view_of_zeros_is_a_view_like_others() -> None:
    views = draw(30, 100)
    views[4] = 0.0
    for n in (10, 30):
        known = learn(views[:n])
        assert known.n == n
        assert learn_class(views[4:5], known)[0] is known
        assert unlearn(known, 4, views[4]).n == n - 1
    others = np.delete(views[:10], 4, axis=0)
    assert bits(unlearn(learn(views[:10]), 4)) == bits(learn(others))


@pytest.mark.parametrize("d", [3, 200])
def test_summaries_merge_to_the_mean_and_scatter_of_both(d: int) -> None:
    these, those = draw(50, d), draw(70, d, seed=1)
    both = np.concatenate([these, those])
    merged = merge_summaries(learn(these), learn(those))
    assert (merged.n, len(merged.views), len(merged.sketches)) == (120, MAX_WITNESSES, 120)
    np.testing.assert_allclose(merged.mean, both.mean(axis=0), atol=2e-3 * np.abs(both).max())
    whole = scatter_of(both)
    assert np.trace(scatter(merged)) == pytest.approx(np.trace(whole), rel=0.02)
    apart = these.mean(axis=0) - those.mean(axis=0)
    assert apart @ scatter(merged) @ apart == pytest.approx(apart @ whole @ apart, rel=0.05)
    assert learn_class(both, merged)[0] is merged


def test_learning_changes_neither_what_was_known_nor_what_was_given() -> None:
    views = draw(40, 100)
    known = learn(views[:24])
    before, given = bits(known), views.copy()
    learn_class(views, known)
    merge_summaries(known, learn(views[24:]))
    unlearn_view(known, 0)
    assert bits(known) == before
    np.testing.assert_array_equal(views, given)
