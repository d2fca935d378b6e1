"""LwF-MC and iCaRL: what their sigmoids are trained to be, and how they answer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.picture_streams import SMALL, labelled, picture_stream, record, shorten

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.icarl import ICaRL  # noqa: E402
from cbcl_study.rivals.deep.learner import frozen  # noqa: E402
from cbcl_study.rivals.deep.lwf import LwFMC  # noqa: E402

torch.set_num_threads(1)

METHODS: list[Any] = [LwFMC, ICaRL]
sigmoids = pytest.mark.parametrize("make", METHODS)


def last_training(make: Any, **options: Any) -> tuple[Any, Any, Any]:
    """A learner after two increments, its network before the second, and that training."""
    learner = shorten(make(**options, **SMALL), epochs=1)
    learner.partial_fit(*labelled([0, 1], 6))
    teacher, trainings = frozen(learner.network), record(learner)
    learner.partial_fit(*labelled([2, 3], 6))
    return learner, teacher, trainings[-1]


def entropies(scores: Any, targets: Any) -> Any:
    """Binary cross-entropies by hand: (b, outputs)."""
    p = torch.sigmoid(scores)
    return -(targets * p.log() + (1.0 - targets) * (1.0 - p).log())


def first_batch(training: Any, rows: list[int]) -> tuple[Any, Any]:
    """Whole pictures of a training set, and their numbers."""
    drawn = torch.tensor([[row, 4, 4, 0] for row in rows])
    return training.views.make(drawn), torch.tensor(rows)


@sigmoids
def test_the_recipe_is_icarls(make: Any) -> None:
    recipe = make(**SMALL).recipe
    assert recipe[:6] == (70, 2.0, (49, 63), 5.0, 1e-5, 128)
    assert (recipe.momentum, recipe.noise) == (0.9, None)
    assert [recipe.rate_in(epoch) for epoch in (48, 49, 63)] == pytest.approx([2.0, 0.4, 0.08])


@sigmoids
def test_there_are_a_hundred_outputs_from_the_start_and_the_loss_is_their_mean(make: Any) -> None:
    learner = shorten(make(**SMALL), epochs=1)
    trainings = record(learner)
    x, y = labelled([0, 1], 6)
    learner.partial_fit(x, y)
    assert learner.network.head.out_features == 100
    pictures, rows = first_batch(trainings[0], [0, 5, 9])
    with torch.no_grad():
        scores = learner.network(pictures)
        loss = trainings[0].loss(pictures, rows)
    truth = torch.zeros(3, 100)
    for place, row in enumerate(rows.tolist()):
        truth[place, learner.classes.tolist().index(y[row])] = 1.0
    assert float(loss) == pytest.approx(float(entropies(scores, truth).sum()) / 3 / 100, rel=1e-5)


@sigmoids
def test_old_outputs_are_the_old_networks_on_every_picture_and_no_label_trains_them(
    make: Any,
) -> None:
    learner, teacher, training = last_training(make, outputs=6)
    rows = [*range(0, len(training.views.pictures), 3)]  # iCaRL: exemplars as well
    pictures, numbers = first_batch(training, rows)
    with torch.no_grad():
        scores, old = learner.network(pictures), teacher(pictures)[:, :2]
        loss = training.loss(pictures, numbers)
        by_hand = entropies(scores, torch.cat([old.sigmoid(), torch.zeros(len(rows), 4)], dim=1))
        x = training.views.pictures.numpy()
        stored = np.concatenate([labelled([k, k + 1], 6)[0] for k in (2, 0)])
        labels = np.concatenate([labelled([k, k + 1], 6)[1] for k in (2, 0)])
        for place, row in enumerate(rows):
            (same,) = np.flatnonzero((stored == x[row]).all(axis=(1, 2, 3)))
            number = learner.classes.tolist().index(labels[same])
            if number >= 2:
                by_hand[place, number] = -torch.sigmoid(scores[place, number]).log()
    assert float(loss) == pytest.approx(float(by_hand.mean()), rel=1e-5)


def test_lwf_trains_on_new_pictures_only_and_icarl_on_exemplars_as_well() -> None:
    _, _, training = last_training(LwFMC, outputs=6)
    assert len(training.views.pictures) == 12
    learner, _, training = last_training(ICaRL, outputs=6, budget=7)
    assert len(training.views.pictures) == 12 + 2 * 4
    assert [*map(len, learner.exemplars)] == [2] * 4
    assert LwFMC(**SMALL).exemplars == []


@sigmoids
def test_the_network_goes_on_from_its_weights(make: Any) -> None:
    learner = shorten(make(outputs=6, **SMALL), epochs=1)
    trainings = record(learner)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    for last, following in pairwise(trainings):
        assert all(torch.equal(last.after[name], following.before[name]) for name in last.after)


@sigmoids
def test_outputs_grow_when_they_are_too_few(make: Any) -> None:
    learner = shorten(make(outputs=3, **SMALL), epochs=1)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    assert learner.network.head.out_features == 6


@sigmoids
def test_no_relu_follows_the_last_block(make: Any) -> None:
    learner = shorten(make(outputs=6, **SMALL), epochs=1).partial_fit(*labelled([0, 1], 6))
    assert learner._features(torch.tensor(labelled([0, 1], 6)[0])).min() < 0.0


def test_lwf_answers_by_its_outputs_of_seen_classes() -> None:
    learner = shorten(LwFMC(outputs=6, **SMALL), epochs=1).partial_fit(*labelled([0, 1], 6))
    with torch.no_grad():
        learner.network.head.weight.zero_()
        learner.network.head.bias.copy_(torch.tensor([0.0, 1.0, 9.0, 9.0, 9.0, 9.0]))
    assert {*learner.predict(labelled([0, 1], 6)[0])} == {learner.classes[1]}


def icarl(**options: Any) -> Any:
    learner = shorten(ICaRL(outputs=6, budget=12, **options, **SMALL), epochs=2)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    return learner


def test_icarl_answers_with_the_nearest_mean_of_exemplars() -> None:
    learner, (x, _) = icarl(), labelled(range(6), 4, seed=5)

    def unit_features(pictures: Any) -> Any:
        centred = torch.as_tensor(pictures).float() / 255.0 - learner.mean
        with torch.no_grad():
            features = learner.network.features(centred.permute(0, 3, 1, 2)).double().numpy()
        return features / np.linalg.norm(features, axis=1, keepdims=True)

    means = []
    for pictures in learner.exemplars:
        both = [pictures.numpy(), pictures.numpy()[:, :, ::-1].copy()]  # as they are, mirrored
        mean = np.concatenate([*map(unit_features, both)]).mean(axis=0)
        means.append(mean / np.linalg.norm(mean))
    distances = np.linalg.norm(unit_features(x)[:, np.newaxis] - np.array(means), axis=2)
    assert learner.predict(x).tolist() == learner.classes[distances.argmin(axis=1)].tolist()
    np.testing.assert_allclose(learner.means.numpy(), means, atol=1e-5)


def test_the_head_answers_for_hybrid1_only() -> None:
    plain, hybrid, (x, _) = icarl(), icarl(hybrid1=True), labelled(range(6), 4, seed=5)
    before = plain.predict(x)
    for learner in (plain, hybrid):
        with torch.no_grad():
            learner.network.head.weight.zero_()
            learner.network.head.bias.copy_(torch.arange(6.0))
    assert plain.predict(x).tolist() == before.tolist()
    assert {*before} != {plain.classes[5]}
    assert {*hybrid.predict(x)} == {hybrid.classes[5]}


def test_hybrid1_is_trained_like_icarl() -> None:
    plain, hybrid = icarl().state(), icarl(hybrid1=True).state()
    assert all(np.array_equal(plain[name], hybrid[name]) for name in plain)
