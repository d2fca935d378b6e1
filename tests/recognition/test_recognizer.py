"""Recognizer: what it promises, on vectors (fast) and on photographs (the real thing)."""

from __future__ import annotations

import io
import math
import multiprocessing
import pickle
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_digits
from support.memory_contents import described, pair
from support.memory_contents import known as contents
from support.memory_files import execute
from support.nearest_head import NEAREST
from support.photos import NAMES, encoded, folders, views
from support.statistics import bits

from cbcl import (
    Answer,
    BackboneError,
    CBCLClassifier,
    DiscriminantClassifier,
    LabelError,
    MemoryFileError,
    PictureError,
    Recognizer,
    load_backbone,
)
from cbcl.errors import BudgetError
from cbcl.heads.base import Settings
from cbcl.heads.centroids import changes
from cbcl.memory.check import check
from cbcl.memory.transaction import MAX_UNDO
from cbcl.method.centroids.confidence import familiarity
from cbcl.recognition import learning
from cbcl.vision import decoding, extraction

RNG = np.random.default_rng(0)
ESTIMATORS = {"discriminant": DiscriminantClassifier, "vote": CBCLClassifier}
MEANS = {label: RNG.normal(size=16) * 3 for label in ("cup", "key", "pen", "owl")}


def some(label: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return (
        np.random.default_rng([seed, *label.encode()])
        .normal(MEANS[label], size=(count, 16))
        .astype(np.float32)
    )


def vectors_only(path: Path, **options: Any) -> Recognizer:
    return Recognizer(path, backbone="identity", **options)


def at_radius(radius: float, head: str) -> dict[str, Any]:
    """Options of a head; the radius is that of the vote."""
    return {"head": head, "radius": radius} if head == "vote" else {"head": head}


built_in = pytest.mark.parametrize("head", ["discriminant", "vote"], indirect=True)


@pytest.fixture(scope="module", params=["discriminant", "vote", NEAREST.name])
def head(request: pytest.FixtureRequest) -> Any:
    """Both heads: what any memory promises is tested with each."""
    return request.param


@pytest.fixture
def things(tmp_path: Path, head: Any) -> Any:
    with vectors_only(tmp_path / "things.cbcl", head=head) as recognizer:
        for label in ("cup", "key", "pen"):
            recognizer.learn(label, some(label, 5))
        yield recognizer


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, head: Any) -> Any:
    """A memory of four photographs, three views of each."""
    with Recognizer(tmp_path_factory.mktemp("seen") / "photos.cbcl", head=head) as recognizer:
        for name in NAMES:
            recognizer.learn(name, views(name, 3))
        yield recognizer


def test_photographs_learned_from_three_views_are_recognized_from_others(seen: Recognizer) -> None:
    answers = [(name, seen.recognize(view)) for name in NAMES for view in views(name, 5, seed=1)]
    assert np.mean([answer.ranking[0].label == name for name, answer in answers]) >= 0.95
    assert np.mean([answer.label == name for name, answer in answers]) >= 0.7


@built_in
def test_an_answer_has_its_ranking_its_evidence_and_thumbnails(seen: Recognizer, head: str) -> None:
    answer = seen.recognize(views("coffee", 1, seed=2)[0])
    assert answer.ranking[0].label == "coffee"
    confidences = [guess.confidence for guess in answer.ranking]
    assert confidences == sorted(confidences, reverse=True)
    unknown = 1.0 - sum(confidences)
    if answer.label is None:
        assert answer.confidence == pytest.approx(unknown)
    else:
        assert answer.confidence == confidences[0]
    shown = [(reason.label, reason.pictures, len(reason.examples)) for reason in answer.evidence]
    if head == "vote":
        assert unknown == pytest.approx(1.0 - familiarity(answer.strangeness))
        assert shown == [("coffee", 3, 3)]
        assert answer.evidence[0].distance == answer.ranking[0].distance
    else:  # the three views, and one of another label
        assert answer.strangeness == pytest.approx(2 * unknown / (unknown + confidences[0]))
        assert shown == [("coffee", 1, 1)] * 3 + [(answer.ranking[1].label, 1, 1)]
    assert max(Image.open(io.BytesIO(answer.evidence[0].examples[0].jpeg)).size) == 128


@built_in
def test_recognizer_and_estimator_give_the_same_answers(seen: Recognizer, head: str) -> None:
    asked = [view for name in NAMES for view in views(name, 4, seed=3)]
    many = seen.recognize_many(asked)
    one_by_one = [seen.recognize(view) for view in asked]
    estimator = seen.as_estimator()
    assert isinstance(estimator, ESTIMATORS[head])
    vectors = seen.embed(asked)
    assert estimator.predict(vectors).tolist() == [answer.ranking[0].label for answer in one_by_one]
    distances = estimator.explain(vectors).distances[:, 0].tolist()
    if head == "vote":  # bit for bit
        assert [answer.ranking for answer in many] == [one.ranking for one in one_by_one]
        assert distances == [answer.evidence[0].distance for answer in one_by_one]
        return
    # The last bits of products of matrices, in float32, depend on how many rows there are.
    expected = [answer.ranking[0].distance for answer in one_by_one]
    assert distances == pytest.approx(expected, rel=1e-4)
    for answer, one in zip(many, one_by_one, strict=True):
        assert [guess.label for guess in answer.ranking] == [guess.label for guess in one.ranking]
        for guess, other in zip(answer.ranking, one.ranking, strict=True):
            assert guess[1:] == pytest.approx(other[1:], rel=1e-3, abs=1e-6)


