"""Work queue: a few threads, and a limit of waiting jobs beyond which requests are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

from cbcl.web.errors import ApiError

MAX_RETRY_SECONDS = 30
SMOOTHING = 0.1  # weight of the latest job in the running mean of their seconds

T = TypeVar("T")


class WorkQueue:
    """Jobs of one kind: `threads` at a time, and up to `max_waiting` more."""

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self.name = name
        self._threads, self._max_waiting = threads, max_waiting
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = Lock()
        self.pending = 0  # jobs that wait or run
        self._mean_seconds = 0.0  # of a job

    def waiting(self) -> int:
        """Return the number of jobs without a thread yet."""
        return max(0, self.pending - self._threads)

    def check(self) -> None:
        """Raise an error where the queue is full, before other work is done for the request."""
        if self.pending >= self._threads + self._max_waiting:
            seconds = ceil(self.pending * self._mean_seconds / self._threads)
            wait = min(max(seconds, 1), MAX_RETRY_SECONDS)
            message = f"too many requests are waiting: try again in {wait} s."
            raise ApiError("busy", message, retry_after=wait)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a job in a thread, unless the queue is full."""
        self.check()
        return await self.run_part(work, *arguments)

    async def run_part(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a part of a request that was admitted; it is finished even if nobody waits for it."""
        with self._lock:
            self.pending += 1
        job = self._executor.submit(self._measure, work, *arguments)
        job.add_done_callback(self._finish)
        return await asyncio.wrap_future(job)

    def close(self) -> None:
        """Finish what waits, and accept nothing more."""
        self._executor.shutdown()

    def _measure(self, work: Callable[..., T], *arguments: Any) -> T:
        begun = perf_counter()
        try:
            return work(*arguments)
        finally:
            with self._lock:
                weight = SMOOTHING if self._mean_seconds else 1.0
                self._mean_seconds += weight * (perf_counter() - begun - self._mean_seconds)

    def _finish(self, _: Future[Any]) -> None:
        with self._lock:
            self.pending -= 1
