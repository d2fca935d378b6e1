"""The two classifiers: scikit-learn estimators on the pure functions of the method."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from threading import Lock, RLock
from typing import Any, Generic, Literal, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cbcl.method.arrays import (
    Float32s,
    Float64s,
    Int64s,
    Matrix,
    as_count,
    as_radius,
    check_unmasked,
    not_finite,
)
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.model import CentroidModel, Evidence, Options, learn
from cbcl.method.discriminant.model import DiscriminantModel, Standing, learn_statistics
from cbcl.method.discriminant.open_set import PRIOR_ODDS, Cosines
from cbcl.method.discriminant.statistics import ClassStatistics
from cbcl.method.model import Model

M = TypeVar("M", bound=Model)
Init = TypeVar("Init", bound=Callable[..., None])

FITTED_ATTRIBUTES = ("_model", "n_features_in_", "feature_names_in_")

# Beside the classifiers: an attribute would be copied, cloned and pickled, which a lock cannot be.
_LOCKS: WeakKeyDictionary[IncrementalClassifier[Any], RLock] = WeakKeyDictionary()
_LOCKS_LOCK = Lock()


# scikit-learn has no types
class IncrementalClassifier(ClassifierMixin, BaseEstimator, ABC, Generic[M]):  # type: ignore[misc]
    """Methods of both classifiers.

    Threads may share a classifier: what they teach is learned one call after another, and a
    prediction sees all of a call or nothing of it. A parameter that is changed by `set_params`
    counts from the next call of `fit` or `partial_fit` on.
    """

    _model: M

    @abstractmethod
    def _learn(self, before: M | None, matrix: Matrix, targets: NDArray[Any]) -> M:
        """Check the parameters, and return the model after learning these vectors and labels."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn these vectors and labels alone, forgetting all others."""
        with self._change():
            matrix, targets = self._validate(X, y, reset=True)
            self._model = self._learn(None, matrix, targets)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: object = None) -> Self:  # noqa: ARG002
        """Learn more: new labels, more vectors of known ones, or both; one vector or a million.

        `classes` is ignored: it is there since scikit-learn's incremental learners take it.
        """
        with self._change():
            before = self._model if self.__sklearn_is_fitted__() else None
            matrix, targets = self._validate(X, y, reset=before is None)
            self._model = self._learn(before, matrix, targets)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        model = self._fitted()
        return model.classes[model.winners(self._as_matrix(X, model))]

    def predict_proba(self, X: ArrayLike) -> Float64s:
        """Return the probability of each label, in the order of `classes_`."""
        model = self._fitted()
        return model.probabilities(self._as_matrix(X, model))

    def decision_function(self, X: ArrayLike) -> Float64s:
        """Return each label's score; of two labels one number, by which the second leads."""
        model = self._fitted()
        scores = model.decide(self._as_matrix(X, model))
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def forget(self, label: Hashable) -> Self:
        """Forget a label: the others are, bit for bit, as if it had never been learned."""
        with self._change():
            rest = self._fitted().without(label)
            if rest is None:
                for name in FITTED_ATTRIBUTES:
                    self.__dict__.pop(name, None)
            else:
                self._model = rest
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        return self._fitted().classes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _fitted(self) -> M:
        check_is_fitted(self)
        return self._model

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Change what is known, one thread after another; an error leaves all as it was."""
        with _LOCKS_LOCK:
            lock = _LOCKS.setdefault(self, RLock())
        with lock:
            # Attributes are replaced, never changed in place: the old values are the old state.
            before = self.__dict__.copy()
            try:
                yield
            except BaseException:
                self.__dict__ = before
                raise

    def _as_matrix(self, X: ArrayLike, model: M) -> Matrix:
        """Return vectors to label as a matrix."""
        if type(X) is np.ndarray and not hasattr(self, "feature_names_in_"):
            fits = X.ndim == 2 and len(X) > 0 and X.shape[1] == model.dimension
            if fits and X.dtype in (np.float32, np.float64):
                return X  # the models find NaN and infinity without another pass
        matrix: Matrix = self._validate(X, reset=False)
        return matrix

    def _validate(self, X: ArrayLike, *y: ArrayLike, reset: bool) -> Any:
        """Return vectors, and their labels if given, as arrays that scikit-learn has checked."""
        for name, values in zip("Xy", (X, *y), strict=False):
            check_unmasked(values, name)
        try:
            with np.errstate(over="ignore"):  # too large for float64 is infinite, and refused
                return validate_data(self, X, *y, reset=reset, dtype=(np.float64, np.float32))
        except OverflowError as error:  # a whole number of Python's that is too large
            raise not_finite("vectors") from error


def _refuse_head(init: Init) -> Init:
    """Make a constructor name the other class where it is given the `head` of version 0.1."""

    @wraps(init)
    def checked(self: object, *args: object, **params: object) -> None:
        if "head" in params:
            raise TypeError(
                "CBCLClassifier is the paper's learner, which was head='vote': leave head out; "
                "what was head='discriminant' is cbcl.DiscriminantClassifier."
            )
        init(self, *args, **params)

    return cast(Init, checked)


class CBCLClassifier(IncrementalClassifier[CentroidModel]):
    """Centroid-Based Concept Learning, the learner of Ayub and Wagner (2020).

    Each class is clustered on its own into centroids (Agg-Var: Algorithm 1, equation 1), and a
    vector is labelled by the inverse-distance vote of its nearest centroids (Algorithm 2, equations
    2 and 3). A limit on centroids is kept by merging some of the known classes (Algorithm 3,
    equation 4). Vectors are compared in float32. `DiscriminantClassifier` is more accurate; this
    one is the paper's.

    `decision_function` returns the votes, Pred'(y) of equation 3; of two labels, by how much the
    second's share of the votes is larger. `predict_proba` returns each label's share of the votes,
    which is not calibrated. With `max_centroids`, forgetting a label is exact as long as it was not
    reached: centroids that were merged to make room for the label stay merged.

    Parameters
    ----------
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
    concepts_ : dict
        Each label's `Concepts`: its centroids, and the number of vectors behind each, w in the
        paper.
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
    >>> clf = CBCLClassifier(radius=2.0, n_voters=1).partial_fit(vectors, labels)
    >>> clf = clf.partial_fit([[9.0, 0.0], [9.0, 4.0]], ["pen", "pen"])
    >>> clf.counts_.tolist()
    [2, 1, 1, 1]
    >>> clf.predict([[8.0, 1.0], [0.0, 0.0]]).tolist()
    ['pen', 'cup']
    >>> clf.forget("pen").classes_.tolist()
    ['cup', 'key']

    """

    @_refuse_head
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
        """Return a classifier that knows these concepts, label by label, and can learn more.

        `radius` and `n_voters` are those that the concepts were learned with; `params` are those of
        the constructor.

        >>> from cbcl import CBCLClassifier, agg_var
        >>> cups = agg_var([[0.0, 1.0], [0.2, 0.9]], radius=2.0)
        >>> keys = agg_var([[5.0, 5.0]], radius=2.0)
        >>> clf = CBCLClassifier.from_concepts({"cup": cups, "key": keys}, radius=2.0)
        >>> clf.predict([[4.0, 4.0]]).tolist()
        ['key']
        """
        learner = cls(**params)
        by_label = {label: check_concepts(known) for label, known in sorted(concepts.items())}
        learner._model = CentroidModel(by_label, as_radius(radius), as_count(n_voters, "n_voters"))
        learner.n_features_in_ = learner._model.dimension
        return learner

    def explain(self, X: ArrayLike) -> Evidence:
        """Return the centroids that voted on each vector, their labels, distances and weights."""
        model = self._fitted()
        return model.explain(self._as_matrix(X, model))

    @property
    def concepts_(self) -> dict[Any, Concepts]:
        return self._fitted().concepts

    @property
    def centroids_(self) -> Float32s:
        return self._fitted().index.centroids

    @property
    def counts_(self) -> Int64s:
        return self._fitted().index.counts

    @property
    def n_centroids_(self) -> int:
        return len(self._fitted().index.owners)

    @property
    def radius_(self) -> float:
        return self._fitted().radius

    @property
    def n_voters_(self) -> int:
        return self._fitted().n_voters

    def _learn(
        self, before: CentroidModel | None, matrix: Matrix, targets: NDArray[Any]
    ) -> CentroidModel:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        options = Options.of(self.radius, self.n_voters, self.max_centroids, seed)
        return learn(before, matrix, targets, options)


class DiscriminantClassifier(IncrementalClassifier[DiscriminantModel]):
    """Discriminant that learns classes one after another from a few vectors each.

    Of each class, statistics are kept: its mean and the main axes of its scatter, in a fixed number
    of bytes. They add up and can be taken apart: learning a class leaves the others untouched, and
    forgetting it leaves nothing of it. A vector is labelled by a discriminant that is solved from
    the statistics of all classes, in closed form. Its probabilities are calibrated on what was
    learned.

    Vectors of 64 features or more are taken for embeddings, whose direction counts; those of fewer
    for measurements, which are compared as they are. All are compared in float32.

    Parameters
    ----------
    cosines : Cosines or None, default=None
        Cosines that were measured for the backbone that the vectors come from: by them
        `predict_proba_open` tells strangers before much is learned. `Recognizer.as_estimator` gives
        those of its backbone. None: not measured.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels known so far, sorted.
    statistics_ : dict
        Each label's `ClassStatistics`.

    Examples
    --------
    >>> from cbcl import DiscriminantClassifier
    >>> vectors, labels = [[0.0, 1.0], [0.2, 0.9], [5.0, 5.0]], ["cup", "cup", "key"]
    >>> clf = DiscriminantClassifier().partial_fit(vectors, labels)
    >>> clf = clf.partial_fit([[9.0, 0.0], [9.1, 0.3]], ["pen", "pen"])
    >>> clf.predict([[8.0, 1.0], [0.0, 0.0]]).tolist()
    ['pen', 'cup']
    >>> clf.forget("pen").classes_.tolist()
    ['cup', 'key']

    """

    def __init__(self, *, cosines: Cosines | None = None) -> None:
        self.cosines = cosines

    @classmethod
    def from_statistics(cls, statistics: Mapping[Any, ClassStatistics], **params: Any) -> Self:
        """Return a classifier that knows these statistics, label by label, and can learn more.

        `params` are those of the constructor.

        >>> from cbcl import DiscriminantClassifier
        >>> clf = DiscriminantClassifier().fit([[0.0, 1.0], [5.0, 5.0]], ["cup", "key"])
        >>> DiscriminantClassifier.from_statistics(clf.statistics_).predict([[4.0, 4.0]]).tolist()
        ['key']
        """
        if not statistics:
            raise ValueError("there is nothing to know: give the statistics of at least one class.")
        learner = cls(**params)
        known = DiscriminantModel(dict(sorted(statistics.items())))
        learner._model = learner._with_cosines(known)
        learner.n_features_in_ = known.dimension
        return learner

    def predict_proba_open(
        self, X: ArrayLike, *, strangers: Literal["often", "sometimes", "rarely"] = "sometimes"
    ) -> Float64s:
        """Return the probability of each label and, in a last column, that of none of them.

        `predict_proba` takes for granted that a vector is of one of the labels; this does not.
        `strangers` is how often others are to be expected while few labels are known: for one
        vector in two ("often"), three or ten; the more are known, the less often.

        >>> from cbcl import DiscriminantClassifier
        >>> X, y = [[0.0, 1.0], [0.2, 0.9], [5.0, 5.0], [5.1, 4.8]], ["cup", "cup", "key", "key"]
        >>> clf = DiscriminantClassifier().fit(X, y)
        >>> clf.predict_proba_open([[0.1, 1.0], [90.0, 0.0]]).round(2).tolist()
        [[0.74, 0.0, 0.26], [0.0, 0.0, 1.0]]
        """
        if strangers not in PRIOR_ODDS:
            raise ValueError(f"strangers={strangers!r} is none of {', '.join(PRIOR_ODDS)}.")
        model = self._fitted()
        judgement = model.judge(self._as_matrix(X, model), strangers)
        known = judgement.known[:, np.newaxis]
        return np.concatenate([known * judgement.shares, 1.0 - known], axis=1)

    def explain(self, X: ArrayLike) -> Standing:
        """Return how the five likeliest labels of each vector stand."""
        model = self._fitted()
        return model.explain(self._as_matrix(X, model))

    @property
    def statistics_(self) -> dict[Any, ClassStatistics]:
        return self._fitted().statistics

    def _learn(
        self, before: DiscriminantModel | None, matrix: Matrix, targets: NDArray[Any]
    ) -> DiscriminantModel:
        return self._with_cosines(learn_statistics(before, matrix, targets))

    def _with_cosines(self, model: DiscriminantModel) -> DiscriminantModel:
        """Check the cosines, and return the model with them."""
        if not isinstance(self.cosines, Cosines | None):
            raise ValueError(f"cosines must be a `Cosines` or None: got {self.cosines!r}.")
        centre = None if self.cosines is None else self.cosines.centre
        if centre is not None and centre.shape != (model.dimension,):
            raise ValueError(
                f"the cosines are of vectors of {len(centre)} features, "
                f"but these vectors have {model.dimension}."
            )
        return replace(model, cosines=self.cosines)


def _forget_locks() -> None:
    """Forget all locks: in a forked process, those that other threads held are nobody's."""
    global _LOCKS_LOCK
    _LOCKS_LOCK = Lock()
    _LOCKS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
