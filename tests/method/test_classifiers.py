"""Both classifiers: scikit-learn's contract, and the laws of incremental learning."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support import reference
from support.statistics import bits
from support.strategies import radii, vectors

from cbcl import CBCLClassifier, DiscriminantClassifier
from cbcl.method.discriminant.open_set import Cosines

X = np.array([[0.0, 0.0], [0.5, 0.0], [4.0, 4.0], [4.0, 4.5], [9.0, 0.0]])
Y = np.array(["cup", "cup", "key", "key", "pen"])
many = settings(max_examples=60, deadline=None)
paper = partial(CBCLClassifier, radius=0.1, n_voters=2)
both = pytest.mark.parametrize("make", [DiscriminantClassifier, paper], ids=["ours", "paper"])
Classifier: TypeAlias = CBCLClassifier | DiscriminantClassifier
Make: TypeAlias = Callable[..., Classifier]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        DiscriminantClassifier(),
        CBCLClassifier(),
        CBCLClassifier(radius=1.0, n_voters=3),
        CBCLClassifier(radius=0.0, n_voters=1, max_centroids=9),
    ]
)
def test_scikit_learns_own_checks(
    estimator: Classifier, check: Callable[[Classifier], None]
) -> None:
    check(estimator)


def state(learner: Classifier) -> dict[str, object]:
    """Everything that was learned, comparable bit by bit."""
    classes = (learner.classes_.dtype, learner.classes_.tolist())
    if isinstance(learner, DiscriminantClassifier):
        known = {str(label): bits(own) for label, own in learner.statistics_.items()}
        return {**known, "classes": classes}
    concepts = {
        str(label): (own.centroids.tobytes(), own.counts.tobytes())
        for label, own in learner.concepts_.items()
    }
    return {**concepts, "classes": classes, "tuning": (learner.radius_, learner.n_voters_)}


@many
@given(st.data())
def test_whoever_types_the_papers_name_gets_the_paper_bit_for_bit(data: st.DataObject) -> None:
    x = data.draw(vectors(least=3, most=15))
    radius, n = data.draw(radii(x)), data.draw(st.integers(1, 5))
    y = np.arange(len(x)) % 3
    learner = CBCLClassifier(radius=radius, n_voters=n).fit(x, y)
    classes = [reference.agg_var(x[y == label], radius) for label in range(3)]
    for label, wanted in enumerate(classes):
        learned = learner.concepts_[label]
        assert learned.centroids.tobytes() == wanted.centroids.tobytes()
        assert learned.counts.tolist() == wanted.counts.tolist()
    queries = np.concatenate([x[:5], data.draw(vectors(most=5, d=x.shape[1]))])
    votes = np.array([reference.votes(query, classes, n) for query in queries])
    assert learner.predict(queries).tolist() == votes.argmax(axis=1).tolist()
    apart = votes.max(axis=1) < 1e290  # from every centroid
    np.testing.assert_array_equal(learner.decision_function(queries)[apart], votes[apart])
    shares = votes / votes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(learner.predict_proba(queries)[apart], shares[apart])


@many
@given(st.data())
def test_the_order_of_classes_does_not_matter_and_two_goes_are_one(data: st.DataObject) -> None:
    x = data.draw(vectors(least=3))
    radius = data.draw(radii(x))
    y = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=len(x), max_size=len(x))))
    whole = CBCLClassifier(radius=radius, n_voters=1).fit(x, y)
    cut = data.draw(st.integers(1, len(x) - 1))
    goes = CBCLClassifier(radius=radius, n_voters=1).partial_fit(x[:cut], y[:cut])
    assert state(goes.partial_fit(x[cut:], y[cut:])) == state(whole)
    by_class = CBCLClassifier(radius=radius, n_voters=1)
    for label in data.draw(st.permutations(sorted(set(y)))):
        by_class.partial_fit(x[y == label], y[y == label])
    assert state(by_class) == state(whole)


@many
@given(st.data())
def test_a_new_class_leaves_the_old_alone_and_forgetting_it_is_exact(data: st.DataObject) -> None:
    x = data.draw(vectors(least=3))
    half = len(x) // 2
    learner = CBCLClassifier(radius=data.draw(radii(x)), n_voters=2, max_centroids=len(x))
    learner.partial_fit(x[:half], np.arange(half) % 2)
    before = state(learner)
    learner.partial_fit(x[half:], np.full(len(x) - half, 1000))
    assert {**state(learner), **before}.keys() == {*before, "1000"}
    assert all(state(learner)[label] == before[label] for label in before if label.isdigit())
    assert state(learner.forget(1000)) == before


@both
def test_forgetting_the_last_class_leaves_a_learner_as_new(make: Make) -> None:
    learner = make()
    new = vars(learner).copy()
    learner.fit(X[:2], Y[:2]).forget("cup")
    assert vars(learner) == new
    assert not hasattr(learner, "classes_")
    with pytest.raises(NotFittedError):
        learner.predict(X)
    assert learner.partial_fit([[1.0]], [3]).predict([[2.0]]).tolist() == [3]


def test_the_budget_holds_after_every_call_and_counts_add_up() -> None:
    pixels, digits = load_digits(return_X_y=True)
    learner = CBCLClassifier(radius=15.0, n_voters=1, max_centroids=60)
    for start in range(0, 10, 2):
        rows = np.isin(digits, [start, start + 1])
        learner.partial_fit(pixels[rows], digits[rows])
        assert learner.n_centroids_ <= 60
        assert learner.counts_.sum() == (digits <= start + 1).sum()
    assert [learner.concepts_[digit].size for digit in range(10)] == np.bincount(digits).tolist()
    assert learner.n_centroids_ == len(learner.centroids_) == len(learner.counts_)
    assert learner.score(pixels, digits) > 0.85


def halves() -> tuple[Any, Any, Any, Any]:
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    learned, asked = order[:1200], order[1200:]
    return pixels[learned], digits[learned], pixels[asked], digits[asked]


@pytest.mark.parametrize("few", [3, 29])
def test_what_could_not_be_chosen_for_want_of_vectors_is_chosen_later(few: int) -> None:
    x, y, queries, truth = halves()
    first = np.flatnonzero(y == 3)[:few]
    learner = CBCLClassifier().partial_fit(x[first], y[first])
    assert (learner.radius_, learner.n_voters_) == (math.inf, 1)
    rest = np.setdiff1d(np.arange(len(y)), first)
    learner.partial_fit(x[rest], y[rest])
    assert learner.radius_ < math.inf
    assert learner.score(queries, truth) > 0.97


def test_what_was_chosen_with_many_vectors_stays() -> None:
    x, y, _, _ = halves()
    learner = CBCLClassifier().partial_fit(x[y < 5], y[y < 5])
    chosen = (learner.radius_, learner.n_voters_)
    assert chosen[0] < math.inf
    for label in range(5, 10):
        learner.partial_fit(x[y == label], y[y == label])
        assert (learner.radius_, learner.n_voters_) == chosen


def test_few_vectors_choose_nothing_anew_and_neither_do_many_what_was_given() -> None:
    x, y, _, _ = halves()
    few = np.concatenate([np.flatnonzero(y == label)[:5] for label in range(10)])
    learner = CBCLClassifier().partial_fit(x[few], y[few])
    before = (learner.radius_, learner.n_voters_)
    more = np.concatenate([np.flatnonzero(y == label)[5:34] for label in range(10)])
    learner.partial_fit(x[more], y[more])
    assert (learner.radius_, learner.n_voters_) == before
    given = CBCLClassifier(radius=20.0, n_voters=2).partial_fit(x[few], y[few]).partial_fit(x, y)
    assert (given.radius_, given.n_voters_) == (20.0, 2)


@both
def test_classes_that_never_existed_before_come_at_any_time_in_any_number(make: Make) -> None:
    learner = make()
    for x, label in zip(X, Y, strict=True):
        learner.partial_fit(x[np.newaxis], [label])
    assert learner.classes_.tolist() == ["cup", "key", "pen"]
    assert learner.predict(X).tolist() == Y.tolist()
    assert learner.partial_fit(X[:1] + 50, ["screwdriver"]).predict(X + 50)[0] == "screwdriver"
    numbers = make().partial_fit(X, [7, 7, 3, 3, 5])
    assert numbers.predict(X).tolist() == [7, 7, 3, 3, 5]


def test_an_explanation_adds_up_to_the_votes() -> None:
    queries = np.random.default_rng(0).normal(size=(40, 2)) * 5
    learner = CBCLClassifier(radius=0.1, n_voters=3).fit(X, Y)
    evidence = learner.explain(queries)
    assert evidence.labels.shape == evidence.distances.shape == evidence.weights.shape == (40, 3)
    is_for = evidence.labels[:, np.newaxis] == learner.classes_[:, np.newaxis]
    added = np.where(is_for, evidence.weights[:, np.newaxis], 0).sum(axis=2)
    np.testing.assert_allclose(added, learner.decision_function(queries))
    behind = learner.centroids_[evidence.centroids]
    np.testing.assert_allclose(
        np.linalg.norm(behind - queries[:, np.newaxis], axis=2), evidence.distances, rtol=1e-5
    )
    assert (np.diff(evidence.distances, axis=1) >= 0).all()
    one = CBCLClassifier(radius=0.0, n_voters=1).fit([[1.0]] * 3, [0, 0, 1])  # 1 wins by 1 / N_y
    assert one.predict([[1.0]]) == one.explain([[1.0]]).labels[0] == 1


@both
def test_nothing_of_the_callers_is_kept_or_changed(make: Make) -> None:
    x, y = X.astype(np.float32), Y.copy()
    learner = make().fit(x, y)
    before = state(learner)
    first = learner.predict(x)
    learner.predict_proba(x), learner.decision_function(x), learner.explain(x)
    np.testing.assert_array_equal(x, X)
    x[:] = 99
    y[:] = "?"
    assert state(learner) == before
    np.testing.assert_array_equal(learner.predict(X), first)


@both
@pytest.mark.parametrize("kind", [np.float32, np.float64, pd.DataFrame, list, np.asfortranarray])
def test_vectors_may_come_in_any_form(kind: Any, make: Make) -> None:
    want = make().fit(X, Y)
    rows = X.tolist() if kind is list else kind(X)
    if kind is pd.DataFrame:
        rows.columns = ["a", "b"]
    got = make().fit(rows, pd.Series(Y) if kind is pd.DataFrame else Y)
    assert state(got) == state(want)
    assert got.predict(rows).tolist() == Y.tolist()


def test_neither_learning_nor_predicting_copies_the_data() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 256))  # 82 MB; float32 would be 41 MB
    y = rng.integers(0, 4, len(x))
    learner = CBCLClassifier(radius=25.0, n_voters=1)
    tracemalloc.start()
    learner.fit(x, y)
    learner.predict(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6


def test_it_works_in_a_pipeline_and_a_grid_search() -> None:
    pixels, digits = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), CBCLClassifier())
    search = GridSearchCV(
        model, {"cbclclassifier__radius": [2.0, math.inf], "cbclclassifier__n_voters": [1, 3]}, cv=2
    )
    assert search.fit(pixels[:600], digits[:600]).best_score_ > 0.8


@both
def test_pickles_and_copies_hold_what_was_learned_and_not_what_was_solved(make: Make) -> None:
    x = np.random.default_rng(0).normal(size=(150, 70)) + np.arange(150)[:, np.newaxis] % 5
    learner = make().fit(x, np.arange(150) % 5)
    before = pickle.dumps(learner)

    def ask(asked: Classifier) -> list[bytes]:
        arrays = [asked.predict(x), asked.predict_proba(x), asked.decision_function(x)]
        if isinstance(asked, DiscriminantClassifier):
            arrays.append(asked.predict_proba_open(x))
        return [array.tobytes() for array in (*arrays, *asked.explain(x))]

    answers = ask(learner)
    assert pickle.dumps(learner) == before
    for copied in (pickle.loads(before), copy.deepcopy(learner)):
        assert vars(copied._model).keys() == vars(pickle.loads(before)._model).keys()
        assert state(copied) == state(learner)
        assert ask(copied) == answers
        copied.forget(0)
        assert 0 in learner.classes_


CHANGES: list[dict[str, Any]] = [
    {"radius": 9.0},
    {"n_voters": 1},
    {"max_centroids": 3},
    {"radius": "auto", "n_voters": "auto", "max_centroids": 4, "random_state": 7},
]


@pytest.mark.parametrize("changed", CHANGES, ids=str)
def test_what_is_set_later_counts_from_the_next_lesson_on(changed: dict[str, Any]) -> None:
    learner = CBCLClassifier(radius=0.1, n_voters=2).fit(X, Y)
    before, shares = state(learner), learner.predict_proba(X)
    learner.set_params(**changed)
    assert state(learner) == before
    np.testing.assert_array_equal(learner.predict_proba(X), shares)
    learner.partial_fit(X[4:] + 1.0, Y[4:])
    radius = 0.1 if learner.radius == "auto" else learner.radius
    n_voters = 1 if learner.n_voters == "auto" else learner.n_voters
    assert (learner.radius_, learner.n_voters_) == (radius, n_voters)
    assert learner.n_centroids_ <= (learner.max_centroids or 6)
    assert learner.counts_.sum() == 6
    assert learner.predict(X).tolist() == Y.tolist()
    assert learner.forget("cup").classes_.tolist() == ["key", "pen"]


def test_cosines_that_are_set_later_count_from_the_next_lesson_on_and_survive_a_fit() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 80)), [*"aabbcc"]
    cosines = Cosines(0.6, 0.1, 0.05, 0.1, 0.05, rng.normal(size=80).astype(np.float32) / 20.0)
    learner = DiscriminantClassifier().fit(x, y)
    before = learner.predict_proba_open(x + 0.5)
    learner.set_params(cosines=cosines)
    np.testing.assert_array_equal(learner.predict_proba_open(x + 0.5), before)
    learner.partial_fit(x, y)
    after = learner.predict_proba_open(x + 0.5)
    assert np.abs(after - before).max() > 0.01
    known = DiscriminantClassifier.from_statistics(learner.statistics_, cosines=cosines)
    for same in (known, clone(known).fit(x, y)):
        np.testing.assert_array_equal(same.predict_proba_open(x + 0.5), after)


def test_the_seed_reaches_the_budgets_k_means() -> None:
    pixels, digits = load_digits(return_X_y=True)

    def learn(seed: int) -> CBCLClassifier:
        return CBCLClassifier(radius=10.0, n_voters=1, max_centroids=50, random_state=seed).fit(
            pixels, digits
        )

    assert state(learn(1)) == state(learn(1))
    assert state(learn(1)) != state(learn(2))


@both
def test_labels_come_back_as_they_went_in(make: Make) -> None:
    for labels in ([2**63 + 1, 2**63 + 3], [True, False], [1.0, 2.0], ["a", "bb"], [-5, 3]):
        learner = make().fit([[0.0], [9.0]], np.array(labels, dtype=object))
        assert learner.predict([[1.0], [8.0]]).tolist() == labels
    with pytest.raises(
        ValueError, match="labels must be of one kind, but 'a' is a string and 1 is not"
    ):
        make().fit([[0.0], [9.0]], np.array(["a", 1], dtype=object))


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@both
@pytest.mark.usefixtures("switching")
def test_a_prediction_sees_what_was_learned_before_or_after_never_half(make: Make) -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(30, 8)) * 20
    learner = make().fit(centers, np.arange(30))
    wrong: list[object] = []
    stop = Event()

    def ask() -> None:
        while not stop.is_set():
            answers = learner.predict(centers)
            if answers.tolist() != list(range(30)):
                wrong.append(answers)

    askers = [Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    for _ in range(200):
        learner.partial_fit(centers[:3] + 1000, [-3, -2, -1])
        for label in (-3, -2, -1):
            learner.forget(label)
    stop.set()
    for asker in askers:
        asker.join()
    assert not wrong


BAD = [
    ([[math.nan, 1.0]], ["cup"], "contains NaN"),
    ([[math.inf, 1.0]], ["cup"], "contains infinity"),
    ([[1.0, 2.0, 3.0]], ["cup"], "X has 3 features, but .*Classifier is expecting 2"),
    (np.empty((0, 2)), [], "Found array with 0 sample"),
    ([1.0, 2.0], ["cup", "cup"], "Expected 2D array, got 1D array"),
    ([[1.0, 2.0]], ["cup", "cup"], "inconsistent numbers of samples"),
    ([[1.0, 2.0]], [3], "labels must be of one kind, but '.*' is a string and 3 is not"),
]


@pytest.mark.parametrize(("x", "y", "message"), BAD, ids=[case[2] for case in BAD])
@both
def test_bad_input_is_refused_and_nothing_is_lost(x: Any, y: Any, message: str, make: Make) -> None:
    learner = make().fit(X, Y)
    before, everything = state(learner), vars(learner).copy()
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(x, y)
    assert state(learner) == before
    assert vars(learner) == everything


BAD_PARAMETERS: list[tuple[Classifier, dict[str, object], str]] = [
    (paper(), {"max_centroids": 2}, "max_centroids=2 cannot hold 3 classes"),
    (paper(), {"max_centroids": 0}, "max_centroids=0 is not a count"),
    (paper(), {"radius": -1}, "radius=-1 is not a distance"),
    (paper(), {"radius": "big"}, "radius='big' is not a distance"),
    (paper(), {"n_voters": 0}, "n_voters=0 is not a count"),
    (paper(), {"n_voters": 2.5}, "n_voters=2.5 is not a count"),
    (DiscriminantClassifier(), {"cosines": 0.5}, "cosines must be a `Cosines` or None: got 0.5"),
    (
        DiscriminantClassifier(),
        {"cosines": Cosines(0.5, 0.1, 0.1, 0.1, 0.1, np.ones(9, np.float32))},
        "the cosines are of vectors of 9 features, but these vectors have 2",
    ),
]


@pytest.mark.parametrize(
    ("learner", "changed", "message"), BAD_PARAMETERS, ids=[case[2] for case in BAD_PARAMETERS]
)
def test_a_bad_parameter_is_refused_and_nothing_is_lost(
    learner: Classifier, changed: dict[str, object], message: str
) -> None:
    learner = clone(learner).fit(X, Y)
    parameters = learner.get_params()
    before, everything = state(learner), vars(learner).copy()
    learner.set_params(**changed)
    for method in (learner.partial_fit, learner.fit):
        with pytest.raises(ValueError, match=message):
            method(X, Y)
    assert learner.predict(X).tolist() == Y.tolist()
    learner.set_params(**parameters)
    assert state(learner) == before
    assert vars(learner) == everything


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "predict_proba", "explain"])
@pytest.mark.parametrize("number", [1e39, -1e300, 10**400], ids=["1e39", "-1e300", "10**400"])
@both
def test_a_number_too_large_for_float32_is_refused(make: Make, number: Any, method: str) -> None:
    learner = make().fit(X, Y)
    before = state(learner)
    x: Any = [[0.0, number], *X[1:].tolist()]
    if number == -1e300:
        x = np.array(x)
    labels = [Y] if method.endswith("fit") else []
    with pytest.raises(ValueError, match="too large for float32"):
        getattr(learner, method)(x, *labels)
    assert state(learner) == before
    if labels:
        with pytest.raises(ValueError, match="too large for float32"):
            type(learner)().fit(x, Y)  # with the radius and the voters to be chosen


@pytest.mark.parametrize("number", [1e20, 3e38])
def test_measurements_whose_scatter_float32_cannot_hold_are_refused(number: float) -> None:
    learner = DiscriminantClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"above 1e\+15, whose scatter is too large for float32"):
        learner.partial_fit([[number, 0.0], [-number, 0.0]], ["cup", "cup"])
    assert np.isfinite(learner.predict_proba_open([[number, 0.0]])).all()
    large = np.random.default_rng(0).uniform(-1e15, 1e15, (60, 2))
    learner.partial_fit(large, ["pen"] * 60)
    assert np.isfinite(learner.predict_proba_open(np.concatenate([X, large]))).all()


@both
def test_a_failed_fit_leaves_even_the_shape_of_the_input_alone(make: Make) -> None:
    learner = make().fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    everything = vars(learner).copy()
    with pytest.raises(ValueError, match="too large for float32"):
        learner.fit(pd.DataFrame(np.full((2, 3), 1e39), columns=["c", "d", "e"]), [1, 2])
    assert vars(learner) == everything
    new = make()
    with pytest.raises(ValueError, match="too large for float32"):
        new.partial_fit([[1e39]], [1])
    assert not hasattr(new, "n_features_in_")


@both
@pytest.mark.usefixtures("switching")
def test_threads_that_teach_one_learner_lose_nothing(make: Make) -> None:
    learner = make()

    def teach(first: int) -> None:
        for number in range(first, first + 10):
            learner.partial_fit(X + number, [f"{label} {number}" for label in Y])
            learner.forget(f"pen {number}")

    threads = [Thread(target=teach, args=[10 * number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"{label} {number}" for label in ("cup", "key") for number in range(40)}
    assert {*learner.classes_} == expected


@both
def test_an_unknown_label_cannot_be_forgotten(make: Make) -> None:
    learner = make().fit(X, Y)
    with pytest.raises(
        ValueError, match=r"'mug' cannot be forgotten: the known labels are \['cup', 'key', 'pen'\]"
    ):
        learner.forget("mug")
    with pytest.raises(NotFittedError):
        make().forget("cup")


def test_the_head_of_the_version_before_is_an_error_that_names_the_other_class() -> None:
    for head in ("vote", "discriminant"):
        with pytest.raises(TypeError, match=r"leave head out; .* is cbcl.DiscriminantClassifier"):
            CBCLClassifier(head=head)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        CBCLClassifier(heads="vote")  # type: ignore[call-arg]


def test_a_classifier_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="give the statistics of at least one class"):
        DiscriminantClassifier.from_statistics({})
    with pytest.raises(ValueError, match="give the concepts of at least one class"):
        CBCLClassifier.from_concepts({})
