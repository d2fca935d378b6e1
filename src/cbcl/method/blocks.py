"""Work on blocks of rows, on as many threads as the BLAS would use.

Threads take a block each, with BLAS on one thread: their working sets stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cbcl.machine import blas_threads, one_thread

BLOCK_ROWS = 1024  # of a search

Result = TypeVar("Result")


def map_blocks(
    work: Callable[[slice], Result], n_rows: int, block_rows: int = BLOCK_ROWS
) -> Iterator[tuple[slice, Result]]:
    """Yield each block of n rows and the result of work on it, in order.

    >>> [size for _, size in map_blocks(lambda rows: rows.stop - rows.start, 10, block_rows=10)]
    [10]
    """
    if n_rows <= block_rows:
        rows = slice(0, n_rows)
        yield rows, work(rows)
        return
    threads = blas_threads()
    rounds = -(-n_rows // (threads * block_rows))
    step = -(-n_rows // (threads * rounds))  # so that all threads have as much to do
    slices = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    with ThreadPoolExecutor(threads) as executor, one_thread():
        yield from zip(slices, executor.map(work, slices), strict=True)
