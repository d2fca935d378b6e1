"""Served memory: the one that is open, until another is opened in its place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from cbcl.errors import CBCLError
from cbcl.recognition.recognizer import Recognizer
from cbcl.web import schemas
from cbcl.web.errors import ApiError
from cbcl.web.memory_folder import MemoryFolder, describe_memory
from cbcl.web.service import TeachingService


class ServedMemory:
    """The service of the memory that is open; requests under way on the one before are finished.

    A recognizer is closed when it is no longer served.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        make_service: Callable[[Recognizer], TeachingService],
        *,
        several: bool,
    ) -> None:
        self._recognizer, self._make_service = recognizer, make_service
        self._users: Counter[TeachingService] = Counter()  # requests under way
        self._opening = asyncio.Lock()
        self._warming_up: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.folder = MemoryFolder(recognizer.path.parent, several=several)
        self.service = make_service(recognizer)

    def start(self) -> None:
        """Load the backbone; called in the event loop."""
        if self._warming_up is not None:
            self._warming_up.cancel()
        self._warming_up = asyncio.create_task(self.service.embedding.warm_up())

    def stop(self) -> None:
        """End all event streams."""
        self._stopping = True
        self.service.notifier.close()

    async def close(self) -> None:
        """Finish what was begun."""
        if self._warming_up is not None:
            self._warming_up.cancel()
        for service in {self.service, *self._users}:
            self._close(service)
        await asyncio.gather(*self._closing)

    @asynccontextmanager
    async def use(self, memory: str | None = None) -> AsyncIterator[TeachingService]:
        """Provide the service for a request, which may say which memory it is meant for."""
        service = self.service
        if memory is not None and memory != service.name:
            message = f"{service.name} was opened here in place of {memory}: nothing was done."
            raise ApiError("switched", message)
        self._users[service] += 1
        try:
            yield service
        finally:
            self._users[service] -= 1
            self._close_unused(service)

    async def open(self, path: Path) -> TeachingService:
        """Open another memory in place of the one that is open, for everybody."""
        async with self._opening:
            if path == self.service.path:
                return self.service
            recognizer = await run_in_threadpool(self._open, path)
            before, self.service = self.service, self._make_service(recognizer)
            self.start()
            before.notifier.close()  # its streams go on with the new one
            self._close_unused(before)
            return self.service

    async def events(self, is_allowed: Callable[[], bool]) -> AsyncGenerator[str, None]:
        """Return the text of a new event stream, which goes on when another memory is opened."""
        service = self.service
        stream = await service.notifier.subscribe(is_allowed)
        return self._follow(service, stream, is_allowed)

    def describe(self) -> schemas.MemoriesResponse:
        """List the memories that can be opened, the one that is open among them."""
        present = self.service.path
        paths = self.folder.paths()
        if present not in paths:
            paths.insert(0, present)
        return schemas.MemoriesResponse(
            open=self.service.name,
            several=self.folder.several,
            memories=[describe_memory(path) for path in paths],
        )

    def _open(self, path: Path) -> Recognizer:
        return self._recognizer.beside(path)

    async def _follow(
        self,
        service: TeachingService,
        stream: AsyncGenerator[str, None],
        is_allowed: Callable[[], bool],
    ) -> AsyncGenerator[str, None]:
        while True:
            async with aclosing(stream):
                async for text in stream:
                    yield text
            if self._stopping or not is_allowed() or service is self.service:
                return
            service = self.service
            try:
                stream = await service.notifier.subscribe(is_allowed, opened=True)
            except CBCLError:  # who listens tries again, and is told
                return

    def _close_unused(self, service: TeachingService) -> None:
        if service is not self.service and not self._users[service]:
            self._close(service)

    def _close(self, service: TeachingService) -> None:
        del self._users[service]
        closing = asyncio.create_task(asyncio.to_thread(service.close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
