"""Choosing D and n together, by cross-validation among the classes being learned (section 4.2 of the paper).

q vectors to validate on, t classes, n voters. Why the classes known before are not rivals in it, and why accuracy is
foretold for more classes than there are: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import Float64s, Int64s, Matrix, as_float32, as_matrix
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.search import ROWS, Index, Search, Voters
from cbcl.method.voting import tally

# Radii to try, in units of the mean distance of a vector to the mean of its class: from one centroid a class to every
# vector its own.
SCALES = (math.inf, 1.5, 1.35, 1.25, 1.1, 1.0, 0.9, 0.75, 0.5, 0.25, 0.0)
FORETOLD = 50  # classes that are to be told apart one day
ENOUGH = 5  # classes to foretell that from; with fewer:
MANY = 40  # vectors of a class, without which it is given one centroid,
BEHIND = 4  # and vectors behind each centroid otherwise
SURE = 2.5  # standard errors by which anything else must be better
MOST_VOTERS = 10
FOLDS = 5
MOST_ROWS = 10_000  # vectors to validate with, at most: the work grows with their square
MOST_CLASSES = 100  # to validate with, at most

Hits: TypeAlias = NDArray[np.bool_]  # (q,), which of the vectors were labelled rightly


class Tuning(NamedTuple):
    """The radius to learn with and the number of voters to predict with."""

    radius: float
    n_voters: int


class Lesson(NamedTuple):
    """What is to be learned of one class: some rows of a matrix, on top of what is known of it."""

    rows: Int64s
    known: Concepts | None = None


class Trial(NamedTuple):
    """How the vectors fared with one radius."""

    hits: dict[int, Hits]  # for each number of voters
    chances: Float64s  # (q,), with one voter: of being labelled rightly among FORETOLD classes
    centroids: int  # over all folds


def tune(classes: Sequence[ArrayLike], *, seed: int = 0) -> Tuning:
    """Choose the radius and the number of voters for new classes, each given by its vectors.

    The vectors are divided into folds, and those of a fold are labelled by what was learned of the others, with every
    radius and every number of voters up to ten. The radii are relative to the spread of the vectors, so that any
    features will do. Of more than 10,000 vectors, or 100 classes, a sample is tried.

    What is best among ten classes need not be best among a hundred, of which these are the first. So for each vector
    its distances to the other classes give the chance that none of fifty would be closer than its own, and the radius
    with the best chances is chosen: the largest, of those that are as good by one standard error. Fewer than five
    classes do not tell: then there is one centroid a class, or, of classes with 40 vectors and more, one for every four
    vectors. Anything else is chosen only if it labels more of the vectors rightly, by 2.5 standard errors.

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
    return choose(np.concatenate(matrices), lessons, None, seed)


def choose(
    matrix: Matrix,
    lessons: Sequence[Lesson],
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
    unit = 0.0 if before is not None or len(lessons) < 2 else spread(matrix, lessons)
    if unit == 0.0:
        return kept  # there is nothing to choose, to confuse or to validate on
    radii = [kept.radius] if radius is not None else [s and s * unit for s in SCALES]
    counts = [*range(1, MOST_VOTERS + 1)] if n_voters is None else [n_voters]
    if len(radii) == len(counts) == 1:
        return kept
    trials = _cross_validate(matrix, lessons, radii, counts, seed)
    if radius is None:
        kept = kept._replace(radius=_best_radius(trials, lessons))
    hits = {Tuning(r, n): found for r, trial in trials.items() for n, found in trial.hits.items()}
    best = max(hits, key=lambda tuning: hits[tuning].mean())  # the largest radius and fewest voters among equals
    return best if _is_better(hits[best], hits[kept]) else kept


def _best_radius(trials: dict[float, Trial], lessons: Sequence[Lesson]) -> float:
    """The radius to prefer, before anything is known to be better."""
    if len(lessons) >= ENOUGH:
        best = max((trial.chances for trial in trials.values()), key=lambda chances: chances.mean())
        losses = {radius: best - trial.chances for radius, trial in trials.items()}
        return max(r for r, loss in losses.items() if loss.mean() <= loss.std() / math.sqrt(len(loss)))
    q = sum(len(lesson.rows) for lesson in lessons)
    learned = (FOLDS - 1) * q  # over all folds
    roomy = [radius for radius, trial in trials.items() if BEHIND * trial.centroids <= learned]
    return min(roomy) if q >= MANY * len(lessons) and roomy else math.inf


def _sampled(lessons: Sequence[Lesson], seed: int) -> Sequence[Lesson]:
    """As many classes, and as many vectors of each, drawn at random and in their order, as there is time for."""
    if len(lessons) <= MOST_CLASSES and sum(len(lesson.rows) for lesson in lessons) <= MOST_ROWS:
        return lessons
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(len(lessons))[:MOST_CLASSES])
    share = MOST_ROWS // len(some)
    return [
        Lesson(rows if len(rows) <= share else np.sort(rng.choice(rows, share, replace=False)))
        for rows, _ in (lessons[number] for number in some)
    ]


