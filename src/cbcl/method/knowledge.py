"""All that was learned, as one value: every class's concepts, and the radius and the number of voters to go on with.

q vectors, t classes, n voters. Learning and forgetting give a new value and leave the old one as it was, so a thread
that predicts meanwhile sees the old or the new, never a mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix
from cbcl.method.budget import Shrink, merge, reduce
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.search import Index, Search, search_rows
from cbcl.method.tuning import MANY, ClassRows, Tuning, are_many, choose, widened
from cbcl.method.voting import block_votes, vote_weights

Choose: TypeAlias = Callable[
    [Matrix, Sequence[ClassRows], Tuning | None, int], Tuning
]  # the tuning before, and a seed
Cluster: TypeAlias = Callable[
    [Matrix, Int64s, float, Concepts | None], Concepts
]  # rows, radius, what is known
Widen: TypeAlias = Callable[
    [Matrix, Sequence[ClassRows], float, int], float
]  # the radius, and how many centroids at most
Vote: TypeAlias = Callable[[Search, Float32s], Float64s]  # on one block: (b, t)


class Evidence(NamedTuple):
    """Why each of q vectors got its label: its n voters, the nearest first, all of shape (q, n)."""

    labels: NDArray[Any]
    distances: Float64s
    weights: Float64s  # of their votes: 1 / distance, times 1 / N_y; those of one label at distance 0 count once
    centroids: Int64s  # rows of the index: all centroids, in the order of the classes


class Options(NamedTuple):
    """What is given, and what is left to be chosen (None)."""

    radius: float | None = None
    n_voters: int | None = None
    max_centroids: int | None = None
    seed: int = 0

    def choose(
        self, matrix: Matrix, lessons: Sequence[ClassRows], before: Tuning | None, seed: int
    ) -> Tuning:
        """The radius and the number of voters: what is given, and the rest chosen for these lessons."""
        n_voters = self.n_voters
        if n_voters is None and self.max_centroids is not None:
            n_voters = 1  # what many voters gain among many centroids, they lose when the budget merges those
        if self.radius is not None and n_voters is not None:
            return Tuning(self.radius, n_voters)
        return choose(matrix, lessons, before, seed, radius=self.radius, n_voters=n_voters)


class Parts(NamedTuple):
    """What learning is made of: another function in a place is another method."""

    choose: Choose
    widen: Widen  # where newcomers would take more than their share of a full memory
    cluster: Cluster
    shrink: Shrink


@dataclass(frozen=True)
class Knowledge:
    """The concepts of at least one class, in the order of their labels, and what to go on with."""

    concepts: dict[Any, Concepts]
    radius: float
    n_voters: int

    @cached_property
    def labels(self) -> list[Any]:
        return [*self.concepts]

    @cached_property
    def classes(self) -> NDArray[Any]:
        classes = np.array(self.labels)
        if classes.tolist() != self.labels:  # such as integers that only a float could hold
            classes = np.array(self.labels, dtype=object)
        return classes

    @cached_property
    def index(self) -> Index:
        return Index([*self.concepts.values()])

    def without(self, label: Hashable) -> Knowledge | None:
        """What would be known had that label never been learned (unless room was made for it); None: nothing."""
        if label not in self.concepts:
            raise ValueError(
                f"{label!r} cannot be forgotten: the known labels are {list(self.concepts)}."
            )
        rest = {known: concepts for known, concepts in self.concepts.items() if known != label}
        return Knowledge(rest, self.radius, self.n_voters) if rest else None

    def winners(self, matrix: Matrix, vote: Vote = block_votes) -> Int64s:
        """The number of each vector's class: (q,)."""
        return search_rows(matrix, self.index, self.n_voters, partial(_block_winners, vote))

    def votes(self, matrix: Matrix) -> Float64s:
        """Pred'(y) of equation 3: (q, t)."""
        return search_rows(matrix, self.index, self.n_voters, block_votes)

    def evidence(self, matrix: Matrix) -> Evidence:
        voters = search_rows(matrix, self.index, self.n_voters, Search.voters)
        owners = self.index.owners[voters.indices]
        weights = vote_weights(voters.distances, self.index.sizes[owners])
        return Evidence(self.classes[owners], voters.distances, weights, voters.indices)


def learn(
    before: Knowledge | None, matrix: Matrix, targets: NDArray[Any], options: Options
) -> Knowledge:
    """What is known after these vectors and their labels, on top of what was known before."""
    parts = Parts(options.choose, widened if options.radius is None else as_given, cluster, merge)
    return learn_by(
        parts, before, matrix, targets, max_centroids=options.max_centroids, seed=options.seed
    )


def learn_by(
    parts: Parts,
    before: Knowledge | None,
    matrix: Matrix,
    targets: NDArray[Any],
    *,
    max_centroids: int | None,
    seed: int,
) -> Knowledge:
    """`learn`, made of these parts."""
    known = {} if before is None else before.concepts
    lessons = _lessons(targets, known)
    tuning = (
        None
        if before is None or _is_open(before, lessons)
        else Tuning(before.radius, before.n_voters)
    )
    radius, n_voters = parts.choose(matrix, [*lessons.values()], tuning, seed)
    within = radius
    if max_centroids is not None:
        others = [len(concepts.counts) for label, concepts in known.items() if label not in lessons]
        share = max_centroids * len(lessons) // (len(lessons) + len(others))
        within = parts.widen(
            matrix, [*lessons.values()], radius, max(share, max_centroids - sum(others))
        )
    learned = {
        label: parts.cluster(matrix, lesson.rows, within, lesson.known)
        for label, lesson in lessons.items()
    }
    everything = dict(sorted({**known, **learned}.items()))
    if max_centroids is not None:
        new = {number for number, label in enumerate(everything) if label in learned}
        fewer = reduce(
            [*everything.values()], max_centroids, new=new, seed=seed, shrink=parts.shrink
        )
        everything = dict(zip(everything, fewer, strict=True))
    return Knowledge(everything, radius, n_voters)


def as_given(matrix: Matrix, lessons: Sequence[ClassRows], radius: float, most: int) -> float:
    """The radius as it was given, however many centroids that makes."""
    return radius


def _is_open(before: Knowledge, lessons: dict[Any, ClassRows]) -> bool:
    """Whether what to go on with could not be chosen before, for want of vectors, and can be now."""
    if before.radius < np.inf or not before.concepts or not are_many([*lessons.values()]):
        return False
    return bool(before.index.sizes.mean() < MANY)


def _block_winners(vote: Vote, search: Search, block: Float32s) -> Int64s:
    winners: Int64s = vote(search, block).argmax(axis=1)
    return winners


def _lessons(targets: NDArray[Any], known: dict[Any, Concepts]) -> dict[Any, ClassRows]:
    """The rows to learn, label by label, each in the order given; with what is known of that label."""
    if targets.dtype.kind == "f" and (fractions := targets[targets != np.floor(targets)]).size:
        # scikit-learn's own check also warns of many classes with few examples each, which is what this is for.
        raise ValueError(
            f"Unknown label type: labels are names or whole numbers, but {fractions[0]} is neither."
        )
    kinds = {isinstance(label, str): label for label in [*known, *dict.fromkeys(targets.tolist())]}
    if len(kinds) > 1:
        raise ValueError(
            f"labels must be of one kind, but {kinds[True]!r} is a string and {kinds[False]!r} is not."
        )
    labels, codes = np.unique(targets, return_inverse=True)
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return {
        label: ClassRows(some, known.get(label))
        for label, some in zip(labels.tolist(), rows, strict=True)
    }
