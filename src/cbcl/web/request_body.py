"""Request bodies: limits for one, for all together, and for the time to wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.types import Message, Receive, Scope

from cbcl.web.errors import ApiError

MB = 1_000_000
MAX_PICTURE_BYTES = 25 * MB
MAX_PICTURES = 100  # of a request
MAX_TEXT_BYTES = 64_000  # of a body without files
MAX_BODY_BYTES = {
    "/api/recognize": MAX_PICTURE_BYTES + MAX_TEXT_BYTES,
    "/api/recognize-many": 64 * MB,
    "/api/examples": 64 * MB,
    "/api/negatives": 64 * MB,
    "/api/import": 1000 * MB,
}
STREAMED_TO_DISK = {"/api/import"}  # not counted among what is held in RAM
MAX_HELD_BYTES = 512 * MB  # of all bodies at a time, from their first byte to their answer
READ_TIMEOUT_SECONDS = 30.0  # for the next bytes of a body
MAX_DRAINED_BYTES = 128 * MB  # of a refused body: a sender who is cut off misses the answer
DRAIN_TIMEOUT_SECONDS = 10.0
STOP_TIMEOUT_SECONDS = 2.0  # for either, once the server stops


class BodyRegistry:
    """All bodies that are being received or held: their size, and their timeouts."""

    def __init__(self) -> None:
        self.held = 0
        self.stopping = False
        self._timeouts: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        """Limit the time for receiving bytes; less is left once the server stops."""
        seconds = min(seconds, STOP_TIMEOUT_SECONDS) if self.stopping else seconds
        async with asyncio.timeout(seconds) as timeout:
            self._timeouts.add(timeout)
            try:
                yield
            finally:
                self._timeouts.discard(timeout)

    def stop(self) -> None:
        """Shorten all timeouts: the server stops."""
        self.stopping = True
        last = asyncio.get_running_loop().time() + STOP_TIMEOUT_SECONDS
        for timeout in self._timeouts:
            timeout.reschedule(min(last, timeout.when() or last))


class RequestBody:
    """The body of one request, counted while it is received."""

    def __init__(self, scope: Scope, receive: Receive, bodies: BodyRegistry) -> None:
        path, headers = scope["path"], dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self._receive, self._bodies = receive, bodies
        self._limit = MAX_TEXT_BYTES
        if scope["method"] == "POST":
            self._limit = MAX_BODY_BYTES.get(path, MAX_TEXT_BYTES)
        self._in_memory = path not in STREAMED_TO_DISK
        self._length = int(length) if length.isdigit() else 0
        self._complete = not self._length and b"transfer-encoding" not in headers
        # Who sends Expect waits with the body until it is read; who was silent may be silent on.
        self._sender_waits = b"expect" in headers
        self._received = self._held = 0

    def check_length(self) -> None:
        """Refuse a body by the length announced, before it arrives."""
        if self._length > self._limit:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with self._bodies.timeout(READ_TIMEOUT_SECONDS):
                message = await self._receive()
        except TimeoutError:
            self._sender_waits = True
            raise self._too_slow() from None
        self._count(message)
        if self._received > self._limit:
            raise self._too_large()
        if self._bodies.held > MAX_HELD_BYTES:
            problem = "the server is receiving too much at once: try again in 2 s."
            raise ApiError("busy", problem, retry_after=2)
        return message

    async def drain(self) -> None:
        """Read what is left, up to a limit, so that the sender gets to read the answer."""
        if self._sender_waits or self._length > MAX_DRAINED_BYTES:
            return
        end = self._received + MAX_DRAINED_BYTES
        with suppress(TimeoutError):
            async with self._bodies.timeout(DRAIN_TIMEOUT_SECONDS):
                while not self._complete and self._received < end:
                    self._count(await self._receive(), held=False)

    def release(self) -> None:
        """Stop counting the body among those held: it is answered."""
        self._bodies.held -= self._held

    def _count(self, message: Message, *, held: bool = True) -> None:
        size = len(message.get("body", b""))
        self._received += size
        if held and self._in_memory:
            self._held += size
            self._bodies.held += size
        more = message["type"] == "http.request" and message.get("more_body", False)
        self._complete = not more

    def _too_slow(self) -> ApiError:
        if self._bodies.stopping:
            return ApiError(
                "slow", "the server stops, and the body was not complete: send it again."
            )
        seconds = f"{READ_TIMEOUT_SECONDS:.0f}"
        return ApiError("slow", f"no bytes arrived for {seconds} s: send the request again.")

    def _too_large(self) -> ApiError:
        limit = f"{self._limit // MB or self._limit / MB:g} MB"
        return ApiError("size", f"the body has more than {limit}: send less, or smaller pictures.")