def _is_better(these: Hits, those: Hits) -> bool:
    """Whether these hits are more than those, beyond doubt."""
    better, worse = int(np.sum(these & ~those)), int(np.sum(those & ~these))
    return better - worse > SURE * math.sqrt(better + worse + 1)  # one more: that nothing differs is no certainty


def spread(matrix: Matrix, lessons: Sequence[Lesson]) -> float:
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
) -> dict[float, Trial]:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([lesson.rows for lesson in lessons])
    truth = np.repeat(np.arange(len(lessons)), [len(lesson.rows) for lesson in lessons])
    sizes = np.array([len(lesson.rows) for lesson in lessons])  # N_y, all folds together
    folds = [_folds(len(lesson.rows), rng) for lesson in lessons]
    fold_of = np.concatenate(folds)
    n = max(counts)
    trials = {}
    for radius in radii:
        hits = {count: np.zeros(len(rows), dtype=np.bool_) for count in counts}
        nearest, centroids = np.full((len(rows), len(lessons)), np.nan), 0
        for fold in range(min(FOLDS, max(fold_of) + 1)):
            asked = np.flatnonzero(fold_of == fold)
            concepts = [
                cluster(matrix, lesson.rows[numbers != fold], radius, None)
                for lesson, numbers in zip(lessons, folds, strict=True)
            ]
            centroids += sum(len(learned.counts) for learned in concepts)
            for some in _chunks(asked):
                block = as_float32(matrix[rows[some]])
                distances, owners = _distances(block, concepts, n)
                nearest[some] = np.stack([distances[:, owners == y].min(axis=1) for y in range(len(lessons))], axis=1)
                for count, winners in _winners(distances, owners, sizes, counts).items():
                    hits[count][some] = winners == truth[some]
        valid = fold_of >= 0
        chances = _chances(nearest[valid], truth[valid]) if len(lessons) >= ENOUGH else np.empty(0)
        trials[radius] = Trial({count: found[valid] for count, found in hits.items()}, chances, centroids)
    return trials


def _distances(block: NDArray[np.float32], concepts: Sequence[Concepts], n: int) -> tuple[Float64s, Int64s]:
    """The distances to the n nearest centroids of each class, (b, at most t n), and the class of each column."""
    found = [Search(Index([learned]), n).nearest(block, min(n, len(learned.counts))).distances for learned in concepts]
    owners = np.repeat(np.arange(len(concepts)), [one.shape[1] for one in found])
    return np.concatenate(found, axis=1), owners


def _winners(distances: Float64s, owners: Int64s, sizes: Int64s, counts: Sequence[int]) -> dict[int, Int64s]:
    """For each number of voters, the class that each vector is given: (b,)."""
    columns = np.argsort(distances, axis=1, kind="stable")[:, : max(counts)]
    nearest = np.take_along_axis(distances, columns, axis=1)
    return {n: tally(Voters(columns[:, :n], nearest[:, :n]), owners, sizes).argmax(axis=1) for n in counts}


def _chances(nearest: Float64s, truth: Int64s) -> Float64s:
    """For each vector, the chance that among FORETOLD classes none is nearer than its own: (q,).

    The distances of a vector to other classes are taken as drawn from a normal distribution: with their mean m for that
    vector, and for all vectors the same deviation s. As m is the mean of r distances only, the next one deviates from
    it by s sqrt(1 + 1 / r). A distance d to its own class is then the least with the chance (1 - Phi((d - m) / s))^k.
    """
    from scipy.special import log_ndtr  # loading it takes a while, so only where it is needed

    q, t = nearest.shape
    own = nearest[np.arange(q), truth]
    rivals = nearest[np.arange(t) != truth[:, np.newaxis]].reshape(q, t - 1)
    deviation = math.sqrt(rivals.var(axis=1, ddof=1).mean() * (1.0 + 1.0 / (t - 1)))
    others = max(FORETOLD, t) - 1
    with np.errstate(divide="ignore", invalid="ignore"):  # all rivals at one distance: then it is 0 or 1
        chances: Float64s = np.exp(others * log_ndtr((rivals.mean(axis=1) - own) / deviation))
    return np.nan_to_num(chances, nan=0.5)


def _folds(count: int, rng: np.random.Generator) -> Int64s:
    """A fold for each of a class's vectors; -1, never asked about, for an only one."""
    return rng.permutation(np.arange(count) % FOLDS) if count > 1 else np.full(count, -1)


def _chunks(rows: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]