@built_in
def test_the_estimator_and_the_recognizer_learn_the_same(tmp_path: Path, head: Any) -> None:
    estimator: Any = ESTIMATORS[head]()
    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        for seed, label in enumerate(("cup", "key", "pen", "cup")):
            recognizer.learn(label, some(label, 7, seed))
            estimator.partial_fit(some(label, 7, seed), [label] * 7)
        learned: Any = recognizer.as_estimator()
    assert learned.classes_.tolist() == estimator.classes_.tolist() == ["cup", "key", "pen"]
    if head == "vote":
        for label, concepts in estimator.concepts_.items():
            same = learned.concepts_[label]
            assert same.centroids.tobytes() == concepts.centroids.tobytes()
            assert same.counts.tolist() == concepts.counts.tolist()
    else:
        for label, statistics in estimator.statistics_.items():
            assert bits(learned.statistics_[label]) == bits(statistics)


def test_what_is_learned_is_there_for_the_next_who_opens_the_file(things: Recognizer) -> None:
    with vectors_only(things.path) as again:
        assert contents(again) == contents(things)
        assert again.labels() == {"cup": 5, "key": 5, "pen": 5}
    assert check(things.path) == []


def test_learning_a_class_leaves_the_others_alone(things: Recognizer) -> None:
    before = contents(things)
    things.learn("owl", some("owl", 5))
    after = contents(things)
    assert {label: after[label] for label in before} == before


@pytest.mark.parametrize("count", [9, 60])  # that are kept, and that are summarized
def test_learning_in_two_goes_is_learning_in_one(tmp_path: Path, head: str, count: int) -> None:
    with pair(tmp_path, **at_radius(3.0, head)) as (one, two):
        one.learn("cup", some("cup", count))
        two.learn("cup", some("cup", count)[:4])
        two.learn("cup", some("cup", count)[4:])
        assert contents(one) == contents(two)


def test_answers_do_not_depend_on_how_often_learning_was_interrupted(
    tmp_path: Path, head: str
) -> None:
    with pair(tmp_path, **at_radius(6.0, head)) as (one, many):
        one.learn_many({label: some(label, 6) for label in MEANS})
        for turn in range(6):
            for label in sorted(MEANS, reverse=True):
                many.learn(label, some(label, 6)[turn])
        assert contents(one) == contents(many)  # the spreads of the vote included
        parts = [some(label, 9, seed=1) * scale for label in MEANS for scale in (1.0, 0.3)]
        told, expected = (who.recognize_many(np.concatenate(parts)) for who in (many, one))
        assert [answer[:5] for answer in told] == [answer[:5] for answer in expected]


def test_a_forgotten_class_was_never_there(things: Recognizer) -> None:
    before = contents(things)
    things.learn("owl", some("owl", 5))
    things.forget("owl")
    assert contents(things) == before


def n_centroids(recognizer: Recognizer) -> int:
    estimator = recognizer.as_estimator()
    assert isinstance(estimator, CBCLClassifier)
    return estimator.n_centroids_


def test_the_budget_holds_and_survives_reopening(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", radius=0.0, max_centroids=12) as recognizer:
        for label in MEANS:
            recognizer.learn(label, some(label, 6))
            assert n_centroids(recognizer) <= 12
    with vectors_only(tmp_path / "a.cbcl", radius=0.0) as recognizer:
        recognizer.learn("cup", some("cup", 20, seed=1))
        assert n_centroids(recognizer) <= 12
        assert recognizer.labels()["cup"] == 26


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from(sorted(MEANS)), st.integers(1, 4)),
        st.tuples(st.just("forget"), st.sampled_from(sorted(MEANS))),
        st.tuples(
            st.just("rename"), st.sampled_from(sorted(MEANS)), st.sampled_from(sorted(MEANS))
        ),
        st.tuples(st.just("merge"), st.sampled_from(sorted(MEANS)), st.sampled_from(sorted(MEANS))),
    ),
    max_size=12,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=STEPS, radius=st.sampled_from([0.0, 4.0, float("inf")]), limit=st.sampled_from([None, 5])
)
def test_undoing_goes_back_through_every_state_there_was(
    tmp_path_factory: pytest.TempPathFactory,
    head: str,
    steps: list[tuple[Any, ...]],
    radius: float,
    limit: int | None,
) -> None:
    path = tmp_path_factory.mktemp("undo") / "a.cbcl"
    options = at_radius(radius, head) | ({"max_centroids": limit} if head == "vote" else {})
    with vectors_only(path, **options) as recognizer:
        recognizer.learn("cup", some("cup", 2))
        states = [contents(recognizer)]
        for number, (action, *about) in enumerate(steps):
            revision = recognizer.snapshot().revision
            try:
                if action == "learn":
                    recognizer.learn(about[0], some(about[0], about[1], seed=number))
                else:
                    getattr(recognizer, action)(*about)
            except LabelError:
                assert contents(recognizer) == states[-1]
                continue
            if recognizer.snapshot().revision > revision:  # what adds nothing is no step
                states.append(contents(recognizer))
        assert contents(recognizer) == states[-1]
        while len(states) > 1:
            recognizer.undo()
            states.pop()
            assert contents(recognizer) == states[-1]
    assert check(path) == []


