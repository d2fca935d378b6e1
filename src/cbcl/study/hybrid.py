"""CBCL put together from parts, so that an ablation swaps one of them (section 4.6 of the paper, the "hybrids").

p points of one class, m centroids, d features, b vectors of a block, t classes. A part is a function: how to choose the
radius and the number of voters, how to cluster a class, how to make room, how to vote. Two known learners are such
hybrids: nearest class mean is `Hybrid(choose=fixed(math.inf, 1))`, k nearest neighbours `Hybrid(choose=fixed(0.0, k))`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from cbcl.machine import one_thread
from cbcl.method import concepts, tuning
from cbcl.method.arrays import (
    Float64s,
    Int64s,
    Matrix,
    as_count,
    as_float32,
    as_matrix,
    as_radius,
    read_only,
)
from cbcl.method.budget import ShrinkFunction, merge
from cbcl.method.concepts import Concepts
from cbcl.method.knowledge import (
    ChooseFunction,
    ClusterFunction,
    Knowledge,
    LearningParts,
    Options,
    VoteFunction,
    WidenFunction,
    learn_by,
)
from cbcl.method.tuning import ClassRows, Tuning, spread
from cbcl.method.voting import block_votes
from cbcl.rivals.linear import check_labels, check_width, nothing_learned


class Hybrid:
    """A learner made of these parts; with none swapped it is `CBCLClassifier`, bit for bit.

    `choose` None chooses as CBCL does: radius and n by `cbcl.tune`, and n = 1 where there is a budget. Whatever
    the other parts are, its cross-validation clusters by Agg-Var and votes by 1 / distance.

    >>> nearest_class_mean = Hybrid(choose=fixed(math.inf, 1))
    >>> nearest_class_mean.partial_fit([[0.0], [4.0], [9.0]], ["cup", "cup", "key"]).predict([[5.0], [6.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(
        self,
        *,
        choose: ChooseFunction | None = None,
        widen: WidenFunction = tuning.widen_radius,
        cluster: ClusterFunction = concepts.cluster,
        shrink: ShrinkFunction = merge,
        vote: VoteFunction = block_votes,
        max_centroids: int | None = None,
        seed: int = 0,
    ) -> None:
        self.max_centroids = (
            None if max_centroids is None else as_count(max_centroids, "max_centroids")
        )
        self.seed = int(
            check_random_state(seed).randint(np.iinfo(np.int32).max)
        )  # as CBCLClassifier draws it
        self.parts = LearningParts(
            choose or Options(max_centroids=self.max_centroids).choose, widen, cluster, shrink
        )
        self.vote = vote
        self.knowledge: Knowledge | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        matrix, targets = as_matrix(X), np.asarray(y)
        check_labels(matrix, targets)
        check_width(
            matrix, None if self.knowledge is None else self.knowledge.index.centroids.shape[1]
        )
        most, seed = self.max_centroids, self.seed
        self.knowledge = learn_by(
            self.parts, self.knowledge, matrix, targets, max_centroids=most, seed=seed
        )
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each vector."""
        knowledge, matrix = self._learned(), as_matrix(X)
        check_width(matrix, knowledge.index.centroids.shape[1])
        return knowledge.classes[knowledge.winners(matrix, self.vote)]

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on."""
        knowledge = self._learned()
        return {
            "classes": knowledge.classes,
            "sizes": np.array([len(known.counts) for known in knowledge.concepts.values()]),
            "centroids": knowledge.index.centroids,
            "counts": knowledge.index.counts,
            "radius": np.array(knowledge.radius),
            "n_voters": np.array(knowledge.n_voters),
        }

    def _learned(self) -> Knowledge:
        if self.knowledge is None:
            raise nothing_learned()
        return self.knowledge


def fixed(scale: float, n_voters: int) -> ChooseFunction:
    """So many voters, and a radius so many times the mean distance of a vector to the mean of its class.

    That distance is measured once, on the first increment that has a class of two different vectors; until then, there
    is one centroid a class. 0 keeps every vector, `math.inf` one centroid a class.
    """
    as_radius(scale)
    as_count(n_voters, "n_voters")

    def chosen(
        matrix: Matrix, lessons: Sequence[ClassRows], before: Tuning | None, seed: int
    ) -> Tuning:
        if before is not None and before.radius < math.inf:
            return before
        if scale in (0.0, math.inf):
            return Tuning(scale, n_voters)
        return Tuning(scale * spread(matrix, lessons) or math.inf, n_voters)

    return chosen


def single(
    matrix: Matrix, lessons: Sequence[ClassRows], before: Tuning | None, seed: int
) -> Tuning:
    """One voter, and the radius chosen for one voter: the paper's "Single-Centroid-Pred".

    With a budget CBCL chooses that by itself; `cbcl.method.tuning.choose` in its place is what tunes n there too.
    """
    return tuning.choose(matrix, lessons, before, seed, n_voters=1)


def agglomerative(
    matrix: Matrix,
    rows: Int64s,
    radius: float,
    known: Concepts | None = None,
    *,
    linkage: Literal["ward", "average", "complete", "single"] = "average",
) -> Concepts:
    """As many centroids as Agg-Var would make, by bottom-up clustering: the paper's "Trad-Agg".

    The paper does not say how two clusters are compared. The mean distance between their points is the textbook's way,
    and did best of the four on real vectors: a rival is shown at its best. A known centroid is one point, however many
    vectors stand behind it.
    """
    points, counts, m = _points(matrix, rows, radius, known)
    if m == len(points):
        return _grouped(points, counts, np.arange(m))
    return _grouped(points, counts, AgglomerativeClustering(m, linkage=linkage).fit_predict(points))


def k_means(seed: int) -> ClusterFunction:
    """As many centroids as Agg-Var would make, by k-means drawn with this seed: the paper's "K-means".

    A known centroid is a point with the weight of the vectors behind it.
    """

    def clustered(
        matrix: Matrix, rows: Int64s, radius: float, known: Concepts | None = None
    ) -> Concepts:
        points, counts, m = _points(matrix, rows, radius, known)
        if m == len(points):
            return _grouped(points, counts, np.arange(m))
        with (
            warnings.catch_warnings(),
            one_thread(),
        ):  # with more, the last bits would depend on how many there are
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than m
            means = KMeans(m, n_init=1, random_state=seed, algorithm="lloyd")
            return _grouped(points, counts, means.fit_predict(points, sample_weight=counts))

    return clustered


def _points(
    matrix: Matrix, rows: Int64s, radius: float, known: Concepts | None
) -> tuple[Float64s, Int64s, int]:  # (p, d), (p,), m
    """What is to be clustered, and into how many: the centroids known, each for its vectors, and the new vectors."""
    points, counts = as_float32(matrix[rows]).astype(np.float64), np.ones(len(rows), dtype=np.int64)
    if known is not None:
        points, counts = (
            np.concatenate([known.centroids, points]),
            np.concatenate([known.counts, counts]),
        )
    return points, counts, len(concepts.cluster(matrix, rows, radius, known).counts)


def _grouped(points: Float64s, counts: Int64s, groups: Int64s) -> Concepts:
    """One centroid a group, in the order of their first points: the mean of all vectors behind it."""
    labels, firsts = np.unique(groups, return_index=True)
    members = [np.flatnonzero(groups == label) for label in labels[np.argsort(firsts)]]
    centroids = [np.average(points[some], axis=0, weights=counts[some]) for some in members]
    sizes = np.array([counts[some].sum() for some in members], dtype=np.int64)
    return Concepts(read_only(np.array(centroids, dtype=np.float32)), read_only(sizes))
