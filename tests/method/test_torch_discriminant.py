"""Labelling by the default head on a device: the labels of the processor, close calls included."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support.statistics import borders

from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.directions import as_directions
from cbcl.method.statistical import StatisticalKnowledge, learn_statistics

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
from cbcl.method import torch_discriminant  # noqa: E402 (it needs torch)

D = 96


def draw(labels: Int64s, noise: float, seed: int) -> Float32s:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(100, D))
    vectors = 0.6 * centres[labels] + noise * rng.normal(size=(len(labels), D))
    positive: Float32s = np.maximum(vectors, 0.0).astype(np.float32)
    return positive


@cache
def knowledge(views: str) -> StatisticalKnowledge:
    """Return 40 classes of one view, of six, or of one to forty."""
    counts = {"one": [1] * 40, "six": [6] * 40, "any": range(1, 41)}[views]
    labels = np.arange(40).repeat([*counts])
    return learn_statistics(None, draw(labels, 1.0, seed=1), labels)


def on_device(known: StatisticalKnowledge) -> torch_discriminant.DeviceDiscriminant:
    return torch_discriminant.DeviceDiscriminant(known.discriminant, known.probes(), "cpu", 0)


@pytest.mark.parametrize("products", [1 << 12, torch_discriminant.MAX_PRODUCTS])
@pytest.mark.parametrize("views", ["one", "six", "any"])
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_the_labels_are_those_of_the_processor(
    views: str, noise: float, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_discriminant, "MAX_PRODUCTS", products)
    known, device = knowledge(views), on_device(knowledge(views))
    vectors = draw(np.arange(3000) % 60, noise, seed=2)  # some of classes that are not known
    wanted, found = known.winners(vectors), known.winners_by(device, vectors)
    assert found.tobytes() == wanted.tobytes()
    alone = device.winners(as_directions(vectors))
    assert alone.close.mean() < 0.01
    assert (alone.classes == wanted)[~alone.close].all()


@pytest.mark.parametrize("views", ["one", "six", "any"])
def test_close_calls_are_settled_by_the_processor(views: str) -> None:
    known, device = knowledge(views), on_device(knowledge(views))
    labels = np.random.default_rng(4).integers(40, size=(2, 200))
    vectors = borders(known, draw(labels[0], 1.0, seed=5), draw(labels[1], 1.0, seed=6))
    assert known.winners_by(device, vectors).tobytes() == known.winners(vectors).tobytes()
    assert device.winners(as_directions(vectors)).close.mean() > 0.9
    assert known.winners_by(device, vectors[:3]).tobytes() == known.winners(vectors)[:3].tobytes()


def test_classes_that_are_equal_are_close_calls() -> None:
    known = knowledge("six")
    twins = {**known.statistics, 40: known.statistics[7], 41: known.statistics[7]}
    doubled = StatisticalKnowledge(twins)
    device = on_device(doubled)
    vectors = draw(np.full(300, 7), 0.5, seed=3)
    assert device.winners(as_directions(vectors)).close.all()
    assert doubled.winners_by(device, vectors).tobytes() == doubled.winners(vectors).tobytes()


@pytest.mark.parametrize("views", ["one", "six", "any"])
def test_the_measured_error_has_a_margin_for_vectors_that_are_not_like_the_views(
    views: str,
) -> None:
    known, device = knowledge(views), on_device(knowledge(views))
    rng = np.random.default_rng(7)
    strange = rng.normal(size=(500, D)) ** 3
    lonely = np.eye(D) + 1e-6
    directions = as_directions(np.concatenate([strange, lonely, np.zeros((1, D))]))
    with torch.inference_mode():
        values, scales = device._totals(torch.from_numpy(directions))
    apart = np.abs(values.numpy() - known.discriminant.totals(directions)).max(axis=1)
    assert 0.0 < (apart / scales.numpy()).max() < device.error / 3.0


def test_one_class_is_the_answer_to_everything() -> None:
    known = learn_statistics(None, draw(np.zeros(5, np.int64), 1.0, 1), np.zeros(5, np.int64))
    vectors = draw(np.arange(50), 1.0, seed=2)
    assert known.winners_by(on_device(known), vectors).tolist() == [0] * 50


def test_few_vectors_are_not_sent_to_a_device() -> None:
    known = knowledge("six")
    probes = known.probes()
    assert probes.shape == (160, D)
    device = torch_discriminant.DeviceDiscriminant(known.discriminant, probes, "cpu")
    assert not device.pays_for(1000)
    assert device.pays_for(1_000_000)
