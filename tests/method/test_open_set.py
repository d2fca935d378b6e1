"""Laws of the two hypotheses: what is left out is as if it had not been learned."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
from support.statistics import unlearn

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.open_set import (
    MIN_DEVIATION,
    PRIOR_ODDS,
    USUAL_CLASSES,
    Cosines,
    OpenSet,
    units,
)
from cbcl.method.discriminant.statistics import learn_class

D = 256
CENTRE = np.full(D, 0.3 / np.sqrt(D), dtype=np.float32)
COSINES = Cosines(0.5, 0.13, 0.07, 0.1, 0.07, CENTRE)
STRANGERS = pytest.mark.parametrize("strangers", [*PRIOR_ODDS])


def draw(*counts: int, seed: int = 0, kin: float = 0.1) -> list[Float32s]:
    """Draw views of classes; their cosines are about 0.5 in a class, and `kin` between classes."""
    rng = np.random.default_rng(seed)
    common = np.random.default_rng(99).normal(size=D)

    def look(own: Float64s, n: int) -> Float32s:
        share = np.clip(
            rng.normal(0.5 - kin, 0.12, size=(n, 1)), 0.05, 0.75
        )  # some photos are better
        views = np.sqrt(kin) * common + np.sqrt(share) * own
        views += np.sqrt(1.0 - kin - share) * rng.normal(size=(n, D))
        directions: Float32s = views / np.linalg.norm(views, axis=1, keepdims=True)
        return directions.astype(np.float32)

    return [look(rng.normal(size=D), n) for n in counts]


MADE = Cosines(0.5, 0.11, 0.08, 0.1, 0.06)  # of these views


def know(draws: list[Float32s], cosines: Cosines | None = MADE) -> DiscriminantModel:
    classes = {f"thing {number:03}": learn_class(own)[0] for number, own in enumerate(draws)}
    return DiscriminantModel(classes, cosines=cosines)


def without_signs(known: DiscriminantModel) -> OpenSet:
    return OpenSet.of([*known.statistics.values()], known.chosen, None, known.cosines)


def norms(open_set: OpenSet) -> Float64s:
    """Return what the templates' cosines are multiplied by."""
    lengths: Float64s = np.linalg.norm(open_set.templates.astype(np.float64), axis=1)
    return lengths


def cosines_to(open_set: OpenSet, views: Float32s) -> Float64s:
    products = units(views, open_set.cosines).astype(np.float64) @ open_set.templates.T
    cosines: Float64s = products / norms(open_set)
    return cosines


# The last class has a view less than the first: the scores of its size are in its template.
@pytest.mark.parametrize("counts", [(2, 5, 1), (9, 3, 8), (24, 4, 23), (30, 26, 29), (60, 4, 59)])
def test_a_witness_scores_as_if_its_view_had_not_been_learned(counts: tuple[int, ...]) -> None:
    known = replace(know(draw(*counts)), cosines=COSINES)
    whole, row = without_signs(known), 0
    kept = known.statistics["thing 000"]
    for number in range(kept.n - len(kept.views), kept.n):
        less = unlearn(kept, number)
        without = without_signs(replace(known, statistics={**known.statistics, "thing 000": less}))
        view = kept.directions[[number - kept.n + len(kept.views)]]
        wanted = (cosines_to(without, view) * norms(whole)[[-1, 1, 2]])[0]
        np.testing.assert_allclose(whole.scores[row], wanted, atol=1e-5)
        row += 1
    assert whole.chosen[:row].tolist() == [0] * row


@pytest.mark.parametrize("counts", [(1, 1), (2, 5, 9), (24, 3, 12, 1), (30, 26, 60, 4)])
def test_a_stranger_scores_as_if_its_class_had_not_been_learned(counts: tuple[int, ...]) -> None:
    known = replace(know(draw(*counts)), cosines=COSINES)
    whole = without_signs(known)
    for number, (label, own) in enumerate(known.statistics.items()):
        others = known.without(label)
        assert others is not None
        found = cosines_to(without_signs(others), own.directions)
        wanted = (found * np.delete(norms(whole), number)).max(axis=1)
        np.testing.assert_allclose(whole.stranger_scores[whole.chosen == number], wanted, atol=1e-5)


def test_of_one_photo_the_hypotheses_are_those_of_the_backbone() -> None:
    open_set = replace(know(draw(1)), cosines=COSINES).open_set
    hypotheses = open_set.hypotheses
    assert hypotheses is not None
    assert hypotheses.known == COSINES.same
    assert hypotheses.deviations.tolist() == pytest.approx([COSINES.deviation])
    assert hypotheses.one_view == pytest.approx(COSINES.deviation)
    assert hypotheses.stranger == COSINES.other
    assert hypotheses.stranger_deviation == max(COSINES.other_deviation, MIN_DEVIATION)
    assert open_set.signs is None


