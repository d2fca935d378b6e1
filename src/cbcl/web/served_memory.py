"""Served memory: the one that is open, and those of its folder, by names that a browser sends."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from cbcl.errors import CBCLError, encodable
from cbcl.files import identity
from cbcl.recognition.memory_files import (
    MEMORY_SUFFIX,
    count_labels,
    find_memories,
    list_files,
    time_changed,
)
from cbcl.recognition.recognizer import Recognizer
from cbcl.web import schemas
from cbcl.web.errors import ApiError
from cbcl.web.monitoring import Metrics
from cbcl.web.service import TeachingService

MAX_MEMORY_NAME = 80  # characters of a name, without its suffix
MAX_MEMORY_NAME_BYTES = 160  # in UTF-8: a file system takes 255, with all that is put around it
MAX_LISTED = 500
NOT_IN_NAMES = frozenset('/\\:*?"<>|')  # of which each is forbidden by some file system
DEVICES = frozenset(  # names that mean no file on Windows, whatever their suffix
    ("con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10)))
)


def as_memory_name(text: str) -> str:
    """Return the name of a memory file, with its suffix; ApiError: no memory may be called that."""
    name = unicodedata.normalize("NFC", text).strip()
    stem = name.removesuffix(MEMORY_SUFFIX).rstrip()
    if not stem:
        raise _bad_name("the name of a memory is empty: type one, such as kitchen.")
    if len(stem) > MAX_MEMORY_NAME or len(stem.encode(errors="replace")) > MAX_MEMORY_NAME_BYTES:
        raise _bad_name(f"the name of a memory has at most {MAX_MEMORY_NAME} characters.")
    if wrong := [sign for sign in stem if sign in NOT_IN_NAMES or not sign.isprintable()]:
        shown = f" {wrong[0]}" if wrong[0].isprintable() else " a character that cannot be seen"
        raise _bad_name(f"the name of a memory cannot have{shown}: use letters and digits.")
    if stem[0] in ".-~" or stem[-1] == ".":
        raise _bad_name("the name of a memory cannot begin or end like that: use a letter.")
    if stem.partition(".")[0].strip().lower() in DEVICES:
        raise _bad_name(f"a file cannot be called {stem}: choose another name.")
    return f"{stem}{MEMORY_SUFFIX}"


def _bad_name(message: str) -> ApiError:
    return ApiError("argument", message)


class MemoryFolder:
    """The memories in a folder, looked up among those there are, so that no name leads elsewhere.

    Without `several`, it is that of one memory, and knows no other.
    """

    def __init__(self, path: Path, *, several: bool) -> None:
        self.path, self.several = path, several

    def paths(self) -> list[Path]:
        """Return the memory files, the one changed latest first."""
        return find_memories(self.path)[:MAX_LISTED] if self.several else []

    def find(self, name: str) -> Path:
        """Return the file of a memory that is there."""
        self._check_several()
        for path in self.paths():
            if encodable(path.name) == name:
                return path
        raise ApiError("missing", "there is no memory of this name, or no longer.")

    def find_free(self, text: str) -> Path:
        """Return the path of a memory that is not there yet, by the name that somebody gave it."""
        self._check_several()
        name = as_memory_name(text)
        if any(path.name.casefold() == name.casefold() for path in list_files(self.path)):
            raise ApiError("memory", f"{name} is there already: choose another name.")
        return self.path / name

    def _check_several(self) -> None:
        if not self.several:
            raise ApiError(
                "memory",
                "this server has one memory: start `cbcl teach` with a folder to have several.",
            )


class ServedMemory:
    """The service of the memory that is open; requests under way on the one before are finished.

    A recognizer is closed when it is no longer served.
    """

    def __init__(self, recognizer: Recognizer, metrics: Metrics, *, several: bool) -> None:
        self._recognizer, self._metrics = recognizer, metrics
        self._users: Counter[TeachingService] = Counter()  # requests under way
        self._opening = asyncio.Lock()
        self._warming_up: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.folder = MemoryFolder(recognizer.path.parent, several=several)
        self.service = TeachingService(recognizer, metrics)

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
            recognizer = await run_in_threadpool(self._recognizer.beside, path)
            before, self.service = self.service, TeachingService(recognizer, self._metrics)
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
            memories=[_describe_memory(path) for path in paths],
        )

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


def _describe_memory(path: Path) -> schemas.MemoryEntry:
    """Return a line about a memory, whatever is wrong with it."""
    things = None
    problem = None
    try:
        things = count_labels(path)
    except CBCLError as error:
        problem = error.public
    time = datetime.fromtimestamp(time_changed(path), UTC).isoformat(timespec="seconds")
    there = identity(path) is not None
    return schemas.MemoryEntry(
        name=encodable(path.name),
        things=things,
        changed=time if there else None,
        problem=problem,
    )
