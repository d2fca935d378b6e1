"""Suggestions to a teacher: similar labels, labels that need examples, photos to name first.

t labels, n pictures, d features, m groups. Distances are relative, as in `confidence.py`. How the
constants were found, and what the suggestions are worth: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.distances import norms_squared
from cbcl.method.centroids.search import Index, nearest
from cbcl.recognition.answer import Answer

MIN_CLOSENESS = 0.6  # of two labels that may be the same
CHANCE_MARGIN = 0.2  # of the squared distance that chance explains on average
MIN_MEASURED_DISTANCES = 3  # to estimate the spread of labels
DEFAULT_SPREAD = 0.5  # within a label, while fewer distances are measured
MAX_SPREAD = 0.9
DEFAULT_DIFFERENCE = 0.3  # between two labels, as long as there are no others to compare with
MIN_DIFFERENCE = 0.05  # to compare with, should all labels look the same
MAX_NEIGHBOURS = 16  # of a label that are compared with it
MAX_SIMILAR = 5  # pairs
MAX_WANTED = 3  # labels
MIN_EXAMPLES = 3  # of a label: with fewer, more are worth more than anything else
SHORTEST = 1e-12  # length of a direction, in place of 0


class SimilarLabels(NamedTuple):
    """Two labels that may be the same."""

    label: str
    other: str
    closeness: float  # 1: the same; 0: as different as labels are


class ExamplesWanted(NamedTuple):
    """A label of which more examples would help."""

    label: str
    examples: int  # that there are
    reason: str


class Suggestions(NamedTuple):
    """Questions and requests to a teacher, the most important first."""

    alike: tuple[SimilarLabels, ...]
    more: tuple[ExamplesWanted, ...]


def find_similar(concepts: Mapping[str, Concepts], usual: float) -> tuple[SimilarLabels, ...]:
    """Return pairs of labels so close that they may be the same, the closest first: five at most.

    The distance of the means of two labels is due to how different their pictures are, and to
    chance, as there are few examples: the squared spread over the number of examples, for each of
    the two. What chance explains is subtracted. The rest is compared with the median difference of
    a label to its second nearest, so that labels of birds are compared with birds, and two pairs
    that are the same do not hide each other.

    >>> from cbcl import agg_var
    >>> vectors = {"cup": [[1.0, 9.0], [2.0, 9.0]], "key": [[9.0, 1.0]], "mug": [[1.5, 9.0]]}
    >>> concepts = {label: agg_var(rows, radius=np.inf) for label, rows in vectors.items()}
    >>> [pair] = find_similar(concepts, usual=0.1)
    >>> pair.label, pair.other
    ('cup', 'mug')
    """
    known, t = [*concepts], len(concepts)
    if t < 2:
        return ()
    neighbours, differences, chance = _compare_labels([*concepts.values()], usual)
    nearest_label, difference = neighbours[:, 0], differences[:, 0]
    typical = float(np.median(differences[:, 1])) if t > 2 else DEFAULT_DIFFERENCE
    closeness = 1.0 - (difference + CHANCE_MARGIN * chance) / max(typical, MIN_DIFFERENCE)
    pairs = []
    for row in np.argsort(-closeness, kind="stable"):
        other = nearest_label[row]
        mutual = nearest_label[other] == row and row < other
        if mutual and closeness[row] > MIN_CLOSENESS:
            labels = known[row], known[other]
            pairs.append(SimilarLabels(*labels, min(float(closeness[row]), 1.0)))
    return tuple(pairs[:MAX_SIMILAR])


def find_nearest(label: str, concepts: Mapping[str, Concepts], usual: float) -> list[str]:
    """Return the other labels, those that look most like one first: sixteen at most.

    They are compared as `find_similar` does it.

    >>> from cbcl import agg_var
    >>> vectors = {"cup": [[1.0, 9.0], [2.0, 9.0]], "key": [[9.0, 1.0]], "mug": [[1.5, 9.0]]}
    >>> concepts = {label: agg_var(rows, radius=np.inf) for label, rows in vectors.items()}
    >>> find_nearest("cup", concepts, usual=0.1)
    ['mug', 'key']
    """
    known = [*concepts]
    row = np.array([known.index(label)])
    neighbours, differences, _ = _compare_labels([*concepts.values()], usual, row)
    others = neighbours[0, differences[0] < math.inf]
    return [known[other] for other in others]


def find_wanted(
    examples: Mapping[str, int], result: SelfTestResult | None = None
) -> tuple[ExamplesWanted, ...]:
    """Return the labels of which more examples would help most: three at most.

    Those with one or two examples come first, then those of which a self-test missed most, a third
    or more.

    >>> [wanted.reason for wanted in find_wanted({"cup": 1, "key": 9, "mug": 2})]
    ['I have only one photo of it.', 'I have only two photos of it.']
    """
    few = [label for label, count in examples.items() if count < MIN_EXAMPLES]
    few.sort(key=lambda label: examples[label])
    wanted = []
    for label in few:
        photos = "one photo" if examples[label] == 1 else "two photos"
        wanted.append(ExamplesWanted(label, examples[label], f"I have only {photos} of it."))
    for label, reason in [] if result is None else _find_missed(result):
        if examples.get(label, 0) >= MIN_EXAMPLES:
            wanted.append(ExamplesWanted(label, examples[label], reason))
    return tuple(wanted[:MAX_WANTED])


def worth_asking(matrix: Float32s, answers: Sequence[Answer]) -> list[int]:
    """Return the order in which to ask a person about pictures, the one to gain most from first.

    The pictures are the rows of the matrix, (n, d). Greedy facility location: each picture has a
    distance to the nearest known centroid. Naming a picture makes it known, so it reduces that
    distance for itself and for those nearer to it than to anything known. The first is the picture
    that reduces the sum of the distances most; the next is the one that then does; and so on. A
    well known picture gains nothing, a strange but single one little, and of ten alike one gains
    for all.
    """
    if not answers:
        return []
    lengths = np.sqrt(norms_squared(matrix))
    lengths[lengths == 0.0] = 1.0
    between = _distances(matrix) / lengths[:, np.newaxis]  # (n, n), by the first's length
    to_known = [answer.evidence[0].distance if answer.evidence else math.inf for answer in answers]
    away = np.minimum(np.array(to_known) / lengths, between.max())  # (n,), from anything known
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


def group_alike(directions: Float32s, least_cosine: float) -> list[list[int]]:
    """Return groups of pictures that look alike, the largest first; single pictures are in none.

    The directions are (n, d). Groups are joined by average linkage: the two whose
    pictures have the highest mean cosine, as long as it is `least_cosine` or more. In a group, the
    picture most like all others comes first. Agg-Var clustering, which sees each picture once,
    needs a smaller radius for groups as pure, and leaves five times as many pictures out:
    docs/method.md has the figures.

    >>> rows = np.float32([[9.0, 0.0], [0.0, 9.0], [9.0, 1.0], [1.0, 9.0], [-9.0, 0.0]])
    >>> group_alike(rows, least_cosine=0.7)
    [[0, 2], [1, 3]]
    """
    if len(directions) < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage  # which takes a while to load

    units: Float64s = directions.astype(np.float64)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), SHORTEST)
    cosines: Float64s = units @ units.T  # (n, n)
    distances = 1.0 - np.minimum(cosines, 1.0)
    joined = linkage(distances[np.triu_indices(len(directions), 1)], method="average")
    numbers = fcluster(joined, 1.0 - least_cosine, criterion="distance")  # (n,), from 1 to m
    groups = [np.flatnonzero(numbers == number) for number in range(1, numbers.max() + 1)]
    several = [rows for rows in groups if len(rows) > 1]
    several.sort(key=lambda rows: (-len(rows), rows[0]))
    return [
        rows[np.argsort(-cosines[np.ix_(rows, rows)].sum(axis=1), kind="stable")].tolist()
        for rows in several
    ]


def _compare_labels(
    classes: Sequence[Concepts], usual: float, rows: Int64s | None = None
) -> tuple[Int64s, Float64s, Float64s]:
    """Return the neighbours of each label, their differences, and chance's part in the first.

    The neighbours are sorted by difference, a squared distance less what chance explains; its own
    is infinite: (t, n), (t, n) and (t,); of some rows only, where these are given.
    """
    t, sizes = len(classes), np.array([concepts.size for concepts in classes])
    n_measured = sizes.sum() - t  # each example but the first of a label, while it was learned
    spread = usual if n_measured >= MIN_MEASURED_DISTANCES else DEFAULT_SPREAD
    variance = min(spread, MAX_SPREAD) ** 2
    lengths = _vector_lengths(classes, sizes, variance)

    means = np.stack([_mean(concepts) for concepts in classes])  # (t, d)
    index = Index([Concepts(mean[np.newaxis], np.ones(1, dtype=np.int64)) for mean in means])
    own = np.arange(t) if rows is None else rows
    neighbours, distances = nearest(means[own], index, min(MAX_NEIGHBOURS + 1, t))
    chance = variance * (1.0 / sizes[own, np.newaxis] + 1.0 / sizes[neighbours])
    differences = distances**2 / (lengths[own, np.newaxis] * lengths[neighbours]) - chance
    differences[neighbours == own[:, np.newaxis]] = math.inf  # itself
    order = np.argsort(differences, axis=1, kind="stable")
    places = np.arange(len(own))[:, np.newaxis]
    return neighbours[places, order], differences[places, order], chance[places, order][:, 0]


def _vector_lengths(classes: Sequence[Concepts], sizes: Int64s, variance: float) -> Float64s:
    """Estimate the length of the vectors of each class: that of their means is smaller."""
    weighted = [concepts.counts @ norms_squared(concepts.centroids) for concepts in classes]
    n_centroids = np.array([len(concepts.counts) for concepts in classes])
    squares = np.array(weighted) / sizes
    lengths: Float64s = np.sqrt(squares / (1.0 - variance * (1.0 - n_centroids / sizes)))
    lengths[lengths == 0.0] = 1.0
    return lengths


def _mean(concepts: Concepts) -> Float32s:
    """Return the mean of all vectors that were learned of a class."""
    total = concepts.counts @ concepts.centroids.astype(np.float64)
    mean: Float32s = (total / concepts.size).astype(np.float32)
    return mean


def _distances(matrix: Float32s) -> Float64s:
    """Return the distance from each vector to each: (n, n)."""
    vectors = matrix.astype(np.float64)
    squares = np.einsum("nd,nd->n", vectors, vectors)
    squared_distances = squares[:, np.newaxis] + squares - 2.0 * (vectors @ vectors.T)
    distances: Float64s = np.sqrt(np.maximum(squared_distances, 0.0))
    np.fill_diagonal(distances, 0.0)
    return distances


def _find_missed(result: SelfTestResult) -> list[tuple[str, str]]:
    """Return the labels of which a third or more was missed, the worst first, with reasons."""
    missed_labels = []
    for row, (label, counts) in enumerate(zip(result.labels, result.matrix, strict=True)):
        tested, missed = int(counts.sum()), int(counts.sum() - counts[row])
        if missed and 3 * missed >= tested:
            which = f"{missed} of its {tested} photos"
            if missed == tested:
                which = f"any of its {tested} photos"
            reason = f"I would not recognize {which}. Add a few more views."
            missed_labels.append((missed / tested, label, reason))
    missed_labels.sort(key=lambda entry: -entry[0])
    return [(label, reason) for _, label, reason in missed_labels]
