"""The exported graph of the default head: the probabilities that Python computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from support.graphs import Said, ask, graph_of, network_of, vectors_of

from cbcl import BackboneError
from cbcl.export import onnx as onnx_export
from cbcl.export.onnx import as_onnx
from cbcl.heads.discriminant.head import DISCRIMINANT
from cbcl.heads.discriminant.model import DiscriminantHeadModel
from cbcl.heads.discriminant.onnx import TOLERANCE
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import TAUGHT_CONFIDENCE, DiscriminantModel, learn_statistics
from cbcl.method.discriminant.open_set import PRIOR_ODDS, Cosines
from cbcl.method.discriminant.statistics import ClassStatistics, learn_class, sketch
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Pixels
from cbcl.vision.preprocessing import Preprocessing

SIDE = 6  # pixels of the small network's pictures, whose vectors have 108 numbers
UNKNOWN = "unknown"
Vectors = NDArray[np.float32]


class World:
    """Classes, each about its own mean, from which any number of vectors is drawn."""

    def __init__(self, t: int, d: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.means = self.rng.normal(size=(t, d))

    def draw(self, owners: NDArray[np.int64]) -> Vectors:
        means = self.means[owners]
        return (means + 1.2 * self.rng.normal(size=means.shape)).astype(np.float32)

    def learn(self, counts: list[int]) -> tuple[DiscriminantModel, Vectors]:
        """Learn so many vectors of each of the first classes, and return them."""
        owners = np.repeat(np.arange(len(counts)), counts)
        vectors = self.draw(owners)
        labels = np.array([f"{number:02}" for number in owners], dtype=object)
        return learn_statistics(None, vectors, labels), vectors


def negatives_of(vectors: Vectors) -> ClassStatistics:
    return learn_class(as_directions(vectors))[0]


def said_of(knowledge: DiscriminantModel, vectors: Vectors) -> Said:
    return ask(graph_of(DiscriminantHeadModel(knowledge), knowledge.dimension), vectors)


def probabilities(knowledge: DiscriminantModel, vectors: Vectors) -> NDArray[np.float64]:
    """The probability of each class, then that of "unknown": (b, t + 1)."""
    judgement = knowledge.judge(vectors)
    known = judgement.known[:, np.newaxis]
    return np.concatenate([known * judgement.shares, 1.0 - known], axis=1)


def assert_same(said: Said, knowledge: DiscriminantModel, vectors: Vectors) -> None:
    """Every probability is Python's; a label differs only where two are as likely."""
    wanted = probabilities(knowledge, vectors)
    assert np.isfinite(wanted).all()
    classes, unknown = wanted[:, :-1], wanted[:, -1]
    places = {label: place for place, label in enumerate([*knowledge.labels, UNKNOWN])}
    rows = np.arange(len(vectors))
    close: Any = {"rtol": 0.0, "atol": TOLERANCE}

    answered = wanted[rows, [places[label] for label in said["label"]]]
    np.testing.assert_allclose(answered, wanted.max(axis=1), **close)
    np.testing.assert_allclose(said["confidence"], answered, **close)
    guessed = wanted[rows, [places[label] for label in said["guess"]]]
    np.testing.assert_allclose(guessed, classes.max(axis=1), **close)
    assert said["guess"].tolist() == said["ranking"][:, 0].tolist()
    ranked = np.vectorize(places.__getitem__)(said["ranking"])
    assert all(len({*row}) == min(5, classes.shape[1]) for row in ranked.tolist())
    np.testing.assert_allclose(
        said["ranking_confidence"], np.take_along_axis(classes, ranked, axis=1), **close
    )
    best_first = -np.sort(-classes, axis=1)[:, : ranked.shape[1]]
    np.testing.assert_allclose(said["ranking_confidence"], best_first, **close)
    # strangeness = 2 unknown / (unknown + best), above 1 where that is the answer
    share = said["strangeness"] / 2.0
    np.testing.assert_allclose(share * (unknown + classes.max(axis=1)), unknown, **close)
    assert ((said["strangeness"] > 1.0) == (said["label"] == UNKNOWN)).all()
    np.testing.assert_array_equal(said["vector"], vectors)


