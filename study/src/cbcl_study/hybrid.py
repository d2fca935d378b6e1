"""CBCL put together from parts, so that an ablation swaps one of them (section 4.6, "hybrids").

A part is a function: how to choose the radius and the number of voters, how to cluster a class,
how to make room, how to vote. Other parts than CBCL's are in `cbcl_study.ablations`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_array, as_matrix
from cbcl.method.centroids import concepts, tuning
from cbcl.method.centroids.budget import ShrinkFunction, keep_to_limit, merge
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.model import CentroidModel, Options, kept_tuning, room_for
from cbcl.method.centroids.search import Search, search_rows
from cbcl.method.centroids.tuning import ClassRows, Tuning
from cbcl.method.centroids.voting import block_votes
from cbcl.method.model import group_rows
from cbcl_study.rivals.inputs import check_labels, check_width, nothing_learned

# After the matrix and its rows: the previous tuning and a seed; the radius and max_centroids; the
# radius and the known concepts.
ChooseFunction: TypeAlias = Callable[[Matrix, Sequence[ClassRows], Tuning | None, int], Tuning]
WidenFunction: TypeAlias = Callable[[Matrix, Sequence[ClassRows], float, int], float]
ClusterFunction: TypeAlias = Callable[[Matrix, Int64s, float, Concepts | None], Concepts]
VoteFunction: TypeAlias = Callable[[Search, Float32s], Float64s]  # votes on one block: (b, t)


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
        widen: WidenFunction | None = tuning.widen_radius,
        cluster: ClusterFunction = concepts.cluster,
        shrink: ShrinkFunction = merge,
        vote: VoteFunction = block_votes,
        max_centroids: int | None = None,
        seed: int = 0,
    ) -> None:
        # As CBCLClassifier draws it.
        seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        self.options = Options.of("auto", "auto", max_centroids, seed)
        self.choose = choose
        self.widen = widen
        self.cluster = cluster
        self.shrink = shrink
        self.vote = vote
        self.knowledge: CentroidModel | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        matrix, labels = as_matrix(X), as_array(y, "labels")
        check_labels(matrix, labels)
        if self.knowledge is not None:
            check_width(matrix, self.knowledge.index.centroids.shape[1])
        self.knowledge = self._learn(matrix, labels)
        return self

    def _learn(self, matrix: Matrix, labels: NDArray[Any]) -> CentroidModel:
        """Learn as `cbcl.method.centroids.model.learn` does, by these parts."""
        known = {} if self.knowledge is None else self.knowledge.concepts
        groups = group_rows(labels, known)
        classes = {label: ClassRows(rows, known.get(label)) for label, rows in groups.items()}
        every = [*classes.values()]
        before = kept_tuning(self.knowledge, every)
        seed, limit = self.options.seed, self.options.max_centroids
        if self.choose is None:
            chosen = self.options.choose(matrix, every, before)
        else:
            chosen = self.choose(matrix, every, before, seed)
        radius = chosen.radius
        if limit is not None and self.widen is not None:
            room = room_for(classes.keys(), known, limit)
            made = [concepts.cluster(matrix, rows, radius, old) for rows, old in every]
            if sum(len(one.counts) for one in made) > room:
                radius = self.widen(matrix, every, radius, room)
        learned = {
            label: self.cluster(matrix, rows, radius, old) for label, (rows, old) in classes.items()
        }
        everything = keep_to_limit(
            {**known, **learned}, limit, new=learned, seed=seed, shrink=self.shrink
        )
        return CentroidModel(everything, *chosen)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        knowledge, matrix = self._learned(), as_matrix(X)
        check_width(matrix, knowledge.index.centroids.shape[1])
        votes = search_rows(matrix, knowledge.index, knowledge.n_voters, self.vote)
        winners: Int64s = votes.argmax(axis=1)
        return knowledge.classes[winners]

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
