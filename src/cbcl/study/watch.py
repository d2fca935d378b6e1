"""The same vectors asked about again and again, while classes are learned: only what changed is measured anew.

q vectors, t classes, n voters. Concepts of a class stay what they are until it is learned again or makes room, so the
distances to them do, too. The answers are those of `Knowledge.winners`, bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.concepts import Concepts
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import Index, Voters, in_blocks, nearest
from cbcl.method.voting import tally


class _Seen(NamedTuple):
    """The distances of all vectors to the nearest centroids of one class."""

    concepts: Concepts
    asked: int  # how many nearest were asked for
    distances: Float64s  # (q, at most as many), the nearest first


class Watch:
    """Labels the vectors it was given by what is known at the time."""

    def __init__(self, vectors: Float32s) -> None:
        self._vectors = vectors
        self._seen: dict[Any, _Seen] = {}

    def winners(self, knowledge: Knowledge, q: int) -> Int64s:
        """The number of the class of each of the first q vectors: (q,)."""
        n = knowledge.n_voters
        self._seen = {label: self._look(label, concepts, n) for label, concepts in knowledge.concepts.items()}
        seen = [*self._seen.values()]
        if n == 1:
            answers: Int64s = np.stack([one.distances[:q, 0] for one in seen], axis=1).argmin(axis=1)
            closest = np.zeros(0) if not q else np.min([one.distances[:q, 0] for one in seen], axis=0)
        else:
            distances = np.concatenate([one.distances[:q, :n] for one in seen], axis=1)
            owners = np.repeat(np.arange(len(seen)), [min(n, one.distances.shape[1]) for one in seen])
            columns = np.argsort(distances, axis=1, kind="stable")[:, :n]
            voters = Voters(columns, np.take_along_axis(distances, columns, axis=1))
            answers = tally(voters, owners, knowledge.index.sizes).argmax(axis=1)
            closest = voters.distances[:, -1]
        # Where all voters coincide with the vector, which of its twins may vote is a matter of its own.
        if len(twins := np.flatnonzero(closest == 0.0)):
            answers[twins] = knowledge.winners(self._vectors[twins])
        return answers

    def _look(self, label: Any, concepts: Concepts, n: int) -> _Seen:
        seen = self._seen.get(label)
        if seen is not None and seen.concepts.centroids is concepts.centroids and seen.asked >= n:
            return seen
        distances = np.empty((len(self._vectors), min(n, len(concepts.counts))))
        for rows, found in in_blocks(self._vectors, Index([concepts]), n, nearest):
            distances[rows] = found.distances
        return _Seen(concepts, n, distances)