def test_twenty_steps_can_be_undone_and_the_rest_is_not_kept(tmp_path: Path, head: Any) -> None:
    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        for number in range(MAX_UNDO + 10):
            recognizer.learn("cup", some("cup", 1, seed=number))
        assert execute(recognizer.path, "SELECT count(*) FROM classes") == [(MAX_UNDO + 1,)]
        can_be_undone = [step.can_be_undone for step in recognizer.history()]
        assert can_be_undone == [True] * MAX_UNDO + [False] * 10
        for _ in range(MAX_UNDO):
            recognizer.undo()
        assert not any(step.can_be_undone for step in recognizer.history())
        with pytest.raises(MemoryFileError, match="nothing to undo"):
            recognizer.undo()
        assert recognizer.labels() == {"cup": 10}


def test_what_is_forgotten_for_good_is_nowhere_in_the_file(tmp_path: Path, head: Any) -> None:
    def everything() -> bytes:
        return b"".join(file.read_bytes() for file in tmp_path.iterdir())

    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        recognizer.learn("cup", some("cup", 5))
        recognizer.learn("secret", some("key", 5))
        centroids, *_, sketches, _ = contents(recognizer)["secret"][0]
        vector = centroids[:32] if head == "vote" else some("key", 5)[0].tobytes()
        traces = [vector, sketches or vector, b"secret", b"hidden"]
        recognizer.rename("secret", "hidden")
        assert all(trace in everything() for trace in traces)
        recognizer.forget("hidden")
        recognizer.forget("hidden", for_good=True)  # though it is forgotten already
        assert not any(trace in everything() for trace in traces)
        with pytest.raises(MemoryFileError, match="nothing to undo"):
            recognizer.undo()
        assert recognizer.labels() == {"cup": 5}


def test_merged_classes_are_one(things: Recognizer) -> None:
    things.merge("pen", "key")
    assert things.labels() == {"cup": 5, "key": 10}
    both = np.concatenate([some("key", 5), some("pen", 5)]).mean(axis=0)
    np.testing.assert_allclose(
        things.snapshot().concepts()["key"].centroids[0], both, rtol=1e-5, atol=1e-5
    )
    assert things.recognize(some("pen", 5)[0]).ranking[0].label == "key"


def test_labels_may_hold_slashes_and_emoji_and_composed_letters_are_one(
    tmp_path: Path, head: Any
) -> None:
    labels = (
        "a/b\\c",
        "🐱 'cat'; DROP TABLE classes",
        "cafe\N{COMBINING ACUTE ACCENT}",
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    )
    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        for seed, label in enumerate(labels):
            recognizer.learn(label, some("cup", 2, seed))
        assert list(recognizer.labels()) == ["a/b\\c", "café", "🐱 'cat'; DROP TABLE classes"]
        letters = ("two\nlines", "x" * 201, "\u200b", "a\u2028b", "a\u202eb")
        wrong: list[Any] = ["", "  ", *letters, "Unknown", 7]
        for no_label in wrong:
            with pytest.raises(LabelError, match="cannot be a label"):
                recognizer.learn(no_label, some("cup", 2))
        recognizer.rename(labels[2], "bar")
        assert "bar" in recognizer.labels()


def test_what_is_not_known_is_told_with_what_is(things: Recognizer) -> None:
    wrong = (
        ("forget", "cups"),
        ("rename", "cups", "x"),
        ("merge", "cups", "key"),
        ("merge", "key", "cups"),
    )
    for action, *about in wrong:
        with pytest.raises(LabelError, match=r"^'cups' is not known: did you mean 'cup'\?$"):
            getattr(things, action)(*about)
    with pytest.raises(LabelError, match=r"^'CUP' is not known: did you mean 'cup'\?$"):
        things.snapshot().examples("CUP")
    told = r"^'spoon' is not known; there are 'cup', 'key', 'pen'\.$"
    with pytest.raises(LabelError, match=told):
        things.snapshot().examples("spoon")
    with pytest.raises(LabelError, match="is taken"):
        things.rename("cup", "key")
    with pytest.raises(LabelError, match="with itself"):
        things.merge("cup", "cup")


def test_labels_that_differ_in_the_space_around_them_are_one_and_in_case_are_told(
    things: Recognizer,
) -> None:
    assert things.learn(" cup ", some("cup", 2)).spelled_alike == {}
    assert [*things.labels()] == ["cup", "key", "pen"]
    assert things.learn("Cup", some("key", 2, seed=1)).spelled_alike == {"Cup": "cup"}
    assert things.learn("Cup", some("key", 2, seed=2)).spelled_alike == {}  # not new any more
    both = {
        label: some("pen", 2, seed=n) for n, label in enumerate(("My  bag", "my bag", "hat"), 1)
    }
    assert things.learn_many(both).spelled_alike == {"My  bag": "my bag"}
    assert len(things.labels()) == 7


def test_a_memory_opened_with_another_backbone_is_an_error_that_names_both(
    things: Recognizer, tmp_path: Path
) -> None:
    other = load_backbone(lambda things: things, name="other-encoder")
    with Recognizer(things.path, backbone=other) as wrong:
        for call in (
            lambda: wrong.learn("cup", some("cup", 1)),
            lambda: wrong.recognize(some("cup", 1)[0]),
        ):
            with pytest.raises(BackboneError, match=r"identity .* not through other-encoder"):
                call()
    with Recognizer(tmp_path / "own.cbcl", backbone=other) as own:
        own.learn("cup", some("cup", 3))
    with (
        Recognizer(tmp_path / "own.cbcl") as lost,
        pytest.raises(BackboneError, match="learned through other-encoder"),
    ):
        lost.recognize(some("cup", 1)[0])


