"""Examples that may be why an answer was wrong, and the answer without each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cbcl.errors import LabelError
from cbcl.memory.rows import NEGATIVES
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.discriminant.statistics import ClassStatistics, unlearn_view
from cbcl.recognition.answer import Answer, Example, judged_answers
from cbcl.recognition.snapshot import Snapshot

MAX_SUSPECTS = 3  # each of which takes as long as learning a picture


class Suspect(NamedTuple):
    """An example that speaks for an answer, and the answer had it not been learned."""

    example: Example
    answer: Answer | None  # None: nothing else is known


def find_suspects(snapshot: Snapshot, vector: Float32s) -> list[Suspect]:
    """Return the examples that speak most for the answer about a vector, the most decisive first.

    They are the nearest of those kept of the label that was answered; where that was "unknown", of
    those taught as none of the known things. A memory that keeps no pictures has none.
    """
    knowledge = snapshot.knowledge
    if not isinstance(knowledge, DiscriminantModel):
        problem = "learns by the vote, which cannot tell what it would say without an example"
        raise LabelError("this memory", problem, "upgrade it with `cbcl upgrade`")
    matrix = vector[np.newaxis]
    (answer,) = judged_answers(matrix, knowledge)
    label = NEGATIVES if answer.label is None else answer.label
    known = knowledge.negatives if answer.label is None else knowledge.statistics[answer.label]
    if known is None:
        return []
    suspects = []
    for example in _nearest(snapshot, label, known, as_directions(matrix)[0]):
        rest = _without(knowledge, label, unlearn_view(known, example.concept))
        without = None if rest is None else judged_answers(matrix, rest)[0]
        suspects.append(Suspect(example, without))
    return sorted(suspects, key=lambda suspect: _support(suspect.answer, answer.label))


def _nearest(
    snapshot: Snapshot, label: str, known: ClassStatistics, direction: Float32s
) -> list[Example]:
    """Return the examples whose views are kept, the nearest first."""
    first = known.n - len(known.views)
    numbers = {
        place: number
        for number, place in snapshot.memory.example_numbers(snapshot.view, label)
        if place >= first
    }
    distances = np.linalg.norm(known.directions.astype(np.float64) - direction, axis=1)
    places = [first + row for row in np.argsort(distances, kind="stable").tolist()]
    shown = [place for place in places if place in numbers][:MAX_SUSPECTS]
    return [Example(numbers[place], place, snapshot.memory) for place in shown]


def _without(
    knowledge: DiscriminantModel, label: str, rest: ClassStatistics | None
) -> DiscriminantModel | None:
    if label == NEGATIVES:
        return replace(knowledge, negatives=rest)
    if rest is None:
        return knowledge.without(label)
    return replace(knowledge, statistics={**knowledge.statistics, label: rest})


def _support(answer: Answer | None, label: str | None) -> float:
    """Return the confidence that an answer leaves to a label, or to "unknown"."""
    if answer is None:
        return 0.0
    if label is None:
        return 1.0 - sum(guess.confidence for guess in answer.ranking)
    return sum(guess.confidence for guess in answer.ranking if guess.label == label)
