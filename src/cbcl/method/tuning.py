"""Choosing D and n together, by cross-validation among the classes being learned (section 4.2 of the paper).

q vectors to validate on, n voters. Why the classes known before are not rivals in it, and why so little is left to the
validation: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import Int64s, Matrix, as_float32, as_matrix
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.search import ROWS, Index, Search, Voters
from cbcl.method.voting import tally

# Radii to try, in units of the mean distance of a vector to the mean of its class: from one centroid a class to every
# vector its own.
SCALES = (math.inf, 1.5, 1.35, 1.25, 1.1, 1.0, 0.9, 0.75, 0.5, 0.0)
MANY = 30  # vectors of a class, on average, that are enough for several centroids: then
BEHIND = 4.0  # vectors are to stand behind each
STEPS = 8  # halvings, to find the radius for that
SURE = 2.5  # standard errors by which anything else must be better
MAX_VOTERS = 10
FOLDS = 5
MAX_ROWS = 10_000  # vectors to validate with, at most: the work grows with their square
MAX_CLASSES = 100  # to validate with, at most
MAX_ASKED = (
    2000  # vectors to ask about, as long as there is a whole fold: the rest is learned from only
)

Hits: TypeAlias = NDArray[np.bool_]  # (q,), which of the vectors were labelled rightly


class Tuning(NamedTuple):
    """The radius to learn with and the number of voters to predict with."""

    radius: float
    n_voters: int


class ClassRows(NamedTuple):
    """What is to be learned of one class: some rows of a matrix, on top of what is known of it."""

    rows: Int64s
    known: Concepts | None = None


def tune(classes: Sequence[ArrayLike], *, seed: int = 0) -> Tuning:
    """Choose the radius and the number of voters for new classes, each given by its vectors.

    The vectors are divided into folds, and those of a fold are labelled by what was learned of the others, with every
    radius and every number of voters up to ten. The radii are relative to the spread of the vectors, so that any
    features will do. Of more than 10,000 vectors, or 100 classes, a sample is tried.

    But what is best among ten classes need not be best among a hundred, of which these are the first, and ten tell
    little about a hundred. So by default there is one centroid a class, the best for a few examples; or, where classes
    have 30 vectors and more, one for every four vectors, as the radius allows. Anything else is chosen only if it
    labels more of the vectors rightly, by 2.5 standard errors.

    >>> rng = np.random.default_rng(0)
    >>> tune([rng.normal(loc=mean, size=(5, 20)) for mean in (0.0, 1.0, 2.0)])
    Tuning(radius=inf, n_voters=1)
    """
    if not classes:
        raise ValueError("there is nothing to tune: give the vectors of at least one class.")
    matrices = [as_matrix(vectors) for vectors in classes]
    if len(widths := {matrix.shape[1] for matrix in matrices}) > 1:
        raise ValueError(
            f"the classes have vectors of {sorted(widths)} features: all must have as many."
        )
    ends = np.cumsum([len(matrix) for matrix in matrices])
    lessons = [
        ClassRows(np.arange(end - len(matrix), end))
        for end, matrix in zip(ends, matrices, strict=True)
    ]
    return choose(np.concatenate(matrices), lessons, None, seed)


def choose(
    matrix: Matrix,
    lessons: Sequence[ClassRows],
    before: Tuning | None,
    seed: int,
    *,
    radius: float | None = None,
    n_voters: int | None = None,
) -> Tuning:
    """`tune` on rows of a matrix, with the radius or the number of voters given where it is not None.

    What was chosen before is kept: with another radius, new classes would have an edge over the known, or these over
    them.
    """
    kept = before or Tuning(math.inf, 1)
    kept = Tuning(kept.radius if radius is None else radius, n_voters or kept.n_voters)
    lessons = _sampled(lessons, seed)
    unit = 0.0 if before is not None else spread(matrix, lessons)
    if unit == 0.0:
        return kept  # there is nothing to choose
    if radius is None:
        kept = kept._replace(radius=_usual_radius(matrix, lessons, unit))
    if len(lessons) < 2:
        return kept  # there is nothing to confuse it with
    radii = (
        {kept.radius} if radius is not None else {kept.radius, *(s and s * unit for s in SCALES)}
    )
    counts = [*range(1, MAX_VOTERS + 1)] if n_voters is None else [n_voters]
    if len(radii) == len(counts) == 1:
        return kept
    hits = _cross_validate(matrix, lessons, sorted(radii, reverse=True), counts, seed)
    best = max(
        hits, key=lambda tuning: hits[tuning].mean()
    )  # the largest radius and fewest voters among equals
    return best if _is_better(hits[best], hits[kept]) else kept


def _usual_radius(matrix: Matrix, lessons: Sequence[ClassRows], unit: float) -> float:
    """Infinity for few vectors; for many, the smallest radius that leaves so many behind each centroid on average."""
    count = sum(len(lesson.rows) for lesson in lessons)
    if not are_many(lessons):
        return math.inf
    return _smallest(matrix, lessons, 0.0, 2.0 * unit, int(count / BEHIND))


def are_many(lessons: Sequence[ClassRows]) -> bool:
    """Whether the classes have enough vectors, on average, for several centroids each."""
    return sum(len(lesson.rows) for lesson in lessons) >= MANY * len(lessons)


def widened(matrix: Matrix, lessons: Sequence[ClassRows], radius: float, most: int) -> float:
    """The radius, or the smallest larger one with which the lessons make no more centroids than that, or about."""
    if _centroids(matrix, lessons, radius) <= most:
        return radius
    return _smallest(
        matrix, lessons, radius, max(2.0 * radius, 2.0 * spread(matrix, lessons)), most
    )


def _smallest(
    matrix: Matrix, lessons: Sequence[ClassRows], low: float, high: float, most: int
) -> float:
    """The smallest radius above `low` that makes no more centroids than that; `high` is taken to be large enough."""
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _centroids(matrix, lessons, middle) > most else (low, middle)
    return high


def _centroids(matrix: Matrix, lessons: Sequence[ClassRows], radius: float) -> int:
    return sum(len(cluster(matrix, lesson.rows, radius, lesson.known).counts) for lesson in lessons)


def _sampled(lessons: Sequence[ClassRows], seed: int) -> Sequence[ClassRows]:
    """As many classes, and as many vectors of each, drawn at random and in their order, as there is time for."""
    if len(lessons) <= MAX_CLASSES and sum(len(lesson.rows) for lesson in lessons) <= MAX_ROWS:
        return lessons
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(lessons))[:MAX_CLASSES])
    share = MAX_ROWS // len(some)
    return [
        ClassRows(rows if len(rows) <= share else np.sort(rng.choice(rows, share, replace=False)))
        for rows, _ in (lessons[number] for number in some)
    ]


def _is_better(these: Hits, those: Hits) -> bool:
    """Whether these hits are more than those, beyond doubt."""
    better, worse = int(np.sum(these & ~those)), int(np.sum(those & ~these))
    return better - worse > SURE * math.sqrt(
        better + worse + 1
    )  # one more: that nothing differs is no certainty


def spread(matrix: Matrix, lessons: Sequence[ClassRows]) -> float:
    """The mean distance of a vector to the mean of its class, over the classes with at least two vectors."""
    total, count = 0.0, 0
    for rows, _ in lessons:
        if len(rows) > 1:
            mean = sum(matrix[some].sum(axis=0, dtype=np.float64) for some in _chunks(rows)) / len(
                rows
            )
            distances = sum(
                np.linalg.norm(matrix[some] - mean, axis=1).sum() for some in _chunks(rows)
            )
            # k vectors are closer to their own mean than to the true one, by this factor.
            total += distances * math.sqrt(len(rows) / (len(rows) - 1))
            count += len(rows)
    return float(total / count) if count else 0.0


def _cross_validate(
    matrix: Matrix,
    lessons: Sequence[ClassRows],
    radii: Sequence[float],  # descending
    counts: Sequence[int],
    seed: int,
) -> dict[Tuning, Hits]:
    rng = np.random.default_rng(seed)
    folds = [_folds(len(lesson.rows), rng) for lesson in lessons]
    last = min(FOLDS, max(1, MAX_ASKED * FOLDS // sum(map(len, folds))), max(map(max, folds)) + 1)
    sizes = np.array([len(lesson.rows) for lesson in lessons])  # N_y, all folds together
    hits: dict[Tuning, list[Hits]] = {Tuning(radius, n): [] for radius in radii for n in counts}
    for fold in range(last):
        pairs = [*zip(lessons, folds, strict=True)]
        asked = np.concatenate([lesson.rows[numbers == fold] for lesson, numbers in pairs])
        truth = np.repeat(
            np.arange(len(lessons)), [int(np.sum(numbers == fold)) for numbers in folds]
        )
        saturated = False  # every vector is its own centroid already: smaller radii change nothing
        for radius in radii:
            if not saturated:
                learned = [
                    cluster(matrix, lesson.rows[numbers != fold], radius, None)
                    for lesson, numbers in pairs
                ]
                saturated = all(len(known.counts) == known.size for known in learned)
                winners = _winners(matrix, asked, Index(learned), sizes, counts)
            for n in counts:
                hits[Tuning(radius, n)].append(winners[n] == truth)
    return {tuning: np.concatenate(found) for tuning, found in hits.items()}


def _winners(
    matrix: Matrix, rows: Int64s, index: Index, sizes: Int64s, counts: Sequence[int]
) -> dict[int, Int64s]:
    """For each number of voters, the class that each of the rows is given."""
    search = Search(index, max(counts))
    winners: dict[int, list[Int64s]] = {n: [] for n in counts}
    for some in _chunks(rows):
        voters = search.nearest(as_float32(matrix[some]), search.n)
        for n in counts:
            votes = tally(
                Voters(voters.indices[:, :n], voters.distances[:, :n]), index.owners, sizes
            )
            winners[n].append(votes.argmax(axis=1))
    return {n: np.concatenate(parts) for n, parts in winners.items()}


def _folds(count: int, rng: np.random.Generator) -> Int64s:
    """A fold for each of a class's vectors; -1, never asked about, for an only one."""
    return rng.permutation(np.arange(count) % FOLDS) if count > 1 else np.full(count, -1)


def _chunks(rows: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]
