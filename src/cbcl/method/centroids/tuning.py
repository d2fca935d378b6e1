"""Choice of D and n by cross-validation among the classes being learned (section 4.2 of the paper).

q vectors to validate on, n voters. Why the classes known before do not compete in it, and why so
little is left to the validation: docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import Float32s, Int64s, Matrix, as_float32, as_matrix, not_finite
from cbcl.method.blocks import BLOCK_ROWS
from cbcl.method.centroids.concepts import Concepts, cluster
from cbcl.method.centroids.search import Index, Search, search_rows
from cbcl.method.centroids.voting import tally

# Radii to try, in units of the mean distance of a vector to the mean of its class: from one
# centroid a class to a centroid for every vector.
RADIUS_SCALES = (math.inf, 1.5, 1.35, 1.25, 1.1, 1.0, 0.9, 0.75, 0.5, 0.0)
MIN_VECTORS_FOR_RADIUS = 30  # of a class, on average, for several centroids a class
VECTORS_PER_CENTROID = 4.0  # on average, at the default radius
BISECTION_STEPS = 8  # after which a radius is exact enough
MIN_STANDARD_ERRORS = 2.5  # by which another tuning must be better than the default
MAX_TUNED_VOTERS = 10  # that are tried
TUNING_FOLDS = 5  # of the cross-validation
MAX_TUNING_VECTORS = 10_000  # the work grows with their square
MAX_TUNING_CLASSES = 100  # of more, a sample is tried
MAX_VALIDATION_VECTORS = 2000  # or a whole fold, if that is more; the rest is for training only

CorrectMask: TypeAlias = NDArray[np.bool_]  # (q,), which of the vectors got their own label


class Tuning(NamedTuple):
    """The radius to learn with and the number of voters to predict with."""

    radius: float
    n_voters: int


class ClassRows(NamedTuple):
    """Rows of a matrix to be learned as one class, and the known concepts of that class."""

    rows: Int64s
    known: Concepts | None = None


def tune(classes: Sequence[ArrayLike], *, seed: int = 0) -> Tuning:
    """Choose the radius and the number of voters for new classes, each given by its vectors.

    By cross-validation: the vectors are divided into folds, and those of a fold are labelled by
    what was learned of the others, with every radius and every number of voters up to ten. The
    radii are relative to the spread of the vectors, so that features of any scale will do. Of more
    than 10,000 vectors, or 100 classes, a sample is tried.

    The best for ten classes need not be the best for the hundred that they may become. So by
    default there is one centroid a class, the best for a few examples; or, where classes have 30
    vectors and more, about one for every four vectors. Anything else is chosen only if it is more
    accurate by 2.5 standard errors.

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
    whole = np.concatenate(matrices)
    ends = np.cumsum([len(matrix) for matrix in matrices])
    class_rows = np.split(np.arange(len(whole)), ends[:-1])
    return choose(whole, [*map(ClassRows, class_rows)], None, seed)


def choose(
    matrix: Matrix,
    classes: Sequence[ClassRows],
    before: Tuning | None,
    seed: int,
    *,
    radius: float | None = None,
    n_voters: int | None = None,
) -> Tuning:
    """Choose as `tune` does, on rows of a matrix; keep a `radius` or `n_voters` that is given.

    A choice made before is kept: a smaller radius would favour the new classes, a larger one the
    known.
    """
    default = before or Tuning(math.inf, 1)
    default = Tuning(default.radius if radius is None else radius, n_voters or default.n_voters)
    classes = _sample(classes, seed)
    unit = 0.0 if before is not None else mean_distance_to_mean(matrix, classes)
    if unit == 0.0:
        return default  # there is nothing to choose
    if radius is None:
        default = default._replace(radius=_default_radius(matrix, classes, unit))
    if len(classes) < 2:
        return default  # there is nothing to confuse it with
    radii = {default.radius}
    if radius is None:
        radii |= {scale and scale * unit for scale in RADIUS_SCALES}
    voters = [*range(1, MAX_TUNED_VOTERS + 1)] if n_voters is None else [n_voters]
    if len(radii) == len(voters) == 1:
        return default
    correct = _cross_validate(matrix, classes, sorted(radii, reverse=True), voters, seed)
    # Of equals, the one with the largest radius, then with the fewest voters.
    best = max(correct, key=lambda tuning: correct[tuning].mean())
    return best if _is_significantly_better(correct[best], correct[default]) else default


def _default_radius(matrix: Matrix, classes: Sequence[ClassRows], unit: float) -> float:
    """Return infinity for few vectors; for many, the radius for VECTORS_PER_CENTROID."""
    if not have_many_vectors(classes):
        return math.inf
    n_vectors = sum(len(rows) for rows, _ in classes)
    return _bisect_radius(matrix, classes, 0.0, 2.0 * unit, int(n_vectors / VECTORS_PER_CENTROID))


def have_many_vectors(classes: Sequence[ClassRows]) -> bool:
    """Tell if the classes have enough vectors, on average, for several centroids each."""
    return sum(len(rows) for rows, _ in classes) >= MIN_VECTORS_FOR_RADIUS * len(classes)


