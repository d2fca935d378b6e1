"""Desks: a few threads each for one kind of work, and a bound on how much may wait before people are sent away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

from cbcl.web.errors import RequestRefused

LONGEST = 30  # seconds that anybody is told to wait
WEIGHT = 0.1  # of the latest job in the mean of their seconds

T = TypeVar("T")


class WorkQueue:
    """Work of one kind: so many at once, so many more waiting, and nobody beyond."""

    def __init__(self, name: str, threads: int, room: int) -> None:
        self.name = name
        self._threads, self._room = threads, room
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = Lock()
        self._pending = 0
        self._seconds = 0.0  # that a job takes, about

    @property
    def waiting(self) -> int:
        """Jobs that nobody works on yet."""
        return max(0, self._pending - self._threads)

    @property
    def pending(self) -> int:
        """Jobs that are not done yet."""
        return self._pending

    def check(self) -> None:
        """Refuse now what would be refused later, before work is done for it elsewhere."""
        if self._pending >= self._threads + self._room:
            seconds = ceil(self._pending * self._seconds / self._threads)
            wait = min(max(seconds, 1), LONGEST)
            raise RequestRefused(
                "busy", f"too much is waiting already: try again in {wait} s.", retry_after=wait
            )

    async def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Have something done in a thread, if there is room for it."""
        self.check()
        return await self.go_on(work, *arguments)

    async def go_on(self, work: Callable[..., T], *arguments: Any) -> T:
        """A piece of what was let in already: it waits its turn, and is done even if nobody waits for it any more."""
        with self._lock:
            self._pending += 1
        job = self._executor.submit(self._timed, work, *arguments)
        job.add_done_callback(self._done)
        return await asyncio.wrap_future(job)

    def _timed(self, work: Callable[..., T], *arguments: Any) -> T:
        begun = perf_counter()
        try:
            return work(*arguments)
        finally:
            with self._lock:
                self._seconds += (perf_counter() - begun - self._seconds) * (
                    WEIGHT if self._seconds else 1.0
                )

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self._pending -= 1

    def close(self) -> None:
        """Finish what waits, and take nothing more."""
        self._executor.shutdown()
