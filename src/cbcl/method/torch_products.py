"""Inner products of learning, computed by PyTorch on a device: for a GPU.

b vectors, m centroids, d features. They decide only what the bound on their error allows, in
whatever order they are summed (the top of `_kernel.c`; and `torch_search.py`, on numbers that a
device flushes to zero), so that what is learned is the same, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from cbcl.device import full_precision, own_stream
from cbcl.method.arrays import Float32s, Matrix
from cbcl.method.blocks import multiply

if TYPE_CHECKING:
    from torch import Tensor

MIN_PRODUCTS = 1 << 26  # of two numbers each, for which a device is asked: 1 ms of one thread


def upload(rows: Matrix, device: torch.device | str) -> Tensor:
    """Copy numbers to a device, in float32."""
    writable = np.require(rows, np.float32, ["C", "W"])  # PyTorch warns of others
    return torch.from_numpy(writable).to(device)


class DeviceProducts:
    """The function `multiply` of `blocks.py` on a device, where it pays."""

    def __init__(self, device: str, min_products: int = MIN_PRODUCTS) -> None:
        self.device, self.min_products = torch.device(device), min_products

    def __call__(self, vectors: Float32s, centroids: Float32s, out: Float32s) -> Float32s:
        """Write the inner products of vectors (b, d) and centroids (m, d) to `out` (b, m)."""
        if vectors.size * len(centroids) < self.min_products:
            return multiply(vectors, centroids, out)
        with torch.inference_mode(), own_stream(self.device):
            rows = upload(vectors, self.device)
            others = rows if centroids is vectors else upload(centroids, self.device)
            with full_precision():
                products = rows @ others.T
            torch.from_numpy(out).copy_(products)
        return out
