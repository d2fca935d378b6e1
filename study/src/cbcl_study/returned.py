"""What a learner returned, checked: its labels and its state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import DataError

LABELS = "must return one label per vector, each a string as in y"


def check_labels(returned: Any, n_vectors: int, known: Collection[str]) -> list[str]:
    """Return the labels of `predict`, one for each vector, each of a known class.

    >>> check_labels(np.array([["cup"], ["key"]]), 2, ["cup", "key"])
    Traceback (most recent call last):
    cbcl.errors.DataError: predict must return one label per vector, ...: got an array of shape ...
    """
    answers = np.asarray(returned, dtype=object)
    if answers.ndim != 1:
        shape = f"an array of shape {answers.shape}" if answers.ndim else _kind_of(returned)
        raise DataError("predict", LABELS, f"got {shape}")
    labels: list[Any] = answers.tolist()
    for label in labels:
        if not isinstance(label, str):
            raise DataError("predict", LABELS, f"got {label!r}")
        if label not in known:
            raise DataError("predict", "must return labels that it learned", f"got {label!r}")
    if len(labels) != n_vectors:
        raise DataError("predict", LABELS, f"got {len(labels)} for {n_vectors} vectors")
    return labels


def check_state(returned: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of `state`, each of numbers or of strings."""
    if not isinstance(returned, Mapping):
        raise DataError("state()", "must return a dict of arrays", f"got {_kind_of(returned)}")
    arrays = {str(name): np.asarray(value) for name, value in returned.items()}
    for name, array in arrays.items():
        strings = array.dtype.kind == "O" and all(isinstance(one, str) for one in array.flat)
        if array.dtype.kind not in "biufU" and not strings:
            problem = "must return a dict of arrays of numbers or strings"
            raise DataError("state()", problem, f"got an array of {array.dtype} as {name!r}")
    return arrays


def _kind_of(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
