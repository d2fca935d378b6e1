"""Shared work: records are the same, byte for byte, with it and without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbcl.method.arrays import Float32s, Int64s, Matrix
from cbcl.method.centroids.budget import ShrinkFunction, merge
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.tuning import ClassRows, widen_radius
from cbcl_study import runs as module
from cbcl_study.ablations import remove
from cbcl_study.data.vectors import Features, features
from cbcl_study.experiments import runs
from cbcl_study.hybrid import Hybrid
from cbcl_study.learners import learner_kind
from cbcl_study.records import Run
from cbcl_study.runs import execute, perform
from cbcl_study.sharing import SharedWork, grouped
from cbcl_study.vote_cache import VoteCache

FAMILY = ("cbcl", "remove-centroids", "merge-evenly")


@pytest.fixture(scope="module")
def digits() -> Features:
    return features("digits", "identity")


def as_bytes(record: dict[str, Any]) -> bytes:
    return json.dumps({**record, "seconds": None}, sort_keys=True).encode()


def family(seed: int = 0) -> list[Run]:
    budgets = (40, 90, 200, 5000)
    return [
        run
        for limit in budgets
        for run in runs("digits", "identity", FAMILY, seed=seed, increment=2, max_centroids=limit)
    ]


def cumulative(learner: str = "flb") -> list[Run]:
    protocols: list[dict[str, Any]] = [{"increment": 1, "base": 2}, {"increment": 2}]
    protocols.append({"increment": 5})
    return [
        run
        for protocol in protocols
        for run in runs("digits", "identity", (learner,), seed=1, shots=5, **protocol)
    ]


def few_shot() -> list[Run]:
    protocols: list[dict[str, Any]] = [{"increment": 2}, {"increment": 1, "base": 3}]
    protocols.append({"increment": 5})
    return [
        run
        for protocol in protocols
        for run in runs(
            "digits", "identity", ("cbcl", "ncm"), seed=3, shots=5, max_centroids=30, **protocol
        )
    ]


def clustered() -> list[Run]:
    learners = ("trad-agg", "cbcl", "k-means")
    return [*runs("digits", "identity", learners, seed=2, increment=5, max_centroids=90)]


@pytest.mark.parametrize(
    "group", [family(), clustered(), few_shot(), cumulative(), cumulative("ncm")]
)
def test_records_are_the_same_bytes_with_shared_work_and_without(
    group: list[Run], digits: Features
) -> None:
    shared = SharedWork()
    for run in group:
        together = perform(run, digits, shared=shared)
        assert as_bytes(together) == as_bytes(perform(run, digits))
        assert 0.0 <= together["seconds"]["learning"] <= together["seconds"]["all"]


class Uncached(VoteCache):
    """A search of everything, each time."""

    def winners(self, knowledge: CentroidModel, q: int) -> Int64s:
        return knowledge.winners(self.queries.vectors[:q])


@pytest.mark.parametrize("learner", [*FAMILY, "k-means", "ncm", "knn", "voters-3", "radius-0"])
def test_records_are_the_same_bytes_with_the_cached_vote_and_without(
    learner: str, digits: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 90 if learner_kind(learner).budgeted else None
    run = Run("digits", "identity", learner, limit, 1, 2, None, 10, 0)
    cached = perform(run, digits)
    monkeypatch.setattr(module, "VoteCache", Uncached)
    assert as_bytes(perform(run, digits)) == as_bytes(cached)


def test_what_runs_have_in_common_is_learned_and_tested_once(
    digits: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Counted(VoteCache):
        def winners(self, knowledge: CentroidModel, q: int) -> Int64s:
            asked.append(q)
            return super().winners(knowledge, q)

    monkeypatch.setattr(module, "VoteCache", Counted)
    shared = SharedWork()
    first, *others = [run for run in family() if run.max_centroids == 5000]
    alone = perform(first, digits, shared=shared)
    assert len(asked) == 5
    assert shared.saved == 0.0
    for run in others:  # nothing is shrunk, and they differ in that only
        assert perform(run, digits, shared=shared)["right"] == alone["right"]
    assert len(asked) == 5
    assert shared.saved > 0.0


def test_one_centroid_a_class_is_tested_once_for_so_many_classes(
    digits: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Counted(VoteCache):
        def winners(self, knowledge: CentroidModel, q: int) -> Int64s:
            asked.append(len(knowledge.concepts))
            return super().winners(knowledge, q)

    monkeypatch.setattr(module, "VoteCache", Counted)
    shared = SharedWork()
    for run in few_shot():
        record = perform(run, digits, shared=shared)
        assert {tuple(tuning) for tuning in record["tunings"]} == {(None, 1)}
    assert sorted(asked) == [*range(2, 11)]


def test_new_classes_are_clustered_and_radii_widened_once_for_a_budget(digits: Features) -> None:
    widened: list[int] = []

    def widen(matrix: Matrix, classes: Sequence[ClassRows], radius: float, limit: int) -> float:
        widened.append(limit)
        return widen_radius(matrix, classes, radius, limit)

    def make(seed: int, limit: int | None, shrink: ShrinkFunction) -> Hybrid:
        return Hybrid(seed=seed, max_centroids=limit, widen=widen, shrink=shrink)

    shared, run = SharedWork(), family()[0]
    alone = perform(run, digits, partial(make, shrink=merge), shared=shared)
    n_widened, saved = len(widened), shared.saved
    assert n_widened > 1
    assert saved == 0.0
    other = perform(run, digits, partial(make, shrink=remove), shared=shared)
    assert len(widened) == n_widened
    assert shared.saved > 0.0
    assert other["right"] != alone["right"]
    assert as_bytes(other) == as_bytes(perform(run, digits, partial(make, shrink=remove)))


def test_a_learner_that_is_retrained_is_trained_once_for_so_many_classes(
    digits: Features,
) -> None:
    trained: list[int] = []
    kind = learner_kind("flb")

    def make(seed: int, limit: int | None) -> Any:
        learner: Any = kind.make(seed, limit)
        train = learner.train

        def counted(vectors: Float32s, numbers: Int64s, t: int) -> Any:
            trained.append(t)
            return train(vectors, numbers, t)

        learner.train = counted
        return learner

    shared = SharedWork()
    for run in cumulative():
        perform(run, digits, make=make, shared=shared)
    assert sorted(trained) == [*range(2, 11)]


def test_groups_have_work_in_common_and_every_run_is_in_one() -> None:
    asked = [
        *family(),
        *family(seed=1),
        *cumulative(),
        *few_shot(),
        *cumulative("ncm"),
        *runs("digits", "identity", ("ncm", "k-means"), seed=0, increment=2, max_centroids=40),
    ]
    groups = grouped(asked)
    assert sorted((run for group in groups for run in group), key=str) == sorted(asked, key=str)
    assert sorted(map(len, groups)) == [1, 3, 3, 6, 12, 13]
    without_budget = [*runs("digits", "identity", FAMILY, seed=0, increment=2)]
    assert len(grouped(without_budget)) == len(without_budget)


def test_groups_come_order_by_order_those_with_most_work_first() -> None:
    asked = [
        *runs("digits", "identity", ("ncm",), seed=1, increment=2),
        *family(seed=1),
        *cumulative("ncm"),
        *family(),
    ]
    groups = grouped(asked)
    assert [group[0].seed for group in groups] == [1, 1, 1, 0]  # as they are given
    assert [len(group) for group in groups] == [12, 1, 3, 12]


def test_runs_that_are_executed_together_have_the_records_of_runs_alone(
    tmp_path: Path, digits: Features
) -> None:
    asked = [run for run in family() if run.max_centroids in (90, 200)]
    records, failures = execute(asked, tmp_path, workers=1, progress=lambda _done, _all: None)
    assert not failures
    for run, record in zip(asked, records, strict=True):
        alone = perform(run, digits)
        assert {name: record[name] for name in alone if name != "seconds"} == {
            name: value for name, value in alone.items() if name != "seconds"
        }


def test_a_learner_of_ones_own_is_asked_itself(digits: Features) -> None:
    class Stubborn(Hybrid):
        def predict(self, X: Any) -> Any:
            return np.full(len(X), "0")

    run = Run("digits", "identity", "cbcl", None, 5, None, 5, 10, 0)
    record = perform(run, digits, make=lambda seed, limit: Stubborn(seed=seed, max_centroids=limit))
    assert sum(map(bool, record["right"][-1])) == 1
