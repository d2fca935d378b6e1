"""The thread limit: one thread meanwhile, and as many as before once the last user has left."""

from __future__ import annotations

import numpy as np
import pytest

from cbcl import agg_var, vote
from cbcl.machine import blas_threads, one_thread
from cbcl.method.blocks import BLOCK_ROWS
from cbcl.method.centroids.budget import merge


def test_the_last_to_leave_restores_what_the_first_found() -> None:
    before = blas_threads()
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    assert blas_threads() == 1
    first.__exit__(None, None, None)
    assert blas_threads() == 1
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_neither_answers_nor_errors_leave_a_limit_behind() -> None:
    before = blas_threads()
    x = np.random.default_rng(0).normal(size=(3 * BLOCK_ROWS, 4))
    concepts = agg_var(x[:50], 0.0)
    vote(x, [concepts], 3)
    merge(concepts, 5, seed=0)
    x[-1, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        vote(x, [concepts], 3)
    assert blas_threads() == before