def kept_only(known: ClassStatistics) -> ClassStatistics:
    """The class without the sketches of views that are not kept."""
    return replace(known, sketches=sketch(known.views))


SOME = [1, 2, 3, 5, 8, 13, 24, 25, 33, 60, *[4] * 20]  # views of 30 classes, some summarized
CASES = {
    "one view": ([1], 80, 0, None),
    "one view, cosines": ([1], 80, 0, 0.5),
    "one class": ([9], 80, 0, None),
    "one class, measurements": ([9], 5, 0, None),
    "two views, cosines": ([1, 2], 80, 0, 0.5),
    "two views, negatives": ([1, 2], 80, 3, 0.5),
    "two views, measurements, negatives": ([1, 2], 12, 3, 0.5),
    "two classes": ([9, 30], 64, 0, None),
    "two classes, measurements": ([9, 24], 63, 2, None),
    "many classes": (SOME, 100, 0, None),
    "many classes, negatives": (SOME, 100, 30, 0.5),
    "many classes, more features than views": (SOME, 400, 3, None),
    "many classes of one view": ([1] * 40, 70, 1, 0.5),
}


@pytest.mark.parametrize("strangers", [*PRIOR_ODDS])
@pytest.mark.parametrize(("counts", "d", "n_negatives", "same"), [*CASES.values()], ids=CASES)
def test_it_answers_as_python_does(
    counts: list[int], d: int, n_negatives: int, same: float | None, strangers: str
) -> None:
    world = World(len(counts) + 3, d, seed=d)
    knowledge, taught = world.learn(counts)
    others = world.draw(np.full(max(n_negatives, 1), len(counts)))
    if n_negatives:
        knowledge = replace(knowledge, negatives=negatives_of(others))
    centre = np.full(d, 0.3 / np.sqrt(d), dtype=np.float32)
    cosines = None if same is None else Cosines(same, 0.13, 0.07, 0.1, 0.07, centre)
    knowledge = replace(knowledge, cosines=cosines, strangers=strangers)
    asked = np.concatenate(
        [
            taught,
            others,
            world.draw(np.arange(len(world.means)).repeat(5)),
            taught[:20] + 0.1 * world.draw(np.zeros(len(taught[:20]), dtype=np.int64)),
            1e3 * world.draw(np.zeros(5, dtype=np.int64)),
            np.zeros((1, d), dtype=np.float32),
        ]
    )
    assert_same(said_of(knowledge, asked), knowledge, asked)


def test_what_was_taught_is_so_even_where_it_looks_like_another_and_is_a_sketch_by_now() -> None:
    world = World(8, 100)
    strays = world.draw(np.full(6, 1))  # of another class
    knowledge = learn_statistics(None, strays, np.array(["00"] * 6, dtype=object))
    vectors = world.draw(np.repeat(np.arange(8), 40))
    labels = np.array([f"{number:02}" for number in np.repeat(np.arange(8), 40)], dtype=object)
    knowledge = learn_statistics(knowledge, vectors, labels)
    said = said_of(knowledge, strays)
    assert_same(said, knowledge, strays)
    assert said["label"].tolist() == ["00"] * 6
    np.testing.assert_allclose(said["confidence"].min(), TAUGHT_CONFIDENCE**2)
    forgotten = {label: kept_only(known) for label, known in knowledge.statistics.items()}
    without = probabilities(replace(knowledge, statistics=forgotten), strays)
    assert (without.argmax(axis=1) != 0).any()


