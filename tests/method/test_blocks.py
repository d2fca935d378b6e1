"""Blocks: all rows once and in order, products of one thread each, whatever the division."""

from __future__ import annotations

from threading import current_thread

import numpy as np
import pytest
from support.statistics import bits
from threadpoolctl import threadpool_limits

from cbcl.machine import blas_threads
from cbcl.method import blocks
from cbcl.method.blocks import MIN_THREADED_NUMBERS, map_blocks, map_classes, multiply
from cbcl.method.centroids.model import Options, learn
from cbcl.method.centroids.search import Voters
from cbcl.method.discriminant.model import learn_statistics


@pytest.mark.parametrize("n_rows", [1, 100, 257, 1024, 1025, 5000])
@pytest.mark.parametrize("block_rows", [1, 300, 1024])
def test_all_rows_are_worked_on_once_and_in_order(n_rows: int, block_rows: int) -> None:
    numbers = np.arange(n_rows)
    assert map_blocks(lambda rows: numbers[rows], n_rows, block_rows).tolist() == [*range(n_rows)]
    pair = map_blocks(lambda rows: Voters(numbers[rows], numbers[rows] / 2), n_rows, block_rows)
    assert (pair.indices == numbers).all()
    assert (pair.distances == numbers / 2).all()


@pytest.mark.parametrize("n_rows", [300, 5000])
def test_each_block_has_one_thread_of_matrix_products(n_rows: int) -> None:
    before = blas_threads()
    threads = map_blocks(lambda rows: np.full(rows.stop - rows.start, blas_threads()), n_rows)
    assert (threads == 1).all()
    assert blas_threads() == before


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_products_are_the_same_however_they_are_divided(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    vectors, centroids = rng.integers(-9, 9, (5, 8)), rng.integers(-9, 9, (7, 8))
    monkeypatch.setattr(blocks, "MIN_THREADED_PRODUCTS", 1)
    monkeypatch.setattr(blocks, "blas_threads", lambda: threads)
    wide = np.zeros((5, 9), dtype=np.float32)
    multiply(vectors.astype(np.float32), centroids.astype(np.float32), out=wide[:, :7])
    assert (wide[:, :7] == vectors @ centroids.T).all()
    assert not wide[:, 7:].any()


def test_products_may_overflow_in_any_thread_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "MIN_THREADED_PRODUCTS", 1)
    monkeypatch.setattr(blocks, "blas_threads", lambda: 2)
    huge = np.full((4, 8), 1e38, dtype=np.float32)
    assert np.isinf(multiply(huge, huge, out=np.empty((4, 4), dtype=np.float32))).all()


def test_the_threads_that_were_allowed_are_allowed_again() -> None:
    with threadpool_limits(2, user_api="blas"):
        ones = np.ones((3, 4), dtype=np.float32)
        multiply(ones, ones, out=np.empty((3, 3), dtype=np.float32))
        assert blas_threads() == 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n_numbers", [0, MIN_THREADED_NUMBERS])
def test_all_classes_are_worked_on_once_and_in_order(
    threads: int, n_numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "blas_threads", lambda: threads)
    on_threads = threads > 1 and n_numbers > 0
    results = map_classes(lambda name: (name, current_thread()), "abcdefgh", n_numbers)
    assert [name for name, _ in results] == [*"abcdefgh"]
    assert all((thread is not current_thread()) == on_threads for _, thread in results)


def test_many_classes_are_learned_on_threads_as_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(9000, 256)).astype(np.float32)
    labels = rng.integers(30, size=len(matrix))
    learned = []
    for threads in (1, 3):
        monkeypatch.setattr(blocks, "blas_threads", lambda threads=threads: threads)
        concepts = learn(None, matrix, labels, Options(radius=20.5, n_voters=1)).concepts
        statistics = learn_statistics(None, matrix, labels).statistics
        learned.append(
            (
                [array.tobytes() for one in concepts.values() for array in one],
                [bits(one) for one in statistics.values()],
            )
        )
    assert learned[0] == learned[1]
    assert 30 < len(b"".join(learned[0][0][1::2])) // 8 < 9000  # centroids
