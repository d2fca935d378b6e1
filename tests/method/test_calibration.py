"""Calibration: witnesses are scored as new pictures would be, and so confidences are true."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from support.statistics import draw_classes, unlearn

from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.calibration import (
    FIRST_TEMPERATURE,
    MAX_WITNESSES,
    PRIOR_WITNESSES,
    TEMPERATURES,
    Witnesses,
    choose_views,
    find_temperature,
    leave_one_out,
)
from cbcl.method.discriminant.scoring import Discriminant, Scores
from cbcl.method.discriminant.solving import SHRINKAGE
from cbcl.method.discriminant.statistics import ClassStatistics, learn_class

D = 128
HARD = 1.5  # spread at which some pictures are mistaken


def learn(t: int, n: int, *, spread: float = HARD, seed: int = 0) -> list[ClassStatistics]:
    return [learn_class(own[:n])[0] for own in draw_classes(t, 200, D, seed, spread=spread)[1]]


def witnesses_of(classes: list[ClassStatistics]) -> Witnesses:
    witnesses = leave_one_out(Discriminant.of(classes), classes, choose_views(classes))
    assert witnesses is not None
    return witnesses


def asked(t: int, *, spread: float = HARD, seed: int = 0) -> tuple[Float32s, list[int]]:
    """New vectors of the same classes, and their classes."""
    draws = draw_classes(t, 200, D, seed, spread=spread)[1]
    queries = np.concatenate([own[100:] for own in draws])
    return queries, np.repeat(np.arange(t), 100).tolist()


def test_the_distances_of_a_witness_are_those_without_it() -> None:
    classes = learn(8, 5)
    solved = Discriminant.of(classes)
    witnesses = witnesses_of(classes)
    assert witnesses.classes.tolist() == np.repeat(np.arange(8), 5).tolist()
    means = np.stack([known.mean for known in classes])
    scatter = sum(known.axes.T.astype(np.float64) @ known.axes for known in classes)
    penalty = SHRINKAGE * np.trace(scatter) / (8 * 5 - 8) * np.eye(D)
    views = np.concatenate([known.directions for known in classes]).astype(np.float64)
    for row, own in enumerate(witnesses.classes):
        away = views[row] - means[own]
        without = scatter - 5 / 4 * np.outer(away, away)
        inverse = np.linalg.inv((without + penalty) / (solved.freedom - 1.0))
        moved = means.copy()
        moved[own] -= away / 4
        want = np.einsum("ti,ij,tj->t", views[row] - moved, inverse, views[row] - moved)
        want[own] *= (5**2 - 1) / 5**2  # a new picture is compared with a mean of five
        np.testing.assert_allclose(witnesses.scores.distances[row], want, rtol=1e-4)


def rescore(classes: list[ClassStatistics], own: int, view: Float32s) -> Scores:
    """Score a view by what is learned without it."""
    number = int(np.abs(classes[own].directions - view).sum(axis=1).argmin())
    without = unlearn(classes[own], number)
    others = [without if number == own else known for number, known in enumerate(classes)]
    return Discriminant.of(others).scores(view[np.newaxis])


@pytest.mark.parametrize(("n", "error"), [(5, 0.2), (8, 0.08), (20, 0.06)])
def test_scores_without_a_witness_are_nearly_those_of_learning_without_it(
    n: int, error: float
) -> None:
    classes = learn(12, n)
    witnesses = witnesses_of(classes)
    views = np.concatenate([known.directions for known in classes])
    want = [rescore(classes, own, view) for own, view in zip(witnesses.classes, views, strict=True)]
    total = np.concatenate([scores.total for scores in want])
    assert np.sqrt(((witnesses.scores.total - total) ** 2).mean()) < error
    assert (witnesses.scores.total.argmax(axis=1) == total.argmax(axis=1)).mean() > 0.8
    for name in ("gains", "ridge"):
        mine = getattr(witnesses.scores, name)
        theirs = np.concatenate([getattr(scores, name) for scores in want])
        assert np.corrcoef(mine.ravel(), theirs.ravel())[0, 1] > 0.98


def test_witnesses_that_were_learned_look_better_than_they_are() -> None:
    classes = learn(12, 4)
    solved = Discriminant.of(classes)
    witnesses = witnesses_of(classes)
    row, own = np.arange(len(witnesses.classes)), witnesses.classes
    learned = solved.scores(np.concatenate([known.directions for known in classes]))
    queries, truth = asked(12)
    new = solved.scores(queries).distances[np.arange(len(truth)), truth].mean()
    assert learned.distances[row, own].mean() < 0.7 * new
    assert witnesses.scores.distances[row, own].mean() == pytest.approx(new, rel=0.1)


def test_there_are_at_most_so_many_witnesses_and_none_of_single_views() -> None:
    classes = learn(3, 2)
    classes[1] = learn_class(classes[1].directions[:1])[0]
    witnesses = witnesses_of(classes)
    assert witnesses.classes.tolist() == [0, 0, 2, 2]
    for t, most in ((120, MAX_WITNESSES), (600, MAX_WITNESSES // 2)):
        draws = draw_classes(t, 12, 64)[1]
        many = [learn_class(own)[0] for own in draws]
        witnesses = witnesses_of(many)
        assert 0.9 * most < len(witnesses.classes) <= most
        assert len({*witnesses.classes.tolist()}) == min(t, most)
        assert witnesses.classes.max() == t - 1


def test_with_few_witnesses_there_is_a_first_temperature() -> None:
    for draws in ([1, 1, 1], [3, 1], [5]):
        classes = [learn(6, n)[number] for number, n in enumerate(draws)]
        witnesses = leave_one_out(Discriminant.of(classes), classes, choose_views(classes))
        assert find_temperature(witnesses) == FIRST_TEMPERATURE


@pytest.mark.parametrize(("n", "error"), [(4, 0.07), (10, 0.05), (60, 0.05)])
@pytest.mark.parametrize("spread", [1.0, HARD])
def test_confidences_are_true(n: int, error: float, spread: float) -> None:
    confidences, right = [], []
    for seed in range(3):
        classes = learn(20, n, spread=spread, seed=seed)
        solved = Discriminant.of(classes)
        temperature = find_temperature(witnesses_of(classes))
        queries, truth = asked(20, spread=spread, seed=seed)
        scores = solved.scores(queries)
        shares = softmax(scores.total / temperature, axis=1)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        confidences += shares.max(axis=1).tolist()
        right += (shares.argmax(axis=1) == truth).tolist()
    assert np.mean(confidences) == pytest.approx(np.mean(right), abs=error)


@pytest.mark.parametrize("spread", [0.5, HARD, 6.0])
def test_the_temperature_is_the_likeliest_given_some_weight_on_the_first(spread: float) -> None:
    classes = learn(20, 8, spread=spread)
    witnesses = witnesses_of(classes)
    row, own = np.arange(len(witnesses.classes)), witnesses.classes
    losses = [
        -np.log(softmax(witnesses.scores.total / temperature, axis=1)[row, own]).sum()
        + 0.5 * PRIOR_WITNESSES * np.log(temperature / FIRST_TEMPERATURE) ** 2
        for temperature in TEMPERATURES
    ]
    assert find_temperature(witnesses) == TEMPERATURES[np.argmin(losses)]