@pytest.mark.parametrize("d", [12, 100])
def test_what_was_taught_twice_is_of_neither(d: int) -> None:
    world = World(4, d)
    knowledge, vectors = world.learn([9] * 3)
    labels = np.array(["01", "02"], dtype=object)
    knowledge = learn_statistics(knowledge, vectors[:2], labels)  # which are "00", too
    knowledge = replace(knowledge, negatives=negatives_of(vectors[9:11]))
    assert (knowledge.judge(vectors[:2]).taught == -1).all()
    assert (knowledge.judge(vectors[9:11]).taught == -1).all()
    said = said_of(knowledge, vectors)
    away = np.delete(np.arange(len(vectors)), [9, 10])
    assert_same({name: values[away] for name, values in said.items()}, knowledge, vectors[away])
    assert said["label"][9:11].tolist() == [UNKNOWN] * 2


def test_measurements_are_taught_as_long_as_they_are_kept() -> None:
    world = World(3, 12)
    knowledge, vectors = world.learn([60, 10, 30])
    kept = {label: kept_only(known) for label, known in knowledge.statistics.items()}
    said = said_of(knowledge, vectors)
    assert_same(said, replace(knowledge, statistics=kept), vectors)
    differ = np.abs(said["confidence"] - probabilities(knowledge, vectors).max(axis=1)) > TOLERANCE
    assert differ.any()
    for first, last in ((52, 60), (60, 70), (92, 100)):
        assert not differ[first:last].any()


def test_no_array_grows_with_classes_times_features_squared() -> None:
    world = World(20, 300)
    few, many = (
        len(graph_of(DiscriminantHeadModel(world.learn([25] * t)[0]), 300)) for t in (10, 20)
    )
    assert many - few < 10 * 300 * 300


# With a network.


def small(opset: int = 17) -> Network:
    """A network whose vector is the colours of all pixels."""
    how = Preprocessing(SIDE, (128.0,) * 3, (64.0,) * 3, filter="nearest")
    flat = helper.make_node("Flatten", ["pictures"], ["colours"])
    return network_of("small", [flat], opset, how)


def lesson(network: Network) -> tuple[DiscriminantModel, Pixels]:
    """Five classes of pictures, learned, and pictures of them and of another."""
    rng = np.random.default_rng(0)
    means = rng.integers(40, 215, (6, 1, SIDE, SIDE, 3))
    pixels = (means + rng.integers(-40, 40, (6, 12, SIDE, SIDE, 3))).astype(np.uint8)
    learned = pixels[:5, :8].reshape(-1, SIDE, SIDE, 3)
    labels = np.repeat(np.array(["cup", "Kaffee ☕", "tree", "dog", "cat"], dtype=object), 8)
    knowledge = learn_statistics(None, vectors_of(network, learned), labels)
    return knowledge, pixels.reshape(-1, SIDE, SIDE, 3)


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_pixels_are_answered_in_every_opset(opset: int) -> None:
    network = small(opset)
    knowledge, pixels = lesson(network)
    model = as_onnx(DiscriminantHeadModel(knowledge), network)
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    said = ask(model, pixels)
    assert_same(said, knowledge, vectors_of(network, pixels))
    assert {*said["label"]} == {*knowledge.labels, UNKNOWN}
    assert model == as_onnx(DiscriminantHeadModel(knowledge), network)


def test_a_graph_that_answers_otherwise_is_refused() -> None:
    network = small()
    knowledge, pixels = lesson(network)
    model = DiscriminantHeadModel(knowledge)

    def check(other: DiscriminantModel) -> None:
        graph = as_onnx(DiscriminantHeadModel(other), network)
        onnx_export._check_answers(graph, model, DISCRIMINANT, network)

    check(knowledge)
    statistics = [*knowledge.statistics.values()]
    turned = dict(zip(knowledge.labels, statistics[1:] + statistics[:1], strict=True))
    cup = np.array(["cup"], dtype=object)
    others = [
        replace(knowledge, statistics=turned),  # another guess
        learn_statistics(knowledge, vectors_of(network, pixels[-1:]), cup),  # not as strange
    ]
    for other in others:
        with pytest.raises(BackboneError, match="gives other answers as part of a larger graph"):
            check(other)
