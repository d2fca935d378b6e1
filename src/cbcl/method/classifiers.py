"""CBCLClassifier: scikit-learn estimator on the pure functions of the method."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock, RLock
from typing import Any, Literal, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cbcl.method.arrays import (
    Float32s,
    Float64s,
    Int64s,
    Matrix,
    as_count,
    as_radius,
    check_unmasked,
)
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.model import CentroidModel, Evidence, Options, learn
from cbcl.method.discriminant.model import DiscriminantModel, Standing, learn_statistics
from cbcl.method.discriminant.open_set import PRIOR_ODDS, Cosines
from cbcl.method.discriminant.statistics import ClassStatistics

Kind = TypeVar("Kind", CentroidModel, DiscriminantModel)

# Beside the classifiers: an attribute would be copied, cloned and pickled, which a lock cannot be.
_LOCKS: WeakKeyDictionary[CBCLClassifier, RLock] = WeakKeyDictionary()
_LOCKS_LOCK = Lock()


class CBCLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Incremental classifier that learns classes one after another from a few vectors each.

    Of each class, statistics are kept: its mean and the main axes of its scatter, in a fixed number
    of bytes. They add up and can be taken apart: learning a class leaves the others untouched, and
    forgetting it leaves nothing of it. A vector is labelled by a discriminant that is solved from
    the statistics of all classes, in closed form. With `head="vote"` it is the paper's learner:
    each class is clustered on its own into centroids, and a vector is labelled by the
    inverse-distance vote of its nearest centroids.

    Threads may share a classifier: what they teach is learned one call after another, and a
    prediction sees all of a call or nothing of it.

    Vectors of 64 features or more are taken for embeddings, of which the direction counts; those of
    fewer for measurements, which are compared as they are. All are compared in float32.

    Parameters
    ----------
    head : "discriminant" or "vote", default="discriminant"
        How vectors are labelled: see above. The parameters from `radius` to `random_state` are
        those of the vote.
    radius : float or "auto", default="auto"
        D in the paper: a vector closer than this to a centroid of its class joins it, any other
        becomes a centroid. `math.inf` keeps one centroid a class, 0 keeps every vector. "auto"
        chooses it from the vectors of the first call that has enough (see `cbcl.tune`), and keeps
        it; until then it is `math.inf`, which suits a few examples a class. When `max_centroids` is
        reached, it is widened for new classes that would take more than their share.
    n_voters : int or "auto", default="auto"
        n in the paper: how many nearest centroids vote. "auto" chooses it together with the radius;
        with `max_centroids`, it is 1.
    max_centroids : int or None, default=None
        K in the paper: the limit on centroids, over all classes. When more would be needed, k-means
        inside each class merges some. None: no limit.
    random_state : int, RandomState instance or None, default=0
        Seed of the k-means and of the cross-validation folds.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels known so far, sorted.
    statistics_ : dict
        Each label's `ClassStatistics`; of the discriminant only. All below are of the vote only.
    concepts_ : dict
        Each label's `Concepts`: its centroids, and the number of vectors behind each.
    centroids_, counts_ : arrays of shape (n_centroids, n_features) and (n_centroids,)
        The same for all labels, in the order of `classes_`.
    n_centroids_ : int
        The number of centroids.
    radius_, n_voters_ : float, int
        Those of the last call of `fit` or `partial_fit`.

    Examples
    --------
    >>> from cbcl import CBCLClassifier
    >>> vectors, labels = [[0.0, 1.0], [0.2, 0.9], [5.0, 5.0]], ["cup", "cup", "key"]
    >>> clf = CBCLClassifier().partial_fit(vectors, labels)
    >>> clf = clf.partial_fit([[9.0, 0.0], [9.1, 0.3]], ["pen", "pen"])
    >>> clf.predict([[8.0, 1.0], [0.0, 0.0]]).tolist()
    ['pen', 'cup']
    >>> clf.forget("pen").classes_.tolist()
    ['cup', 'key']

    """

    _knowledge: CentroidModel | DiscriminantModel

    def __init__(
        self,
        *,
        head: Literal["discriminant", "vote"] = "discriminant",
        radius: float | Literal["auto"] = "auto",
        n_voters: int | Literal["auto"] = "auto",
        max_centroids: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.head = head
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
        """Return a classifier that knows these concepts, label by label, and can learn more.

        Its head is the vote. `radius` and `n_voters` are those that the concepts were learned with;
        `params` are those of the constructor.

        >>> from cbcl import CBCLClassifier, agg_var
        >>> cups = agg_var([[0.0, 1.0], [0.2, 0.9]], radius=2.0)
        >>> keys = agg_var([[5.0, 5.0]], radius=2.0)
        >>> clf = CBCLClassifier.from_concepts({"cup": cups, "key": keys}, radius=2.0)
        >>> clf.predict([[4.0, 4.0]]).tolist()
        ['key']
        """
        learner = cls(head="vote", **params)
        by_label = {label: check_concepts(known) for label, known in sorted(concepts.items())}
        learner._knowledge = CentroidModel(
            by_label, as_radius(radius), as_count(n_voters, "n_voters")
        )
        learner.n_features_in_ = learner._knowledge.dimension
        return learner

    @classmethod
    def from_statistics(
        cls, statistics: Mapping[Any, ClassStatistics], *, cosines: Cosines | None = None
    ) -> Self:
        """Return a classifier that knows these statistics, label by label, and can learn more.

        `cosines` are those of the backbone that the vectors come from, where it was measured.

        >>> from cbcl import CBCLClassifier
        >>> clf = CBCLClassifier().fit([[0.0, 1.0], [5.0, 5.0]], ["cup", "key"])
        >>> CBCLClassifier.from_statistics(clf.statistics_).predict([[4.0, 4.0]]).tolist()
        ['key']
        """
        learner = cls()
        known = dict(sorted(statistics.items()))
        learner._knowledge = DiscriminantModel(known, cosines=cosines)
        learner.n_features_in_ = learner._knowledge.dimension
        return learner

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn these vectors and labels alone, forgetting all others."""
        with self._change():
            return self._learn(X, y, from_scratch=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: object = None) -> Self:  # noqa: ARG002
        """Learn more: new labels, more vectors of known ones, or both; one vector or a million.

        `classes` is ignored: it is there since scikit-learn's incremental learners take it.
        """
        with self._change():
            return self._learn(X, y, from_scratch=not self.__sklearn_is_fitted__())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        matrix, knowledge = self._validate(X)
        return knowledge.classes[knowledge.winners(matrix)]

    def predict_proba(self, X: ArrayLike) -> Float64s:
        """Return the probability of each label, in the order of `classes_`.

        That of the discriminant is calibrated on what was learned; that of the vote is each label's
        share of it, which is not.
        """
        matrix, knowledge = self._validate(X)
        return knowledge.probabilities(matrix)

    @available_if(lambda self: self.head != "vote")  # type: ignore[untyped-decorator]
    def predict_proba_open(
        self, X: ArrayLike, *, strangers: Literal["often", "sometimes", "rarely"] = "sometimes"
    ) -> Float64s:
        """Return the probability of each label and, in a last column, that of none of them.

        `predict_proba` takes for granted that a vector is of one of the labels; this does not.
        `strangers` is how often others are to be expected while few labels are known: for one
        vector in two ("often"), three or ten; the more are known, the less often. The vote has no
        such method: it keeps no vectors that could be left out to see what strangers look like.

        >>> from cbcl import CBCLClassifier
        >>> X, y = [[0.0, 1.0], [0.2, 0.9], [5.0, 5.0], [5.1, 4.8]], ["cup", "cup", "key", "key"]
        >>> clf = CBCLClassifier().fit(X, y)
        >>> clf.predict_proba_open([[0.1, 1.0], [90.0, 0.0]]).round(2).tolist()
        [[0.74, 0.0, 0.26], [0.0, 0.0, 1.0]]
        """
        if strangers not in PRIOR_ODDS:
            raise ValueError(f"strangers={strangers!r} is none of {', '.join(PRIOR_ODDS)}.")
        matrix, _ = self._validate(X)
        judgement = self._of(DiscriminantModel, "discriminant").judge(matrix, strangers)
        known = judgement.known[:, np.newaxis]
        return np.concatenate([known * judgement.shares, 1.0 - known], axis=1)

    def decision_function(self, X: ArrayLike) -> Float64s:
        """Return each label's score; of the vote its votes, Pred'(y) of equation 3.

        With two labels, it is one number: the second label's score less the first's; of the vote,
        its share of the votes less the first's.
        """
        matrix, knowledge = self._validate(X)
        scores = knowledge.decide(matrix)
        if scores.shape[1] == 2:
            lead: Float64s = scores[:, 1] - scores[:, 0]
            return lead
        return scores

    def explain(self, X: ArrayLike) -> Evidence | Standing:
        """Return the grounds of each vector's label.

        Of the discriminant, how the five likeliest labels stand: `Standing`. Of the vote, the
        centroids that voted, their labels, distances and weights: `Evidence`.
        """
        matrix, knowledge = self._validate(X)
        return knowledge.explain(matrix)

    def forget(self, label: Hashable) -> Self:
        """Forget a label: the others are, bit for bit, as if it had never been learned.

        With `max_centroids`, that holds as long as it was not reached: centroids that were merged
        to make room for it stay merged.
        """
        with self._change():
            rest = self._fitted().without(label)
            if rest is None:
                self.__dict__ = self.get_params(deep=False)
            else:
                self._knowledge = rest
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        return self._fitted().classes

    @property
    def statistics_(self) -> dict[Any, ClassStatistics]:
        return self._of(DiscriminantModel, "discriminant").statistics

    @property
    def concepts_(self) -> dict[Any, Concepts]:
        return self._of(CentroidModel, "vote").concepts

    @property
    def centroids_(self) -> Float32s:
        return self._of(CentroidModel, "vote").index.centroids

    @property
    def counts_(self) -> Int64s:
        return self._of(CentroidModel, "vote").index.counts

    @property
    def n_centroids_(self) -> int:
        return len(self._of(CentroidModel, "vote").index.owners)

    @property
    def radius_(self) -> float:
        return self._of(CentroidModel, "vote").radius

    @property
    def n_voters_(self) -> int:
        return self._of(CentroidModel, "vote").n_voters

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_knowledge")

    def _fitted(self) -> CentroidModel | DiscriminantModel:
        check_is_fitted(self)
        return self._knowledge

    def _of(self, kind: type[Kind], head: str) -> Kind:
        knowledge = self._fitted()
        if not isinstance(knowledge, kind):
            raise AttributeError(f"this is an attribute of head={head!r}, not of {self.head!r}.")
        return knowledge

    def _learn(self, X: ArrayLike, y: ArrayLike, *, from_scratch: bool) -> Self:
        learn_more = self._learner()
        check_unmasked(X, "X")
        check_unmasked(y, "y")
        matrix, targets = validate_data(
            self, X, y, reset=from_scratch, dtype=(np.float64, np.float32)
        )
        self._knowledge = learn_more(None if from_scratch else self._knowledge, matrix, targets)
        return self

    def _learner(self) -> Callable[[Any, Matrix, NDArray[Any]], CentroidModel | DiscriminantModel]:
        """Check the parameters, and return the function that learns by them."""
        if self.head == "vote":
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            options = Options.of(self.radius, self.n_voters, self.max_centroids, seed)
            return partial(learn, options=options)
        if self.head != "discriminant":
            raise ValueError(f"head={self.head!r} is neither 'discriminant' nor 'vote'.")
        given = {"radius": self.radius != "auto", "n_voters": self.n_voters != "auto"}
        given["max_centroids"] = self.max_centroids is not None
        for name in (name for name in given if given[name]):
            raise ValueError(f"{name} is a parameter of the vote: give head='vote' with it.")
        return learn_statistics

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change what is known, one thread after another; an error leaves all as it was."""
        with _lock_of(self):
            # Attributes are replaced, never changed in place: the old values are the old state.
            before = self.__dict__.copy()
            try:
                yield
            except BaseException:
                self.__dict__ = before
                raise

    def _validate(self, X: ArrayLike) -> tuple[Matrix, CentroidModel | DiscriminantModel]:
        knowledge = self._fitted()
        if type(X) is np.ndarray and not hasattr(self, "feature_names_in_"):
            fits = X.ndim == 2 and len(X) > 0 and X.shape[1] == knowledge.dimension
            if fits and X.dtype in (np.float32, np.float64):
                return X, knowledge  # both heads find NaN and infinity without another pass
        check_unmasked(X, "X")
        return validate_data(self, X, reset=False, dtype=(np.float64, np.float32)), knowledge


def _lock_of(classifier: CBCLClassifier) -> RLock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(classifier, RLock())


def _forget_locks() -> None:
    """Forget all locks: in a forked process, those that other threads held are nobody's."""
    global _LOCKS_LOCK
    _LOCKS_LOCK = Lock()
    _LOCKS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
