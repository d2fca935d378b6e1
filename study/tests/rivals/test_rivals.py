"""Other learners: laws that all of them keep, what each must equal, and floors on the digits."""

from __future__ import annotations

import io
import math
import tracemalloc
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from support.streams import digits, stream

from cbcl.heads.base import unpack_sketches
from cbcl.heads.discriminant.formats import unpack_statistics
from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s
from cbcl.method.classifiers import DiscriminantClassifier
from cbcl.method.discriminant.directions import as_directions
from cbcl_study.ablations import fixed, k_means
from cbcl_study.hybrid import Hybrid
from cbcl_study.rivals import linear, ranpac
from cbcl_study.rivals.inputs import number_labels
from cbcl_study.rivals.lda import StreamingLDA
from cbcl_study.rivals.linear import FewShotBaseline, LinearProbe, split
from cbcl_study.rivals.logistic import TOLERANCE, JointLogistic
from cbcl_study.rivals.ranpac import RIDGES, RandomProjectionRidge, best_ridge, one_hot, solve_ridge
from cbcl_study.statistical import StatisticalLearner

Labels = NDArray[Any]


class Learner(Protocol):
    def partial_fit(self, X: Float32s, y: Labels) -> Self: ...
    def predict(self, X: Float32s) -> Labels: ...
    def state(self) -> dict[str, NDArray[Any]]: ...


LEARNERS: dict[str, Callable[[int], Learner]] = {  # by their seed
    "cbcl": lambda seed: Hybrid(max_centroids=60, seed=seed),
    "k-means": lambda seed: Hybrid(choose=fixed(1.0, 1), cluster=k_means(seed), seed=seed),
    "nearest class mean": lambda seed: Hybrid(choose=fixed(math.inf, 1), seed=seed),
    "few-shot baseline": lambda seed: FewShotBaseline(seed=seed),
    "probe": lambda seed: LinearProbe(seed=seed),
    "statistics": lambda seed: StatisticalLearner(),  # noqa: ARG005 (nothing is drawn)
    "logistic": lambda seed: JointLogistic(penalty=0.03),  # noqa: ARG005
    "discriminant": lambda seed: StreamingLDA(),  # noqa: ARG005
    "discriminant of roots": lambda seed: StreamingLDA(power=0.5),  # noqa: ARG005
    "ridge": lambda seed: RandomProjectionRidge(300, seed=seed),
}
DRAWING = ["k-means", "few-shot baseline", "probe", "ridge"]
every = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


def same(these: dict[str, NDArray[Any]], those: dict[str, NDArray[Any]]) -> bool:
    return all(np.array_equal(these[name], those[name]) for name in {*these, *those})


@every
def test_every_answer_is_a_label_seen_so_far(make: Callable[[int], Learner]) -> None:
    learner, seen = make(0), set()
    for x, y in stream(0):
        seen |= {*y.tolist()}
        answers = learner.partial_fit(x, y).predict(x)
        assert answers.shape == y.shape
        assert answers.dtype.kind == "U"
        assert {*answers.tolist()} <= seen


@every
def test_predicting_changes_nothing(make: Callable[[int], Learner]) -> None:
    (x, y), (more, _), *_ = stream(1)
    learner = make(0).partial_fit(x, y)
    before = {name: array.copy() for name, array in learner.state().items()}
    first = learner.predict(more)
    np.testing.assert_array_equal(learner.predict(more), first)
    assert same(learner.state(), before)


@every
def test_the_arrays_given_are_neither_kept_nor_changed(make: Callable[[int], Learner]) -> None:
    learner, judge = make(0), make(0)
    for x, y in stream(2):
        own, labels = x.copy(), y.copy()
        learner.partial_fit(own, labels)
        np.testing.assert_array_equal(own, x)
        np.testing.assert_array_equal(labels, y)
        own[:], labels[:] = math.nan, "z"
        judge.partial_fit(x, y)
    assert same(learner.state(), judge.state())


@every
def test_what_a_learner_was_is_not_changed_by_what_it_becomes(
    make: Callable[[int], Learner],
) -> None:
    first, *rest = stream(3)
    learner = make(0).partial_fit(*first)
    state = learner.state()
    before = {name: array.copy() for name, array in state.items()}
    for x, y in rest:
        learner.partial_fit(x, y)
    assert same(state, before)
    assert not same(learner.state(), before)


@every
def test_all_that_is_needed_to_go_on_can_be_written_without_a_pickle(
    make: Callable[[int], Learner],
) -> None:
    learner = make(0).partial_fit(*stream(0)[0])
    arrays: dict[str, Any] = learner.state()
    np.savez(file := io.BytesIO(), **arrays)
    file.seek(0)
    assert same(dict(np.load(file, allow_pickle=False)), learner.state())


