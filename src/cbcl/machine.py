"""How many threads the BLAS uses, and making do with one for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, so only once


def blas_threads() -> int:
    """The threads a matrix product would be given now."""
    return max(
        (pool["num_threads"] for pool in _controller().select(user_api="blas").info()), default=1
    )


class _Shared:
    """A limit that several threads may be under: the first sets it, the last lifts it."""

    def __init__(self) -> None:
        self.lock, self.users, self.limit = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limit.enter_context(_controller().limit(limits=1))
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.close()


_shared = _Shared()


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products and k-means on one thread each, in the whole process, while this lasts."""
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()
