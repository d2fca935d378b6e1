"""Request bodies: their size, the size of all together, and the time to wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Message, Receive, Scope

from cbcl.web.errors import RequestRefused

MB = 1_000_000
PICTURE = 25 * MB
MAX_PICTURES = 100  # of a request
WORDS = 64_000  # bytes of a body without pictures
BODIES = {  # the most bytes, where more than words may come
    "/api/recognize": PICTURE + WORDS,
    "/api/recognize-many": 64 * MB,
    "/api/examples": 64 * MB,
    "/api/import": 1000 * MB,
}
ON_DISK = {"/api/import"}  # so it does not count among what is held
HELD = 512 * MB  # of all bodies at a time, from their first byte to their answer
PATIENCE = 30.0  # seconds to wait for the next bytes of a body
UNREAD = 128 * MB  # of a body that nobody wants: heard out, so that its sender hears the answer
UNREAD_PATIENCE = 10.0  # seconds
LAST_PATIENCE = 2.0  # seconds for either, once the server stops


class Bodies:
    """All bodies that come and are held at a time."""

    def __init__(self) -> None:
        self.held = 0
        self.stopping = False
        self._waits: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def wait(self, seconds: float) -> AsyncIterator[None]:
        """Wait for bytes so long, but not for long once the server stops."""
        async with asyncio.timeout(
            min(seconds, LAST_PATIENCE) if self.stopping else seconds
        ) as limit:
            self._waits.add(limit)
            try:
                yield
            finally:
                self._waits.discard(limit)

    def stop(self) -> None:
        """The server stops: who sends nothing is no longer waited for."""
        self.stopping = True
        last = asyncio.get_running_loop().time() + LAST_PATIENCE
        for limit in self._waits:
            limit.reschedule(min(last, limit.when() or last))


class Body:
    """The body of one request, counted while it comes."""

    def __init__(self, scope: Scope, receive: Receive, bodies: Bodies) -> None:
        path = scope["path"]
        headers = dict(scope["headers"])
        self._receive, self._bodies = receive, bodies
        self._limit = BODIES.get(path, WORDS) if scope["method"] == "POST" else WORDS
        self._counts = path not in ON_DISK
        self._length = (
            int(length) if (length := headers.get(b"content-length", b"")).isdigit() else 0
        )
        self._whole = not self._length and b"transfer-encoding" not in headers
        self._waits = (
            b"expect" in headers
        )  # with sending it, until it is asked for; or for no reason
        self._came = self._held = 0

    def check(self) -> None:
        """Refuse by what is announced, before any of it comes."""
        if self._length > self._limit:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with self._bodies.wait(PATIENCE):
                message = await self._receive()
        except TimeoutError:
            self._waits = True
            raise self._too_slow() from None
        self._note(message)
        size = len(message.get("body", b""))
        self._came += size
        if self._came > self._limit:
            raise self._too_large()
        if self._counts:
            self._held += size
            self._bodies.held += size
            if self._bodies.held > HELD:
                raise RequestRefused(
                    "busy", "too much is being sent at once: try again in 2 s.", retry_after=2
                )
        return message

    async def hear_out(self) -> None:
        """Read what is left, within reason: else the sender, still sending, would not hear the answer."""
        if self._waits or self._length > UNREAD:
            return
        heard = 0
        try:
            async with self._bodies.wait(UNREAD_PATIENCE):
                while not self._whole and heard < UNREAD:
                    message = await self._receive()
                    heard += len(message.get("body", b""))
                    self._note(message)
        except TimeoutError:
            pass

    def release(self) -> None:
        """It is answered."""
        self._bodies.held -= self._held

    def _note(self, message: Message) -> None:
        self._whole = not (message["type"] == "http.request" and message.get("more_body", False))

    def _too_slow(self) -> RequestRefused:
        if self._bodies.stopping:
            return RequestRefused(
                "slow", "the server stops, and this did not come in time: send it again later."
            )
        return RequestRefused("slow", f"nothing came for {PATIENCE:.0f} s: send it again.")

    def _too_large(self) -> RequestRefused:
        return RequestRefused(
            "size",
            f"that is more than {self._limit // MB or 0.064:g} MB: send less, or smaller pictures.",
        )
