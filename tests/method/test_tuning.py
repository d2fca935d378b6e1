"""Choice of D and n: from the given vectors alone, at any scale, the default unless significant."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cbcl import CBCLClassifier, agg_var, tune, vote
from cbcl.method.arrays import Float64s
from cbcl.method.centroids.tuning import (
    MAX_TUNING_VECTORS,
    ClassRows,
    Tuning,
    _cross_validate,
    _default_radius,
    _sample,
    mean_distance_to_mean,
)


def clusters(per_class: int, spots: int, seed: int = 0) -> list[Float64s]:
    """Three classes, each scattered tightly around some spots: their means tell nothing."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(spots, 4))[rng.integers(0, spots, per_class)] * 5
        + 0.05 * rng.normal(size=(per_class, 4))
        for _ in range(3)
    ]


def accuracy(classes: list[Float64s], tuning: Tuning, queries: list[Float64s]) -> float:
    learned = [agg_var(x, tuning.radius) for x in classes]
    votes = [vote(x, learned, tuning.n_voters) for x in queries]
    return float(np.mean([own.argmax(axis=1) == y for y, own in enumerate(votes)]))


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_classes_of_several_spots_get_a_small_radius_at_any_scale_of_the_features(
    scale: float,
) -> None:
    classes = [x * scale for x in clusters(60, spots=6)]
    train, test = [x[:40] for x in classes], [x[40:] for x in classes]
    chosen = tune(train)
    assert 0.0 <= chosen.radius < 5 * scale
    assert accuracy(train, chosen, test) > 0.99 > accuracy(train, Tuning(math.inf, 1), test)


def noisy(per_class: int, seed: int) -> list[Float64s]:
    """Ten classes in many dimensions, each a mean in much noise, like features of real photos."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=128) + 2.5 * rng.normal(size=(per_class, 128)) for _ in range(10)]


@pytest.mark.parametrize("seed", range(10))
def test_five_shots_get_one_centroid_a_class_which_is_worth_ten_points(seed: int) -> None:
    classes = noisy(105, seed)
    shots, test = [x[:5] for x in classes], [x[5:] for x in classes]
    chosen = tune(shots, seed=seed)
    assert chosen == Tuning(math.inf, 1)
    near = Tuning(
        1.1 * 2.5 * math.sqrt(128), 1
    )  # a radius like the distance of a vector to the mean of its class
    assert accuracy(shots, chosen, test) > accuracy(shots, near, test) + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_all_of_the_digits_get_more_centroids_and_are_the_better_for_it(seed: int) -> None:
    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(digits))
    train, test = order[:1200], order[1200:]
    tuned = CBCLClassifier(random_state=seed).fit(pixels[train], digits[train])
    simple = CBCLClassifier(radius=math.inf, n_voters=1).fit(pixels[train], digits[train])
    assert tuned.radius_ < math.inf
    assert tuned.score(pixels[test], digits[test]) > simple.score(pixels[test], digits[test]) + 0.05


@pytest.mark.parametrize(("per_class", "some"), [(29, 1), (30, 7), (200, 50)])
def test_many_vectors_get_a_centroid_for_every_four_and_fewer_get_one(
    per_class: int, some: int
) -> None:
    classes = noisy(per_class, seed=0)
    matrix = np.concatenate(classes)
    lessons = [*map(ClassRows, np.split(np.arange(len(matrix)), 10))]
    radius = _default_radius(matrix, lessons, mean_distance_to_mean(matrix, lessons))
    found = np.mean([len(agg_var(x, radius).counts) for x in classes])
    assert found == pytest.approx(some, rel=0.15)


def test_without_evidence_there_is_one_centroid_a_class() -> None:
    one_each = [np.eye(3)[[i]] for i in range(3)]
    only_class = [x[:29] for x in clusters(60, spots=6)[:1]]
    twins = [np.ones((4, 2)), np.ones((4, 2))]
    for classes in (one_each, only_class, twins):
        assert tune(classes) == Tuning(math.inf, 1)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_lone_class_of_many_vectors_gets_the_default_radius(scale: float) -> None:
    for per_class, some in ((30, 7), (200, 50)):
        (lone,) = (x * scale for x in noisy(per_class, seed=0)[:1])
        chosen = tune([lone])
        assert chosen.n_voters == 1  # there is nothing to confuse it with
        assert len(agg_var(lone, chosen.radius).counts) == pytest.approx(some, rel=0.15)
    assert tune([np.ones((60, 4))]) == Tuning(math.inf, 1)


def test_the_seed_reaches_the_folds() -> None:
    matrix = np.concatenate(noisy(20, seed=0))
    lessons = [*map(ClassRows, np.split(np.arange(200), 10))]
    first, again, other = (
        _cross_validate(matrix, lessons, [math.inf, 20.0], [1], seed) for seed in (1, 1, 2)
    )
    for tuning, hits in first.items():
        np.testing.assert_array_equal(hits, again[tuning])
    assert any((hits != other[tuning]).any() for tuning, hits in first.items())


def test_of_very_many_vectors_a_sample_is_tried() -> None:
    lessons = [
        ClassRows(np.arange(30_000)),
        ClassRows(np.arange(30_000, 30_010)),
        ClassRows(np.arange(31_000, 40_000)),
    ]
    sizes = [len(lesson.rows) for lesson in _sample(lessons, seed=0)]
    assert sizes == [MAX_TUNING_VECTORS // 3, 10, MAX_TUNING_VECTORS // 3]
    drawn = _sample(lessons, seed=0)[2].rows
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() >= 31_000
    few = [ClassRows(np.arange(5)), ClassRows(np.arange(5, 10))]
    assert _sample(few, seed=0) is few


def test_no_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="give the vectors of at least one class"):
        tune([])


def test_the_vectors_are_not_changed() -> None:
    classes = clusters(20, spots=3)
    before = [x.copy() for x in classes]
    tune(classes)
    for x, same in zip(classes, before, strict=True):
        np.testing.assert_array_equal(x, same)
