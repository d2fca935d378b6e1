"""Server-sent events: the memory's revision, whoever changed it, and what is recognized."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from cbcl.errors import CBCLError

EVENTS_PATH = "/api/events"
POLL_SECONDS = 0.5  # between two looks at the memory, while there are subscribers
KEEPALIVE_SECONDS = 15.0
MAX_RECOGNITIONS = 64  # that wait for a slow stream; it misses those before


class MemoryRevision(NamedTuple):
    """A state of a memory: which file, since another may replace it, and its latest step."""

    file: tuple[int, int]
    revision: int


class ChangeNotifier:
    """Sends all subscribers the memory's revision, at once and after every change.

    And what is recognized, from the time on that they have subscribed.
    """

    def __init__(self, current: Callable[[], MemoryRevision], memory: str = "") -> None:
        self._current, self._memory = current, memory
        self._latest = MemoryRevision((0, 0), 0)
        self._recognitions: deque[str] = deque(maxlen=MAX_RECOGNITIONS)
        self._recognized = 0  # number of all that ever were
        self._changed = asyncio.Event()
        self._closed = False
        self._poller: asyncio.Task[None] | None = None
        self.subscribers = 0

    async def subscribe(
        self, is_allowed: Callable[[], bool] = lambda: True, *, opened: bool = False
    ) -> AsyncGenerator[str, None]:
        """Return the text of a new stream, which ends when it is no longer allowed.

        `opened`: it takes the place of the stream of another memory.
        """
        await self._poll()
        return self._stream(is_allowed, opened)

    def publish(self, revision: MemoryRevision) -> None:
        """Send a change that was made here, without waiting for the next poll."""
        # Of two changes the earlier may arrive here later: it is old by then.
        if revision.file != self._latest.file or revision.revision > self._latest.revision:
            self._send(revision)

    def publish_recognition(self, data: str) -> None:
        """Send JSON about a picture that was recognized."""
        if self.subscribers:
            self._recognitions.append(data)
            self._recognized += 1
            self.wake()

    def clear(self) -> None:
        """Forget what was recognized: a label may be forgotten for good."""
        self._recognitions.clear()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._stop_polling()
        self.wake()

    def wake(self) -> None:
        """Let all streams see what is new, and whether they are still allowed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _stream(
        self, is_allowed: Callable[[], bool], opened: bool
    ) -> AsyncGenerator[str, None]:
        self.subscribers += 1
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll_forever())
        try:
            sent, told = None, self._recognized
            while not self._closed and is_allowed():
                changed = self._changed  # before comparing, so that no change is missed
                if sent != self._latest:
                    opened = opened or _is_replaced(sent, self._latest)
                    sent = self._latest
                    if opened:
                        opened = False
                        opening = {"memory": self._memory, "revision": sent.revision}
                        yield f"event: opened\ndata: {json.dumps(opening)}\n\n"
                    yield f'event: changed\ndata: {{"revision": {sent.revision}}}\n\n'
                if new := min(self._recognized - told, len(self._recognitions)):
                    told = self._recognized
                    recognitions = [*self._recognitions][-new:]
                    yield "".join(f"event: recognized\ndata: {one}\n\n" for one in recognitions)
                try:
                    async with asyncio.timeout(KEEPALIVE_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    yield ": keep-alive\n\n"
        finally:
            self.subscribers -= 1
            if not self.subscribers:
                self._stop_polling()

    def _send(self, revision: MemoryRevision) -> None:
        self._latest = revision
        self.wake()

    def _stop_polling(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with suppress(CBCLError):  # the next request is answered with it
                await self._poll()

    async def _poll(self) -> None:
        before = self._latest
        revision = await run_in_threadpool(self._current)
        if revision != before and self._latest == before:  # else it may be older than the latest
            self._send(revision)


def _is_replaced(sent: MemoryRevision | None, latest: MemoryRevision) -> bool:
    """Tell whether another memory has taken the place of the one that a stream has told of."""
    if sent is None or not sent.revision or not latest.revision:
        return False
    return sent.file != latest.file
