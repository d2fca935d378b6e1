"""What a person should be asked: whether two labels are the same, for more of one, and which photos first.

t labels, n pictures. Distances are relative, as in `cbcl.method.confidence`. How the constants were found, and what the
questions are worth: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.concepts import Concepts
from cbcl.method.confidence import Scale
from cbcl.method.distances import norms_squared
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import Index, nearest
from cbcl.recognition.answer import Answer
from cbcl.recognition.self_test import SelfTestResult

CLOSE = 0.6  # closeness from which two labels may be the same
DOUBT = 0.2  # how far chance alone may have moved two means, in units of what it does on average
ENOUGH = 3  # distances, to say what is usual
SPREAD = 0.5  # the usual distance within a label, as long as there are less
APART = 0.3  # the usual squared distance between two labels, as long as there are no others to compare with
LEAST_APART = 0.05  # what labels are compared with at least, should all look the same
MAX_SPREAD = 0.9  # nothing is believed to be spread wider
NEIGHBOURS = 16  # of a label that are looked at
MAX_ALIKE = 5  # pairs
MAX_WANTED = 3  # labels
FEW = 3  # examples: with less, more are worth more than anything else
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class SimilarLabels(NamedTuple):
    """Two labels that may be the same."""

    label: str
    other: str
    closeness: float  # 1: the same; 0: as far apart as labels are


class ExamplesWanted(NamedTuple):
    """A label of which more examples would help."""

    label: str
    examples: int  # that there are
    reason: str


class Suggestions(NamedTuple):
    """What to ask a person, the most pressing first."""

    alike: tuple[SimilarLabels, ...]
    more: tuple[ExamplesWanted, ...]


def look_alikes(knowledge: Knowledge, scale: Scale) -> tuple[SimilarLabels, ...]:
    """Pairs of labels so near each other that they may be the same, the closest first: five at most.

    The means of two labels lie apart by how different the things are, and by chance, as there are few examples: the
    usual distance squared, over the number of examples, for each of the two. What chance explains is taken away. The
    rest is compared with how far labels are from their second nearest, so that a memory of birds is no less choosy than
    one of tools, and two pairs that are the same do not hide each other.

    >>> from cbcl import agg_var
    >>> things = {"cup": [[1.0, 9.0], [2.0, 9.0]], "key": [[9.0, 1.0]], "mug": [[1.5, 9.0]], "pen": [[9.0, 9.0]]}
    >>> known = {label: agg_var(vectors, radius=np.inf) for label, vectors in things.items()}
    >>> [(label, other) for label, other, _ in look_alikes(Knowledge(known, np.inf, 1), Scale(0.1, 0.5))]
    [('cup', 'mug')]
    """
    t = len(knowledge.concepts)
    if t < 2:
        return ()
    nearby, apart, chance = _differences(knowledge, scale)
    first, second = apart[:, 0], (apart[:, 1] if t > 2 else APART)
    closeness = 1.0 - (first + DOUBT * chance) / max(float(np.median(second)), LEAST_APART)
    labels = [*knowledge.concepts]
    found = [
        SimilarLabels(labels[one], labels[nearby[one, 0]], min(float(closeness[one]), 1.0))
        for one in np.argsort(-closeness, kind="stable")
        if closeness[one] > CLOSE
        and one < nearby[one, 0]
        and nearby[nearby[one, 0], 0] == one  # each other's nearest
    ]
    return tuple(found[:MAX_ALIKE])


def wanting(
    examples: Mapping[str, int], examined: SelfTestResult | None = None
) -> tuple[ExamplesWanted, ...]:
    """Labels of which more examples would help most, three at most, by how many there are of each.

    Those with one or two come first, then those of which an examination missed most, a third or more.

    >>> [wanted.reason for wanted in wanting({"cup": 1, "key": 9, "mug": 2})]
    ['one photo is little to go by', 'two photos are little to go by']
    """
    few = sorted(
        (label for label, count in examples.items() if count < FEW),
        key=lambda label: examples[label],
    )
    found = [ExamplesWanted(label, examples[label], _few(examples[label])) for label in few]
    if examined is not None:
        found += [
            ExamplesWanted(label, examples[label], reason)
            for label, reason in _missed(examined)
            if examples.get(label, 0) >= FEW
        ]
    return tuple(found[:MAX_WANTED])


def worth_asking(matrix: Float32s, answers: Sequence[Answer]) -> list[int]:
    """The order in which to ask a person about pictures, the one to gain most from first: matrix (n, d).

    Each picture is some way from the nearest thing that is known. To be told about one brings that picture, and those
    that are nearer to it than to anything known, closer to something known: the first is the one that brings all of
    them closest, added up; the next is the one that then does; and so on. What is known well gains nothing, what is
    strange but alone gains little, and of ten alike the first gains for all.
    """
    if not answers:
        return []
    lengths = np.sqrt(norms_squared(matrix))
    lengths[lengths == 0.0] = 1.0
    between = (
        _distances(matrix) / lengths[:, np.newaxis]
    )  # (n, n), from each to each, relative to the first
    known = [one.evidence[0].distance if one.evidence else math.inf for one in answers]
    away = np.minimum(np.array(known) / lengths, between.max())  # (n,), from anything known
    gains = np.maximum(away[:, np.newaxis] - between, 0.0).sum(axis=0)
    order: list[int] = []
    while len(order) < len(answers):
        chosen = int(gains.argmax())
        order.append(chosen)
        closer = np.flatnonzero(between[:, chosen] < away)
        before = np.maximum(away[closer, np.newaxis] - between[closer], 0.0)
        away[closer] = between[closer, chosen]
        gains -= (before - np.maximum(away[closer, np.newaxis] - between[closer], 0.0)).sum(axis=0)
        gains[chosen] = -math.inf
    return order


def _differences(knowledge: Knowledge, scale: Scale) -> tuple[Int64s, Float64s, Float64s]:
    """The labels next to each, the nearest first: (t, n); how different they are: (t, n); and chance's share: (t,)."""
    classes = [*knowledge.concepts.values()]
    sizes = knowledge.index.sizes
    measured = (
        sizes.sum() - len(sizes) >= ENOUGH
    )  # each example but the first of a label, while it was learned
    spread = min(scale.usual if measured else SPREAD, MAX_SPREAD) ** 2
    means = np.stack([_mean(known) for known in classes])  # (t, d)
    concepts = np.array([len(known.counts) for known in classes])
    squares = np.array([known.counts @ norms_squared(known.centroids) for known in classes]) / sizes
    lengths = np.sqrt(
        squares / (1.0 - spread * (1.0 - concepts / sizes))
    )  # of the vectors: a mean is shorter
    lengths[lengths == 0.0] = 1.0

    index = Index([Concepts(mean[np.newaxis], np.ones(1, dtype=np.int64)) for mean in means])
    n = min(NEIGHBOURS + 1, len(classes))
    indices, distances = nearest(means, index, n)
    chance = spread * (1.0 / sizes[:, np.newaxis] + 1.0 / sizes[indices])
    apart = distances**2 / (lengths[:, np.newaxis] * lengths[indices]) - chance
    apart[indices == np.arange(len(classes))[:, np.newaxis]] = math.inf  # itself
    order = np.argsort(apart, axis=1, kind="stable")
    indices, apart, chance = (
        np.take_along_axis(some, order, axis=1) for some in (indices, apart, chance)
    )
    return indices, apart, chance[:, 0]