def test_nothing_is_written_by_asking(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "none.cbcl") as recognizer:
        assert recognizer.labels() == {}
        with pytest.raises(MemoryFileError, match="does not exist: learn something first"):
            recognizer.recognize(some("cup", 1)[0])
        with pytest.raises(MemoryFileError, match="does not exist: learn something first"):
            recognizer.forget("cup")
    assert [*tmp_path.iterdir()] == []


def test_a_broken_picture_is_fatal_or_reported_as_the_caller_chose(tmp_path: Path) -> None:
    photos = folders(tmp_path / "photos", NAMES[:1])
    (photos / NAMES[0] / "broken.jpg").write_bytes(b"no picture")
    with Recognizer(tmp_path / "a.cbcl") as recognizer:
        with pytest.raises(PictureError, match=r"broken\.jpg is not a picture"):
            recognizer.learn("x", photos)
        assert not recognizer.path.exists()
        learned = recognizer.learn("x", photos, broken="report")
        assert learned.pictures == {"x": 3}
        assert len(learned.problems) == 1
        answers = recognizer.recognize_many(photos, broken="report")
        assert [isinstance(answer, Answer) for answer in answers] == [True, True, True, False]
        with pytest.raises(PictureError):
            recognizer.recognize_many(photos)
        with pytest.raises(PictureError, match="list of pictures is empty"):
            recognizer.learn("y", [])


def test_what_is_printed_of_answers_and_pictures_can_be_read(seen: Recognizer) -> None:
    answer = seen.recognize(views("coffee", 1)[0])
    assert repr(answer).startswith("<Answer: coffee, ")
    assert "; else " in repr(answer)
    assert len(repr(answer)) < 120
    nothing = answer._replace(label=None, picture="new.jpg")
    assert repr(nothing).startswith("<Answer: unknown, ")
    assert "else coffee " in repr(nothing)
    assert repr(nothing).endswith("; of new.jpg>")
    assert repr(seen) == "Recognizer('photos.cbcl')"
    (embedded,) = seen.look(views("coffee", 1))
    assert embedded.jpeg
    assert "jpeg" not in repr(embedded)
    assert len(repr(embedded)) < 300


def test_one_picture_is_taken_in_any_way_and_several_by_recognize_many(
    seen: Recognizer, tmp_path: Path
) -> None:
    for number, pixels in enumerate(views("coffee", 2)):
        (tmp_path / f"{number}.png").write_bytes(encoded(pixels, "PNG"))
    file = tmp_path / "0.png"
    for way in (file, str(file), [file], str(tmp_path / "0.*"), file.read_bytes()):
        assert seen.recognize(way).label == "coffee"
    for several in (tmp_path, str(tmp_path / "*.png"), [file, tmp_path / "1.png"]):
        with pytest.raises(PictureError, match=r"takes one picture, not 2: use recognize_many\.$"):
            seen.recognize(several)
        if "suspects" in seen.snapshot().abilities:
            with pytest.raises(PictureError, match=r"takes one picture, not 2: ask about each"):
                seen.snapshot().suspects(several)
        assert [answer.label for answer in seen.recognize_many(several)] == ["coffee"] * 2


def test_any_way_in_gives_the_same_vector(tmp_path: Path) -> None:
    data = encoded(views("coffee", 1)[0], "PNG")
    (tmp_path / "a b").mkdir()
    file = tmp_path / "a b" / "1.png"
    file.write_bytes(data)
    picture = Image.open(file)
    frames = np.asarray(picture)[np.newaxis]
    with Recognizer(tmp_path / "a.cbcl", cache=False) as recognizer:
        ways = [
            file,
            str(file),
            file.parent,
            str(tmp_path / "*" / "*.png"),
            data,
            picture,
            np.asarray(picture),
            frames,
            [data],
        ]
        vectors = [recognizer.embed(way) for way in ways]
    assert all(
        vector.shape == (1, 1280) and vector.tobytes() == vectors[0].tobytes() for vector in vectors
    )


def test_pictures_that_were_found_are_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recognizer(tmp_path / "things.cbcl") as recognizer:
        things = recognizer.embedder.find_labelled([folders(tmp_path / "photos", count=1)])
        found = recognizer.embedder.sources(tmp_path / "photos")
        monkeypatch.delattr("cbcl.recognition.embedder.find")
        assert recognizer.learn_many(things).pictures == dict.fromkeys(NAMES, 1)
        assert [answer.label for answer in recognizer.recognize_many(found)] == [*NAMES]


def test_a_private_memory_keeps_no_thumbnail_and_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: Any
) -> None:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    photos = folders(tmp_path / "photos", NAMES[:2])
    with Recognizer(tmp_path / "a.cbcl", private=True, head=head) as recognizer:
        recognizer.learn("x", photos)
    with Recognizer(tmp_path / "a.cbcl") as recognizer:
        recognizer.learn("y", photos / NAMES[0])
        assert recognizer.recognize(photos / NAMES[0] / "0.jpg").evidence[0].examples == ()
    assert not (tmp_path / "home" / "cache" / "vectors.sqlite").exists()