def widen_radius(
    matrix: Matrix, classes: Sequence[ClassRows], radius: float, max_centroids: int
) -> float:
    """Return about the smallest radius that keeps to `max_centroids`, larger than one too small."""
    high = max(2.0 * radius, 2.0 * mean_distance_to_mean(matrix, classes))
    return _bisect_radius(matrix, classes, radius, high, max_centroids)


def _bisect_radius(
    matrix: Matrix, classes: Sequence[ClassRows], low: float, high: float, max_centroids: int
) -> float:
    """Return about the smallest radius from low to high that keeps to `max_centroids`."""
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2.0
        sizes = (len(cluster(matrix, rows, middle, known).counts) for rows, known in classes)
        if any(total > max_centroids for total in accumulate(sizes)):  # whatever the others make
            low = middle
        else:
            high = middle
    return high


def _sample(classes: Sequence[ClassRows], seed: int) -> Sequence[ClassRows]:
    """Return the classes, or a random sample that keeps to MAX_TUNING_CLASSES and _VECTORS."""
    n_vectors = sum(len(rows) for rows, _ in classes)
    if len(classes) <= MAX_TUNING_CLASSES and n_vectors <= MAX_TUNING_VECTORS:
        return classes
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.permutation(len(classes))[:MAX_TUNING_CLASSES])
    share = MAX_TUNING_VECTORS // len(numbers)
    return [
        ClassRows(rows if len(rows) <= share else np.sort(rng.choice(rows, share, replace=False)))
        for rows, _ in (classes[number] for number in numbers)
    ]


def _is_significantly_better(these: CorrectMask, those: CorrectMask) -> bool:
    """Compare the numbers of correct labels, in standard errors of the paired difference."""
    better = int(np.sum(these & ~those))
    worse = int(np.sum(those & ~these))
    # Plus one: no difference in a small sample is no certainty.
    return better - worse > MIN_STANDARD_ERRORS * math.sqrt(better + worse + 1)


def mean_distance_to_mean(matrix: Matrix, classes: Sequence[ClassRows]) -> float:
    """Return the mean distance of a vector to the mean of its class, in classes of two or more."""
    total = 0.0
    count = 0
    for rows, _ in classes:
        k = len(rows)
        if k > 1:
            # k vectors are closer to their own mean than to the true one, by this factor.
            total += _distances_to_mean(matrix, rows) * math.sqrt(k / (k - 1))
            count += k
    if not math.isfinite(total):
        raise not_finite("vectors")
    return total / count if count else 0.0


def _distances_to_mean(matrix: Matrix, rows: Int64s) -> float:
    """Return the sum of the distances of vectors to their mean."""
    chunks = [rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum(matrix[chunk].sum(axis=0, dtype=np.float64) for chunk in chunks)
        mean /= len(rows)
        distances = (np.linalg.norm(matrix[chunk] - mean, axis=1) for chunk in chunks)
        return float(sum(chunk.sum() for chunk in distances))


def _cross_validate(
    matrix: Matrix,
    classes: Sequence[ClassRows],
    radii: Sequence[float],  # descending
    voters: Sequence[int],
    seed: int,
) -> dict[Tuning, CorrectMask]:
    rng = np.random.default_rng(seed)
    sizes = np.array([len(rows) for rows, _ in classes])  # N_y, all folds together
    folds = [_draw_folds(size, rng) for size in sizes]
    n_vectors = sum(map(len, folds))
    n_used = max(map(max, folds)) + 1
    n_folds = min(TUNING_FOLDS, max(1, MAX_VALIDATION_VECTORS * TUNING_FOLDS // n_vectors), n_used)
    correct: dict[Tuning, list[CorrectMask]] = {
        Tuning(radius, n): [] for radius in radii for n in voters
    }
    for fold in range(n_folds):
        both = [(one.rows, own == fold) for one, own in zip(classes, folds, strict=True)]
        held_out = [rows[own] for rows, own in both]
        training = [rows[~own] for rows, own in both]
        truth = np.repeat(np.arange(len(classes)), [len(rows) for rows in held_out])
        vectors = as_float32(matrix[np.concatenate(held_out)])
        saturated = False  # every vector is a centroid already: smaller radii change nothing
        for radius in radii:
            if not saturated:
                learned = [cluster(matrix, rows, radius) for rows in training]
                saturated = all(len(concepts.counts) == concepts.size for concepts in learned)
                winners = _find_winners(vectors, Index(learned), sizes, voters)
            for n, labels in zip(voters, winners.T, strict=True):
                correct[Tuning(radius, n)].append(labels == truth)
    return {tuning: np.concatenate(masks) for tuning, masks in correct.items()}


def _find_winners(vectors: Float32s, index: Index, sizes: Int64s, voters: Sequence[int]) -> Int64s:
    """Return the class of each vector, for each number of voters: (q, n)."""

    def work(search: Search, block: Float32s) -> Int64s:
        nearest = search.nearest(block)
        votes = [tally(nearest.first(n), index.owners, sizes) for n in voters]
        return np.stack([own.argmax(axis=1) for own in votes], axis=1)

    return search_rows(vectors, index, max(voters), work)


def _draw_folds(count: int, rng: np.random.Generator) -> Int64s:
    """Draw the fold of each of a class's vectors; an only one is for training only (-1)."""
    return rng.permutation(np.arange(count) % TUNING_FOLDS) if count > 1 else np.full(count, -1)