def _mean(known: Concepts) -> Float32s:
    """The mean of all vectors that were learned of a class."""
    mean: Float32s = (known.counts @ known.centroids.astype(np.float64) / known.size).astype(
        np.float32
    )
    return mean


def _distances(matrix: Float32s) -> Float64s:
    """From each vector to each: (n, n)."""
    vectors = matrix.astype(np.float64)
    squares = np.einsum("nd,nd->n", vectors, vectors)
    distances: Float64s = np.sqrt(
        np.maximum(squares[:, np.newaxis] + squares - 2.0 * (vectors @ vectors.T), 0.0)
    )
    np.fill_diagonal(distances, 0.0)
    return distances


def _few(examples: int) -> str:
    return (
        "one photo is little to go by"
        if examples == 1
        else f"{_count(examples)} photos are little to go by"
    )


def _missed(examined: SelfTestResult) -> list[tuple[str, str]]:
    """The labels of which a third or more was missed, and how, those missed most first."""
    found = []
    for row, (label, counts) in enumerate(zip(examined.labels, examined.matrix, strict=True)):
        asked, missed = int(counts.sum()), int(counts.sum() - counts[row])
        if missed and 3 * missed >= asked:
            wrong, unknown = missed - int(counts[-1]), int(counts[-1])
            found.append((missed / asked, label, _how(wrong, unknown, asked)))
    return [(label, reason) for _, label, reason in sorted(found, key=lambda one: -one[0])]


def _how(wrong: int, unknown: int, asked: int) -> str:
    missed = wrong + unknown
    what = (
        "something else"
        if not unknown
        else "something else or nothing known"
        if wrong
        else "nothing known"
    )
    return f"{_count(missed)} of its {_count(asked)} photos {'was' if missed == 1 else 'were'} taken for {what}"


def _count(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else str(number)