def test_too_far_from_everything_is_unknown(tmp_path: Path, head: Any) -> None:
    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        for label in ("cup", "key", "pen"):
            recognizer.learn(label, some(label, 8))
        asked = np.concatenate([some(label, 20, seed=9) for label in ("cup", "key", "pen")])
        known = recognizer.recognize_many(asked)
        strange = recognizer.recognize_many(some("owl", 20, seed=9))
    assert np.mean([answer.label is None for answer in strange]) > 0.9
    assert np.mean([answer.label is None for answer in known]) < 0.25
    assert all((answer.label is None) == (answer.strangeness > 1) for answer in strange)


def test_vectors_that_are_all_alike_do_not_make_everything_else_unknown(tmp_path: Path) -> None:
    # By the vote; the discriminant counts such pictures once: test_views.py.
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        for label in ("cup", "key", "pen"):
            burst = some(label, 1) + 0.01 * some(label, 5, seed=3)
            recognizer.learn(label, burst)
        known = [
            recognizer.recognize(some(label, 1, seed=seed)[0])
            for label in ("cup", "key")
            for seed in range(1, 9)
        ]
        strange = recognizer.recognize_many(some("owl", 10))
    assert np.mean([answer.label is None for answer in known]) < 0.5
    assert all(answer.label is None for answer in strange)


def test_without_evidence_nothing_is_unknown(tmp_path: Path, head: Any) -> None:
    with vectors_only(tmp_path / "a.cbcl", head=head) as recognizer:
        for label in ("cup", "key"):
            recognizer.learn(label, some(label, 1))
        assert recognizer.recognize(some("owl", 1)[0] * 100).label is not None


def test_another_recognizer_sees_what_is_learned_meanwhile(things: Recognizer) -> None:
    with vectors_only(things.path) as other:
        assert "owl" not in other.labels()
        things.learn("owl", some("owl", 5))
        assert other.recognize(some("owl", 1, seed=5)[0]).ranking[0].label == "owl"
        other.forget("owl")
        assert "owl" not in things.labels()
        assert things.undo().action == "forget"
        assert "owl" in other.labels()


def _learn_alone(path: Path, head: Any, label: str, first: int) -> None:
    with vectors_only(path, head=head) as recognizer:
        for number in range(first, first + 25):
            recognizer.learn(label, some("cup", 1, seed=number))


