"""Fine-tuning and joint training: recipes, outputs, and when the joint network is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.picture_streams import SIDE, SMALL, labelled, picture_stream, record, shorten

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.finetune import FineTuning  # noqa: E402
from cbcl_study.rivals.deep.joint import Joint  # noqa: E402
from cbcl_study.rivals.deep.networks import BLOCKS_34, WIDTHS_34  # noqa: E402
from cbcl_study.rivals.deep.training import Recipe  # noqa: E402

torch.set_num_threads(1)


def test_the_recipes() -> None:
    assert FineTuning(**SMALL).recipe == Recipe(70, 0.1, (49, 63), 5.0, 1e-5)
    assert Joint(**SMALL).recipe == Recipe(160, 0.1, (80, 120), 10.0, 2e-4)


def test_fine_tuning_trains_old_outputs_on_new_pictures_only() -> None:
    learner = shorten(FineTuning(**SMALL), epochs=1)
    trainings = record(learner)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    assert [len(training.views.pictures) for training in trainings] == [16] * 3
    before, after = trainings[-1].before["head.bias"], trainings[-1].after["head.bias"]
    assert len(after) == 6
    assert (after[:4] < before[:4]).all()
    x = torch.randn(5, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([0, 3, 7, 9, 15])
    _, y = picture_stream()[-1]
    numbers = [learner.classes.tolist().index(label) for label in y[rows.numpy()]]
    with torch.no_grad():
        p = torch.softmax(learner.network(x), dim=1)[torch.arange(5), torch.tensor(numbers)]
        assert float(trainings[-1].loss(x, rows)) == pytest.approx(float(-p.log().mean()), rel=1e-5)


def test_the_joint_network_is_trained_when_it_is_asked_for() -> None:
    learner = shorten(Joint(**SMALL), epochs=1)
    trainings = record(learner)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    assert not trainings
    learner.predict(x)
    learner.state()
    assert [len(training.views.pictures) for training in trainings] == [48]


def test_joint_learning_in_many_goes_is_learning_in_one() -> None:
    stream = picture_stream()
    together = [np.concatenate(parts) for parts in zip(*stream, strict=True)]
    once = shorten(Joint(**SMALL), epochs=1).partial_fit(together[0], together[1])
    often = shorten(Joint(**SMALL), epochs=1)
    for x, y in stream:
        often.partial_fit(x, y).predict(x)  # being asked in between changes nothing
    mine, yours = once.state(), often.state()
    for name in mine.keys() - {"sizes"}:
        np.testing.assert_array_equal(mine[name], yours[name])


def test_the_joint_network_may_be_the_deeper_one() -> None:
    learner = Joint(deep=34)
    assert (learner.blocks, learner.widths) == (BLOCKS_34, WIDTHS_34)
    with pytest.raises(ValueError, match="deep=18 is none of 32, 34"):
        Joint(deep=18)


def test_a_joint_network_starts_from_scratch() -> None:
    learner = shorten(Joint(**SMALL), epochs=1)
    trainings = record(learner)
    learner.partial_fit(*labelled([0, 1], 8)).state()
    learner.partial_fit(*labelled([2, 3], 8)).state()
    first, second = trainings
    assert torch.equal(first.before["kernels"], second.before["kernels"])
    assert not torch.equal(first.after["kernels"], second.before["kernels"])
