"""Answers by the discriminant: probabilities, evidence, the self-test and suggestions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.heads import judged_answers
from support.photos import NAMES, views
from support.statistics import draw_classes

from cbcl import Recognizer
from cbcl.heads.base import ClassRecord
from cbcl.heads.discriminant.model import DiscriminantHeadModel, _as_concepts, spread_of_views
from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.answering import MAX_SHOWN_VIEWS
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import (
    TAUGHT_CONFIDENCE,
    DiscriminantModel,
    learn_statistics,
)
from cbcl.method.discriminant.open_set import Cosines
from cbcl.method.discriminant.statistics import MAX_VIEWS, learn_class, unlearn_view
from cbcl.method.model import MAX_GUESSES
from cbcl.recognition.answer import (
    Answer,
)
from cbcl.recognition.suggestions import find_similar

D = 96
COSINES = Cosines(0.5, 0.13, 0.07, 0.1, 0.07)
SIZES = pytest.mark.parametrize(("t", "n"), [(1, 8), (2, 4), (3, 12), (8, 5), (4, 40)])


def draw(t: int, n: int, seed: int = 0) -> tuple[DiscriminantModel, Float32s, Float32s]:
    """Draw what is known of t classes of n views; new vectors of these, and of twelve others."""
    _, drawn = draw_classes(t + 12, n + 6, D, seed)
    matrix = np.concatenate([own[:n] for own in drawn[:t]])
    labels = np.repeat([f"thing {number:02}" for number in range(t)], n)
    knowledge = learn_statistics(None, matrix, labels)
    return (
        knowledge,
        np.concatenate([own[n:] for own in drawn[:t]]),
        np.concatenate([own[n:] for own in drawn[t:]]),
    )


def n_unknown(answers: list[Answer]) -> int:
    return sum(answer.label is None for answer in answers)


@SIZES
def test_unknown_is_the_answer_where_it_is_the_most_probable(t: int, n: int) -> None:
    knowledge, new, strange = draw(t, n)
    asked = np.concatenate([new, strange, -new])
    judgement = knowledge.judge(asked)
    for row, answer in enumerate(judged_answers(asked, knowledge)):
        labels = judgement.known[row] * judgement.shares[row]
        unknown = 1.0 - judgement.known[row]
        assert labels.sum() + unknown == pytest.approx(1.0)
        assert (answer.label is None) == (unknown > labels.max()) == (answer.strangeness > 1.0)
        assert 0.0 <= answer.strangeness <= 2.0
        if answer.label is None:
            assert answer.confidence == pytest.approx(unknown)
        else:
            assert answer.label == knowledge.labels[int(labels.argmax())]
            assert answer.confidence == pytest.approx(labels.max())
        assert answer.confidence >= max(guess.confidence for guess in answer.ranking)


@SIZES
def test_new_pictures_of_known_things_are_known_and_others_are_not(t: int, n: int) -> None:
    knowledge, new, strange = draw(t, n)
    assert n_unknown(judged_answers(new, knowledge)) <= 0.35 * len(new)
    assert n_unknown(judged_answers(strange, knowledge)) >= 0.7 * len(strange)


@SIZES
def test_the_ranking_is_that_of_the_probabilities(t: int, n: int) -> None:
    knowledge, new, strange = draw(t, n)
    asked = np.concatenate([new, strange])
    judgement = knowledge.judge(asked)
    for row, answer in enumerate(judged_answers(asked, knowledge)):
        likeliest = np.argsort(-judgement.shares[row], kind="stable")[:MAX_GUESSES]
        assert [guess.label for guess in answer.ranking] == [
            knowledge.labels[number] for number in likeliest
        ]
        for guess, number in zip(answer.ranking, likeliest, strict=True):
            share = judgement.shares[row, number]
            assert guess.confidence == pytest.approx(judgement.known[row] * share)
            assert guess.distance == judgement.distances[row, number]


@SIZES
def test_the_evidence_is_the_nearest_views_and_their_weights_add_up(t: int, n: int) -> None:
    knowledge, new, strange = draw(t, n)
    asked = np.concatenate([new, strange])
    for vector, answer in zip(as_directions(asked), judged_answers(asked, knowledge), strict=True):
        shown = min(MAX_SHOWN_VIEWS, n)
        for place, guess in enumerate(answer.ranking):
            reasons = [reason for reason in answer.evidence if reason.label == guess.label]
            if place > 1:
                assert reasons == []
                continue
            known = knowledge.statistics[guess.label]
            assert len(reasons) == (1 if place else shown)
            distances = np.linalg.norm(known.directions - vector, axis=1)
            assert [reason.distance for reason in reasons] == pytest.approx(
                sorted(distances)[: len(reasons)], abs=1e-6
            )
            first = known.n - len(known.views)  # of those that are kept
            for reason in reasons:
                view = known.directions[reason.place - first]
                assert np.linalg.norm(view - vector) == pytest.approx(reason.distance, abs=1e-6)
                assert reason.pictures == 1
            weights = [reason.weight for reason in reasons]
            assert sum(weights) == pytest.approx(guess.confidence)
            assert weights == sorted(weights, reverse=True)
        if sum(reason.weight for reason in answer.evidence) > 0.0:
            assert sum(answer.shares) == pytest.approx(1.0)


def test_a_picture_that_was_taught_is_what_it_was_taught_as() -> None:
    _, drawn = draw_classes(3, 9, D)
    matrix = np.concatenate([drawn[0][:6], drawn[1][:6], drawn[2][:6]])
    labels = np.repeat(["cup", "key", "pen"], 6)
    labels[3] = "key"  # though it looks like a cup
    knowledge = learn_statistics(None, matrix, labels)
    taught = judged_answers(matrix, knowledge)
    assert [answer.label for answer in taught] == labels.tolist()
    assert min(answer.confidence for answer in taught) >= TAUGHT_CONFIDENCE**2 - 1e-9
    assert taught[3].evidence[0].distance == pytest.approx(0.0, abs=0.02)
    assert knowledge.probabilities(matrix[3:4])[0].max() < 0.9  # by its looks alone


def test_what_looks_like_a_negative_is_unknown() -> None:
    knowledge, new, _ = draw(4, 8)
    fooled = judged_answers(new, knowledge)
    number = next(i for i, answer in enumerate(fooled) if answer.label is not None)
    negatives, _ = learn_class(as_directions(new[number : number + 1]))
    warned = DiscriminantModel(knowledge.statistics, negatives)
    assert judged_answers(new[number : number + 1], warned)[0].label is None
    before, after = judged_answers(new, knowledge), judged_answers(new, warned)
    for one, other in zip(before, after, strict=True):
        if one.ranking[0].label != fooled[number].label:
            assert other.label == one.label
        # Nothing becomes better known by it.
        assert other.strangeness >= one.strangeness - 1e-9
        assert [guess.label for guess in one.ranking] == [guess.label for guess in other.ranking]


@pytest.mark.parametrize("labels", [["cup"], ["cup", "key"]])
def test_from_one_photo_of_each_the_nearest_is_the_answer(labels: list[str]) -> None:
    _, drawn = draw_classes(3, 4, D)
    matrix = np.stack([own[0] for own, _ in zip(drawn, labels, strict=False)])
    new = np.concatenate([own[1:] for own, _ in zip(drawn, labels, strict=False)])
    expected = np.repeat(labels, 3).tolist()
    knowledge = learn_statistics(None, matrix, np.array(labels))
    answers = judged_answers(new, knowledge)
    assert [answer.label for answer in answers] == expected
    limited = DiscriminantModel(knowledge.statistics, cosines=COSINES)
    cosines = as_directions(drawn[2]) @ as_directions(matrix).T
    assert cosines.max() < 0.5
    assert n_unknown(judged_answers(drawn[2], limited)) == 4
    assert [answer.label for answer in judged_answers(matrix, limited)] == labels


def test_one_thing_of_which_no_view_is_left_is_known_by_its_mean() -> None:
    _, drawn = draw_classes(2, MAX_VIEWS + 4, D)
    known, _ = learn_class(drawn[0][: MAX_VIEWS + 1])
    while len(known.views):
        less = unlearn_view(known, known.n - 1)
        assert less is not None
        known = less
    knowledge = DiscriminantModel({"cup": known}, cosines=COSINES)
    assert n_unknown(judged_answers(drawn[0][-3:], knowledge)) == 0
    assert n_unknown(judged_answers(drawn[1][-3:], knowledge)) == 3
    assert judged_answers(drawn[0][-3:], knowledge)[0].evidence == ()


def test_neither_batch_nor_order_changes_an_answer() -> None:
    knowledge, new, strange = draw(5, 9)
    asked = np.concatenate([new, strange])
    every = judged_answers(asked, knowledge)
    backwards = judged_answers(asked[::-1].copy(), knowledge)[::-1]
    one_by_one = [judged_answers(row[np.newaxis], knowledge)[0] for row in asked]
    for answer, *others in zip(every, backwards, one_by_one, strict=True):
        for other in others:  # but for the last bits of products of matrices
            assert other.label == answer.label
            assert other.confidence == pytest.approx(answer.confidence, rel=1e-6)
            assert [reason[4:] for reason in other.evidence] == [
                reason[4:] for reason in answer.evidence
            ]


def test_measurements_are_answered_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    drawn = means[:, np.newaxis] + rng.normal(size=(3, 20, 3))
    with Recognizer(tmp_path / "a.cbcl", "identity") as recognizer:
        for label, own in zip(("cup", "key", "pen"), drawn, strict=True):
            recognizer.learn(label, own[:10])
        for label, own in zip(("cup", "key", "pen"), drawn, strict=True):
            answers = recognizer.recognize_many(own[10:])
            assert sum(answer.label == label for answer in answers) >= 8
        assert recognizer.recognize([40.0, 40.0, 40.0]).label is None
        assert recognizer.snapshot().examine().right >= 25


def self_test(knowledge: DiscriminantModel) -> SelfTestResult:
    """Test a model whose examples are numbered from 1 on, through all views."""
    sizes = np.cumsum([0, *knowledge.discriminant.counts]).tolist()
    records = {}
    for (label, known), first in zip(knowledge.statistics.items(), sizes, strict=False):
        places = [
            (first + row + 1, known.n - len(known.views) + row) for row in range(len(known.views))
        ]
        records[label] = ClassRecord(known, read_places=places.copy)
    return DiscriminantHeadModel(knowledge).self_test(records)


@SIZES
def test_the_self_test_asks_about_each_view_that_is_kept(t: int, n: int) -> None:
    knowledge, *_ = draw(t, n)
    examined = self_test(knowledge)
    kept = [len(known.views) for known in knowledge.statistics.values()]
    assert examined.labels == tuple(knowledge.labels)
    assert examined.matrix.shape == (t, t + 1)
    assert examined.matrix.sum(axis=1).tolist() == kept
    assert examined.asked == examined.right + len(examined.wrong)
    assert examined.unknown == sum(missed.answer is None for missed in examined.wrong)
    assert len({missed.example for missed in examined.wrong}) == len(examined.wrong)
    assert examined.right >= 0.6 * examined.asked
    assert examined.problem is None


@pytest.mark.parametrize("copies", [1, 5])
def test_a_view_is_hidden_with_its_copies(copies: int) -> None:
    _, drawn = draw_classes(2, 9, D)
    stray = np.repeat(drawn[1][8:], copies, axis=0)
    matrix = np.concatenate([drawn[0][:8], stray, drawn[1][:8]])
    labels = np.repeat(["cup", "key"], [8 + copies, 8])
    knowledge = learn_statistics(None, matrix, labels)
    examined = self_test(knowledge)
    assert examined.matrix.sum(axis=1).tolist() == [9, 8]
    assert (9, "cup") in [missed[:2] for missed in examined.wrong]
    # With the view itself, it would be right.
    assert judged_answers(stray[:1], knowledge)[0].label == "cup"


def test_a_single_view_is_not_asked_about_and_too_few_are_told() -> None:
    _, drawn = draw_classes(3, 5, D)
    one_each = learn_statistics(None, np.stack([own[0] for own in drawn]), np.array([*"abc"]))
    examined = self_test(one_each)
    assert examined.problem is not None
    assert "every label has a single example" in examined.problem
    assert examined.asked == 0
    some = learn_statistics(one_each, drawn[1][1:], np.array(["b"] * 4))
    assert self_test(some).matrix.sum(axis=1).tolist() == [0, 5, 0]


def test_wrong_examples_are_told_by_their_numbers(tmp_path: Path) -> None:
    pictures = {name: views(name, 6) for name in NAMES[:3]}
    with Recognizer(tmp_path / "a.cbcl") as recognizer:
        recognizer.learn_many({name: some[:5] for name, some in pictures.items()})
        recognizer.learn("coffee", [pictures["chelsea"][5]])
        examined = recognizer.snapshot().examine()
        stray = recognizer.snapshot().examples("coffee")[-1]
        assert (stray.number, "coffee") in [missed[:2] for missed in examined.wrong]
        assert {missed.example for missed in examined.wrong} <= {
            example.number
            for name in recognizer.labels()
            for example in recognizer.snapshot().examples(name)
        }
        assert recognizer.unlearn(stray.number) == {"coffee": 1}
        assert stray.number not in [
            missed.example for missed in recognizer.snapshot().examine().wrong
        ]


def halves(t: int, n: int) -> dict[str, Any]:
    """Statistics of t classes, and the first once more, from other pictures."""
    _, drawn = draw_classes(t, 2 * n, D)
    matrices = {f"thing {number:02}": own[:n] for number, own in enumerate(drawn)}
    matrices["again"] = drawn[0][n:]
    return {label: learn_class(own)[0] for label, own in sorted(matrices.items())}


@pytest.mark.parametrize("n", [3, 10, MAX_VIEWS + 9])
@pytest.mark.parametrize("t", [3, 10])
def test_one_thing_under_two_labels_is_asked_about(t: int, n: int) -> None:
    classes = halves(t, n)
    usual = spread_of_views(classes.values())
    concepts = {label: _as_concepts(known) for label, known in classes.items()}
    assert [pair[:2] for pair in find_similar(concepts, usual)] == [("again", "thing 00")]
    del concepts["again"]
    assert find_similar(concepts, usual) == ()


def test_the_spread_of_views_is_the_usual_distance_from_the_mean() -> None:
    _, drawn = draw_classes(6, 20, D)
    known = [learn_class(own)[0] for own in drawn]
    squares = sum(((own - own.mean(axis=0)) ** 2).sum() for own in drawn)
    expected = math.sqrt(squares / (6 * 19))  # over a length of 1
    assert spread_of_views(known) == pytest.approx(expected, rel=0.01)
    summarized = [learn_class(np.concatenate([own, -own]))[0] for own in drawn]
    assert all(one.summary is not None for one in summarized)
    assert spread_of_views(summarized) == pytest.approx(math.sqrt(40 / 39), rel=0.02)
    assert spread_of_views([learn_class(own[:1])[0] for own in drawn]) == 1.0


def test_a_teacher_is_advised_and_asked_about_the_new_first(tmp_path: Path) -> None:
    _, drawn = draw_classes(6, 12, D)
    with Recognizer(tmp_path / "a.cbcl", "identity") as recognizer:
        assert recognizer.snapshot().worth_asking([], []) == []
        assert recognizer.snapshot().advise() == ((), ())
        recognizer.learn("cup", drawn[0][:6])
        recognizer.learn("mug", drawn[0][6:10])
        recognizer.learn("key", drawn[1][:6])
        recognizer.learn("pen", drawn[2][:1])
        recognizer.learn("owl", drawn[3][:6])
        alike, more = recognizer.snapshot().advise()
        assert [pair[:2] for pair in alike] == [("cup", "mug")]
        assert more[0][:2] == ("pen", 1)
        pool = recognizer.look(np.concatenate([drawn[1][6:9], drawn[4][:5], drawn[5][:1]]))
        order = recognizer.snapshot().worth_asking(pool, recognizer.recognize_many(pool))
        assert sorted(order) == [*range(9)]
        assert order[0] in range(3, 8)  # what many show comes first, then what is new
        assert order[1] == 8