@pytest.mark.parametrize("name", LEARNERS)
def test_the_seed_decides_what_is_drawn_and_nothing_else_does(name: str) -> None:
    states = []
    for seed in (1, 1, 2):
        learner = LEARNERS[name](seed)
        for x, y in stream(0):
            learner.partial_fit(x, y)
        states.append(
            {label: array for label, array in learner.state().items() if label != "drawn"}
        )
    assert same(states[0], states[1])
    if name in DRAWING:
        assert not same(states[0], states[2])


@every
def test_nothing_is_answered_before_anything_was_learned(make: Callable[[int], Learner]) -> None:
    for ask in (
        lambda: make(0).predict(np.zeros((2, 3), dtype=np.float32)),
        lambda: make(0).state(),
    ):
        with pytest.raises(ValueError, match="nothing was learned yet: call partial_fit first"):
            ask()


@every
def test_one_vector_of_one_class_is_enough(make: Callable[[int], Learner]) -> None:
    learner = make(0).partial_fit(np.ones((1, 3), dtype=np.float32), np.array(["cup"]))
    assert learner.predict(np.zeros((2, 3), dtype=np.float32)).tolist() == ["cup", "cup"]
    learner.partial_fit(-np.ones((1, 3), dtype=np.float32), np.array(["key"]))
    assert {
        *learner.predict(np.array([[0.9, 1, 1], [-1, -1, -0.9]], dtype=np.float32)).tolist()
    } <= {"cup", "key"}


@every
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((2, 16)), ["a"], "2 vectors need as many labels"),
        (np.ones((1, 3)), ["a"], "vectors have 3 features"),
        (np.full((1, 16), math.nan), ["a"], "vectors hold NaN"),
        (np.ones(16), ["a"], "vectors must be a matrix"),
    ],
)
def test_what_cannot_be_learned_is_refused_and_changes_nothing(
    make: Callable[[int], Learner], x: Float32s, y: list[str], message: str
) -> None:
    first, (queries, _), *_ = stream(0)
    learner = make(0).partial_fit(*first)
    state, answers = learner.state(), learner.predict(queries)
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(x.astype(np.float32), np.array(y))
    assert same(learner.state(), state)
    np.testing.assert_array_equal(learner.predict(queries), answers)


@every
def test_what_is_masked_is_refused(make: Callable[[int], Learner]) -> None:
    x, y = next(iter(stream(0)))
    masked: Any = np.ma.masked_array(x, mask=np.ones(x.shape, dtype=bool))
    labels: Any = np.ma.masked_array(y, mask=np.ones(y.shape, dtype=bool))
    for given in ((masked, y), (x, labels)):
        with pytest.raises(ValueError, match=r"masked .*fill"):
            make(0).partial_fit(*given)
    with pytest.raises(ValueError, match=r"masked .*fill"):
        make(0).partial_fit(x, y).predict(masked)


@every
def test_vectors_of_another_width_are_not_answered(make: Callable[[int], Learner]) -> None:
    learner = make(0).partial_fit(*stream(0)[0])
    with pytest.raises(ValueError, match="features"):
        learner.predict(np.ones((2, 3), dtype=np.float32))


