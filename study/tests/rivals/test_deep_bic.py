"""BiC: the weights of its losses, its held-out pictures, and its two numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from support.picture_streams import SMALL, labelled, picture_stream, record, shorten, tensors

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.bic import BiC, Correction, fit_correction  # noqa: E402
from cbcl_study.rivals.deep.learner import frozen  # noqa: E402
from cbcl_study.rivals.deep.training import Recipe  # noqa: E402

torch.set_num_threads(1)


def bic(increments: int, **options: Any) -> Any:
    learner = shorten(BiC(**{"budget": 80, **options}, **SMALL), epochs=1, batch=32)
    for x, y in picture_stream(count=30)[:increments]:
        learner.partial_fit(x, y)
    return learner


def record_splits(learner: Any) -> list[Any]:
    """Return a list that grows with what is trained with and what is held out."""
    splits, split = list[Any](), learner._split

    def recorded(increment: Any) -> Any:
        splits.append(split(increment))
        return splits[-1]

    learner._split = recorded
    return splits


def held_out(n: int = 60, old: int = 3, t: int = 5) -> tuple[Any, Any]:
    """Scores in which those of new classes are too large, and the classes."""
    generator = torch.Generator().manual_seed(3)
    numbers = torch.arange(n) % t
    scores = 2.0 * torch.eye(t)[numbers] + torch.randn(n, t, generator=generator)
    scores[:, old:] = 1.5 * scores[:, old:] + 4.0
    return scores, numbers


def entropy(pair: Any, scores: Any, numbers: Any, old: int) -> float:
    s = scores.double().numpy().copy()
    s[:, old:] = pair[0] * s[:, old:] + pair[1]
    s -= s.max(axis=1, keepdims=True)
    logs = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
    return float(-logs[np.arange(len(s)), numbers.numpy()].mean())


def test_the_recipe_is_the_papers() -> None:
    assert BiC(**SMALL).recipe == Recipe(250, 0.1, (100, 150, 200), 10.0, 2e-4, 128, 0.9, None)


def test_the_share_of_old_classes_weighs_distillation_by_the_corrected_teacher() -> None:
    learner = bic(2)  # of 80 exemplars 20 a class, of which 2 are held out
    teacher, trainings = frozen(learner.network), record(learner)
    correction = Correction(2, 0.5, -3.0)  # of its own last increment: classes 2 and 3
    learner.correction = correction
    learner.partial_fit(*picture_stream(count=30)[2])
    (training,) = trainings
    rows = torch.tensor([0, 19, 40, 60, 75, 100, 120])
    numbers = []
    x, y = (np.concatenate(parts) for parts in zip(*picture_stream(count=30), strict=True))
    for row in rows.tolist():
        picture = training.views.pictures[row].numpy()
        (place,) = np.flatnonzero((x == picture).all(axis=(1, 2, 3)))
        numbers.append(learner.classes.tolist().index(y[place]))
    assert len({*numbers}) > 4
    pictures = training.views.make(torch.tensor([[row, 4, 4, 0] for row in rows.tolist()]))
    with torch.no_grad():
        scores, old = learner.network(pictures).double(), teacher(pictures).double()
        old[:, 2:] = 0.5 * old[:, 2:] - 3.0
        p, q = torch.softmax(old / 2, dim=1), torch.softmax(scores[:, :4] / 2, dim=1)
        distillation = float(-(p * q.log()).sum(dim=1).mean())
        label = torch.softmax(scores, dim=1)[torch.arange(len(rows)), torch.tensor(numbers)]
        classification = float(-label.log().mean())
        loss = float(training.loss(pictures, rows))
    assert loss == pytest.approx(4 / 6 * distillation + 2 / 6 * classification, rel=1e-4)


def test_a_tenth_of_an_old_classs_exemplars_is_held_out_of_each_class() -> None:
    learner = bic(1)
    assert [*map(len, learner.exemplars)] == [30, 30]
    splits = record_splits(learner)
    trainings = record(learner)
    x, y = labelled([2, 3], 25)
    learner.partial_fit(x, y)
    ((trained, held),) = splits
    assert [*map(len, trained)] == [27, 27, 22, 22]
    assert [*map(len, held)] == [3, 3, 3, 3]
    assert torch.equal(trainings[0].views.pictures, torch.cat(trained))
    for part, rest in zip(held, trained, strict=True):
        assert not any((rest == picture).all(dim=(1, 2, 3)).any() for picture in part)


def test_at_least_one_is_held_out_but_never_the_only_one() -> None:
    learner = bic(1, budget=8)
    trainings = record(learner)
    assert [*map(len, learner.exemplars)] == [4, 4]
    learner.partial_fit(*labelled([2, 3], 5))
    assert len(trainings[0].views.pictures) == 3 + 3 + 4 + 4
    lonely = bic(1, budget=2)
    trainings = record(lonely)
    lonely.budget = 4
    lonely.partial_fit(*labelled([2, 3], 1))
    assert len(trainings[0].views.pictures) == 4
    assert lonely.correction == Correction(2, 1.0, 0.0)


def test_exemplars_are_chosen_of_all_pictures_held_out_or_not() -> None:
    learner = bic(1, budget=400)
    x, y = labelled([2, 3], 12)
    learner.partial_fit(x, y)
    assert [*map(len, learner.exemplars)] == [30, 30, 12, 12]


def test_fitting_the_correction_changes_nothing_of_the_network() -> None:
    learner = bic(1)
    trainings = record(learner)
    learner.partial_fit(*picture_stream(count=30)[1])
    (training,) = trainings
    assert learner.correction != Correction(2, 1.0, 0.0)
    now = tensors(learner.network)  # batch norm's statistics as well
    assert all(torch.equal(now[name], training.after[name]) for name in now)
    assert not learner.network.training


def test_the_correction_is_fitted_on_held_out_scores_in_evaluation_mode() -> None:
    learner = bic(1)
    splits = record_splits(learner)
    learner.partial_fit(*picture_stream(count=30)[1])
    ((_, held),) = splits
    centred = torch.cat(held).float() / 255.0 - learner.mean
    with torch.no_grad():
        scores = learner.network.eval()(centred.permute(0, 3, 1, 2))
    numbers = torch.arange(4).repeat_interleave(torch.tensor([*map(len, held)]))
    expected = fit_correction(scores, numbers, 2)
    assert learner.correction == pytest.approx(expected, rel=1e-3)


def test_the_first_increment_has_no_correction() -> None:
    assert bic(1).correction == Correction(0, 1.0, 0.0)


def test_the_correction_is_of_the_newest_classes_only() -> None:
    corrected = Correction(3, 0.5, -2.0).apply(torch.ones(2, 5))
    assert corrected.tolist() == [[1.0, 1.0, 1.0, -1.5, -1.5]] * 2


def test_each_increment_has_one_correction_which_replaces_the_last() -> None:
    learner = bic(3)
    assert learner.correction.old == 4
    assert learner.state()["correction"].tolist() == [*learner.correction[1:]]


def test_the_correction_has_the_least_cross_entropy() -> None:
    scores, numbers = held_out()
    fitted = fit_correction(scores, numbers, 3)
    best = minimize(
        entropy, [1.0, 0.0], (scores, numbers, 3), "Nelder-Mead", options={"xatol": 1e-9}
    )
    assert entropy(fitted[1:], scores, numbers, 3) <= best.fun + 1e-9
    assert fitted[1:] == pytest.approx(best.x, abs=1e-3)
    assert fitted == fit_correction(scores, numbers, 3)
    assert entropy(fitted[1:], scores, numbers, 3) < entropy((1.0, 0.0), scores, numbers, 3) - 0.5


def test_answers_are_corrected() -> None:
    learner, (x, _) = bic(2), labelled([0, 1, 2, 3], 5)
    learner.correction = Correction(2, 1.0, 1e6)
    assert {*learner.predict(x)} <= {*learner.classes[2:]}
    learner.correction = Correction(2, 1.0, -1e6)
    assert {*learner.predict(x)} <= {*learner.classes[:2]}
