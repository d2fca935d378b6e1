"""Labels of many vectors by the discriminant: in blocks on threads, or on a device.

q vectors. The size of a block, and the device, change the last bits of scores. So that they change
no label, a vector whose best scores are about equal is scored alone, by the processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s, Matrix
from cbcl.method.blocks import map_blocks, map_classes
from cbcl.method.directions import as_directions
from cbcl.method.discriminant import Discriminant

if TYPE_CHECKING:
    from cbcl.method.torch_discriminant import DeviceDiscriminant

BLOCK_ROWS = 512  # vectors that are scored at a time
DEVICE_BLOCK_ROWS = 2048  # likewise, on a device
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


def find_winners_by(on_device: DeviceDiscriminant, solved: Discriminant, matrix: Matrix) -> Int64s:
    """Return the same, where a device decides but for close calls."""

    def work(rows: slice) -> tuple[Int64s, NDArray[np.bool_]]:
        return on_device.winners(as_directions(matrix[rows]))

    blocks = map_blocks(work, len(matrix), DEVICE_BLOCK_ROWS)
    winners, close = map(np.concatenate, zip(*(parts for _, parts in blocks), strict=True))
    if close.any():
        winners[close] = find_winners(solved, matrix[close])
    return winners


def _score_alone(solved: Discriminant, directions: Float32s) -> list[int]:
    def work(row: int) -> int:
        with one_thread():
            return int(solved.totals(directions[[row]]).argmax())

    return map_classes(work, range(len(directions)), len(directions) * solved.factors.size)
