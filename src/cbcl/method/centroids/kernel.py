"""Kernels: the compiled functions where they were built, else the same in numpy."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np

from cbcl.method.arrays import Float32s, Float64s, Int64s
from cbcl.method.centroids import _numpy_kernel


class SearchState(NamedTuple):
    """Working arrays of a search for a block of vectors, updated tile after tile."""

    distances: Float64s  # (b, n), to the nearest centroids measured so far, ascending
    indices: Int64s  # (b, n), of those centroids; of equal distances, the smaller first
    uppers: Float32s  # (b, n); this and the rest are of the compiled search alone
    waiting: Int64s  # (b, room)
    lowers: Float32s  # (b, room)
    fill: Int64s  # (b,)
    lengths: Float64s  # (b,), |x|^2; NaN: not known yet

    @classmethod
    def empty(cls, b: int, n: int, room: int) -> SearchState:
        return cls(
            np.full((b, n), np.inf),
            np.full((b, n), -1, dtype=np.int64),
            np.full((b, n), np.inf, dtype=np.float32),
            np.empty((b, room), dtype=np.int64),
            np.empty((b, room), dtype=np.float32),
            np.zeros(b, dtype=np.int64),
            np.full(b, np.nan),
        )


Kernel: TypeAlias = ModuleType  # with the functions of `_numpy_kernel`
NUMPY: Kernel = _numpy_kernel

try:
    from cbcl.method.centroids import _kernel  # type: ignore[attr-defined] # no source that mypy could read
except ImportError:  # installed without a C compiler
    KERNEL = NUMPY
else:
    KERNEL = _kernel
