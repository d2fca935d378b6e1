"""CBCL put together from parts, so that an ablation swaps one of them (section 4.6, "hybrids").

A part is a function: how to choose the radius and the number of voters, how to cluster a class,
how to make room, how to vote. Other parts than CBCL's are in `cbcl_study.ablations`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from cbcl.method.arrays import as_array, as_count, as_matrix
from cbcl.method.centroids import concepts, tuning
from cbcl.method.centroids.budget import ShrinkFunction, merge
from cbcl.method.centroids.model import (
    CentroidModel,
    ChooseFunction,
    ClusterFunction,
    LearningParts,
    Options,
    VoteFunction,
    WidenFunction,
    learn_by,
)
from cbcl.method.centroids.voting import block_votes
from cbcl_study.rivals.inputs import check_labels, check_width, nothing_learned


class Hybrid:
    """A learner made of these parts; with none swapped it is CBCL by vote, bit for bit.

    `choose` None chooses as CBCL does: radius and n by `cbcl.tune`, and n = 1 where there is a
    budget. Whatever the other parts are, its cross-validation clusters by Agg-Var and votes by
    1 / distance. Nearest class mean is `Hybrid(choose=fixed(math.inf, 1))`, k nearest neighbours
    `Hybrid(choose=fixed(0.0, k))`.

    >>> import math
    >>> from cbcl_study.ablations import fixed
    >>> vectors, labels = [[0.0], [4.0], [9.0]], ["cup", "cup", "key"]
    >>> nearest_class_mean = Hybrid(choose=fixed(math.inf, 1)).partial_fit(vectors, labels)
    >>> nearest_class_mean.predict([[5.0], [6.0]]).tolist()
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
        # As CBCLClassifier draws it.
        self.seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        choose = choose or Options(max_centroids=self.max_centroids).choose
        self.parts = LearningParts(choose, widen, cluster, shrink)
        self.vote = vote
        self.knowledge: CentroidModel | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        matrix, labels = as_matrix(X), as_array(y, "labels")
        check_labels(matrix, labels)
        if self.knowledge is not None:
            check_width(matrix, self.knowledge.index.centroids.shape[1])
        self.knowledge = learn_by(
            self.parts,
            self.knowledge,
            matrix,
            labels,
            max_centroids=self.max_centroids,
            seed=self.seed,
        )
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        knowledge, matrix = self._learned(), as_matrix(X)
        check_width(matrix, knowledge.index.centroids.shape[1])
        return knowledge.classes[knowledge.winners(matrix, self.vote)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        knowledge = self._learned()
        return {
            "classes": knowledge.classes,
            "sizes": np.array([len(one.counts) for one in knowledge.concepts.values()]),
            "centroids": knowledge.index.centroids,
            "counts": knowledge.index.counts,
            "radius": np.array(knowledge.radius),
            "n_voters": np.array(knowledge.n_voters),
        }

    def _learned(self) -> CentroidModel:
        if self.knowledge is None:
            raise nothing_learned()
        return self.knowledge
