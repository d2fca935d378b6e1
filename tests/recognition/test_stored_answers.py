"""Memories written by earlier versions, and their answers: those of votes the same, bit for bit.

Commit 06c6c4f (version 0.1.0) wrote those of votes, commit 43eac23 (format 5) that of views.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbcl import Answer, Recognizer, load_backbone

STORED = Path(__file__).parent / "stored"
VECTORS = load_backbone(
    lambda vectors: [np.asarray(v, np.float32) for v in vectors], name="vectors"
)


@pytest.fixture(params=["plain", "voters", "budget"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    path = tmp_path / "copy.cbcl"
    shutil.copy(STORED / f"{request.param}.cbcl", path)
    return path, json.loads((STORED / f"{request.param}.json").read_text())


def decisions(answer: Answer) -> list[object]:
    """All that is computed by +, -, *, / and square roots, which are the same on every machine."""
    voters = [
        [reason.label, reason.distance.hex(), reason.weight.hex(), reason.pictures, reason.place]
        for reason in answer.evidence
    ]
    ranking = [[guess.label, guess.distance.hex()] for guess in answer.ranking]
    return [answer.label, ranking, voters, [share.hex() for share in answer.shares]]


def test_a_stored_memory_answers_as_it_did(stored: tuple[Path, dict[str, Any]]) -> None:
    path, then = stored
    queries = [np.array([float.fromhex(number) for number in row]) for row in then["queries"]]
    with Recognizer(path, VECTORS) as recognizer:
        answers = recognizer.recognize_many(queries)
        assert recognizer.labels() == then["labels"]
        assert recognizer.snapshot().examine().matrix.tolist() == then["examine"]
    for answer, old in zip(answers, then["answers"], strict=True):
        ranking = [[label, distance] for label, _, distance in old["ranking"]]
        assert decisions(answer) == [old["label"], ranking, old["evidence"], old["shares"]]
        # Powers of e differ in the last bit between processors.
        confidences = [answer.confidence, *(guess.confidence for guess in answer.ranking)]
        theirs = [old["confidence"], *(confidence for _, confidence, _ in old["ranking"])]
        assert confidences == pytest.approx([float.fromhex(one) for one in theirs], rel=1e-13)
        assert answer.strangeness == pytest.approx(float.fromhex(old["strangeness"]), rel=1e-13)


def test_a_stored_memory_of_views_answers_as_it_did(tmp_path: Path) -> None:
    path = tmp_path / "copy.cbcl"
    shutil.copy(STORED / "views.cbcl", path)
    then = json.loads((STORED / "views.json").read_text())
    queries = [np.array([float.fromhex(number) for number in row]) for row in then["queries"]]
    with Recognizer(path, VECTORS) as recognizer:
        answers = recognizer.recognize_many(queries)
        assert recognizer.check() == []
        assert recognizer.labels() == then["labels"]
        assert recognizer.snapshot().examine().matrix.tolist() == then["examine"]
    for answer, old in zip(answers, then["answers"], strict=True):
        assert answer.label == old["label"]
        labels = [reason.label for reason in answer.evidence]
        assert labels == [label for label, *_ in old["evidence"]]
        assert [guess.label for guess in answer.ranking] == [label for label, *_ in old["ranking"]]
        # Sums of products differ in the last bits between processors.
        numbers = [answer.confidence, answer.strangeness, *answer.shares]
        for guess in answer.ranking:
            numbers += [guess.confidence, guess.distance]
        for reason in answer.evidence:
            numbers += [reason.distance, reason.weight, reason.pictures, reason.place]
        before = [old["confidence"], old["strangeness"], *old["shares"]]
        for _, *rest in [*old["ranking"], *old["evidence"]]:
            before += rest
        np.testing.assert_allclose(numbers, before, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "examples"),
    [
        ("plain", {}, 12),
        ("voters", {"radius": 9.0, "n_voters": 5}, 12),
        ("budget", {"max_centroids": 30}, 40),
    ],
)
def test_learning_the_same_gives_the_same_concepts(
    tmp_path: Path, name: str, options: dict[str, Any], examples: int
) -> None:
    shutil.copy(STORED / f"{name}.cbcl", tmp_path / "old.cbcl")
    rng = np.random.default_rng(7)
    means = rng.normal(size=(9, 32)) * 2
    with Recognizer(tmp_path / "new.cbcl", VECTORS, head="vote", **options) as recognizer:
        for number, mean in enumerate(means):
            vectors = (mean + rng.normal(size=(examples, 32))).astype(np.float32)
            recognizer.learn(f"thing {number}", vectors)
        recognizer.forget("thing 3")
        recognizer.rename("thing 4", "renamed")
        recognizer.merge("thing 5", "thing 6")
        learned = recognizer.snapshot().concepts()
    with Recognizer(tmp_path / "old.cbcl", VECTORS) as recognizer:
        old = recognizer.snapshot().concepts()
    assert [*learned] == [*old]
    for label, concepts in learned.items():
        np.testing.assert_array_equal(concepts.centroids, old[label].centroids)
        np.testing.assert_array_equal(concepts.counts, old[label].counts)
