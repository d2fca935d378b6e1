"""Request bodies: limits for one, for all together, and for the time to wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic

from starlette.types import Message, Receive, Scope

from cbcl.web.connections import client_address
from cbcl.web.errors import ApiError
from cbcl.web.limits import MB, Capacity, RouteLimits

MAX_HELD_BYTES = 512 * MB  # of all bodies at a time, from their first byte to their answer
MAX_STORED_BYTES = 4000 * MB  # likewise, of what is streamed to disk
MAX_ARRIVING = 128  # bodies that are not complete
MIN_BYTES_PER_SECOND = 10_000  # of a body, in each span of the next two:
READ_TIMEOUT_SECONDS = 30.0
CROWDED_TIMEOUT_SECONDS = 5.0  # where one address has many bodies under way
CROWDED_SHARE = 0.25
MAX_BODY_SECONDS, MAX_STORED_BODY_SECONDS = 600.0, 3600.0  # of waiting for all of a body
MAX_DRAINED_BYTES = 128 * MB  # of a refused body: a sender who is cut off misses the answer
DRAIN_TIMEOUT_SECONDS = 10.0
STOP_TIMEOUT_SECONDS = 2.0  # for either, once the server stops


class BodyRegistry:
    """All bodies that are being received or held: their number, their size, their timeouts."""

    def __init__(self) -> None:
        too_much = "the server is receiving too much at once"
        self.arriving = Capacity(MAX_ARRIVING, too_much, retry_after=5)
        self.held = Capacity(MAX_HELD_BYTES, too_much, retry_after=2)
        self.stored = Capacity(MAX_STORED_BYTES, too_much, retry_after=5)
        self.stopping = False
        self._timeouts: dict[asyncio.Timeout, str] = {}  # and their addresses

    @asynccontextmanager
    async def timeout(self, address: str, seconds: float) -> AsyncIterator[None]:
        """Limit the time for receiving bytes; less is left once the server stops."""
        seconds = min(seconds, STOP_TIMEOUT_SECONDS) if self.stopping else seconds
        async with asyncio.timeout(seconds) as timeout:
            self._timeouts[timeout] = address
            try:
                yield
            finally:
                del self._timeouts[timeout]

    def begin(self, address: str) -> None:
        """Count a body until it is complete; one among many of its address has less time."""
        self.arriving.take(address)
        if self._is_crowded(address):
            self._shorten(CROWDED_TIMEOUT_SECONDS, address)

    def read_timeout(self, address: str) -> float:
        """Return the time in which a body must advance."""
        return CROWDED_TIMEOUT_SECONDS if self._is_crowded(address) else READ_TIMEOUT_SECONDS

    def stop(self) -> None:
        """Shorten all timeouts: the server stops."""
        self.stopping = True
        self._shorten(STOP_TIMEOUT_SECONDS)

    def _is_crowded(self, address: str) -> bool:
        return self.arriving.share(address) > CROWDED_SHARE

    def _shorten(self, seconds: float, address: str | None = None) -> None:
        last = asyncio.get_running_loop().time() + seconds
        for timeout, owner in self._timeouts.items():
            # One that has expired cannot be changed; its task has not run since, to remove it.
            if address in (None, owner) and not timeout.expired():
                timeout.reschedule(min(last, timeout.when() or last))


class RequestBody:
    """The body of one request, counted while it is received."""

    def __init__(
        self, scope: Scope, receive: Receive, bodies: BodyRegistry, limits: RouteLimits
    ) -> None:
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self._receive, self._bodies, self._address = receive, bodies, client_address(scope)
        self._limit = limits.body
        self._capacity = bodies.stored if limits.on_disk else bodies.held
        self._max_seconds = MAX_STORED_BODY_SECONDS if limits.on_disk else MAX_BODY_SECONDS
        self._length = int(length) if length.isdigit() else 0
        self._complete = not self._length and b"transfer-encoding" not in headers
        # Who sends Expect waits with the body until it is read; who was silent may be silent on.
        self._sender_waits = b"expect" in headers
        self._received = self._held = 0
        self._waited = 0.0  # seconds for bytes, in all; and lately:
        self._lately_waited, self._lately_received = 0.0, 0
        self._arriving = False

    def check_length(self) -> None:
        """Refuse a body by the length announced, before it arrives."""
        if self._length > self._limit:
            raise self._too_large()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Count the body while it arrives, and its bytes until the end of the block."""
        if not self._complete:
            self._bodies.begin(self._address)
            self._arriving = True
        try:
            yield
        finally:
            self._end_arrival()
            self._capacity.give_back(self._address, self._held)

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        begun = monotonic()
        try:
            async with self._bodies.timeout(self._address, self._seconds_left()):
                message = await self._receive()
        except TimeoutError:
            self._sender_waits = True
            raise self._too_slow() from None
        self._count(message, monotonic() - begun)
        if self._received > self._limit:
            raise self._too_large()
        size = len(message.get("body", b""))
        self._capacity.take(self._address, size)
        self._held += size
        return message

    async def drain(self) -> None:
        """Read what is left, up to a limit, so that the sender gets to read the answer."""
        if self._sender_waits or self._length > MAX_DRAINED_BYTES:
            return
        end = self._received + MAX_DRAINED_BYTES
        with suppress(TimeoutError):
            async with self._bodies.timeout(self._address, DRAIN_TIMEOUT_SECONDS):
                while not self._complete and self._received < end:
                    self._count(await self._receive())

    def _seconds_left(self) -> float:
        """Return how long to wait for the next bytes: our own pauses are not the sender's."""
        timeout = self._bodies.read_timeout(self._address)
        if self._lately_received >= timeout * MIN_BYTES_PER_SECOND:
            self._lately_waited, self._lately_received = 0.0, 0
        return min(timeout - self._lately_waited, self._max_seconds - self._waited)

    def _count(self, message: Message, waited: float = 0.0) -> None:
        size = len(message.get("body", b""))
        self._received += size
        self._lately_received += size
        self._waited += waited
        self._lately_waited += waited
        more = message["type"] == "http.request" and message.get("more_body", False)
        self._complete = not more
        if self._complete:
            self._end_arrival()

    def _end_arrival(self) -> None:
        if self._arriving:
            self._arriving = False
            self._bodies.arriving.give_back(self._address)

    def _too_slow(self) -> ApiError:
        if self._bodies.stopping:
            return ApiError(
                "slow", "the server stops, and the body was not complete: send it again."
            )
        return ApiError("slow", "the body arrived too slowly: send it again, or in several parts.")

    def _too_large(self) -> ApiError:
        limit = f"{self._limit // MB or self._limit / MB:g} MB"
        return ApiError("size", f"the body has more than {limit}: send less, or smaller pictures.")
