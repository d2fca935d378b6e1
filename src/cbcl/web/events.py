"""News for open pages: a stream of events that tells whenever the memory has changed, by whomever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

from cbcl.errors import CBCLError
from cbcl.web.errors import RequestRefused
from cbcl.web.response_cache import MemoryRevision

OFTEN = 0.5  # seconds between two looks at the memory, while somebody listens
QUIET = 15.0  # seconds without news, after which a sign of life is sent
MOST = 64  # streams at a time


class Events:
    """Tells all who listen the memory's revision, at once and whenever it changes."""

    def __init__(self, state: Callable[[], MemoryRevision], most: int = MOST) -> None:
        self._state, self._most = state, most
        self._latest = MemoryRevision((0, 0), 0)
        self._bell = asyncio.Event()
        self._ended = False
        self._watcher: asyncio.Task[None] | None = None
        self.listeners = 0

    async def subscribe(self) -> AsyncIterator[str]:
        """The text of a stream, if there is room for one more."""
        if self.listeners >= self._most:
            raise RequestRefused(
                "busy", "too many pages are open already: close some.", retry_after=5
            )
        await self._look()
        return self._stream()

    async def _stream(self) -> AsyncIterator[str]:
        self.listeners += 1
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())
        try:
            told = None
            while not self._ended:
                bell = self._bell  # before looking, so that no ringing is missed
                if told != self._latest:
                    told = self._latest
                    yield f'event: changed\ndata: {{"revision": {told.revision}}}\n\n'
                try:
                    async with asyncio.timeout(QUIET):
                        await bell.wait()
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self.listeners -= 1
            if not self.listeners:
                self._stop_watching()

    def notice(self, state: MemoryRevision) -> None:
        """Tell of a change that was made here, without waiting for the next look."""
        if (
            state.file != self._latest.file or state.revision > self._latest.revision
        ):  # a lesser one was slow to arrive
            self._tell(state)

    def end(self) -> None:
        """End all streams: the server stops."""
        self._ended = True
        self._stop_watching()
        self._ring()

    def _tell(self, state: MemoryRevision) -> None:
        self._latest = state
        self._ring()

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(OFTEN)
            with suppress(CBCLError):  # whoever asks for something is told what is wrong
                await self._look()

    async def _look(self) -> None:
        before = self._latest
        found = await run_in_threadpool(self._state)
        if (
            found != before and self._latest == before
        ):  # else it may be older than what was noticed meanwhile
            self._tell(found)
