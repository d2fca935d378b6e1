"""Checks of vectors and labels that all learners share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.method.arrays import Float32s, Int64s, Matrix, as_array, as_float32, as_matrix, not_finite


def as_vectors(X: ArrayLike) -> Float32s:
    """Return a matrix of finite float32 numbers."""
    vectors = as_float32(as_matrix(X))
    if not np.isfinite(vectors).all():
        raise not_finite("vectors")
    return vectors


def as_examples(X: ArrayLike, y: ArrayLike) -> tuple[Float32s, NDArray[Any]]:
    """Return vectors and as many labels; they may still be the caller's own arrays."""
    vectors, labels = as_vectors(X), as_array(y, "labels")
    check_labels(vectors, labels)
    return vectors, labels


def check_labels(vectors: Matrix, labels: NDArray[Any]) -> None:
    """Raise a ValueError unless there is one label a vector."""
    if labels.shape != vectors.shape[:1]:
        raise ValueError(
            f"{len(vectors)} vectors need as many labels: got labels of shape {labels.shape}."
        )


def check_width(vectors: Matrix, d: int | None) -> None:
    """Raise a ValueError unless the vectors have d features; None: nothing was learned before."""
    if d is not None and vectors.shape[1] != d:
        raise ValueError(
            f"vectors have {vectors.shape[1]} features, but those learned before have {d}."
        )


def number_labels(classes: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], Int64s]:
    """Return the classes, then the new labels in order of appearance; and each label's number.

    >>> number_labels(np.array(["cup"]), np.array(["key", "cup", "key"]))
    (array(['cup', 'key'], dtype='<U3'), array([1, 0, 1]))
    """
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    of_labels = [numbers.setdefault(label, len(numbers)) for label in labels.tolist()]
    return np.array([*numbers]), np.array(of_labels, dtype=np.int64)


class KeptExamples:
    """All vectors and labels so far, for learners that are trained on them anew."""

    def __init__(self) -> None:
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.blocks: list[Float32s] = []
        self.numbers: Int64s = np.empty(0, dtype=np.int64)  # of each vector's class

    def add(self, X: ArrayLike, y: ArrayLike) -> None:
        vectors, labels = as_examples(X, y)
        check_width(vectors, self.blocks[0].shape[1] if self.blocks else None)
        self.classes, numbers = number_labels(self.classes, labels)
        self.blocks.append(vectors.copy())
        self.numbers = np.concatenate([self.numbers, numbers])

    def vectors(self) -> Float32s:
        """Return all vectors as one matrix; it is an error if there are none."""
        if not self.blocks:
            raise nothing_learned()
        self.blocks = [np.concatenate(self.blocks)] if len(self.blocks) > 1 else self.blocks
        return self.blocks[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is kept, for a learner's state."""
        return {"classes": self.classes, "vectors": self.vectors(), "numbers": self.numbers}


def nothing_learned() -> ValueError:
    """Return the error of a learner that is asked before `partial_fit`."""
    return ValueError("nothing was learned yet: call partial_fit first.")
