"""All that was learned, as one value: the concepts of every class, the radius and the voters.

q vectors, t classes, n voters. Learning and forgetting return a new value and do not change the old
one, so a thread that predicts meanwhile sees the old or the new, never a mixture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_count, as_radius
from cbcl.method.blocks import map_classes
from cbcl.method.centroids.budget import keep_to_limit
from cbcl.method.centroids.concepts import Concepts, cluster
from cbcl.method.centroids.search import Index, Search, search_rows
from cbcl.method.centroids.tuning import (
    MIN_VECTORS_FOR_RADIUS,
    ClassRows,
    Tuning,
    choose,
    have_many_vectors,
    widen_radius,
)
from cbcl.method.centroids.voting import block_votes, vote_weights
from cbcl.method.model import Model, group_rows


class Evidence(NamedTuple):
    """The n voters on each of q vectors, the nearest first: arrays of shape (q, n)."""

    labels: NDArray[Any]
    distances: Float64s
    weights: Float64s  # 1 / distance, times 1 / N_y; those of one label at distance 0 count once
    centroids: Int64s  # rows of the index: all centroids, in the order of the classes


class Options(NamedTuple):
    """Options of learning; a radius or number of voters of None is to be chosen."""

    radius: float | None = None
    n_voters: int | None = None
    max_centroids: int | None = None
    seed: int = 0

    @classmethod
    def of(
        cls, radius: object, n_voters: object, max_centroids: object = None, seed: int = 0
    ) -> Options:
        """Check options as users give them: "auto" for those to be chosen, None for no limit."""
        return cls(
            None if _is_auto(radius) else as_radius(radius),
            None if _is_auto(n_voters) else as_count(n_voters, "n_voters"),
            None if max_centroids is None else as_count(max_centroids, "max_centroids"),
            seed,
        )

    def choose(self, matrix: Matrix, classes: Sequence[ClassRows], before: Tuning | None) -> Tuning:
        """Return the radius and the number of voters as given, and choose those that are not."""
        n_voters = self.n_voters
        if n_voters is None and self.max_centroids is not None:
            n_voters = 1  # more voters help among many centroids, and harm when those are merged
        if self.radius is not None and n_voters is not None:
            return Tuning(self.radius, n_voters)
        return choose(matrix, classes, before, self.seed, radius=self.radius, n_voters=n_voters)


@dataclass(frozen=True)
class CentroidModel(Model):
    """The concepts of at least one class, in the order of their labels, and the tuning."""

    concepts: dict[Any, Concepts]
    radius: float
    n_voters: int

    @property
    def known(self) -> dict[Any, Concepts]:
        return self.concepts

    @property
    def dimension(self) -> int:
        return int(self.index.centroids.shape[1])

    @cached_property
    def index(self) -> Index:
        return Index([*self.concepts.values()])

    def of_others(self, known: dict[Any, Concepts]) -> CentroidModel:
        return replace(self, concepts=known)

    def winners(self, matrix: Matrix) -> Int64s:
        return search_rows(matrix, self.index, self.n_voters, _block_winners)

    def votes(self, matrix: Matrix) -> Float64s:
        """Return Pred'(y) of equation 3: (q, t)."""
        return search_rows(matrix, self.index, self.n_voters, block_votes)

    def probabilities(self, matrix: Matrix) -> Float64s:
        """Return each class's share of the vote, which is not calibrated: (q, t)."""
        votes = self.votes(matrix)
        votes /= votes.sum(axis=1, keepdims=True)
        return votes

    def decide(self, matrix: Matrix) -> Float64s:
        """Return the votes; of two classes, the shares, which can be compared: (q, t)."""
        return self.probabilities(matrix) if len(self.concepts) == 2 else self.votes(matrix)

    def explain(self, matrix: Matrix) -> Evidence:
        """Return the voters on each vector."""
        voters = search_rows(matrix, self.index, self.n_voters, Search.voters)
        owners = self.index.owners[voters.indices]
        weights = vote_weights(voters.distances, self.index.sizes[owners])
        return Evidence(self.classes[owners], voters.distances, weights, voters.indices)


def learn(
    before: CentroidModel | None, matrix: Matrix, targets: NDArray[Any], options: Options
) -> CentroidModel:
    """Return the knowledge after learning these vectors and their labels."""
    known = {} if before is None else before.concepts
    groups = group_rows(targets, known)
    classes = {label: ClassRows(rows, known.get(label)) for label, rows in groups.items()}
    every = [*classes.values()]
    tuning = options.choose(matrix, every, kept_tuning(before, every))
    learned = _cluster_classes(matrix, classes, tuning.radius)
    if options.max_centroids is not None and options.radius is None:
        room = room_for(classes.keys(), known, options.max_centroids)
        if sum(len(concepts.counts) for concepts in learned.values()) > room:
            radius = widen_radius(matrix, every, tuning.radius, room)
            learned = _cluster_classes(matrix, classes, radius)
    everything = keep_to_limit(
        {**known, **learned}, options.max_centroids, new=learned, seed=options.seed
    )
    return CentroidModel(everything, *tuning)


def kept_tuning(before: CentroidModel | None, classes: Sequence[ClassRows]) -> Tuning | None:
    """Return the tuning chosen before; None: none yet, or of too few vectors where now are many."""
    if before is None:
        return None
    is_open = before.radius == np.inf and bool(before.concepts) and have_many_vectors(classes)
    if is_open and before.index.sizes.mean() < MIN_VECTORS_FOR_RADIUS:
        return None
    return Tuning(before.radius, before.n_voters)


def room_for(new: Set[Any], known: Mapping[Any, Concepts], max_centroids: int) -> int:
    """Return how many centroids new classes may have: their share, or what the others leave."""
    others = sum(len(known[label].counts) for label in known.keys() - new)
    share = max_centroids * len(new) // len(known.keys() | new)
    return max(share, max_centroids - others)


def _cluster_classes(
    matrix: Matrix, classes: dict[Any, ClassRows], radius: float
) -> dict[Any, Concepts]:
    def work(one: ClassRows) -> Concepts:
        return cluster(matrix, one.rows, radius, one.known)

    n_rows = sum(len(one.rows) for one in classes.values())
    clustered = map_classes(work, classes.values(), n_rows * matrix.shape[1])
    return dict(zip(classes, clustered, strict=True))


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _block_winners(search: Search, block: Float32s) -> Int64s:
    winners: Int64s = block_votes(search, block).argmax(axis=1)
    return winners
