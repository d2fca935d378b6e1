"""EEIL: its two stages, the heads that are distilled, and the noise of its gradients."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.picture_streams import SIDE, SMALL, labelled, picture_stream, record, shorten

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.eeil import EEIL, Teacher  # noqa: E402
from cbcl_study.rivals.deep.networks import ResNet  # noqa: E402
from cbcl_study.rivals.deep.sampling import Crops, TwelvefoldViews  # noqa: E402
from cbcl_study.rivals.deep.training import Recipe, train  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def taught() -> tuple[Any, list[Any]]:
    """A learner after three increments, and its trainings."""
    learner = shorten(EEIL(budget=13, **SMALL), epochs=1, batch=32)
    trainings = record(learner)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    return learner, trainings


def network_of(tensors: dict[str, Any]) -> Any:
    options = {name: SMALL[name] for name in ("blocks", "widths")}
    network = ResNet(len(tensors["head.bias"]), torch.Generator(), **options)
    network.load_state_dict(tensors)
    return network.eval()


def soft(scores: Any, taught_scores: Any) -> Any:
    """Cross-entropy between softmaxes at a temperature of 2, by hand."""
    p, q = (
        torch.exp(s / 2) / torch.exp(s / 2).sum(1, keepdim=True) for s in (taught_scores, scores)
    )
    return -(p * q.log()).sum(dim=1).mean()


def test_the_recipes_are_the_papers() -> None:
    learner, noise = EEIL(**SMALL), (0.3, 0.55)
    assert learner.first == Recipe(100, 0.1, (25, 50, 75), 10.0, 1e-4, 128, 0.9, noise)
    assert learner.later == Recipe(40, 0.1, (10, 20, 30), 10.0, 1e-4, 128, 0.9, noise)
    assert learner.balanced == Recipe(30, 0.01, (10, 20), 10.0, 1e-4, 128, 0.9, noise)


def test_noise_is_added_to_the_sum_of_a_batchs_gradients() -> None:
    network = ResNet(4, torch.Generator().manual_seed(0), blocks=(1, 1), widths=(32, 64))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    pictures = torch.zeros(128, SIDE, SIDE, 3, dtype=torch.uint8)
    recipe = Recipe(1, 1.0, (), 1.0, 0.0, 128, 0.0, (0.3, 0.55))  # one step of the gradient

    def flat(x: Any, rows: Any) -> Any:  # noqa: ARG001
        return sum(0.0 * p.sum() for p in network.parameters())

    views = Crops(pictures, torch.zeros(SIDE, SIDE, 3))
    train(network, views, flat, recipe, torch.Generator().manual_seed(1))
    steps = [(p - before[name]).flatten() for name, p in network.named_parameters()]
    deviation = float(torch.cat(steps).detach().std())
    assert deviation == pytest.approx(0.3**0.5 / 128, rel=0.03)


def test_an_increment_is_two_trainings_but_the_first(taught: tuple[Any, list[Any]]) -> None:
    learner, trainings = taught
    recipes = [training.recipe for training in trainings]
    expected = [learner.first, *[learner.later, learner.balanced] * 2]
    assert recipes == expected
    assert all(isinstance(training.views, TwelvefoldViews) for training in trainings)
    for last, following in pairwise(trainings):
        for name in last.after.keys() - {"head.weight", "head.bias"}:
            assert torch.equal(last.after[name], following.before[name])


def test_the_second_stage_is_balanced(taught: tuple[Any, list[Any]]) -> None:
    _, (_, later, balanced, last_later, last_balanced) = taught
    # 8 pictures of each new class; of 13 exemplars 6 of each of 2 old classes, or 3 of each of 4
    assert len(later.views.pictures) == 16 + 2 * 6
    assert len(balanced.views.pictures) == 4 * 6
    assert len(last_later.views.pictures) == 16 + 4 * 3
    assert len(last_balanced.views.pictures) == 6 * 3
    x, y = picture_stream()[-1]
    chosen = last_balanced.views.pictures[-6:].numpy()
    labels = [y[(x == picture).all(axis=(1, 2, 3))].tolist() for picture in chosen]
    assert labels == [[label] for label in np.repeat([*dict.fromkeys(y.tolist())], 3)]


def test_cross_entropy_over_all_and_each_old_head_distilled_by_itself(
    taught: tuple[Any, list[Any]],
) -> None:
    learner, (*_, before, later, _) = taught
    student, teacher = learner.network, network_of(before.after)
    x, rows, numbers = views_of(learner, later, [1, 4, 8, 20, 27])
    with torch.no_grad():
        scores, old = student(x), teacher(x)
        total = torch.nn.functional.cross_entropy(scores, numbers)
        heads = [soft(scores[:, a:b], old[:, a:b]) for a, b in [(0, 2), (2, 4)]]  # the newest, too
        assert float(later.loss(x, rows)) == pytest.approx(float(total + sum(heads)), rel=1e-5)
        assert min(map(float, heads)) > 0.01


def test_the_second_stage_distils_the_new_head_from_the_first_stages_network(
    taught: tuple[Any, list[Any]],
) -> None:
    learner, (*_, before, later, balanced) = taught
    student, teacher, unbalanced = learner.network, *map(network_of, (before.after, later.after))
    x, rows, numbers = views_of(learner, balanced, [0, 5, 9, 13, 17])
    with torch.no_grad():
        scores, old, new = student(x), teacher(x), unbalanced(x)
        total = torch.nn.functional.cross_entropy(scores, numbers)
        heads = [
            soft(scores[:, :2], old[:, :2]),
            soft(scores[:, 2:4], old[:, 2:4]),
            soft(scores[:, 4:], new[:, 4:]),
        ]
        assert float(balanced.loss(x, rows)) == pytest.approx(float(total + sum(heads)), rel=1e-5)


def views_of(learner: Any, training: Any, rows: list[int]) -> tuple[Any, Any, Any]:
    """Whole pictures of a training set, their rows, and the numbers of their classes."""
    drawn = torch.tensor([[row, 4, 4, 0, 0, 1_000] for row in rows])
    stream = picture_stream()
    x, y = (np.concatenate(parts) for parts in zip(*stream, strict=True))
    names, numbers = learner.classes.tolist(), []
    for row in rows:
        picture = training.views.pictures[row].numpy()
        (place,) = np.flatnonzero((x == picture).all(axis=(1, 2, 3)))
        numbers.append(names.index(y[place]))
    return training.views.make(drawn), torch.tensor(rows), torch.tensor(numbers)


def test_a_teacher_gets_no_gradient() -> None:
    options = {name: SMALL[name] for name in ("blocks", "widths")}
    student, network = (ResNet(4, torch.Generator().manual_seed(k), **options) for k in (0, 1))
    x = torch.randn(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    Teacher(network.eval(), 0, [2, 2]).distil(student(x), x).backward()
    assert all(parameter.grad is None for parameter in network.parameters())
    assert student.head.weight.grad.abs().sum() > 0.0


def test_it_answers_by_its_outputs() -> None:
    learner = shorten(EEIL(budget=12, **SMALL), epochs=1).partial_fit(*labelled([0, 1], 4))
    with torch.no_grad():
        learner.network.head.weight.zero_()
        learner.network.head.bias.copy_(torch.tensor([0.0, 1.0]))
    assert {*learner.predict(labelled([0, 1], 4)[0])} == {learner.classes[1]}
