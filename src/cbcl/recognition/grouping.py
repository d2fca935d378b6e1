"""Grouping of pictures that nobody has named yet: those that look alike can be named at once.

n pictures, d features, m groups.
"""

from __future__ import annotations

import numpy as np

from cbcl.method.arrays import Float32s, Float64s

SHORTEST = 1e-12  # length of a direction, in place of 0


def group_alike(directions: Float32s, least_cosine: float) -> list[list[int]]:
    """Return groups of pictures that look alike, the largest first; single pictures are in none.

    The directions are (n, d). Groups are joined by average linkage: the two whose
    pictures have the highest mean cosine, as long as it is `least_cosine` or more. In a group, the
    picture most like all others comes first. Agg-Var clustering, which sees each picture once,
    needs a smaller radius for groups as pure, and leaves five times as many pictures out:
    docs/method.md has the figures.

    >>> rows = np.float32([[9.0, 0.0], [0.0, 9.0], [9.0, 1.0], [1.0, 9.0], [-9.0, 0.0]])
    >>> group_alike(rows, least_cosine=0.7)
    [[0, 2], [1, 3]]
    """
    if len(directions) < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage  # which takes a while to load

    units: Float64s = directions.astype(np.float64)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), SHORTEST)
    cosines: Float64s = units @ units.T  # (n, n)
    distances = 1.0 - np.minimum(cosines, 1.0)
    joined = linkage(distances[np.triu_indices(len(directions), 1)], method="average")
    numbers = fcluster(joined, 1.0 - least_cosine, criterion="distance")  # (n,), from 1 to m
    groups = [np.flatnonzero(numbers == number) for number in range(1, numbers.max() + 1)]
    several = [rows for rows in groups if len(rows) > 1]
    several.sort(key=lambda rows: (-len(rows), rows[0]))
    return [
        rows[np.argsort(-cosines[np.ix_(rows, rows)].sum(axis=1), kind="stable")].tolist()
        for rows in several
    ]
