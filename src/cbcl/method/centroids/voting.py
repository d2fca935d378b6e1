"""The weighted vote of the nearest centroids (Algorithm 2, equations 2 and 3 of the paper).

q vectors, t classes, n voters, b vectors of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cbcl.method.arrays import Float32s, Float64s, Int64s, as_count, as_matrix
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.search import Index, Search, Voters, search_rows

COINCIDENT = 1e300  # weight of a voter at distance 0: more than any other, and finite


def vote(vectors: ArrayLike, concepts: Sequence[Concepts], n_voters: int) -> Float64s:
    """Return the votes for each vector and class, Pred'(y) of equation 3: (q, t).

    Each of the `n_voters` nearest centroids votes for its class with 1 / distance (equation 2), and
    the votes of a class are multiplied by 1 / N_y, where N_y is the number of vectors learned of it
    (equation 3). The label is the class with most votes, the first among equals. A vector that
    coincides with a centroid belongs to that centroid's class; where it coincides with several
    classes, to the one with the largest 1 / N_y. More voters than centroids means all of them.

    >>> from cbcl import agg_var
    >>> cups = agg_var([[0.0, 0.0], [0.0, 2.0]], radius=1.0)
    >>> keys = agg_var([[5.0, 0.0]], radius=1.0)
    >>> vote([[1.0, 0.0], [5.0, 1.0]], [cups, keys], n_voters=1).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    matrix = as_matrix(vectors)
    index = Index([*map(check_concepts, concepts)])
    n = as_count(n_voters, "n_voters")
    d = index.centroids.shape[1]
    if matrix.shape[1] != d:
        raise ValueError(f"vectors have {matrix.shape[1]} features, but the concepts have {d}.")
    return search_rows(matrix, index, n, block_votes)


def block_votes(search: Search, block: Float32s) -> Float64s:
    """Return the votes on one block, as `vote` does: (b, t)."""
    return tally(search.voters(block), search.index.owners, search.index.sizes)


def tally(voters: Voters, owners: Int64s, sizes: Int64s) -> Float64s:
    """Return the votes of these voters (equations 2 and 3): (b, t).

    `owners` is the class of each centroid, `sizes` the N_y of each class.
    """
    votes = sum_votes(voters, inverse(voters.distances), owners, sizes)
    rows, columns = np.nonzero(voters.distances == 0.0)
    coincident = owners[voters.indices[rows, columns]]
    votes[rows, coincident] = COINCIDENT * (1.0 / sizes[coincident])  # once a class
    return votes


def votes_by_class(owners: Int64s, distances: Float64s, sizes: Int64s) -> dict[int, float]:
    """Return the votes of one vector's voters, by class, in the order of the classes.

    These are the numbers of `tally` that are not 0; `owners` is the class of each voter.
    """
    classes, local_owners = np.unique(owners, return_inverse=True)
    voters = Voters(np.arange(len(owners))[np.newaxis], distances[np.newaxis])
    votes = tally(voters, local_owners, sizes[classes])[0]
    return dict(zip(classes.tolist(), votes.tolist(), strict=True))


def inverse(distances: Float64s) -> Float64s:
    """Return 1 / distance, and COINCIDENT for 0."""
    return np.divide(1.0, distances, out=np.full_like(distances, COINCIDENT), where=distances > 0.0)


def vote_weights(distances: Float64s, sizes: Int64s) -> Float64s:
    """Return the weight of each voter, 1 / distance times 1 / N_y of its class."""
    return inverse(distances) * (1.0 / sizes)


def sum_votes(voters: Voters, weights: Float64s, owners: Int64s, sizes: Int64s) -> Float64s:
    """Sum the weights of each class's voters, from the nearest on, times 1 / N_y: (b, t)."""
    b, t = len(weights), len(sizes)
    cells = np.arange(b)[:, np.newaxis] * t + owners[voters.indices]
    votes = np.bincount(cells.ravel(), weights=weights.ravel(), minlength=b * t).reshape(b, t)
    return votes * (1.0 / sizes)
