"""CBCLClassifier: scikit-learn's adapter on the pure functions of the method."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_count, as_radius
from cbcl.method.budget import reduce
from cbcl.method.concepts import Concepts, cluster
from cbcl.method.search import Index, Search, in_blocks
from cbcl.method.tuning import Lesson, Tuning, choose
from cbcl.method.voting import block_votes, inverse


class Evidence(NamedTuple):
    """Why each of q vectors got its label: its n voters, the nearest first, all of shape (q, n)."""

    labels: NDArray[Any]
    distances: Float64s
    weights: Float64s  # what each adds to its label's votes: 1 / distance, times 1 / N_y
    centroids: Int64s  # rows of `centroids_`


@dataclass(frozen=True)
class _Memory:
    """All that was learned, replaced at once: a thread that predicts meanwhile sees the old or the new, never both."""

    concepts: dict[Any, Concepts]
    classes: NDArray[Any]
    index: Index
    radius: float
    n_voters: int


class CBCLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Learns classes one after another from a few vectors each, and never forgets one unless told to.

    Each class is clustered on its own into centroids; a vector is labelled by the inverse-distance vote of its nearest
    centroids. No vector is kept and nothing is retrained: learning a class leaves the others untouched until
    `max_centroids` is reached. Vectors are compared in float32.

    Parameters
    ----------
    radius : float or "auto", default="auto"
        D in the paper: a vector closer than this to a centroid of its class joins it, any other becomes a centroid.
        `math.inf` keeps one centroid a class, 0 keeps every vector. "auto" chooses it by cross-validation on the
        vectors of the call (see `cbcl.tune`); without evidence it is `math.inf`, which suits a few examples a class.
    n_voters : int or "auto", default="auto"
        n in the paper: how many nearest centroids vote. "auto" chooses it together with the radius; with
        `max_centroids`, it is 1.
    max_centroids : int or None, default=None
        K in the paper: the most centroids to keep, over all classes. When more would be needed, k-means inside each
        class makes room. None: no limit.
    random_state : int, RandomState instance or None, default=0
        Seed of the k-means and of the cross-validation folds.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels known so far, sorted.
    concepts_ : dict
        Each label's `Concepts`: its centroids, and how many vectors stand behind each.
    centroids_, counts_ : arrays of shape (n_centroids, n_features) and (n_centroids,)
        The same for all labels, in the order of `classes_`.
    n_centroids_ : int
        How many there are.
    radius_, n_voters_ : float, int
        What the last call of `fit` or `partial_fit` used.

    Examples
    --------
    >>> from cbcl import CBCLClassifier
    >>> clf = CBCLClassifier().partial_fit([[0.0, 1.0], [0.2, 0.9], [5.0, 5.0]], ["cup", "cup", "key"])
    >>> clf.partial_fit([[9.0, 0.0], [9.1, 0.3]], ["pen", "pen"]).predict([[8.0, 1.0], [0.0, 0.0]]).tolist()
    ['pen', 'cup']
    >>> clf.forget("pen").classes_.tolist()
    ['cup', 'key']

    """

    _memory: _Memory

    def __init__(
        self,
        *,
        radius: float | Literal["auto"] = "auto",
        n_voters: int | Literal["auto"] = "auto",
        max_centroids: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.radius = radius
        self.n_voters = n_voters
        self.max_centroids = max_centroids
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn these vectors and labels alone, forgetting all others."""
        with self._unchanged_on_error():
            return self._learn(X, y, afresh=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: object = None) -> Self:  # noqa: ARG002
        """Learn more: labels never seen before, more vectors of known ones, or both; one vector or a million.

        `classes` is there because scikit-learn's own incremental learners want it; it is not needed and not used.
        """
        with self._unchanged_on_error():
            return self._learn(X, y, afresh=not self.__sklearn_is_fitted__())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each vector."""
        matrix, memory = self._checked(X)
        winners = np.empty(len(matrix), dtype=np.int64)
        for rows, found in in_blocks(matrix, memory.index, memory.n_voters, _winners):
            winners[rows] = found
        return memory.classes[winners]

    def predict_proba(self, X: ArrayLike) -> Float64s:
        """Each label's share of the vote, in the order of `classes_`: shares, not calibrated probabilities."""
        votes = self._votes(X)
        votes /= votes.sum(axis=1, keepdims=True)
        return votes

    def decision_function(self, X: ArrayLike) -> Float64s:
        """Each label's votes, Pred'(y) of equation 3; with two labels, the second's share of them less the first's."""
        votes = self._votes(X)
        if votes.shape[1] == 2:  # one number, above 0 for the second label, in the order of its share
            lead: Float64s = (votes[:, 1] - votes[:, 0]) / votes.sum(axis=1)
            return lead
        return votes

    def explain(self, X: ArrayLike) -> Evidence:
        """The centroids that voted on each vector, their labels, distances and weights."""
        matrix, memory = self._checked(X)
        shape = (len(matrix), min(memory.n_voters, len(memory.index.owners)))
        indices, distances = np.empty(shape, dtype=np.int64), np.empty(shape)
        for rows, found in in_blocks(matrix, memory.index, memory.n_voters, Search.voters):
            indices[rows], distances[rows] = found
        owners = memory.index.owners[indices]
        weights = inverse(distances) * (1.0 / memory.index.sizes[owners])
        return Evidence(memory.classes[owners], distances, weights, indices)

    def forget(self, label: Hashable) -> Self:
        """Forget a label: what remains is, bit for bit, what would be there had it never been learned.

        That holds as long as `max_centroids` was not reached: room that others made for it is not given back.
        """
        check_is_fitted(self)
        if label not in self.concepts_:
            raise ValueError(f"{label!r} cannot be forgotten: the known labels are {self.classes_.tolist()}.")
        rest = {known: concepts for known, concepts in self.concepts_.items() if known != label}
        if rest:
            self._remember(rest, self.radius_, self.n_voters_)
        else:
            self.__dict__ = self.get_params(deep=False)
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        return self._learned().classes

    @property
    def concepts_(self) -> dict[Any, Concepts]:
        return self._learned().concepts

    @property
    def centroids_(self) -> Float32s:
        return self._learned().index.centroids

    @property
    def counts_(self) -> Int64s:
        return self._learned().index.counts

    @property
    def n_centroids_(self) -> int:
        return len(self._learned().index.owners)

    @property
    def radius_(self) -> float:
        return self._learned().radius

    @property
    def n_voters_(self) -> int:
        return self._learned().n_voters

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_memory")

    def _learned(self) -> _Memory:
        check_is_fitted(self)
        return self._memory

    def _learn(self, X: ArrayLike, y: ArrayLike, *, afresh: bool) -> Self:
        radius = None if _is_auto(self.radius) else as_radius(self.radius)
        limit = None if self.max_centroids is None else as_count(self.max_centroids, "max_centroids")
        n_voters = None if _is_auto(self.n_voters) else as_count(self.n_voters, "n_voters")
        if n_voters is None and limit is not None:
            n_voters = 1  # what many voters gain among many centroids, they lose when the budget merges those
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        matrix, targets = validate_data(self, X, y, reset=afresh, dtype=(np.float64, np.float32))
        known = {} if afresh else self.concepts_
        lessons = _lessons(targets, known)
        if radius is None or n_voters is None:
            before = None if afresh else Tuning(self.radius_, self.n_voters_)
            radius, n_voters = choose(matrix, [*lessons.values()], before, seed, radius=radius, n_voters=n_voters)
        learned = {label: cluster(matrix, lesson.rows, radius, lesson.known) for label, lesson in lessons.items()}
        everything = dict(sorted({**known, **learned}.items()))
        if limit is not None:
            new = {number for number, label in enumerate(everything) if label in learned}
            everything = dict(zip(everything, reduce([*everything.values()], limit, new=new, seed=seed), strict=True))
        self._remember(everything, radius, n_voters)
        return self

    def _remember(self, concepts: dict[Any, Concepts], radius: float, n_voters: int) -> None:
        classes = np.array(list(concepts))
        if classes.tolist() != list(concepts):  # such as integers that only a float could hold
            classes = np.array(list(concepts), dtype=object)
        self._memory = _Memory(concepts, classes, Index([*concepts.values()]), radius, n_voters)

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        # Everything learned is replaced, never changed in place, so the old values are the old state.
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _checked(self, X: ArrayLike) -> tuple[Matrix, _Memory]:
        memory = self._learned()
        if type(X) is np.ndarray and X.dtype in (np.float32, np.float64) and not hasattr(self, "feature_names_in_"):
            matrix: Matrix = X
            if matrix.ndim == 2 and len(matrix) and matrix.shape[1] == memory.index.centroids.shape[1]:
                return matrix, memory  # whether its numbers are finite, the search sees without another pass
        return validate_data(self, X, reset=False, dtype=(np.float64, np.float32)), memory

    def _votes(self, X: ArrayLike) -> Float64s:
        matrix, memory = self._checked(X)
        votes = np.empty((len(matrix), len(memory.classes)))
        for rows, found in in_blocks(matrix, memory.index, memory.n_voters, block_votes):
            votes[rows] = found
        return votes


def _winners(search: Search, block: Float32s) -> Int64s:
    winners: Int64s = block_votes(search, block).argmax(axis=1)
    return winners


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _lessons(targets: NDArray[Any], known: dict[Any, Concepts]) -> dict[Any, Lesson]:
    """The rows to learn, label by label, each in the order given; with what is known of that label."""
    if targets.dtype.kind == "f" and (fractions := targets[targets != np.floor(targets)]).size:
        # scikit-learn's own check also warns of many classes with few examples each, which is what this is for.
        raise ValueError(f"Unknown label type: labels are names or whole numbers, but {fractions[0]} is neither.")
    kinds = {isinstance(label, str): label for label in [*known, *dict.fromkeys(targets.tolist())]}
    if len(kinds) > 1:
        raise ValueError(f"labels must be of one kind, but {kinds[True]!r} is a string and {kinds[False]!r} is not.")
    labels, codes = np.unique(targets, return_inverse=True)
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return {label: Lesson(some, known.get(label)) for label, some in zip(labels.tolist(), rows, strict=True)}
