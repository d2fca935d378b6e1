"""Arrays as they come in: what is masked is not used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cbcl import CBCLClassifier, DiscriminantClassifier, agg_var, reduce, tune, vote
from cbcl.method.centroids.concepts import Concepts

X = np.array([[0.0, 0.0], [0.5, 0.0], [4.0, 4.0], [4.0, 4.5]])
Y = np.array([0, 0, 1, 1])
CONCEPTS = agg_var(X, radius=1.0)
COUNTS = np.ones(4, dtype=np.int64)


OURS = DiscriminantClassifier().fit(X, Y)
PAPER = CBCLClassifier().fit(X, Y)

WAYS: dict[str, Callable[[Any, Any], object]] = {
    "fit": lambda rows, _: DiscriminantClassifier().fit(rows, Y),
    "labels of fit": lambda _, labels: CBCLClassifier().fit(X, labels),
    "partial_fit": lambda rows, _: DiscriminantClassifier().fit(X, Y).partial_fit(rows, Y),
    "labels of partial_fit": lambda _, labels: CBCLClassifier().fit(X, Y).partial_fit(X, labels),
    "predict": lambda rows, _: OURS.predict(rows),
    "predict by the vote": lambda rows, _: PAPER.predict_proba(rows),
    "explain": lambda rows, _: OURS.explain(rows),
    "agg_var": lambda rows, _: agg_var(rows, radius=1.0),
    "tune": lambda rows, _: tune([rows, X]),
    "vote": lambda rows, _: vote(rows, [CONCEPTS], 1),
    "centroids": lambda rows, _: vote(X, [Concepts(rows, COUNTS)], 1),
    "counts": lambda _, labels: vote(X, [Concepts(X.astype(np.float32), labels + 1)], 1),
    "reduce": lambda rows, _: reduce([Concepts(rows, COUNTS)], 1),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def mask(array: Any, *, hidden: bool) -> Any:
    hides = np.zeros(array.shape, dtype=bool)
    hides[-1] = hidden
    return np.ma.masked_array(array, mask=hides)


@every_way
def test_what_is_masked_is_refused_and_never_used(way: Callable[[Any, Any], object]) -> None:
    with pytest.raises(ValueError, match=r"masked .*fill"):
        way(mask(X, hidden=True), mask(Y, hidden=True))


@every_way
def test_a_mask_that_hides_nothing_is_none(way: Callable[[Any, Any], object]) -> None:
    way(mask(X, hidden=False), mask(Y, hidden=False))


def test_masked_rows_in_a_list_are_refused_too() -> None:
    rows = [*mask(X, hidden=True)]
    with pytest.raises(ValueError, match=r"masked .*fill"):
        agg_var(rows, radius=1.0)
    with pytest.raises(ValueError, match=r"masked .*fill"):
        OURS.predict(rows)
