"""DiscriminantModel: the laws of incremental learning, negatives, and what was taught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.statistics import bits, borders, draw_classes

from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import (
    TAUGHT_CONFIDENCE,
    DiscriminantModel,
    Judgement,
    learn_statistics,
)
from cbcl.method.discriminant.open_set import Cosines
from cbcl.method.discriminant.scoring import BLOCK_ROWS
from cbcl.method.discriminant.statistics import learn_class

D = 128
COSINES = Cosines(0.5, 0.13, 0.07, 0.1, 0.07)
LABELS = ["cup", "fork", "key", "mug", "pen", "saw"]


def draw(n: int, *, seed: int = 0, d: int = D, spread: float = 1.0) -> dict[str, Float32s]:
    draws = draw_classes(len(LABELS), 40, d, seed, spread=spread)[1]
    return {label: own[:n] for label, own in zip(LABELS, draws, strict=True)}


def learn(
    vectors: dict[str, Float32s], before: DiscriminantModel | None = None
) -> DiscriminantModel:
    for label, own in vectors.items():
        before = learn_statistics(before, own, np.array([label] * len(own)))
    assert before is not None
    return before


def queries(seed: int = 0) -> Float32s:
    return np.concatenate([own[30:] for own in draw(40, seed=seed).values()])


def assert_same(these: Judgement, those: Judgement, *, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(these.shares, those.shares, atol=atol)
    np.testing.assert_allclose(these.known, those.known, atol=atol)
    np.testing.assert_array_equal(these.taught, those.taught)


@pytest.mark.parametrize("n", [1, 3, 30])
@pytest.mark.parametrize("d", [5, D])
def test_a_forgotten_class_was_never_learned_and_left_the_others_alone(n: int, d: int) -> None:
    vectors = draw(n, d=d)
    everything = learn(vectors)
    everything.judge(np.concatenate([*vectors.values()]))
    left = everything.without("key")
    never = learn({label: own for label, own in vectors.items() if label != "key"})
    assert left is not None
    assert left.labels == never.labels
    for label in left.labels:
        assert bits(left.statistics[label]) == bits(never.statistics[label])
    asked = np.concatenate([*draw(40, d=d).values()])
    assert_same(left.judge(asked), never.judge(asked))


@pytest.mark.parametrize("n", [1, 3, 30])
def test_another_order_of_classes_and_calls_gives_the_same_answers(n: int) -> None:
    vectors = draw(n)
    at_once = learn_statistics(
        None, np.concatenate([*vectors.values()]), np.repeat(LABELS, [n] * len(LABELS))
    )
    backwards = learn(dict(reversed(vectors.items())))
    halves = learn(
        {label: own[n // 2 :] for label, own in vectors.items()},
        before=learn({label: own[: max(1, n // 2)] for label, own in vectors.items()}),
    )
    assert at_once.labels == backwards.labels == LABELS
    for label in LABELS:
        assert bits(at_once.statistics[label]) == bits(backwards.statistics[label])
        assert bits(at_once.statistics[label]) == bits(halves.statistics[label])
    assert_same(at_once.judge(queries()), backwards.judge(queries()))


@pytest.mark.parametrize("n", [1, 2, 30])
def test_what_was_taught_is_what_it_was_taught_as(n: int) -> None:
    vectors = draw(n, spread=6.0)  # at which classes are hardly told apart
    odd = draw(40, seed=7, spread=6.0)["pen"][-1:]
    knowledge = replace(learn({**vectors, "saw": odd}, before=learn(vectors)), cosines=COSINES)
    taught = np.concatenate([*vectors.values(), odd])
    own = np.append(np.repeat(np.arange(len(LABELS)), n), LABELS.index("saw"))
    judgement = knowledge.judge(taught)
    assert judgement.taught.tolist() == own.tolist()
    assert judgement.shares.argmax(axis=1).tolist() == own.tolist()
    assert (judgement.shares[np.arange(len(own)), own] >= TAUGHT_CONFIDENCE - 1e-12).all()
    assert (judgement.known >= TAUGHT_CONFIDENCE - 1e-12).all()
    np.testing.assert_allclose(judgement.shares.sum(axis=1), 1.0)
    assert (knowledge.judge(queries()).taught == -1).all()


def test_what_was_taught_as_two_things_is_neither_by_teaching() -> None:
    vectors = draw(4)
    knowledge = learn({"fork": vectors["cup"][:1]}, before=learn(vectors))
    assert knowledge.judge(vectors["cup"]).taught.tolist() == [-1, 0, 0, 0]


def with_negatives(knowledge: DiscriminantModel, views: Float32s) -> DiscriminantModel:
    return replace(knowledge, negatives=learn_class(as_directions(views))[0])


@pytest.mark.parametrize("n", [1, 3, 30])
def test_negatives_turn_vectors_like_them_to_unknown_and_touch_nothing_else(n: int) -> None:
    knowledge = replace(learn(draw(n, spread=0.5)), cosines=COSINES)
    strange = draw(40, seed=5, spread=0.5)["cup"]
    against = with_negatives(knowledge, strange[:4])
    before, after = knowledge.judge(strange[4:]), against.judge(strange[4:])
    assert (after.known <= before.known).all()
    assert (after.known < 0.5).all()
    np.testing.assert_array_equal(after.shares, before.shares)
    for label in LABELS:
        assert against.statistics[label] is knowledge.statistics[label]
    asked = np.concatenate([own[30:] for own in draw(40, spread=0.5).values()])
    still, known = against.judge(asked).known > 0.5, knowledge.judge(asked).known > 0.5
    assert still[known].mean() > 0.95
    forgotten = replace(against, negatives=None).judge(strange)
    assert_same(forgotten, knowledge.judge(strange), atol=0.0)


def test_what_is_a_negative_and_was_taught_is_not_taught() -> None:
    vectors = draw(3)
    knowledge = with_negatives(learn(vectors), vectors["cup"][:1])
    judgement = knowledge.judge(vectors["cup"])
    assert judgement.taught.tolist() == [-1, 0, 0]
    assert judgement.known[0] < 0.5


def test_from_the_first_picture_on_others_are_unknown() -> None:
    vectors = draw(4, spread=0.2)
    first = replace(learn({"cup": vectors["cup"][:1]}), cosines=COSINES)
    assert (first.judge(vectors["cup"][1:]).known > 0.5).all()
    assert (first.judge(vectors["saw"]).known < 0.5).all()


def test_many_vectors_are_judged_as_they_are_one_by_one() -> None:
    knowledge = replace(learn(draw(5)), cosines=COSINES)
    few = queries()
    many = np.tile(few, (3 * BLOCK_ROWS // len(few) + 1, 1))
    whole = knowledge.judge(many)
    winners = knowledge.winners(many)
    for row in (0, 7, len(many) - 1):
        one = knowledge.judge(many[row : row + 1])
        np.testing.assert_allclose(one.shares[0], whole.shares[row], atol=1e-5)
        np.testing.assert_allclose(one.known[0], whole.known[row], atol=1e-4)
    np.testing.assert_array_equal(winners, whole.shares.argmax(axis=1))
    np.testing.assert_array_equal(winners, knowledge.decide(many).argmax(axis=1))
    np.testing.assert_allclose(knowledge.probabilities(few).sum(axis=1), 1.0)


@pytest.mark.parametrize("d", [5, D])
def test_no_division_into_calls_changes_a_label(d: int) -> None:
    known = learn(draw(8, d=d))
    some, others = (np.concatenate([*draw(40, seed=0, d=d).values()])[::step] for step in (1, -1))
    vectors = borders(known, some, others)
    wanted = known.winners(vectors)
    for size in (2, 3, 5, 17, 150, 400):
        parts = [known.winners(vectors[at : at + size]) for at in range(0, len(vectors), size)]
        assert np.concatenate(parts).tobytes() == wanted.tobytes()


def test_an_explanation_has_the_likeliest_labels_first() -> None:
    knowledge = learn(draw(5))
    standing = knowledge.explain(queries())
    assert standing.labels.shape == (60, 5)
    assert (np.diff(standing.probabilities, axis=1) <= 0.0).all()
    winners = knowledge.classes[knowledge.winners(queries())]
    np.testing.assert_array_equal(standing.labels[:, 0], winners)
    two = learn({label: own for label, own in draw(5).items() if label in ("cup", "key")})
    assert {*two.explain(queries()).labels[0].tolist()} == {"cup", "key"}


def test_more_of_one_class_makes_no_other_class_unknown() -> None:
    vectors = draw(3, spread=0.5)
    even = learn(vectors)
    uneven = learn({"cup": draw(40, spread=0.5)["cup"]}, before=even)
    asked = np.concatenate([own[30:] for own in draw(40, spread=0.5).values()])
    truth = np.repeat(np.arange(len(LABELS)), 10)
    for knowledge in (even, uneven):
        judgement = knowledge.judge(asked)
        assert (judgement.shares.argmax(axis=1) == truth).mean() > 0.95
        assert (judgement.known > 0.5).mean() > 0.85