def test_the_prior_is_that_of_the_setting_and_grows_with_the_classes() -> None:
    few, many = (know(draw(*[1] * t)).open_set for t in (1, 24))
    for open_set, t in ((few, 1), (many, 24)):
        priors = [open_set.log_prior(strangers) for strangers in PRIOR_ODDS]
        assert priors == sorted(priors)
        assert priors[1] == pytest.approx(log(2.0 * (1.0 + t / USUAL_CLASSES)))
    assert all(few.log_prior(one) < many.log_prior(one) for one in PRIOR_ODDS)
    views = draw(5, seed=1)[0]
    often, sometimes, rarely = (know(draw(3, 3)).judge(views, one).known for one in PRIOR_ODDS)
    assert (often < sometimes).all()
    assert (sometimes < rarely).all()


def test_near_copies_move_no_template_and_more_views_none_of_another_class() -> None:
    drawn = draw(9, 4)
    frames = drawn[0][:1] + np.random.default_rng(0).normal(scale=0.004, size=(40, D))
    own = learn_class(drawn[0][:4])[0]
    copied = learn_class(frames.astype(np.float32), own, 0.92)[0]
    other = learn_class(drawn[1])[0]
    first, second, third = (
        DiscriminantModel({"cup": cup, "key": other}, cosines=COSINES).open_set
        for cup in (own, copied, learn_class(drawn[0])[0])
    )
    np.testing.assert_array_equal(first.templates, second.templates)
    before, after = (one.templates[1] / norms(one)[1] for one in (first, third))
    np.testing.assert_allclose(before, after, atol=1e-7)
    assert norms(third)[1] == pytest.approx(norms(first)[1], rel=0.1)  # by the mean of all cosines


@pytest.mark.parametrize("cosines", [MADE, None])
@pytest.mark.parametrize("counts", [(3, 20, 20), (3, 3, 3, 20), (3, 60, 20, 8, 5), (5, 5, 5)])
def test_unequal_counts_keep_strangers_unknown_and_things_known(
    counts: tuple[int, ...], cosines: Cosines | None
) -> None:
    right, found = [], []
    for seed in range(5):
        drawn = draw(*[n + 10 for n in counts], *[10] * 10, seed=seed, kin=0.2)
        pairs = [*zip(drawn, counts, strict=False)]
        known = know([own[:n] for own, n in pairs], cosines)
        right.append([(known.judge(own[n:]).known > 0.5).mean() for own, n in pairs])
        found.append((known.judge(np.concatenate(drawn[len(counts) :])).known < 0.5).mean())
    assert np.mean(right, axis=0).min() > 0.85  # of each class
    assert np.mean(found) > 0.95


@STRANGERS
@pytest.mark.parametrize(
    ("t", "n", "error"), [(1, 1, 0.03), (1, 5, 0.03), (3, 5, 0.03), (12, 5, 0.03), (12, 1, 0.05)]
)
def test_confidences_are_true_where_scores_are_drawn_from_the_model(
    t: int, n: int, error: float, strangers: str
) -> None:
    """Of one photo each of many things the deviations differ, for which lines are less exact."""
    open_set = know(draw(*[n] * t)).open_set
    hypotheses = open_set.hypotheses
    assert hypotheses is not None
    rng, q = np.random.default_rng(0), 50_000
    odds = np.exp(open_set.log_prior(strangers))
    is_known = rng.random(q) < odds / (1.0 + odds)
    own = rng.integers(0, t, q)
    scores = np.full((q, t), -9.0)
    scores[np.arange(q), own] = np.where(
        is_known,
        rng.normal(hypotheses.known, hypotheses.deviations[own]),
        rng.normal(hypotheses.stranger, hypotheses.stranger_deviation, q),
    )
    told = 1.0 / (1.0 + np.exp(-open_set.log_odds(scores, strangers)))
    assert told.mean() == pytest.approx(is_known.mean(), abs=error)


def test_measurements_are_unknown_only_once_their_spread_is_known() -> None:
    rng = np.random.default_rng(0)
    draws = [rng.normal(3.0 * at, 1.0, size=(20, 5)).astype(np.float32) for at in range(3)]
    far = np.full((4, 5), 60.0)
    for some in (draws[:1], draws):
        one, ten = (know([own[:n] for own in some], None) for n in (1, 10))
        assert one.open_set.hypotheses is None
        assert (one.judge(far).known == 1.0).all()
        assert (ten.judge(far).known < 0.5).all()
        asked = np.concatenate([own[10:] for own in some])
        assert (ten.judge(asked).known > 0.5).mean() > 0.9
