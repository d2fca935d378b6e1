"""CBCL's default head as a learner of the study, with what the memory file keeps as its state."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.heads.base import pack_sketches
from cbcl.heads.discriminant.formats import pack_statistics
from cbcl.method.discriminant.model import DiscriminantModel, learn_statistics
from cbcl_study.rivals.inputs import as_examples, as_vectors, check_width, nothing_learned


class StatisticalLearner:
    """The discriminant of each class's statistics, as `DiscriminantClassifier` does.

    >>> vectors, labels = [[0.0, 1.0], [0.0, 2.0], [5.0, 5.0]], ["cup", "cup", "key"]
    >>> StatisticalLearner().partial_fit(vectors, labels).predict([[1.0, 1.0], [5.0, 6.0]]).tolist()
    ['cup', 'key']
    """

    def __init__(self) -> None:
        self.knowledge: DiscriminantModel | None = None

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn more: new labels, more vectors of known ones, or both."""
        vectors, labels = as_examples(X, y)
        if self.knowledge is not None:
            check_width(vectors, self.knowledge.dimension)
        self.knowledge = learn_statistics(self.knowledge, vectors, labels)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each vector."""
        knowledge, vectors = self._learned(), as_vectors(X)
        check_width(vectors, knowledge.dimension)
        return knowledge.classes[knowledge.winners(vectors)]

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the memory file."""
        knowledge = self._learned()
        _ = knowledge.discriminant  # its time counts as learning
        classes = [*knowledge.statistics.values()]
        columns = {
            "statistics": [pack_statistics(known) for known in classes],
            "sketches": [pack_sketches(known.sketches) for known in classes],
        }
        state: dict[str, NDArray[Any]] = {"classes": knowledge.classes}
        for name, blobs in columns.items():
            state[name] = np.frombuffer(b"".join(blobs), np.uint8)
            state[f"{name}_bytes"] = np.array([len(blob) for blob in blobs])
        return state

    def _learned(self) -> DiscriminantModel:
        if self.knowledge is None:
            raise nothing_learned()
        return self.knowledge
