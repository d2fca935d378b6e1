"""Candidates for the nearest centroids, found by PyTorch on a device: for a GPU.

b vectors, m centroids, d features, n voters. The device computes what can only exclude: products in
float32, and bounds on them. Distances are computed by the processor, for the centroids that are
left, so that its decisions are the same bit for bit.

With u = 2^-24, the value |c|^2 / 2 - x.c of a pair is off, as computed here, by no more than

    d u |x| |c|                the product, in whatever order it is summed, fused or not
    + u |c|^2 / 2              |c|^2 / 2, rounded to float32
    + 2 u (|x| |c| + |c|^2)    its difference to the product, and the bound's to that

to first order. `Bounds` allows (d + 32) u |x| |c| + 8 u |c|^2, times 1.0001. A number that a device
flushes to zero is below 2^-126, so that each feature adds less than 2^-126 (|x| + |c| + 1); where
`is_bounded`, lengths are 0 or in 1e-10 .. 1e15, and d < 10^9 of these are less than u |x| |c|.
Other vectors are left to the processor.

So a centroid whose lower bound exceeds the upper bounds of n others is none of the n nearest. If
the largest of the `room` smallest lower bounds exceeds them, so do all that are not among these,
and the candidates are complete; if it does not, the processor searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cbcl.device import full_precision, own_stream, synchronize
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.distances import SPAN, Bounds, is_bounded, rounding_error
from cbcl.method.torch_products import upload

if TYPE_CHECKING:
    from torch import Tensor

COLUMN = 16  # centroids of a span that share a minimum: every WIDTH-th
WIDTH = SPAN // COLUMN
TILE_PRODUCTS = 1 << 26  # in the device's memory at a time: 268 MB
STAGING_ROWS = 1 << 14  # centroids copied to the device at a time
MIN_PRODUCTS = 1 << 28  # of two numbers each, for which a device is asked


class Candidates(NamedTuple):
    """Centroids that may be among the n nearest of each vector, those beyond them excluded."""

    numbers: Int64s  # (b, room), of which the first `counts` are candidates
    counts: Int64s  # (b,)
    complete: NDArray[np.bool_]  # (b,); False: there may be others


class _Scores(NamedTuple):
    """Some of the centroids, for each of b vectors: three of (b, any)."""

    values: Tensor  # |c|^2 / 2 - x.c
    doubts: Tensor  # by how much they may be off
    numbers: Tensor

    def lowest(self, count: int) -> _Scores:
        """Return those of the smallest lower bounds, ascending."""
        lowers = self.values - self.doubts
        places = lowers.topk(min(count, lowers.shape[1]), largest=False).indices
        return _Scores(*(part.gather(1, places) for part in self))


class DeviceCentroids:
    """All centroids of an index, with their bounds, in the memory of a device."""

    def __init__(
        self, centroids: Float32s, bounds: Bounds, device: str, min_products: int = MIN_PRODUCTS
    ) -> None:
        self.m, self.d = centroids.shape
        self.min_products = min_products
        self.device = torch.device(device)
        n_spans = len(bounds.doubts)
        # The last span is filled up with centroids that are infinitely far away.
        self._centroids = torch.zeros((n_spans * SPAN, self.d), device=self.device)
        self._halves = torch.full((n_spans * SPAN,), torch.inf, device=self.device)
        self._halves[: self.m] = upload(bounds.halves, self.device)
        self._doubts = upload(bounds.doubts, self.device)
        self._blurs = upload(bounds.blurs, self.device)
        for start in range(0, self.m, STAGING_ROWS):
            rows = slice(start, min(start + STAGING_ROWS, self.m))
            self._centroids[rows] = upload(centroids[rows], self.device)
        synchronize(self.device)

    def pays_for(self, b: int) -> bool:
        """Tell if so many vectors are worth asking the device for."""
        return bool(b * self.m * self.d >= self.min_products)

    def candidates(self, block: Float32s, n: int, room: int) -> Candidates:
        """Return the candidates for the n nearest, fewer than `room` of each vector."""
        with torch.inference_mode(), own_stream(self.device):
            vectors = upload(block, self.device)
            squares = vectors.double().square_().sum(dim=1)
            with full_precision():
                scores = self._search_tiles(vectors, squares, room)
            rounding = rounding_error(self.d, squares).float()[:, None]
            uppers = scores.values + (scores.doubts + rounding)
            limits = uppers.topk(n, dim=1, largest=False).values.amax(dim=1, keepdim=True)
            lowers = scores.values - scores.doubts
            complete = (lowers[:, -1] > limits[:, 0]).cpu().numpy()
            complete &= is_bounded(squares.cpu().numpy())
            counts = (lowers <= limits).sum(dim=1).cpu().numpy()
            return Candidates(scores.numbers.cpu().numpy(), np.where(complete, counts, 0), complete)

    def _search_tiles(self, vectors: Tensor, squares: Tensor, room: int) -> _Scores:
        """Return the `room` centroids of the smallest lower bounds."""
        norms = (squares.sqrt() * 1.0001).float()[:, None]
        step = max(1, TILE_PRODUCTS // (len(vectors) * SPAN)) * SPAN
        starts = range(0, len(self._centroids), step)
        tiles = [self._search_tile(vectors, norms, start, step, room) for start in starts]
        return _Scores(*(torch.cat(parts, dim=1) for parts in zip(*tiles, strict=True))).lowest(
            room
        )

    def _search_tile(
        self, vectors: Tensor, norms: Tensor, start: int, step: int, room: int
    ) -> _Scores:
        """Return the centroids of the smallest lower bounds among some, `room` or all of them."""
        tile = slice(start, start + step)
        spans = slice(start // SPAN, (start + step) // SPAN)
        values = torch.addmm(self._halves[tile], vectors, self._centroids[tile].T, alpha=-1.0)
        doubts = norms * self._doubts[spans] + self._blurs[spans]  # (b, spans)
        least = values.view(len(vectors), -1, COLUMN, WIDTH).amin(dim=2) - doubts[:, :, None]
        least = least.flatten(1)  # (b, spans * WIDTH)
        # The `room` smallest are in the columns of the `room` smallest minima.
        columns = least.topk(min(room, least.shape[1]), largest=False, sorted=False).indices
        firsts = columns // WIDTH * SPAN + columns % WIDTH
        members = firsts[:, :, None] + WIDTH * torch.arange(COLUMN, device=self.device)
        members = members.flatten(1)
        scores = _Scores(values.gather(1, members), doubts.gather(1, members // SPAN), members)
        kept = scores.lowest(room)
        return kept._replace(numbers=kept.numbers + start)
