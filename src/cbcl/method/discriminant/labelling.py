"""Labels of many vectors by the discriminant, in blocks on threads.

q vectors. The size of a block changes the last bits of scores. So that it changes no label, a
vector whose best scores are about equal is scored alone.
"""

from __future__ import annotations

import numpy as np

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s, Matrix
from cbcl.method.blocks import map_blocks, map_classes
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.scoring import Discriminant

BLOCK_ROWS = 512  # vectors that are scored together
CLOSE_CALL = 2e-4  # between the two best scores; another block changes them by 1e-5 at most


def find_winners(solved: Discriminant, matrix: Matrix) -> Int64s:
    """Return the number of each vector's class: (q,)."""

    def work(rows: slice) -> Int64s:
        directions = as_directions(matrix[rows])
        totals = solved.totals(directions)
        winners: Int64s = totals.argmax(axis=1)
        if len(winners) == 1:
            return winners
        least = np.take_along_axis(totals, winners[:, np.newaxis], axis=1) - CLOSE_CALL
        close = np.flatnonzero((totals >= least).sum(axis=1) > 1)
        if len(close):
            winners[close] = _score_alone(solved, directions[close])
        return winners

    return np.concatenate([winners for _, winners in map_blocks(work, len(matrix), BLOCK_ROWS)])


def _score_alone(solved: Discriminant, directions: Float32s) -> list[int]:
    def work(row: int) -> int:
        with one_thread():
            return int(solved.totals(directions[[row]]).argmax())

    return map_classes(work, range(len(directions)), len(directions) * solved.factors.size)
