"""Work on blocks of rows, or on classes, divided among as many threads as the BLAS would use.

Each has BLAS on one thread: their working sets stay in the cache, and none waits for another before
its part is done. The threads of a BLAS wait for each other many times in a product, and keep the
cores busy meanwhile: on a machine with other work, where one of them may have no core, such a
product can take ten times as long as on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cbcl.machine import blas_threads, one_thread
from cbcl.method.arrays import Float32s

BLOCK_ROWS = 1024  # of a search
MIN_THREAD_ROWS = 128  # of a search that is divided
MIN_THREADED_PRODUCTS = 1 << 28  # of two numbers each: 5 ms of one thread

MIN_THREADED_NUMBERS = 1 << 21  # of classes that are learned: about 5 ms of one thread

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_blocks(
    work: Callable[[slice], Result], n_rows: int, block_rows: int = BLOCK_ROWS
) -> Result:
    """Return the results of work on blocks of n rows, joined: an array, or a NamedTuple of some.

    >>> map_blocks(lambda rows: np.arange(10)[rows] ** 2, 10).tolist()
    [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    """
    if n_rows <= min(block_rows, 2 * MIN_THREAD_ROWS):
        return work(slice(0, n_rows))
    threads = max(1, min(blas_threads(), n_rows // MIN_THREAD_ROWS))
    rounds = -(-n_rows // (threads * block_rows))
    step = -(-n_rows // (threads * rounds))  # so that all threads have as much to do
    slices = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    with one_thread():
        results = map_threads(work, slices, threads)
        return next(results) if len(slices) == 1 else _join(slices, results)


def _join(slices: Sequence[slice], results: Iterator[Any]) -> Any:
    """Write each result to its rows as it comes, so that not all are in memory twice."""
    n_rows = slices[-1].stop
    outputs: list[NDArray[Any]] = []
    for rows, result in zip(slices, results, strict=True):
        parts = result if isinstance(result, tuple) else (result,)
        outputs = outputs or [np.empty((n_rows, *part.shape[1:]), part.dtype) for part in parts]
        for output, part in zip(outputs, parts, strict=True):
            output[rows] = part
    return type(result)(*outputs) if isinstance(result, tuple) else outputs[0]


def map_classes(
    work: Callable[[Item], Result], classes: Iterable[Item], n_numbers: int
) -> list[Result]:
    """Return the results of work on each class, on threads where they have many numbers.

    >>> map_classes(len, ["cup", "key", "spoon"], 11)
    [3, 3, 5]
    """
    threads = blas_threads() if n_numbers >= MIN_THREADED_NUMBERS else 1
    return [*map_threads(work, [*classes], threads)]


def map_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Iterator[Result]:
    """Yield the results of work on each item, in order, on so many threads."""
    if min(threads, len(items)) <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as executor, one_thread():
        yield from executor.map(work, items)


def multiply(vectors: Float32s, centroids: Float32s, out: Float32s) -> Float32s:
    """Write the inner products of vectors (b, d) and centroids (m, d) to `out` (b, m).

    >>> vectors = np.float32([[1.0, 2.0]])
    >>> multiply(vectors, np.float32([[3.0, 4.0], [0.0, 1.0]]), out=np.empty((1, 2), np.float32))
    array([[11.,  2.]], dtype=float32)
    """
    m = len(centroids)
    threads = blas_threads() if vectors.size * m >= MIN_THREADED_PRODUCTS else 1
    step = -(-m // threads)

    def work(start: int) -> None:
        columns = slice(start, start + step)
        with np.errstate(all="ignore"):  # overflown products never decide
            np.matmul(vectors, centroids[columns].T, out=out[:, columns])

    with one_thread():
        [*map_threads(work, range(0, m, step), threads)]
    return out
