"""CBCLClassifier: scikit-learn's adapter on the pure functions of the method."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cbcl.method.arrays import Float32s, Float64s, Int64s, Matrix, as_count, as_radius
from cbcl.method.concepts import Concepts, checked
from cbcl.method.knowledge import Evidence, Knowledge, Options, learn


class CBCLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Learns classes one after another from a few vectors each, and never forgets one unless told to.

    Each class is clustered on its own into centroids; a vector is labelled by the inverse-distance vote of its nearest
    centroids. No vector is kept and nothing is retrained: learning a class leaves the others untouched until
    `max_centroids` is reached. Vectors are compared in float32.

    Parameters
    ----------
    radius : float or "auto", default="auto"
        D in the paper: a vector closer than this to a centroid of its class joins it, any other becomes a centroid.
        `math.inf` keeps one centroid a class, 0 keeps every vector. "auto" chooses it from the vectors of
        the first call that has enough (see `cbcl.tune`), and keeps it; until then it is `math.inf`, which suits a few
        examples a class. In a full memory it is widened for newcomers that would take more than their share.
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

    _knowledge: Knowledge

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

    @classmethod
    def from_concepts(
        cls,
        concepts: Mapping[Any, Concepts],
        *,
        radius: float = math.inf,
        n_voters: int = 1,
        **params: Any,
    ) -> Self:
        """A classifier that knows these concepts, label by label, and goes on learning from there.

        `radius` and `n_voters` are what they were learned with; `params` are those of the constructor.

        >>> from cbcl import CBCLClassifier, agg_var
        >>> cups, keys = agg_var([[0.0, 1.0], [0.2, 0.9]], radius=2.0), agg_var([[5.0, 5.0]], radius=2.0)
        >>> CBCLClassifier.from_concepts({"cup": cups, "key": keys}, radius=2.0).predict([[4.0, 4.0]]).tolist()
        ['key']
        """
        learner = cls(**params)
        known = {label: checked(learned) for label, learned in sorted(concepts.items())}
        learner._knowledge = Knowledge(known, as_radius(radius), as_count(n_voters, "n_voters"))
        learner.n_features_in_ = learner._knowledge.index.centroids.shape[1]
        return learner

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn these vectors and labels alone, forgetting all others."""
        with self._unchanged_on_error():
            return self._learn(X, y, afresh=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: object = None) -> Self:
        """Learn more: labels never seen before, more vectors of known ones, or both; one vector or a million.

        `classes` is there because scikit-learn's own incremental learners want it; it is not needed and not used.
        """
        with self._unchanged_on_error():
            return self._learn(X, y, afresh=not self.__sklearn_is_fitted__())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each vector."""
        matrix, knowledge = self._checked(X)
        return knowledge.classes[knowledge.winners(matrix)]

    def predict_proba(self, X: ArrayLike) -> Float64s:
        """Each label's share of the vote, in the order of `classes_`: shares, not calibrated probabilities."""
        votes = self._votes(X)
        votes /= votes.sum(axis=1, keepdims=True)
        return votes

    def decision_function(self, X: ArrayLike) -> Float64s:
        """Each label's votes, Pred'(y) of equation 3; with two labels, the second's share of them less the first's."""
        votes = self._votes(X)
        if (
            votes.shape[1] == 2
        ):  # one number, above 0 for the second label, in the order of its share
            lead: Float64s = (votes[:, 1] - votes[:, 0]) / votes.sum(axis=1)
            return lead
        return votes

    def explain(self, X: ArrayLike) -> Evidence:
        """The centroids that voted on each vector, their labels, distances and weights."""
        matrix, knowledge = self._checked(X)
        return knowledge.evidence(matrix)

    def forget(self, label: Hashable) -> Self:
        """Forget a label: what remains is, bit for bit, what would be there had it never been learned.

        That holds as long as `max_centroids` was not reached: room that others made for it is not given back.
        """
        rest = self._learned().without(label)
        if rest is None:
            self.__dict__ = self.get_params(deep=False)
        else:
            self._knowledge = rest
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
        return hasattr(self, "_knowledge")

    def _learned(self) -> Knowledge:
        check_is_fitted(self)
        return self._knowledge

    def _learn(self, X: ArrayLike, y: ArrayLike, *, afresh: bool) -> Self:
        options = Options(
            radius=None if _is_auto(self.radius) else as_radius(self.radius),
            n_voters=None if _is_auto(self.n_voters) else as_count(self.n_voters, "n_voters"),
            max_centroids=None
            if self.max_centroids is None
            else as_count(self.max_centroids, "max_centroids"),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
        )
        matrix, targets = validate_data(self, X, y, reset=afresh, dtype=(np.float64, np.float32))
        self._knowledge = learn(None if afresh else self._knowledge, matrix, targets, options)
        return self

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        # Everything learned is replaced, never changed in place, so the old values are the old state.
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _checked(self, X: ArrayLike) -> tuple[Matrix, Knowledge]:
        knowledge = self._learned()
        if (
            type(X) is np.ndarray
            and X.dtype in (np.float32, np.float64)
            and not hasattr(self, "feature_names_in_")
        ):
            matrix: Matrix = X
            if (
                matrix.ndim == 2
                and len(matrix)
                and matrix.shape[1] == knowledge.index.centroids.shape[1]
            ):
                return (
                    matrix,
                    knowledge,
                )  # whether its numbers are finite, the search sees without another pass
        return validate_data(self, X, reset=False, dtype=(np.float64, np.float32)), knowledge

    def _votes(self, X: ArrayLike) -> Float64s:
        matrix, knowledge = self._checked(X)
        return knowledge.votes(matrix)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"
