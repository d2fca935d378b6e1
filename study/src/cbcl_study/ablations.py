"""Parts to swap into CBCL: those of the paper's ablation, of its published code, and fixed radii.

p points of one class, m centroids, d features, b vectors of a block, t classes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
from scipy.cluster.hierarchy import ClusterWarning
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning

from cbcl.machine import one_thread
from cbcl.method.arrays import (
    Float32s,
    Float64s,
    Int64s,
    Matrix,
    as_count,
    as_float32,
    as_radius,
    read_only,
)
from cbcl.method.centroids import budget, concepts, tuning
from cbcl.method.centroids.budget import merge_groups
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.distances import distances_between
from cbcl.method.centroids.search import Index, Search, nearest
from cbcl.method.centroids.tuning import ClassRows, Tuning, mean_distance_to_mean
from cbcl.method.centroids.voting import sum_votes
from cbcl_study.hybrid import ChooseFunction, ClusterFunction

ROUNDING = 1e-11  # of squared distances computed from products, relative to the squared lengths


def fixed(scale: float, n_voters: int) -> ChooseFunction:
    """Return a `choose` of n voters and a radius of `scale` times the vectors' spread.

    The spread is the mean distance of a vector to the mean of its class, measured once, on the
    first increment that has a class of two different vectors; until then, there is one centroid a
    class. 0 keeps every vector, `math.inf` one centroid a class.
    """
    as_radius(scale)
    as_count(n_voters, "n_voters")

    def choose(
        matrix: Matrix,
        lessons: Sequence[ClassRows],
        before: Tuning | None,
        seed: int,  # noqa: ARG001
    ) -> Tuning:
        if before is not None and before.radius < math.inf:
            return before
        if scale in (0.0, math.inf):
            return Tuning(scale, n_voters)
        return Tuning(scale * mean_distance_to_mean(matrix, lessons) or math.inf, n_voters)

    return choose


def voters(n: int) -> ChooseFunction:
    """Return a `choose` of the radius for n voters; of one, the paper's "Single-Centroid-Pred".

    With a budget CBCL chooses one voter by itself; to tune n there too, pass
    `cbcl.method.centroids.tuning.choose`.
    """
    return partial(tuning.choose, n_voters=as_count(n, "n_voters"))


def agglomerative(
    matrix: Matrix,
    rows: Int64s,
    radius: float,
    known: Concepts | None = None,
    *,
    linkage: Literal["ward", "average", "complete", "single"] = "average",
) -> Concepts:
    """Cluster bottom-up into as many centroids as Agg-Var would make: the paper's "Trad-Agg".

    The paper names no linkage. The mean distance between points is the textbook's, and did best of
    the four on real vectors: a rival is shown at its best. A known centroid is one point, however
    many vectors stand behind it.
    """
    points, m = _points(matrix, rows, radius, known)
    if m == len(points.counts):
        return points
    with warnings.catch_warnings():
        # A few points may look like a matrix of distances.
        warnings.simplefilter("ignore", ClusterWarning)
        clustering = AgglomerativeClustering(m, linkage=linkage)
        groups = clustering.fit_predict(points.centroids.astype(np.float64))
    return merge_groups(points, points.counts, groups)


def k_means(seed: int) -> ClusterFunction:
    """Return a k-means that makes as many centroids as Agg-Var would: the paper's "K-means".

    A known centroid is a point with the weight of the vectors behind it.
    """

    def cluster(
        matrix: Matrix, rows: Int64s, radius: float, known: Concepts | None = None
    ) -> Concepts:
        points, m = _points(matrix, rows, radius, known)
        if m == len(points.counts):
            return points
        vectors, counts = points.centroids.astype(np.float64), points.counts
        # With more threads, the last bits would depend on how many there are.
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than m
            means = KMeans(m, n_init=1, random_state=seed, algorithm="lloyd")
            groups = means.fit_predict(vectors, sample_weight=counts)
        return merge_groups(points, counts, groups)

    return cluster


def _points(
    matrix: Matrix, rows: Int64s, radius: float, known: Concepts | None
) -> tuple[Concepts, int]:
    """Return known centroids and new vectors, and the number of clusters."""
    points, counts = as_float32(matrix[rows]), np.ones(len(rows), dtype=np.int64)
    if known is not None:
        points = np.concatenate([known.centroids, points])
        counts = np.concatenate([known.counts, counts])
    m = len(concepts.cluster(matrix, rows, radius, known).counts)
    return Concepts(read_only(points), read_only(counts)), m


def merge_evenly(known: Concepts, n: int, seed: int) -> Concepts:
    """Make room as `cbcl.merge` does, but count each centroid once, not the vectors behind it.

    The paper's Algorithm 3 can be read so, and its published code does it. A vector far from all
    others, which is a centroid by itself, then counts as much as one that stands for a hundred.

    >>> three = Concepts(np.float32([[0.0], [1.0], [9.0]]), np.array([3, 1, 2]))
    >>> merge_evenly(three, 2, seed=0).centroids.tolist()
    [[0.5], [9.0]]
    """
    if as_count(n, "n") >= len(known.counts):
        return known
    weights = np.ones_like(known.counts)
    with one_thread():
        groups = budget.k_means(known.centroids, weights, n, seed)
    return merge_groups(known, weights, groups)


def remove(known: Concepts, n: int, seed: int) -> Concepts:  # noqa: ARG001
    """Keep the first n concepts only: the paper's "Remove-Centroids".

    The vectors behind a removed centroid are counted with the nearest that stays, so that N_y of
    equation 3 remains.

    >>> three = Concepts(np.float32([[0.0], [1.0], [9.0]]), np.array([5, 1, 2]))
    >>> removed = remove(three, 2, seed=0)
    >>> removed.centroids.tolist(), removed.counts.tolist()
    ([[0.0], [1.0]], [5, 3])
    """
    kept = Concepts(known.centroids[: as_count(n, "n")].copy(), known.counts[:n].copy())
    if n < len(known.counts):
        places = nearest(known.centroids[n:], Index([kept]), 1).indices[:, 0]
        np.add.at(kept.counts, places, known.counts[n:])
    return Concepts(read_only(kept.centroids), read_only(kept.counts))


def rank_vote(search: Search, block: Float32s) -> Float64s:
    """Vote as the authors' published code does, which is not the paper's vote: (b, t).

    The voter of rank r at distance d votes (1 / r) (d_max - d) / (d_max - d_min), d_max being the
    distance to the farthest centroid of all; one at distance 0 votes 1. Where all distances are
    equal, which their code divides by zero, the fraction is taken as 1.

    >>> from cbcl import agg_var
    >>> from cbcl.method.centroids.search import Index
    >>> cups, keys = agg_var([[0.0], [3.0]], radius=1.0), agg_var([[6.0]], radius=1.0)
    >>> rank_vote(Search(Index([cups, keys]), 2), np.float32([[5.0]])).tolist()
    [[0.1875, 1.0]]
    """
    voters = search.nearest(block)
    near, far = voters.distances[:, :1], _farthest(search.index.centroids, block)[:, np.newaxis]
    ranks = np.arange(1, search.n + 1)
    width = np.where(far > near, far - near, 1.0)
    closeness = np.where(far > near, (far - voters.distances) / width, 1.0)
    weights = np.where(voters.distances == 0.0, 1.0, 1.0 / ranks * closeness)
    return sum_votes(voters, weights, search.index.owners, search.index.sizes)


def _farthest(centroids: Float32s, block: Float32s) -> Float64s:
    """Return the distance of each vector to its farthest centroid: (b,).

    |x - c|^2 = |x|^2 + |c|^2 - 2 x.c finds the centroids that may be the farthest; their distances
    are then measured as everywhere else.
    """
    a, c = block.astype(np.float64), centroids.astype(np.float64)
    lengths = (a * a).sum(axis=1)[:, np.newaxis] + (c * c).sum(axis=1)  # (b, m)
    squares = lengths - 2.0 * (a @ c.T)
    limits = squares.max(axis=1) - ROUNDING * lengths.max(axis=1)
    return np.array(
        [
            distances_between(vector, centroids[row >= limit]).max()
            for vector, row, limit in zip(block, squares, limits, strict=True)
        ]
    )
