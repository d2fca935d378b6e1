"""Answers about pictures: a label or "unknown", the confidence, other guesses, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from cbcl.memory.store import Memory
from cbcl.method.model import Ground, Guess, Verdict


@dataclass(frozen=True)
class Example:
    """A picture that was learned, as far as the memory keeps it."""

    number: int  # permanent
    place: int  # number of its view among those of its label; by the vote, of its centroid
    memory: Memory = field(repr=False, compare=False)

    @property
    def jpeg(self) -> bytes:
        """Thumbnail, read from the file; a LabelError if the example was forgotten meanwhile."""
        return self.memory.example(self.number)[1].jpeg


class Reason(NamedTuple):
    """One of the views nearest to the picture, or, by the vote, one of the centroids that voted."""

    label: str
    distance: float
    weight: float  # its part in its label's confidence, or its vote
    pictures: int  # that were learned into it
    examples: tuple[Example, ...]  # those nearest to it; none where the memory is private
    place: int  # its number among those of its label


class Answer(NamedTuple):
    """The answer about one picture.

    `label` is None for "unknown": more probable than any label, which is when `strangeness` is
    above 1; by the vote, too far from everything that was learned. `confidence` is that in the
    answer, be it a label or "unknown". The confidences in the ranking leave room for "none of
    these", so they need not add up to 1.

    Examples
    --------
    >>> guess = Guess("cup", confidence=0.97, distance=6.1)
    >>> answer = Answer("cup", 0.97, ranking=(guess,), evidence=(), strangeness=0.5)
    >>> answer.label, answer.ranking[0].distance
    ('cup', 6.1)
    >>> answer
    <Answer: cup, 97% sure>

    """

    label: str | None
    confidence: float
    ranking: tuple[Guess, ...]  # the likeliest first
    evidence: tuple[Reason, ...]  # the nearest first
    strangeness: float
    picture: str = ""  # its name, if it has one
    taught: str | None = None  # label that it, or nearly the same one, was taught as; "": none

    def __repr__(self) -> str:
        others = [
            f"{guess.label} {guess.confidence:.0%}"
            for guess in self.ranking
            if guess.label != self.label
        ]
        parts = [
            f"{self.label or 'unknown'}, {self.confidence:.0%} sure",
            *([f"else {', '.join(others)}"] if others else []),
            *([f"of {self.picture}"] if self.picture else []),
        ]
        return f"<Answer: {'; '.join(parts)}>"

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each reason's weight in all weights, from 0 to 1, in the order of evidence."""
        heaviest = max((reason.weight for reason in self.evidence), default=1.0)
        parts = [reason.weight / heaviest for reason in self.evidence]  # so that the sum is finite
        total = reduce(add, parts, 0.0)  # not sum(), which rounds otherwise since Python 3.12
        return tuple(part / total for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """Return photo, label (None: unknown), confidence, strangeness and ranking, for JSON."""
        ranking = [
            {
                "label": guess.label,
                "confidence": _round(guess.confidence),
                "distance": _round(guess.distance),
            }
            for guess in self.ranking
        ]
        return {
            "photo": self.picture,
            "label": self.label,
            "confidence": _round(self.confidence),
            "strangeness": _round(self.strangeness),
            "ranking": ranking,
        }


def as_answer(
    verdict: Verdict,
    examples: Mapping[tuple[str, int], Sequence[int]],
    memory: Memory,
    farthest_copy: float,
) -> Answer:
    """Return a verdict with the examples of its grounds, by label and place.

    A view no farther than `farthest_copy` is a near-copy of the picture.
    """
    evidence = tuple(_as_reason(ground, examples, memory) for ground in verdict.grounds)
    taught = verdict.taught
    if taught is None:
        near = (ground.label for ground in verdict.grounds if ground.distance <= farthest_copy)
        taught = next(near, None)
    return Answer(
        verdict.label,
        verdict.confidence,
        verdict.ranking,
        evidence,
        verdict.strangeness,
        taught=taught,
    )


def _as_reason(
    ground: Ground, examples: Mapping[tuple[str, int], Sequence[int]], memory: Memory
) -> Reason:
    numbers = examples.get((ground.label, ground.place), ())
    shown = tuple(Example(number, ground.place, memory) for number in numbers)
    return Reason(
        ground.label, ground.distance, ground.weight, ground.pictures, shown, ground.place
    )


def _round(number: float) -> float:
    return float(f"{number:.6g}")