def test_processes_that_learn_at_once_lose_nothing(tmp_path: Path, head: Any) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "shared.cbcl"
    workers = [
        context.Process(target=_learn_alone, args=(path, head, f"thing {n % 3}", 25 * n))
        for n in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    with vectors_only(path) as recognizer:
        assert recognizer.labels() == {"thing 0": 50, "thing 1": 25, "thing 2": 25}
    assert check(path) == []


def test_threads_may_share_a_recognizer(things: Recognizer) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                if number % 2:
                    things.learn(f"thing {number}", some("owl", 1, seed=10 * number + turn))
                else:
                    things.recognize(some("cup", 1, seed=turn)[0])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    taught = {f"thing {number}": 10 for number in (1, 3, 5)}
    assert things.labels() == {"cup": 5, "key": 5, "pen": 5} | taught


def test_tuning_is_kept_and_learns_nothing(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        chosen = recognizer.tune({label: some(label, 20) for label in MEANS})
        assert recognizer.labels() == {}
        recognizer.learn("cup", some("cup", 5))
        assert [step.action for step in recognizer.history()] == ["learn", "tune"]
        assert chosen.n_voters >= 1
        assert tuning(recognizer) == (chosen.radius, chosen.n_voters)


def test_a_radius_that_a_new_memory_was_tuned_to_holds_in_the_first_lesson(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        chosen = recognizer.tune({label: some(label, 40) for label in MEANS})
        assert chosen.radius < math.inf
        for label in MEANS:
            recognizer.learn(label, 5.0 * some(label, 60))
            assert tuning(recognizer) == (chosen.radius, chosen.n_voters)
        assert len(recognizer.snapshot().concepts()["cup"].counts) > 1


def test_a_new_memory_that_was_tuned_to_no_radius_learns_first_without_one(tmp_path: Path) -> None:
    lesson = {label: some(label, 60) for label in MEANS}
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        chosen = recognizer.tune({label: some(label, 20) for label in MEANS})
        assert chosen.radius == math.inf
        recognizer.learn_many(lesson)
        assert tuning(recognizer) == (chosen.radius, chosen.n_voters)
    with vectors_only(tmp_path / "b.cbcl", head="vote") as recognizer:
        recognizer.learn_many(lesson)
        assert tuning(recognizer)[0] < math.inf


def test_a_memory_whose_labels_are_all_forgotten_chooses_again_as_a_new_one(tmp_path: Path) -> None:
    lesson = {label: some(label, 60) for label in MEANS}
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        recognizer.learn_many({label: 9.0 * some(label, 60) for label in MEANS})
        before = tuning(recognizer)
        for label in MEANS:
            recognizer.forget(label)
        recognizer.learn_many(lesson)
        after = tuning(recognizer)
    with vectors_only(tmp_path / "b.cbcl", head="vote") as recognizer:
        recognizer.learn_many(lesson)
        assert before != after == tuning(recognizer)


def test_a_limit_of_centroids_means_nothing_to_a_head_without_centroids(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "theirs.cbcl") as theirs:
        theirs.learn_many({label: some(label, 3) for label in MEANS})
    with vectors_only(tmp_path / "ours.cbcl", max_centroids=2) as ours:
        ours.adopt(tmp_path / "theirs.cbcl")
    with vectors_only(tmp_path / "ours.cbcl") as ours:
        ours.learn_many({"hat": some("cup", 3, seed=5), "bag": []})
        assert ours.snapshot().settings.max_centroids is None
        assert len(ours.labels()) == 5


def test_what_is_refused_is_refused_before_a_picture_is_embedded(tmp_path: Path, head: Any) -> None:
    asked: list[Any] = []

    def vectors(numbers: Sequence[float]) -> list[list[float]]:
        asked.extend(numbers)
        return [[number, 1.0] for number in numbers]

    backbone = load_backbone(vectors, name="numbers")
    path = tmp_path / "a.cbcl"
    with Recognizer(path, backbone, head=head, cache=False) as things:
        things.learn_many({"cup": [1.0, 2.0], "key": [3.0, 4.0]})
        asked.clear()
        other = "discriminant" if head == "vote" else "vote"
        with (
            Recognizer(path, backbone, head=other, cache=False) as again,
            pytest.raises(MemoryFileError, match=f"cannot go on by the {other}"),
        ):
            again.learn("cup", [5.0])
        if head == "vote":
            limited = Recognizer(path, backbone, max_centroids=2, cache=False)
            with limited, pytest.raises(BudgetError, match="cannot hold 3 classes"):
                limited.learn("pen", [5.0])
            negatives: dict[str | None, Any] = {None: [5.0]}
            for learn in (things.learn_many, things.learn_each):
                with pytest.raises(LabelError, match="cannot learn"):
                    learn(negatives)
        else:
            with pytest.raises(MemoryFileError, match="has no radius"):
                things.tune({"cup": [5.0], "key": [6.0]})
        assert asked == []


def tuning(recognizer: Recognizer) -> tuple[float, int]:
    return recognizer.snapshot().settings[:2]


def test_few_pictures_at_first_leave_the_choice_to_many_later_and_then_it_stays(
    tmp_path: Path,
) -> None:
    pixels, digits = load_digits(return_X_y=True)
    of = {digit: pixels[digits == digit].astype(np.float32) for digit in range(10)}
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        estimator = CBCLClassifier(random_state=0)
        for digit in (3, 4):
            recognizer.learn(str(digit), of[digit][:3])
            estimator.partial_fit(of[digit][:3], [str(digit)] * 3)
            assert tuning(recognizer) == (math.inf, 1)
        recognizer.learn("5", of[5][:100])
        estimator.partial_fit(of[5][:100], ["5"] * 100)
        chosen = tuning(recognizer)
        assert chosen[0] < math.inf
        assert chosen == (estimator.radius_, estimator.n_voters_)
        recognizer.learn("3", of[3][3:100])  # of which one centroid of few vectors is known
        assert tuning(recognizer) == chosen
        for count in (2, 60):
            recognizer.learn("6", of[6][:count])
            assert tuning(recognizer) == chosen


def test_a_radius_that_was_tuned_stays(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", head="vote") as recognizer:
        recognizer.learn("cup", some("cup", 1))
        chosen = recognizer.tune({label: some(label, 40) for label in MEANS})
        assert chosen.radius < math.inf
        for label in MEANS:
            recognizer.learn(label, 5.0 * some(label, 60))
            assert tuning(recognizer) == (chosen.radius, chosen.n_voters)


def test_text_is_learned_through_a_function(tmp_path: Path, head: Any) -> None:
    letters = load_backbone(
        lambda texts: [[t.count(c) for c in "aeiou"] for t in texts], name="vowels"
    )
    with Recognizer(tmp_path / "words.cbcl", backbone=letters, head=head) as words:
        words.learn("a", ["banana", "papaya", "kakadu"])
        words.learn("e", "bedeheve")
        answer = words.recognize("ananas")
        assert (answer.ranking[0].label, answer.evidence[0].examples) == ("a", ())


def test_vectors_of_another_length_change_nothing(things: Recognizer) -> None:
    before = contents(things)
    short = [[1.0, 2.0, 3.0]]
    calls: list[tuple[Any, ...]] = [
        ("learn", "cup", short),
        ("learn", "new", short),
        ("recognize", short[0]),
    ]
    if "negatives" in things.snapshot().abilities:
        calls.append(("learn", None, short))
    if "tune" in things.snapshot().abilities:
        calls.append(("tune", {"a": short, "b": short}))
    for action, *about in calls:
        with pytest.raises(BackboneError, match=r"vectors of 16 numbers, but .* of 3"):
            getattr(things, action)(*about)
    assert contents(things) == before
    with pytest.raises(PictureError, match="identity takes vectors"):
        things.learn("cup", ["a.jpg"])
    with pytest.raises(ValueError, match="NaN"):
        things.learn("cup", [[np.nan] * 16])
    assert contents(things) == before


def test_what_is_masked_is_never_looked_at(things: Recognizer, tmp_path: Path) -> None:
    before = contents(things)
    vector: Any = np.ma.masked_array(np.ones((1, 16)), mask=np.ones((1, 16), dtype=bool))
    uses = (("learn", "cup", vector), ("recognize", vector[0]), ("embed", [*vector]))
    for action, *about in uses:
        with pytest.raises(ValueError, match=r"masked .*fill"):
            getattr(things, action)(*about)
    assert contents(things) == before
    frame: Any = np.ma.masked_array(np.zeros((64, 64, 3), np.uint8), mask=True)
    with (
        Recognizer(tmp_path / "photos.cbcl", "visual-words") as recognizer,
        pytest.raises(ValueError, match=r"masked .*fill"),
    ):
        recognizer.learn("cup", [frame])


def test_the_memory_itself_is_never_read_as_a_photo(tmp_path: Path) -> None:
    folders(tmp_path / "photos", NAMES[:2])
    with Recognizer(tmp_path / "photos" / NAMES[0] / "own.cbcl") as recognizer:
        recognizer.learn("first", tmp_path / "photos")
        assert recognizer.labels() == {"first": 6}
        assert len(recognizer.recognize_many(tmp_path / "photos")) == 6
        found = recognizer.embedder.find_labelled([tmp_path / "photos"])
        assert {label: len(files) for label, files in found.items()} == dict.fromkeys(NAMES[:2], 3)
        with pytest.raises(PictureError, match="is a memory in use"):
            recognizer.recognize(recognizer.path)
        with Recognizer(tmp_path / "other.cbcl") as other:  # nor by another in the same process
            assert other.learn("all", tmp_path / "photos").pictures == {"all": 6}


def test_tuning_does_not_touch_the_limit(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", radius=0.0) as recognizer:
        recognizer.learn("cup", some("cup", 9))
    with vectors_only(tmp_path / "a.cbcl", max_centroids=3) as recognizer:
        recognizer.tune({label: some(label, 5) for label in MEANS})
        assert recognizer.snapshot().settings.max_centroids is None


def test_a_photo_that_is_gone_when_its_thumbnail_is_made_is_learned_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: Any
) -> None:
    photos = folders(tmp_path / "photos", NAMES[:1])
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(learning, "FIRST", 1)  # so that the others' thumbnails are made last

    def remove(done: int, total: int) -> None:
        if done == total:
            shutil.rmtree(photos)

    with Recognizer(tmp_path / "a.cbcl", head=head) as recognizer:
        recognizer.embed(photos)  # now their vectors are cached
        assert recognizer.learn("x", photos, progress=remove).pictures == {"x": 3}
        assert len(recognizer.snapshot().examples("x")) == 1
        assert recognizer.recognize(views(NAMES[0], 1)[0]).label == "x"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of pictures, each time that one is decoded."""
    names: list[str] = []

    def counted(source: Any, name: str, at_least: int) -> Image.Image:
        names.append(Path(name).name)
        return decoding.load(source, name, at_least)

    monkeypatch.setattr(extraction, "load", counted)
    return names


def assert_alike(one: Recognizer, other: Recognizer) -> None:
    """The same in all but the bits of thumbnails, which look the same."""
    for label, (*numbers, kept) in contents(one).items():
        *other_numbers, other_kept = contents(other)[label]
        assert numbers == other_numbers
        assert len(kept) == len(other_kept)
        for example, other_example in zip(kept, other_kept, strict=True):
            place, rank, jpeg, vector = example
            assert other_example == (place, rank, other_example[2], vector)
            jpegs = (jpeg, other_example[2])
            pixels, others = (np.asarray(Image.open(io.BytesIO(one)), float) for one in jpegs)
            assert max(pixels.shape) == 128
            assert np.abs(pixels - others).mean() < 6.0  # of 255


def test_a_picture_is_decoded_once_to_be_learned_and_not_at_all_if_it_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str], head: Any
) -> None:
    photos = folders(tmp_path / "photos", NAMES[:1])
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    with pair(tmp_path, None, head=head) as (one, other):
        one.learn("x", photos)
        assert sorted(decoded) == ["0.jpg", "1.jpg", "2.jpg"]
        one.recognize_many(photos)
        if head == "vote":
            one.tune({"x": photos, "y": photos})
        assert len(decoded) == 3
        other.learn("x", photos)  # the vectors are cached, but thumbnails are to be made
        assert len(decoded) == 6
        assert_alike(other, one)
        pictures = one.look(photos)
        assert len(decoded) == 9
        one.learn("y", pictures)
        one.recognize_many(pictures)
        assert len(decoded) == 9


def test_examples_do_not_depend_on_what_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[str], head: Any
) -> None:
    photos = folders(tmp_path / "photos", NAMES[:1], count=6)
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    for module in (learning, changes):
        monkeypatch.setattr(module, "FIRST", 1)
    with pair(tmp_path, None, head=head) as (one, other):
        one.learn("x", photos)
        decoded.clear()
        other.learn("x", photos)
        assert_alike(other, one)
        kept = len(one.snapshot().examples("x"))
        # Of the vote the first, and the three nearest to the centroid; else each view.
        assert kept in ((3, 4) if head == "vote" else one.labels().values())
        assert len(decoded) == kept


def test_what_is_looked_at_leaves_no_trace_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = folders(tmp_path / "photos", NAMES[:1])
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    with Recognizer(tmp_path / "a.cbcl") as recognizer:
        recognizer.learn("x", recognizer.look(photos))
    cache = tmp_path / "home" / "cache" / "vectors.sqlite"
    assert execute(cache, "SELECT count(*) FROM vectors") == [(0,)]


def deny_jpegs(recognizer: Recognizer) -> None:
    """Make reading a thumbnail from the file an error."""
    reader = recognizer._memory._reader
    assert reader is not None

    def authorize(action: int, table: str | None, column: str | None, *_: Any) -> int:
        jpeg = (action, table, column) == (sqlite3.SQLITE_READ, "pictures", "jpeg")
        return sqlite3.SQLITE_DENY if jpeg else sqlite3.SQLITE_OK

    reader.connection.set_authorizer(authorize)


def test_thumbnails_are_read_when_they_are_asked_for(tmp_path: Path, head: Any) -> None:
    with Recognizer(tmp_path / "a.cbcl", head=head) as recognizer:
        recognizer.learn("x", views(NAMES[0], 3))
        recognizer.labels()
        deny_jpegs(recognizer)
        evidence = recognizer.recognize(views(NAMES[0], 1, seed=1)[0]).evidence
        assert [example.number for example in recognizer.snapshot().examples("x")] == [1, 2, 3]
        shown = [example for reason in evidence for example in reason.examples]
        assert sorted(example.number for example in shown) == [1, 2, 3]
        assert "jpeg" not in repr(evidence)
        with pytest.raises(MemoryFileError, match="prohibited"):
            _ = shown[0].jpeg
        recognizer.close()
        assert shown[0].jpeg.startswith(b"\xff\xd8")
        assert recognizer._memory._reader is None  # it was opened for that alone


def test_the_thumbnail_of_an_example_that_was_forgotten_is_gone(tmp_path: Path, head: Any) -> None:
    with Recognizer(tmp_path / "a.cbcl", head=head) as recognizer:
        recognizer.learn("x", views(NAMES[0], 3))
        answer = recognizer.recognize(views(NAMES[0], 1)[0])
        example = answer.evidence[0].examples[0]
        jpeg = example.jpeg
        assert pickle.loads(pickle.dumps(answer)).evidence[0].examples[0].jpeg == jpeg
        recognizer.rename("x", "y")
        assert example.jpeg == jpeg
        recognizer.forget("y")
        with pytest.raises(LabelError, match=rf"example {example.number} does not exist"):
            _ = example.jpeg


def test_learning_tells_totals_without_reading_other_classes(things: Recognizer) -> None:
    with vectors_only(things.path) as recognizer:
        learned = recognizer.learn_many({"cup": some("cup", 2, seed=1), "owl": some("owl", 3)})
        assert learned.pictures == {"cup": 2, "owl": 3}
        assert learned.totals == {"cup": 7, "owl": 3}
        assert learned.n_labels == 4
        # That of cup: of the others, the discriminant reads the sketches alone.
        assert len(recognizer._memory._rows) == 1


def test_settings_are_those_of_the_memory(tmp_path: Path) -> None:
    with vectors_only(tmp_path / "a.cbcl", radius=2.0, n_voters=3, max_centroids=9) as recognizer:
        with pytest.raises(MemoryFileError, match="does not exist"):
            recognizer.snapshot().settings  # noqa: B018
        recognizer.learn("cup", some("cup", 2))
        assert recognizer.snapshot().settings == Settings(2.0, 3, 9, "vote")
        assert recognizer.backbone.name == "identity"
        assert recognizer.check() == []
        assert repr(recognizer) == "Recognizer('a.cbcl')"
    with vectors_only(tmp_path / "b.cbcl") as recognizer:
        recognizer.learn("cup", some("cup", 2))
        assert recognizer.snapshot().settings == Settings(head="discriminant")


def test_what_is_exported_is_imported_into_a_new_memory_through_the_same_backbone(
    things: Recognizer, tmp_path: Path
) -> None:
    files, left_out = things.export(tmp_path / "out")
    assert left_out == []
    assert [file.name for file in files] == ["out.safetensors", "out.json"]
    with Recognizer(tmp_path / "wrong.cbcl", "efficientnet-lite0") as wrong:
        with pytest.raises(BackboneError, match="they cannot be put together"):
            wrong.import_(tmp_path / "out")
        assert not wrong.path.exists()
    with Recognizer(tmp_path / "copy.cbcl", private=True) as copy:
        assert copy.import_(tmp_path / "out.safetensors") == ["cup", "key", "pen"]
        assert contents(copy) == contents(things)
        ours, theirs = described(things._memory), described(copy._memory)
        assert theirs == (replace(ours[0], private=True), ours[1])
        with pytest.raises(MemoryFileError, match="is there already"):
            copy.import_(tmp_path / "out")
    files[0].unlink()
    with pytest.raises(MemoryFileError, match=r"out\.json is there already"):
        things.export(files[0])
    assert not files[0].exists()


@built_in
@pytest.mark.parametrize("count", [1, 3, 6])
def test_one_thing_is_known_from_another_from_the_first_photo_on(
    tmp_path: Path, head: Any, count: int
) -> None:
    with Recognizer(tmp_path / "one.cbcl", head=head) as recognizer:
        recognizer.learn("cat", views("chelsea", count))
        asked = {
            name: [recognizer.recognize(view).label for view in views(name, 4, seed=1)]
            for name in NAMES
        }
    assert asked == {name: ["cat" if name == "chelsea" else None] * 4 for name in NAMES}
