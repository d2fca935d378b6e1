"""Answers by the vote: ranking and evidence of one search are those of the vote by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.heads import answers

from cbcl.method.arrays import Float32s
from cbcl.method.blocks import BLOCK_ROWS
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Scale
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.centroids.search import Search, Voters

SCALE = Scale(0.4, 0.9)


def draw(t: int, n_voters: int, *, lattice: bool) -> tuple[CentroidModel, Float32s]:
    """Classes of up to five centroids, and vectors; on a lattice, most coincide with several."""
    rng = np.random.default_rng(t + n_voters)

    def rows(n: int) -> Float32s:
        x = rng.integers(0, 2, (n, 4)) if lattice else rng.normal(size=(n, 4))
        return x.astype(np.float32)

    concepts = {}
    for number in range(t):
        m = int(rng.integers(1, 6))
        concepts[f"label {number:03}"] = Concepts(rows(m), rng.integers(1, 9, m))
    return CentroidModel(concepts, math.inf, n_voters), rows(20)


@pytest.mark.parametrize("lattice", [False, True], ids=["real", "coincident"])
@pytest.mark.parametrize("n_voters", [1, 3, 70])
@pytest.mark.parametrize("t", [1, 2, 20, 150])
def test_ranking_and_evidence_are_those_of_the_vote(t: int, n_voters: int, lattice: bool) -> None:
    knowledge, x = draw(t, n_voters, lattice=lattice)
    evidence, votes = knowledge.explain(x), knowledge.votes(x)
    for row, answer in enumerate(answers(x, knowledge, SCALE)):
        assert [reason.label for reason in answer.evidence] == evidence.labels[row].tolist()
        assert [reason.distance for reason in answer.evidence] == evidence.distances[row].tolist()
        assert [reason.weight for reason in answer.evidence] == evidence.weights[row].tolist()
        for reason, centroid in zip(answer.evidence, evidence.centroids[row], strict=True):
            concepts = knowledge.concepts[reason.label]
            assert reason.pictures == concepts.counts[reason.place]
            np.testing.assert_array_equal(
                concepts.centroids[reason.place], knowledge.index.centroids[centroid]
            )
        ranked = [votes[row, knowledge.labels.index(guess.label)] for guess in answer.ranking]
        assert ranked == sorted(ranked, reverse=True)
        assert answer.ranking[0].label == knowledge.labels[votes[row].argmax()]


@pytest.mark.parametrize("n_voters", [1, 3, 64, 70])
@pytest.mark.parametrize("crowd", [63, 64, 65, 100])
def test_of_very_many_centroids_at_one_place_the_smallest_class_wins(
    crowd: int, n_voters: int
) -> None:
    """It may not be among the nearest that are ranked, where it comes after them all."""
    here = np.ones((crowd, 4), dtype=np.float32)
    concepts = {
        "crowd": Concepts(here, np.ones(crowd, dtype=np.int64)),
        "far": Concepts(here[:1] + 1, np.array([1])),
        "single": Concepts(here[:1], np.array([2])),
    }
    knowledge = CentroidModel(concepts, 0.0, n_voters)
    (answer,) = answers(here[:1], knowledge, SCALE)
    assert knowledge.labels[knowledge.votes(here[:1])[0].argmax()] == "single"
    assert [guess.label for guess in answer.ranking][:2] == ["single", "crowd"]
    assert (answer.label, answer.ranking[0].distance) == ("single", 0.0)


def test_an_answer_takes_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search_nearest = Search.nearest

    def count(self: Search, block: Float32s) -> Voters:
        searched.append(len(block))
        return search_nearest(self, block)

    monkeypatch.setattr(Search, "nearest", count)
    for lattice in (False, True):
        knowledge, x = draw(30, 5, lattice=lattice)
        answers(x[:1], knowledge, SCALE)
    assert searched == [1, 1]


def test_neither_batch_nor_threads_change_an_answer() -> None:
    knowledge, x = draw(40, 3, lattice=True)
    many = np.tile(x, (2 * BLOCK_ROWS // len(x) + 1, 1))
    one_by_one = [answers(row[np.newaxis], knowledge, SCALE)[0] for row in x]
    assert answers(many, knowledge, SCALE) == one_by_one * (len(many) // len(x))
