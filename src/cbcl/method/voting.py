"""The weighted vote: vectors against concepts give votes per class (Algorithm 2, equations 2 and 3 of the paper).

q vectors, t classes, n voters, b vectors of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cbcl.method.arrays import Float32s, Float64s, Int64s, as_count, as_matrix
from cbcl.method.concepts import Concepts, checked
from cbcl.method.search import Index, Search, Voters, in_blocks

COINCIDENT = 1e300  # what a voter at distance 0 counts: more than any other, and finite


def vote(vectors: ArrayLike, concepts: Sequence[Concepts], n_voters: int) -> Float64s:
    """The votes of the `n_voters` nearest centroids, per vector and class: (q, t), Pred'(y) of equation 3.

    Each of the n nearest centroids votes for its class with 1 / distance (equation 2), and the votes of a class are
    multiplied by 1 / N_y, where N_y is the number of vectors learned of it (equation 3). The label is the class with
    most votes, the first among equals. A vector that coincides with a centroid belongs to that centroid's class; where
    it coincides with several classes, the one with the largest 1 / N_y. More voters than centroids means all of them.

    >>> from cbcl import agg_var
    >>> cups = agg_var([[0.0, 0.0], [0.0, 2.0]], radius=1.0)
    >>> keys = agg_var([[5.0, 0.0]], radius=1.0)
    >>> vote([[1.0, 0.0], [5.0, 1.0]], [cups, keys], n_voters=1).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    matrix, index = as_matrix(vectors), Index([checked(known) for known in concepts])
    n = as_count(n_voters, "n_voters")
    if matrix.shape[1] != index.centroids.shape[1]:
        raise ValueError(
            f"vectors have {matrix.shape[1]} features, but the concepts have {index.centroids.shape[1]}."
        )
    votes = np.empty((len(matrix), len(concepts)))
    for rows, found in in_blocks(matrix, index, n, block_votes):
        votes[rows] = found
    return votes


def block_votes(search: Search, block: Float32s) -> Float64s:
    """`vote` on one block: (b, t)."""
    return tally(search.voters(block), search.index.owners, search.index.sizes)


def tally(voters: Voters, owners: Int64s, sizes: Int64s) -> Float64s:
    """Equations 2 and 3, for given voters, the class of each centroid and the N_y of each class: (b, t)."""
    votes = sum_votes(voters, inverse(voters.distances), owners, sizes)
    rows, columns = np.nonzero(voters.distances == 0.0)
    coincident = owners[voters.indices[rows, columns]]
    votes[rows, coincident] = COINCIDENT * (
        1.0 / sizes[coincident]
    )  # once a class, however many coincide
    return votes


def inverse(distances: Float64s) -> Float64s:
    """1 / distance, and COINCIDENT for 0."""
    return np.divide(1.0, distances, out=np.full_like(distances, COINCIDENT), where=distances > 0.0)


def sum_votes(voters: Voters, weights: Float64s, owners: Int64s, sizes: Int64s) -> Float64s:
    """The weights of each class's voters, from the nearest to the farthest, times 1 / N_y."""
    b, t = len(weights), len(sizes)
    cells = np.arange(b)[:, np.newaxis] * t + owners[voters.indices]
    votes = np.bincount(cells.ravel(), weights=weights.ravel(), minlength=b * t).reshape(b, t)
    return votes * (1.0 / sizes)
