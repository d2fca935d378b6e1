"""FearNet and its offline perceptron: their equations, and the ways in which they are got wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.streams import digits

from cbcl.errors import DataError
from cbcl.method.arrays import Float32s
from cbcl_study.learners import learner_kind

torch = pytest.importorskip("torch")

from cbcl_study.rivals import mlp  # noqa: E402
from cbcl_study.rivals.fearnet import (  # noqa: E402
    CodeStatistics,
    Cortex,
    FearNet,
    FearNetSettings,
    LabelledVectors,
    code_statistics,
    cortex_loss,
    pseudo_examples,
    recall,
    square_roots,
    widen,
)
from cbcl_study.rivals.mlp import (  # noqa: E402
    DenseLayer,
    NetworkSettings,
    OfflineMLP,
    new_generator,
    new_layers,
)

Labels = NDArray[Any]
Session = tuple[Float32s, Labels]
SMALL = NetworkSettings(hidden=(32, 24), batch=32)
FAST = FearNetSettings(
    SMALL, reconstruction=(10.0, 0.1), base_epochs=80, chooser_epochs=40, sleep_every=3
)
UNTAUGHT = FAST._replace(base_epochs=2, sleep_epochs=2, chooser_epochs=2)  # for what is no skill
D = 16


def sessions(n: int = 40, seed: int = 0) -> list[Session]:
    """Return n vectors of two classes, then of one at a time; the seed is that of the vectors."""
    means = np.random.default_rng(0).normal(size=(6, D))
    rng = np.random.default_rng([1, seed])

    def draw(labels: str) -> Session:
        y = np.repeat([*labels], n)
        noise = 0.4 * rng.normal(size=(len(y), D))
        return (means[[ord(one) - 97 for one in y]] + noise).astype(np.float32), y

    return [draw(labels) for labels in ("ab", "c", "d", "e", "f")]


def learned(seed: int, count: int, settings: FearNetSettings = FAST) -> FearNet:
    learner = FearNet(settings, seed=seed)
    for x, y in sessions()[:count]:
        learner.partial_fit(x, y)
    return learner


def same(these: dict[str, NDArray[Any]], those: dict[str, NDArray[Any]]) -> bool:
    return {*these} == {*those} and all(np.array_equal(these[name], those[name]) for name in these)


# Equations 1 and 2


def test_recent_memory_answers_by_the_inverse_of_the_least_distance() -> None:
    rng = np.random.default_rng(0)
    stored, queries = rng.normal(size=(12, 5)), rng.normal(size=(7, 5))
    numbers = np.repeat([3, 5, 6], 4)
    gaps = np.linalg.norm(queries[:, None] - stored, axis=2).reshape(7, 3, 4).min(axis=2)
    inverse = 1.0 / (0.5 + gaps)
    truth = inverse / inverse.sum(axis=1, keepdims=True)
    recent = LabelledVectors(torch.tensor(stored), torch.tensor(numbers))
    logarithms, answers = recall(recent, torch.tensor(queries), offset=0.5)
    np.testing.assert_allclose(logarithms.numpy(), np.log(truth.max(axis=1)))
    np.testing.assert_array_equal(answers.numpy(), np.array([3, 5, 6])[truth.argmax(axis=1)])


# Equations 3 and 4


def gradients(weights: tuple[float, ...]) -> dict[str, Any]:
    generator = new_generator(0)
    layers = new_layers([D, 8, 6, 3], generator), new_layers([6, 8, D], generator)
    cortex = Cortex(*layers)
    tensors = {
        f"{part} {number}": layer.weights.requires_grad_()
        for part, group in cortex._asdict().items()
        for number, layer in enumerate(group)
    }
    x = torch.randn(20, D, generator=torch.Generator().manual_seed(0))
    cortex_loss(cortex, x, torch.arange(20) % 3, weights).backward()
    return {name: tensor.grad for name, tensor in tensors.items()}


def test_every_weight_of_a_reconstruction_reaches_the_layers_that_it_should() -> None:
    without = gradients((0.0, 0.0))
    assert without["encoder 2"].abs().sum() > 0.0  # the softmax, by cross-entropy
    assert without["encoder 0"].abs().sum() > 0.0
    assert without["decoder 0"].abs().sum() == without["decoder 1"].abs().sum() == 0.0
    whole, inner = gradients((1.0, 0.0)), gradients((0.0, 1.0))
    for some in (whole, inner):
        for name in ("encoder 0", "encoder 1", "decoder 0"):
            assert not torch.allclose(some[name], without[name])
        assert torch.equal(some["encoder 2"], without["encoder 2"])
    assert whole["decoder 1"].abs().sum() > 0.0
    assert inner["decoder 1"].abs().sum() == 0.0


def test_the_loss_is_cross_entropy_and_squared_lengths_of_errors() -> None:
    eye, none = torch.eye(2), torch.zeros(2)
    cortex = Cortex([DenseLayer(eye, none), DenseLayer(eye, none)], [DenseLayer(2.0 * eye, none)])
    x = torch.tensor([[1.0, 3.0]])  # its code is itself, its reconstruction twice that
    loss = cortex_loss(cortex, x, torch.tensor([1]), (10.0,))
    assert float(loss) == pytest.approx(np.log1p(np.exp(-2.0)) + 10.0 * 10.0)


# Pseudo-examples


def test_the_covariance_is_that_of_the_code_and_whole() -> None:
    generator = new_generator(1)
    cortex = Cortex(new_layers([D, 8, 5, 2], generator), new_layers([5, 8, D], generator))
    x = torch.randn(50, D, generator=torch.Generator().manual_seed(1))
    numbers = torch.arange(50) % 2
    statistics = code_statistics(cortex, LabelledVectors(x, numbers), 2)
    for number in (0, 1):
        codes = cortex.code(x[numbers == number]).numpy()
        np.testing.assert_allclose(statistics.means[number], codes.mean(axis=0), atol=1e-6)
        covariance = np.cov(codes.T, bias=True)
        assert np.abs(covariance - np.diag(np.diag(covariance))).max() > 1e-3
        np.testing.assert_allclose(statistics.covariances[number], covariance, atol=1e-5)


def test_pseudo_examples_are_decoded_draws_of_each_classs_gaussian() -> None:
    means = torch.tensor([[5.0, 0.0], [-5.0, 1.0]])
    covariances = torch.tensor([[[1.0, 0.8], [0.8, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    turn = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])  # the code (a, b) is (2 b, a, 7)
    cortex = Cortex([], [DenseLayer(turn, torch.tensor([0.0, 0.0, 7.0]))])
    statistics = CodeStatistics(means, covariances, square_roots(covariances))
    vectors, numbers = pseudo_examples(cortex, statistics, 20_000, new_generator(0))
    assert vectors.shape == (40_000, 3)
    assert torch.bincount(numbers).tolist() == [20_000, 20_000]
    for number in (0, 1):
        drawn = vectors[numbers == number].numpy()
        codes = np.stack([drawn[:, 1], drawn[:, 0] / 2.0])
        np.testing.assert_allclose(drawn[:, 2], 7.0)
        np.testing.assert_allclose(codes.mean(axis=1), means[number], atol=0.03)
        np.testing.assert_allclose(np.cov(codes), covariances[number], atol=0.03)


def test_a_class_of_few_vectors_has_a_gaussian_too() -> None:
    few = 9.0 * torch.randn(3, 60, generator=torch.Generator().manual_seed(0))
    covariance = (few.T @ few / 3.0)[None]  # of rank 3, and in float32 not quite positive
    roots = square_roots(covariance)
    np.testing.assert_allclose(roots @ roots.mT, covariance, atol=1e-3)


def test_as_many_are_rehearsed_as_a_recent_class_has_on_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def spy(cortex: Any, statistics: Any, m: int, generator: Any) -> Any:
        asked.append(m)
        return pseudo_examples(cortex, statistics, m, generator)

    monkeypatch.setattr("cbcl_study.rivals.fearnet.pseudo_examples", spy)
    learner = learned(0, 1, UNTAUGHT)
    (x, y), (more, labels) = sessions()[1:3]
    learner.partial_fit(x[:30], y[:30]).partial_fit(more[:9], labels[:9])
    assert asked == [30, 20]  # 39 / 2, rounded up


# Sleep


def test_it_sleeps_every_few_sessions_and_then_keeps_no_vector() -> None:
    learner = FearNet(UNTAUGHT)
    kept = []
    for x, y in sessions():
        state = learner.partial_fit(x, y).state()
        kept.append(len(state.get("vectors", [])))
        assert ("chooser-0-weights" in state) == ("vectors" in state)
    assert kept == [0, 40, 80, 0, 40]


def test_what_is_kept_after_a_sleep_does_not_grow_with_the_vectors() -> None:
    states = []
    for n in (20, 40):
        learner = FearNet(UNTAUGHT)
        for x, y in sessions(n)[:4]:
            learner.partial_fit(x, y)
        states.append({name: array.shape for name, array in learner.state().items()})
    assert states[0] == states[1]
    assert not any(20 in shape or 40 in shape for shape in states[0].values())


def test_a_sleep_forgets_nothing_beyond_measure() -> None:
    learner, known = FearNet(FAST), []
    scores = []
    for (x, y), queries in zip(sessions(), sessions(seed=1), strict=True):
        learner.partial_fit(x, y)
        known.append(queries)
        asked, truth = (np.concatenate(part) for part in zip(*known, strict=True))
        scores.append(float(np.mean(learner.predict(asked) == truth)))
    assert scores[3] > scores[2] - 0.05  # the sleep
    assert min(scores) > 0.85


def test_the_cortex_rehearses() -> None:
    """Without pseudo-examples, a sleep would leave the first two classes unknown."""
    learner = learned(0, 4)
    x, y = sessions()[0]
    assert np.mean(learner.predict(x) == y) > 0.85


def test_old_outputs_stay_as_they_were_when_the_softmax_grows() -> None:
    layers = new_layers([D, 4, 2], new_generator(0))
    grown = widen(layers, 5, new_generator(1))
    assert grown[0] is layers[0]
    assert grown[1].weights.shape == (4, 5)
    assert torch.equal(grown[1].weights[:, :2], layers[1].weights)
    assert torch.equal(grown[1].biases[:2], layers[1].biases)


def test_in_a_sleep_the_decoder_learns_slower_by_its_share() -> None:
    def moved(share: float) -> float:
        settings = UNTAUGHT._replace(decoder_share=share, sleep_every=1, sleep_epochs=1)
        before, after = learned(0, 1, settings).state(), learned(0, 2, settings).state()
        return float(np.abs(after["decoder-1-biases"] - before["decoder-1-biases"]).max())

    assert moved(0.01) == pytest.approx(0.01 * moved(1.0), rel=0.3)


# The chooser, and equation 5


def test_the_chooser_is_trained_anew_after_every_session() -> None:
    learner, judge = learned(0, 2, UNTAUGHT), learned(0, 2, UNTAUGHT)
    first = learner.state()["chooser-0-weights"]
    judge.chooser = None
    x, y = sessions()[2]
    second = learner.partial_fit(x, y).state()
    assert same(second, judge.partial_fit(x, y).state())
    assert not np.array_equal(second["chooser-0-weights"], first)


def test_the_chooser_tells_recent_vectors_from_those_of_the_cortex() -> None:
    learner = learned(0, 3)
    assert learner.chooser is not None
    odds = [mlp.scores(learner.chooser, mlp.on_device(x))[:, 0].numpy() for x, _ in sessions()[:3]]
    assert np.mean(odds[0] < 0.0) > 0.8
    assert np.mean(np.concatenate(odds[1:]) > 0.0) > 0.8


def test_recent_memory_answers_where_its_odds_times_its_probability_are_greater() -> None:
    learner = learned(0, 3, UNTAUGHT)
    assert learner.cortex is not None
    assert learner.recent is not None
    x = np.concatenate([x for x, _ in sessions()[:3]])
    points = mlp.on_device(x)
    cortex, known = learner.cortex.log_probabilities(points).max(dim=1)
    recent, lately = recall(learner.recent, points, FAST.offset)
    for odds in (-20.0, -0.3, 0.0, 0.3, 20.0):
        learner.chooser = [
            DenseLayer(torch.zeros(D, 2), torch.zeros(2)),
            DenseLayer(torch.zeros(2, 1), torch.tensor([odds])),
        ]
        a = 1.0 / (1.0 + np.exp(-odds))  # the probability of "recent"
        psi = a / (1.0 - a) * recent.exp()
        expected = torch.where(psi > cortex.exp(), lately, known)
        np.testing.assert_array_equal(learner.predict(x), learner.classes[expected.numpy()])


# Learners like the others


def test_seeds_reach_everything_and_nothing_global_is_touched() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = learned(3, 5, UNTAUGHT).state()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert same(first, learned(3, 5, UNTAUGHT).state())
    other = learned(4, 5, UNTAUGHT).state()
    drawn = {*first} - {"classes", "sessions", "vectors", "numbers"}
    assert [name for name in drawn if np.array_equal(first[name], other[name])] == []


def test_every_session_draws_other_numbers() -> None:
    draws = [torch.rand(3, generator=new_generator(0, session)).tolist() for session in range(3)]
    assert len({*map(tuple, draws)}) == 3


def test_known_classes_may_come_again() -> None:
    learner = learned(0, 3)
    x, y = sessions()[0]
    for _ in range(2):  # into recent memory's sleep, and after it
        learner.partial_fit(x, y)
        assert learner.classes.tolist() == ["a", "b", "c", "d"]
        assert np.mean(learner.predict(x) == y) > 0.85


@pytest.mark.parametrize("make", [partial(FearNet, UNTAUGHT), partial(OfflineMLP, SMALL, epochs=2)])
def test_what_cannot_be_learned_is_refused_and_changes_nothing(
    make: Callable[[], FearNet | OfflineMLP],
) -> None:
    with pytest.raises(ValueError, match="nothing was learned yet"):
        make().predict(np.ones((1, D)))
    with pytest.raises(ValueError, match="nothing was learned yet"):
        make().state()
    (x, y), (more, labels), *_ = sessions()
    own = x.copy()
    learner = make().partial_fit(own, y)
    np.testing.assert_array_equal(own, x)
    own[:] = np.nan
    learner.partial_fit(more, labels)
    state = learner.state()
    with pytest.raises(ValueError, match="features"):
        learner.partial_fit(x[:, :3], y)
    with pytest.raises(ValueError, match="features"):
        learner.predict(x[:, :3])
    assert same(learner.state(), state)
    answers = learner.predict(x)
    np.testing.assert_array_equal(learner.predict(x), answers)
    assert same(learner.state(), state)


def test_one_vector_of_one_class_is_enough() -> None:
    learner = FearNet(UNTAUGHT).partial_fit(np.ones((1, 3), dtype=np.float32), ["cup"])
    assert learner.predict(np.ones((2, 3))).tolist() == ["cup", "cup"]
    for label in ("key", "jar", "mug"):
        learner.partial_fit(np.random.default_rng(ord(label[0])).random((1, 3)), [label])
    assert np.isfinite(learner.state()["covariances"]).all()


def test_the_perceptron_trains_only_when_it_is_asked_and_then_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained, original = [], mlp.train

    def spy(*arguments: Any) -> Any:
        trained.append(arguments[3])
        return original(*arguments)

    monkeypatch.setattr(mlp, "train", spy)
    learner = OfflineMLP(SMALL, epochs=2)
    for x, y in sessions():
        learner.partial_fit(x, y)
    assert trained == []
    learner.predict(x)
    learner.state()
    assert trained == [240]


def test_the_perceptron_learns_the_digits() -> None:
    x, y, queries, truth = digits(0)
    right = [
        np.mean(OfflineMLP(SMALL, epochs=20, seed=seed).partial_fit(x, y).predict(queries) == truth)
        for seed in (0, 1)
    ]
    assert min(right) > 0.93


def test_where_torch_is_missing_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(learner_kind("fearnet").make(3, None), FearNet)
    assert isinstance(learner_kind("mlp").make(3, None), OfflineMLP)
    for name in ("cbcl_study.rivals.fearnet", "cbcl_study.rivals.mlp"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("fearnet", "mlp"):
        with pytest.raises(DataError, match="needs PyTorch: pip install torch"):
            learner_kind(name).make(0, None)
