"""Choosing D and n together, by cross-validation among the classes being learned (section 4.2 of the paper).

q vectors to validate on, n voters. Why the classes known before are not rivals in it: docs/method.md.
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
SCALES = (math.inf, 1.5, 1.25, 1.1, 1.0, 0.75, 0.5, 0.25, 0.0)
USUAL = 1.25  # the scale to begin with, where that is seen to do no harm:
HARM = 0.01  # to cost no more accuracy than this, by one standard error
SURE = 2.5  # standard errors by which anything else must be better
MOST_VOTERS = 10
FOLDS = 5
MOST_ROWS = 10_000  # vectors to validate with, at most: the work grows with their square

Hits: TypeAlias = NDArray[np.bool_]  # (q,), which of the vectors were labelled rightly


class Tuning(NamedTuple):
    """The radius to learn with and the number of voters to predict with."""

    radius: float
    n_voters: int


class Lesson(NamedTuple):
    """What is to be learned of one class: some rows of a matrix, on top of what is known of it."""

    rows: Int64s
    known: Concepts | None = None


def tune(classes: Sequence[ArrayLike], *, before: Tuning | None = None, seed: int = 0) -> Tuning:
    """Choose the radius and the number of voters for new classes, each given by its vectors.

    The vectors are divided into folds, and those of a fold are labelled by what was learned of the others, with every
    radius and every number of voters up to ten. The radii are relative to the spread of the vectors, so that any
    features will do. Of more than 10,000 vectors, a sample is tried.

    What is not known to be better is not chosen: without evidence it is one centroid a class and one voter, the best
    for a few examples; with evidence that a moderate radius does no harm, that; and anything else only if it is
    better by 2.5 standard errors. What was chosen `before` is left only for a larger radius or fewer voters, since
    the other way the newcomers would have an edge over the classes that were learned with it.

    >>> rng = np.random.default_rng(0)
    >>> tune([rng.normal(loc=mean, size=(5, 20)) for mean in (0.0, 1.0, 2.0)])
    Tuning(radius=inf, n_voters=1)
    """
    if not classes:
        raise ValueError("there is nothing to tune: give the vectors of at least one class.")
    matrices = [as_matrix(vectors) for vectors in classes]
    if len(widths := {matrix.shape[1] for matrix in matrices}) > 1:
        raise ValueError(f"the classes have vectors of {sorted(widths)} features: all must have as many.")
    ends = np.cumsum([len(matrix) for matrix in matrices])
    lessons = [Lesson(np.arange(end - len(matrix), end)) for end, matrix in zip(ends, matrices, strict=True)]
    return choose(np.concatenate(matrices), lessons, before, seed)


def choose(
    matrix: Matrix,
    lessons: Sequence[Lesson],
    before: Tuning | None,
    seed: int,
    *,
    radius: float | None = None,
    n_voters: int | None = None,
) -> Tuning:
    """`tune` on rows of a matrix, and with the radius or the number of voters given where it is not None."""
    preferred = before or Tuning(math.inf, 1)
    preferred = Tuning(preferred.radius if radius is None else radius, n_voters or preferred.n_voters)
    lessons = _sampled(lessons, seed)
    simplest = before is not None and preferred == (math.inf, 1)  # and later calls may only make it simpler
    unit = 0.0 if simplest or len(lessons) < 2 else _spread(matrix, lessons)
    if unit == 0.0:
        return preferred  # there is nothing to choose, to confuse or to validate on
    radii = {preferred.radius} if radius is not None else {preferred.radius, *(s and s * unit for s in SCALES)}
    counts = {preferred.n_voters} if n_voters is not None else {preferred.n_voters, *range(1, MOST_VOTERS + 1)}
    if before is not None:
        radii = {r for r in radii if r >= preferred.radius}
        counts = {n for n in counts if n <= preferred.n_voters}
    if len(radii) == len(counts) == 1:
        return preferred
    hits = _cross_validate(matrix, lessons, sorted(radii, reverse=True), sorted(counts), seed)
    usual = Tuning(USUAL * unit, preferred.n_voters)
    if before is None and usual in hits and _gain(hits[usual], hits[preferred], errors=-1.0) >= -HARM:
        preferred = usual
    best = max(hits, key=lambda tuning: hits[tuning].mean())  # the largest radius and fewest voters among equals
    return best if _gain(hits[best], hits[preferred], errors=-SURE) > 0.0 else preferred


def _sampled(lessons: Sequence[Lesson], seed: int) -> Sequence[Lesson]:
    """As many vectors of each class, drawn at random and in their order, as there is time for."""
    share = max(FOLDS, MOST_ROWS // len(lessons))
    if sum(len(lesson.rows) for lesson in lessons) <= MOST_ROWS:
        return lessons
    rng = np.random.default_rng(seed)
    return [
        Lesson(rows if len(rows) <= share else np.sort(rng.choice(rows, share, replace=False)), known)
        for rows, known in lessons
    ]


def _gain(these: Hits, those: Hits, *, errors: float) -> float:
    """The share by which these hits are more than those, and so many standard errors of it."""
    better, worse = int(np.sum(these & ~those)), int(np.sum(those & ~these))
    # One more: that a few vectors differ in nothing is no certainty.
    return (better - worse + errors * math.sqrt(better + worse + 1)) / len(these)


def _spread(matrix: Matrix, lessons: Sequence[Lesson]) -> float:
    """The mean distance of a vector to the mean of its class, over the classes with at least two vectors."""
    total, count = 0.0, 0
    for rows, _ in lessons:
        if len(rows) > 1:
            mean = sum(matrix[some].sum(axis=0, dtype=np.float64) for some in _chunks(rows)) / len(rows)
            distances = sum(np.linalg.norm(matrix[some] - mean, axis=1).sum() for some in _chunks(rows))
            # k vectors are closer to their own mean than to the true one, by this factor.
            total += distances * math.sqrt(len(rows) / (len(rows) - 1))
            count += len(rows)
    return float(total / count) if count else 0.0


def _cross_validate(
    matrix: Matrix,
    lessons: Sequence[Lesson],
    radii: Sequence[float],  # descending
    counts: Sequence[int],
    seed: int,
) -> dict[Tuning, Hits]:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([lesson.rows for lesson in lessons])
    truth = np.repeat(np.arange(len(lessons)), [len(lesson.rows) for lesson in lessons])
    sizes = np.array([len(some) + (known.size if known else 0) for some, known in lessons])  # N_y, all folds together
    folds = [_folds(len(lesson.rows), rng) for lesson in lessons]
    fold_of = np.concatenate(folds)
    hits = {Tuning(radius, n): np.zeros(len(rows), dtype=np.bool_) for radius in radii for n in counts}
    for fold in range(min(FOLDS, max(fold_of) + 1)):
        asked = np.flatnonzero(fold_of == fold)
        saturated = False  # every vector is its own centroid already: smaller radii change nothing
        for radius in radii:
            if not saturated:
                concepts = [
                    cluster(matrix, some[numbers != fold], radius, known)
                    for (some, known), numbers in zip(lessons, folds, strict=True)
                ]
                saturated = all(len(learned.counts) == learned.size for learned in concepts)
                winners = _winners(matrix, rows[asked], Index(concepts), sizes, counts)
            for n in counts:
                hits[Tuning(radius, n)][asked] = winners[n] == truth[asked]
    return {tuning: found[fold_of >= 0] for tuning, found in hits.items()}


def _winners(matrix: Matrix, rows: Int64s, index: Index, sizes: Int64s, counts: Sequence[int]) -> dict[int, Int64s]:
    """For each number of voters, the class that each of the rows is given."""
    search = Search(index, max(counts))
    winners: dict[int, list[Int64s]] = {n: [] for n in counts}
    for some in _chunks(rows):
        voters = search.nearest(as_float32(matrix[some]), search.n)
        for n in counts:
            votes = tally(Voters(voters.indices[:, :n], voters.distances[:, :n]), index.owners, sizes)
            winners[n].append(votes.argmax(axis=1))
    return {n: np.concatenate(parts) for n, parts in winners.items()}


def _folds(count: int, rng: np.random.Generator) -> Int64s:
    """A fold for each of a class's vectors; -1, never asked about, for an only one."""
    return rng.permutation(np.arange(count) % FOLDS) if count > 1 else np.full(count, -1)


def _chunks(rows: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]