FLOORS = {
    "cbcl": 0.93,
    "k-means": 0.93,
    "nearest class mean": 0.87,
    "few-shot baseline": 0.93,
    "probe": 0.95,
    "statistics": 0.94,
    "logistic": 0.95,
    "discriminant": 0.93,
    "discriminant of roots": 0.93,
    "ridge": 0.96,
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_digits_are_learned_two_by_two(name: str) -> None:
    x, y, queries, truth = digits(0)
    learner = LEARNERS[name](0)
    for some in ("01", "23", "45", "67", "89"):
        rows = np.isin(y, [*some])
        learner.partial_fit(x[rows], y[rows])
    assert np.mean(learner.predict(queries) == truth) > FLOORS[name]


@pytest.mark.parametrize("name", ["few-shot baseline", "probe"])
def test_what_keeps_all_vectors_learns_in_two_goes_what_it_learns_in_one(name: str) -> None:
    x, y = (np.concatenate(parts) for parts in zip(*stream(4), strict=True))
    once, often = LEARNERS[name](0).partial_fit(x, y), LEARNERS[name](0)
    for more, labels in stream(4):
        often.partial_fit(more, labels)
        often.predict(x)
    assert same(once.state(), often.state())


@pytest.mark.parametrize("name", ["discriminant", "discriminant of roots", "ridge"])
def test_what_keeps_sums_learns_in_two_goes_what_it_learns_in_one_but_for_rounding(
    name: str,
) -> None:
    x, y = (np.concatenate(parts) for parts in zip(*stream(4), strict=True))
    once, often = LEARNERS[name](0).partial_fit(x, y), LEARNERS[name](0)
    for more, labels in stream(4):
        often.partial_fit(more, labels)
    for key, array in once.state().items():
        if array.dtype.kind == "f" and key != "ridge":  # that is chosen in each go anew
            np.testing.assert_allclose(
                often.state()[key], array, rtol=1e-4, atol=1e-5 * np.abs(array).max()
            )
        elif key != "ridge":
            np.testing.assert_array_equal(often.state()[key], array)


@pytest.mark.parametrize("shots", [5, 1200])
def test_the_probe_is_as_good_as_logistic_regression(shots: int) -> None:
    ours, theirs = [], []
    for seed in range(3):
        x, y, queries, truth = digits(seed)
        rows = np.concatenate([np.flatnonzero(y == label)[:shots] for label in np.unique(y)])
        ours.append(
            np.mean(LinearProbe(seed=seed).partial_fit(x[rows], y[rows]).predict(queries) == truth)
        )
        scale = np.linalg.norm(x[rows] - x[rows].mean(axis=0), axis=1).mean()
        with one_thread():
            judges = [
                LogisticRegression(C=c, max_iter=500).fit(x[rows] / scale, y[rows])
                for c in (3.0, 30.0)
            ]
        theirs.append([judge.score(queries / scale, truth) for judge in judges])
    assert np.mean(ours) > np.mean(theirs, axis=0).max() - 0.01


@pytest.mark.parametrize("penalty", [0.3, 0.01])
def test_the_loss_of_the_probe_is_that_of_logistic_regression_in_the_end(penalty: float) -> None:
    x, y, _, _ = digits(0)
    points = x[:300] / np.float32(30.0)
    numbers = y[:300].astype(np.int64)
    start = np.zeros((points.shape[1], 10), dtype=np.float32)
    ours = linear.minimise_loss(points, numbers, penalty, start, max_iterations=300)
    with one_thread():
        judge = LogisticRegression(C=1.0 / penalty, fit_intercept=False, tol=1e-8, max_iter=5000)
        theirs = judge.fit(points.astype(np.float64), numbers).coef_.T

    def loss(weights: Any) -> float:
        losses = linear.softmax_errors((points @ weights).astype(np.float32), numbers)
        return float(losses.sum(dtype=np.float64) + 0.5 * penalty * np.sum(weights**2))

    assert loss(ours) == pytest.approx(loss(theirs), rel=1e-3)


@pytest.mark.parametrize(("n", "penalty"), [(50, 0.01), (50, 1.0), (600, 0.1)])
def test_logistic_regression_is_solved_and_starting_elsewhere_ends_at_the_same(
    n: int, penalty: float
) -> None:
    x, y, queries, _ = digits(0)
    once = JointLogistic(penalty=penalty).partial_fit(x[:n], y[:n])
    often = JointLogistic(penalty=penalty)
    for rows in (y[:n] < "5", y[:n] >= "5"):
        often.partial_fit(x[:n][rows], y[:n][rows])
        often.predict(queries)
        assert often.gradient <= TOLERANCE
    order = [often.kept.classes.tolist().index(label) for label in once.kept.classes]
    ours, theirs = (learner.state()["weights"] for learner in (once, often))
    np.testing.assert_allclose(theirs[:, order], ours, atol=2e-3 * np.abs(ours).max())
    directions = as_directions(x[:n]).astype(np.float64)
    scale = math.sqrt(directions.var(axis=0).sum())
    centred = np.hstack([(directions - directions.mean(axis=0)) / scale, np.ones((n, 1))])
    with one_thread():
        judge = LogisticRegression(C=1.0 / penalty, fit_intercept=False, tol=1e-8, max_iter=5000)
        truth = judge.fit(centred, y[:n])
    columns = [once.kept.classes.tolist().index(label) for label in truth.classes_]
    found = ours[:, columns] * scale
    assert np.abs(found - truth.coef_.T[:-1]).max() < 5e-3 * np.abs(truth.coef_).max()


def test_the_statistics_are_those_of_the_default_classifier() -> None:
    x, y, queries, _ = digits(0)
    learner = StatisticalLearner().partial_fit(x, y)
    theirs = DiscriminantClassifier().fit(x, y).predict(queries)
    np.testing.assert_array_equal(learner.predict(queries), theirs)
    state, d = learner.state(), x.shape[1]
    ends = np.cumsum(state["statistics_bytes"])
    blob = state["statistics"][: ends[0]].tobytes()
    sketches = unpack_sketches(state["sketches"][: state["sketches_bytes"][0]].tobytes())
    known = learner.knowledge.statistics["0"] if learner.knowledge else None
    assert known is not None
    np.testing.assert_array_equal(unpack_statistics(blob, sketches, d).mean, known.mean)


@every
def test_equal_vectors_and_features_that_say_nothing_do_no_harm(
    make: Callable[[int], Learner],
) -> None:
    rng = np.random.default_rng(0)
    for n, d in ((90, 120), (300, 40)):
        spots = (rng.normal(size=(3, 2)) @ rng.normal(size=(2, d))).astype(np.float32)  # of rank 2
        spots[:, :5] = 1000.0
        numbers = np.arange(n) % 3
        learner = make(0).partial_fit(spots[numbers], np.array(["a", "b", "c"])[numbers])
        if not isinstance(learner, FewShotBaseline):  # which wants features of a certain scale
            assert learner.predict(spots).tolist() == ["a", "b", "c"]


def test_the_probe_validates_on_some_of_each_class_that_has_two() -> None:
    tried, held = split(np.array([0] * 10 + [1] * 3 + [2]), seed=0)
    assert sorted([*tried, *held]) == list(range(14))
    assert np.bincount(np.array([0] * 10 + [1] * 3 + [2])[held]).tolist() == [2, 1]


def test_the_few_shot_baseline_is_gradient_descent_step_by_step() -> None:
    rng = np.random.default_rng(5)
    x, numbers = rng.normal(size=(19, 4)).astype(np.float32), rng.integers(0, 3, size=19)
    classes, numbers = number_labels(np.empty(0, dtype=str), numbers.astype(str))
    learner = FewShotBaseline(epochs=3, rate=0.1, seed=7).partial_fit(x, classes[numbers])
    draws = np.random.default_rng(7)
    w, b = draws.uniform(-math.sqrt(6 / 7), math.sqrt(6 / 7), size=(4, 3)), np.zeros(3)
    for _ in range(3):
        order = draws.permutation(19)
        for rows in (order[:8], order[8:16], order[16:]):
            scores = np.exp(x[rows] @ w + b)
            errors = scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[numbers[rows]]
            w, b = w - 0.1 * x[rows].T @ errors / len(rows), b - 0.1 * errors.mean(axis=0)
    np.testing.assert_allclose(learner.state()["weights"], w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(learner.state()["biases"], b, rtol=1e-4, atol=1e-5)


def test_the_discriminant_is_its_formula() -> None:
    learner, scales = StreamingLDA(), np.linspace(0.1, 4.0, 16, dtype=np.float32)
    for more, labels in stream(5):
        learner.partial_fit(scales * more, labels)
    x, y = (np.concatenate(parts) for parts in zip(*stream(5), strict=True))
    x *= scales
    means = {label: x[y == label].mean(axis=0, dtype=np.float64) for label in np.unique(y)}
    deviations = x - np.array([means[label] for label in y])
    covariance = deviations.T @ deviations / (len(x) - len(means))
    variance = np.trace(covariance) / 16
    share = 16 / (len(x) - len(means) + 16)
    inverse = np.linalg.inv((1.0 - share) * covariance + share * variance * np.eye(16))
    scores = [x @ inverse @ mean - mean @ inverse @ mean / 2 for mean in means.values()]
    np.testing.assert_array_equal(learner.predict(x), np.array([*means])[np.argmax(scores, axis=0)])


@pytest.mark.parametrize("power", [None, 0.5])
@pytest.mark.parametrize("shots", [2, 5, 1200])
def test_the_discriminant_does_not_depend_on_the_scale_of_the_features(
    shots: int, power: float | None
) -> None:
    x, y, queries, _ = digits(0)
    rows = np.concatenate([np.flatnonzero(y == label)[:shots] for label in np.unique(y)])
    plain, large = (
        StreamingLDA(power=power).partial_fit(scale * x[rows], y[rows]).predict(scale * queries)
        for scale in (np.float32(1.0), np.float32(1000.0))
    )
    np.testing.assert_array_equal(large, plain)


def test_the_discriminant_of_one_vector_a_class_is_the_nearest_mean() -> None:
    x, y, queries, _ = digits(0)
    rows = [np.flatnonzero(y == label)[0] for label in np.unique(y)]
    nearest = Hybrid(choose=fixed(math.inf, 1)).partial_fit(x[rows], y[rows])
    learner = StreamingLDA().partial_fit(x[rows], y[rows])
    np.testing.assert_array_equal(learner.predict(queries), nearest.predict(queries))


def test_the_discriminant_of_few_vectors_is_better_than_the_nearest_mean() -> None:
    right: list[float] = []
    nearest: list[float] = []
    for seed in range(3):
        x, y, queries, truth = digits(seed)
        rows = np.concatenate([np.flatnonzero(y == label)[:5] for label in np.unique(y)])
        for learner, found in (
            (StreamingLDA(), right),
            (Hybrid(choose=fixed(math.inf, 1)), nearest),
        ):
            found.append(np.mean(learner.partial_fit(x[rows], y[rows]).predict(queries) == truth))
    assert np.mean(right) > np.mean(nearest)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_the_discriminant_does_as_well_with_large_features(scale: float) -> None:
    x, y, queries, truth = digits(0)
    constant = np.full((len(x), 3), 5.0, dtype=np.float32)  # features that say nothing
    learner = StreamingLDA()
    for label in np.unique(y):
        rows = y == label
        learner.partial_fit(scale * np.hstack([x, constant])[rows], y[rows])
    answers = learner.predict(scale * np.hstack([queries, constant[: len(queries)]]))
    assert (answers == truth).mean() > 0.93


def test_the_ridge_regression_is_scikit_learns() -> None:
    learner = RandomProjectionRidge(50, seed=1)
    for more, labels in stream(6):
        learner.partial_fit(more, labels)
    x, y = (np.concatenate(parts) for parts in zip(*stream(6), strict=True))
    features = np.maximum(
        x @ np.random.default_rng(1).standard_normal((16, 50), dtype=np.float32), 0.0
    )
    truth = one_hot(number_labels(np.empty(0, dtype=str), y)[1])
    judge = Ridge(alpha=learner.ridge, fit_intercept=False).fit(features.astype(np.float64), truth)
    learner.predict(x)
    assert learner.layer is not None
    np.testing.assert_allclose(learner.layer.weights, judge.coef_.T, atol=1e-4)


def draw_gram(m: int, n: int) -> tuple[Float32s, Float32s]:
    """Draw a Gram matrix, exact in float32, whose largest eigenvalue is most of its trace."""
    features = np.random.default_rng(m).integers(0, 4, size=(n, m)).astype(np.float32)
    return features.T @ features, features.T @ one_hot(np.arange(n) % 5)


# In float32 the first is solved, the second is not or hardly, the third cannot be factored.
@pytest.mark.parametrize("share", [ranpac.GRAM_ROUNDING, 1e-8, 1e-10])
def test_a_ridge_is_solved_as_in_float64_if_float32_can_do_it_or_not(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram, sums = draw_gram(300, 200)
    ridge = share * float(gram.trace())
    kinds: list[object] = []
    factor = ranpac._factor

    def watched(gram: Float32s, ridge: float, kind: Any) -> tuple[Any, bool]:
        kinds.append(kind)
        return factor(gram, ridge, kind)

    monkeypatch.setattr(ranpac, "_factor", watched)
    found = solve_ridge(gram, ridge, sums)
    truth = np.linalg.solve(gram.astype(np.float64) + ridge * np.eye(300), sums)
    np.testing.assert_allclose(found, truth, atol=1e-4 * np.abs(truth).max())
    if share != 1e-8:
        assert kinds == [np.float32, np.float64][: 2 if share < 1e-8 else 1]


def test_a_matrix_is_factored_in_one_copy_of_it() -> None:
    gram, _ = draw_gram(600, 50)
    tracemalloc.start()
    ranpac._factor(gram, 1.0, np.float32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert gram.nbytes <= peak < 1.2 * gram.nbytes


@pytest.mark.parametrize("n", [12, 60])
def test_the_ridge_chosen_is_the_best_for_the_vectors_held_out(n: int) -> None:
    rng = np.random.default_rng(n)
    features, held = rng.normal(size=(n, 30)), rng.normal(size=(20, 30))
    w = rng.normal(size=(30, 3))
    truth, held_truth = features @ w + 5.0 * rng.normal(size=(n, 3)), held @ w
    errors = [
        np.mean(
            (
                Ridge(alpha=ridge, fit_intercept=False).fit(features, truth).predict(held)
                - held_truth
            )
            ** 2
        )
        for ridge in RIDGES
    ]
    assert best_ridge(features, truth, held, held_truth) == RIDGES[np.argmin(errors)]
