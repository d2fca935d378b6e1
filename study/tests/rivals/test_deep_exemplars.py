"""Exemplars: herding, and how many each class has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.picture_streams import SMALL, picture_stream, shorten

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.bic import BiC  # noqa: E402
from cbcl_study.rivals.deep.eeil import EEIL  # noqa: E402
from cbcl_study.rivals.deep.exemplars import floor_share, herd, join, with_exemplars  # noqa: E402
from cbcl_study.rivals.deep.icarl import ICaRL  # noqa: E402

torch.set_num_threads(1)

METHODS: list[Any] = [ICaRL, EEIL, BiC]


def unit_rows(n: int, seed: int) -> Any:
    rows = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows + 0.5)


def herd_by_trying(features: Any, count: int) -> list[int]:
    """Algorithm 4 to the letter, in float64: try each picture that is left."""
    features = features.double().numpy()
    mean, chosen = features.mean(axis=0), list[int]()
    for k in range(1, count + 1):
        gaps = {
            row: np.linalg.norm(mean - features[[*chosen, row]].sum(axis=0) / k)
            for row in range(len(features))
            if row not in chosen
        }
        chosen.append(min(gaps, key=lambda row: gaps[row]))
    return chosen


def shown(make: Any, **options: Any) -> tuple[Any, list[list[Any]]]:
    """A learner after three increments, and its exemplars after each."""
    learner, kept = shorten(make(**options, **SMALL), epochs=1, batch=64), []
    for x, y in picture_stream():
        learner.partial_fit(x, y)
        kept.append([pictures.clone() for pictures in learner.exemplars])
    return learner, kept


@pytest.mark.parametrize("seed", range(5))
def test_herding_brings_the_mean_of_the_first_nearest_to_the_mean_of_all(seed: int) -> None:
    features = unit_rows(30, seed)
    assert herd(features, 12).tolist() == herd_by_trying(features, 12)


def test_fewer_exemplars_are_the_first_of_more() -> None:
    features = unit_rows(20, 0)
    assert herd(features, 4).tolist() == herd(features, 15)[:4].tolist()


def test_no_picture_is_chosen_twice() -> None:
    same = torch.nn.functional.normalize(torch.ones(6, 3))
    assert sorted(herd(same, 100).tolist()) == list(range(6))


def test_exemplars_are_joined_with_their_classes() -> None:
    sets = [torch.full((count, 2, 2, 3), count, dtype=torch.uint8) for count in (2, 1)]
    pictures, numbers = join(sets)
    assert pictures[:, 0, 0, 0].tolist() == [2, 2, 1]
    assert numbers.tolist() == [0, 0, 1]
    more, of_more = with_exemplars(torch.zeros(1, 2, 2, 3), torch.tensor([5]), sets)
    assert more[:, 0, 0, 0].tolist() == [0, 2, 2, 1]
    assert of_more.tolist() == [5, 0, 0, 1]


def test_a_budget_below_one_a_class_is_refused() -> None:
    assert floor_share(2_000, 30) == 66
    with pytest.raises(ValueError, match="budget=2 cannot hold 3 classes"):
        floor_share(2, 3)


def test_the_default_budget_is_the_papers() -> None:
    assert [make(**SMALL).budget for make in METHODS] == [2_000] * 3


@pytest.mark.parametrize(
    ("make", "counts"),
    [(ICaRL, [4, 2, 2]), (EEIL, [3, 1, 1]), (BiC, [3, 1, 1])],  # of a budget of 7: ceil, floor
)
def test_the_budget_is_shared_among_the_classes_seen_so_far(make: Any, counts: list[int]) -> None:
    _, kept = shown(make, budget=7)
    assert [{*map(len, pictures)} for pictures in kept] == [{count} for count in counts]
    assert [*map(len, kept)] == [2, 4, 6]


@pytest.mark.parametrize("make", METHODS)
def test_old_exemplars_are_shortened_from_the_end(make: Any) -> None:
    learner, (first, second, third) = shown(make, budget=12)
    for pictures in learner.exemplars:  # and what was cut off is not in memory, nor in checkpoints
        assert pictures.untyped_storage().nbytes() == pictures.nbytes
    for before, after in [(first, second), (second, third)]:
        for was, is_now in zip(before, after, strict=False):
            assert len(is_now) < len(was)
            assert torch.equal(is_now, was[: len(is_now)])


@pytest.mark.parametrize("make", METHODS)
def test_exemplars_are_herded_by_the_new_networks_features_of_whole_pictures(make: Any) -> None:
    learner, (*_, last) = shown(make, budget=24)
    x, y = picture_stream()[-1]
    for number in (4, 5):
        of_class = x[y == learner.classes[number]]
        centred = torch.tensor(of_class).float() / 255.0 - learner.mean
        with torch.no_grad():
            features = learner.network.features(centred.permute(0, 3, 1, 2))
        rows = herd_by_trying(torch.nn.functional.normalize(features), 4)
        np.testing.assert_array_equal(last[number].numpy(), of_class[rows])
