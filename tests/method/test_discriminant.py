"""Discriminant: the formulas, computed densely, and the corners of few and of many classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from support.statistics import draw_classes

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant import solving
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.scoring import Discriminant, Scores
from cbcl.method.discriminant.statistics import ClassStatistics, learn_class


def learn(draws: list[Float32s]) -> list[ClassStatistics]:
    return [learn_class(own)[0] for own in draws]


def standardize(scores: Float64s) -> Float64s:
    deviation = scores.std(axis=1, keepdims=True)
    centred: Float64s = scores - scores.mean(axis=1, keepdims=True)
    return centred / np.where(deviation > 0, deviation, 1.0)


def score_densely(classes: list[ClassStatistics], queries: Float32s) -> Scores:
    """The formulas of docs/method.md, with the whole covariance of every class."""
    x = queries.astype(np.float64)
    n = np.array([known.n for known in classes], dtype=np.float64)
    means = np.stack([known.mean for known in classes])
    t, d = means.shape
    scatters = [known.axes.T.astype(np.float64) @ known.axes for known in classes]
    rests = [np.zeros(d) if known.rest is None else known.rest for known in classes]
    pooled = sum(scatters) + np.diag(np.sum(rests, axis=0))
    freedom, nu = n.sum() - t, 0.5 * d
    shrunk = pooled + nu * np.trace(pooled) / (d * freedom) * np.eye(d)
    inverse = np.linalg.inv(shrunk / (freedom + nu))
    m = means.mean(axis=0)
    values, vectors = eigh(inverse)
    root = vectors * np.sqrt(values)  # inverse = root root'
    left, singular, _ = np.linalg.svd(root.T @ (means - m).T, full_matrices=False)
    basis = root @ left[:, singular > 1e-5 * singular[0]]
    u, v = (x - m) @ basis, (means - m) @ basis
    k = v.shape[1]
    gram = v @ v.T
    ridge = u @ v.T @ np.linalg.inv(gram / t + 0.5 * np.trace(gram) / t**2 * np.eye(t))
    densities = np.empty((len(x), t))
    for c in range(t):
        a = 0.7 + 0.3 * 50 / (50 + n[c])
        along = basis.T @ scatters[c] @ basis
        rest = np.trace(basis.T @ np.diag(rests[c]) @ basis) / k
        own = (1 - a) * (along + rest * np.eye(k)) / max(n[c] - 1, 1) + a * np.eye(k)
        away = u - v[c]
        squares = (away @ np.linalg.inv(own) * away).sum(axis=1)
        densities[:, c] = -0.5 * (squares + np.linalg.slogdet(own)[1])
    w = 0.3 * 50 / (50 + n.mean()) if d >= 64 else 0.0
    total = (1 - w) * standardize(densities) + w * standardize(ridge)
    distances = np.stack([((x - c) @ inverse * (x - c)).sum(axis=1) for c in means], axis=1)
    return Scores(total, distances, u @ v.T - 0.5 * np.diag(gram), ridge)


def assert_close(got: Scores, want: Scores) -> None:
    np.testing.assert_allclose(got.total, want.total, atol=3e-5)
    for mine, theirs in zip(got[1:], want[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=3e-5 * np.abs(theirs).max())


CASES = {  # classes, views of each, features
    "few": (5, 3, 128),
    "two": (2, 4, 128),
    "summarized": (6, 40, 96),
    "more views than features": (30, 20, 64),
    "many": (205, 2, 220),
    "more classes than features": (150, 3, 100),
    "measurements": (7, 5, 10),
    "more classes than measurements": (40, 3, 4),
}


@pytest.mark.parametrize(("t", "n", "d"), CASES.values(), ids=CASES)
def test_the_scores_are_those_of_the_formulas(t: int, n: int, d: int) -> None:
    _, draws = draw_classes(t, n + 4, d)
    classes = learn([own[: n - number % 2] for number, own in enumerate(draws)])
    queries = np.concatenate([own[-4:] for own in draws])[:100]
    solved = Discriminant.of(classes)
    got = solved.scores(queries)
    assert_close(got, score_densely(classes, queries))
    np.testing.assert_allclose(solved.totals(queries), got.total, atol=3e-5)


@pytest.mark.parametrize("n", [2, 6, 30])
def test_inverting_by_rows_and_by_features_gives_the_same(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, draws = draw_classes(12, n + 5, 128)
    classes, queries = learn([own[:n] for own in draws]), np.concatenate([o[n:] for o in draws])
    monkeypatch.setattr(solving, "DUAL_SHARE", np.inf)
    by_rows = Discriminant.of(classes)
    monkeypatch.setattr(solving, "DUAL_SHARE", -1.0)
    by_features = Discriminant.of(classes)
    assert (by_rows.whitening.sign, by_features.whitening.sign) == (-1.0, 1.0)
    assert_close(by_rows.scores(queries), by_features.scores(queries))


@pytest.mark.parametrize("d", [8, 128])
def test_the_basis_is_orthonormal_under_the_covariance_and_changes_no_score(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, draws = draw_classes(30, 8, d)
    classes, queries = learn([own[:4] for own in draws]), np.concatenate([o[4:] for o in draws])
    monkeypatch.setattr(solving, "MAX_EIGENVECTORS", 0)
    by_cholesky = Discriminant.of(classes)
    monkeypatch.setattr(solving, "MAX_EIGENVECTORS", 1000)
    monkeypatch.setattr(solving, "MIN_PIVOT", 1.0)
    by_eigenvectors = Discriminant.of(classes)
    assert by_cholesky.basis.shape == by_eigenvectors.basis.shape == (d, min(d, 29))
    assert_close(by_cholesky.scores(queries), by_eigenvectors.scores(queries))


def test_of_one_class_everything_is() -> None:
    for n in (1, 3):
        known = learn([draw_classes(1, n, 128)[1][0]])
        scores = Discriminant.of(known).scores(draw_classes(1, 5, 128, seed=1)[1][0])
        assert not scores.total.any()
        assert np.isfinite(scores.distances).all()
        assert (scores.distances > 0.0).all()


@pytest.mark.parametrize("d", [3, 128])
@pytest.mark.parametrize("t", [2, 5])
def test_with_one_view_each_the_nearest_wins(t: int, d: int) -> None:
    centres, _ = draw_classes(t, 1, d)
    classes = learn([*centres[:, np.newaxis]])
    noise = np.random.default_rng(1).normal(size=centres.shape).astype(np.float32)
    queries = centres + 0.1 * noise * np.abs(centres).mean()
    distances = ((queries[:, np.newaxis] - centres) ** 2).sum(axis=2)
    scores = Discriminant.of(classes).scores(queries)
    assert scores.total.argmax(axis=1).tolist() == distances.argmin(axis=1).tolist()
    assert np.isfinite(scores.total).all()


@pytest.mark.parametrize("t", [3, 205])
@pytest.mark.parametrize("d", [2, 128, 220])
def test_classes_of_the_same_mean_get_the_same_score(t: int, d: int) -> None:
    _, draws = draw_classes(t, 3, d)
    draws[1] = draws[0]
    scores = Discriminant.of(learn(draws)).scores(np.concatenate(draws)[:50])
    assert np.isfinite(scores.total).all()
    np.testing.assert_allclose(scores.total[:, 0], scores.total[:, 1], atol=1e-4)


def test_equal_vectors_and_zeros_have_finite_scores() -> None:
    same = as_directions(np.ones((1, 100)))
    zeros = np.zeros((1, 100), dtype=np.float32)
    other = draw_classes(1, 2, 100)[1][0]
    for draws in ([same, same], [zeros, zeros], [zeros, same], [zeros, other, same]):
        scores = Discriminant.of(learn(draws)).scores(np.concatenate([same, zeros, other]))
        assert all(np.isfinite(part).all() for part in scores)


def test_measurements_far_from_the_origin_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    far = np.array([1e6, -3e5, 2e6])
    draws = [(far + shift + rng.normal(size=(20, 3))).astype(np.float32) for shift in (0, 5, 10)]
    totals = Discriminant.of(learn([own[:10] for own in draws])).totals(
        np.concatenate([own[10:] for own in draws])
    )
    assert (totals.argmax(axis=1) == np.repeat([0, 1, 2], 10)).all()


@pytest.mark.parametrize("views", [2, 30])
def test_threads_change_no_bit_of_a_solution(views: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "BLOCK_AXES", 100)
    monkeypatch.setattr(solving, "GROUP_CLASSES", 4)
    classes = learn(draw_classes(30, views, 96)[1])
    one, three = (Discriminant.of(classes, threads) for threads in (1, 3))
    for name in ("basis", "means", "regression", "spreads", "factors", "log_volumes"):
        assert getattr(one, name).tobytes() == getattr(three, name).tobytes()
    assert one.whitening.factor.tobytes() == three.whitening.factor.tobytes()
