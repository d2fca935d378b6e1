"""Connections: a limit for all, one for each address, and a timeout for those without a request."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from cbcl.machine import trim_memory
from cbcl.web.limits import MAX_SHARE

MAX_CONNECTIONS = 512
MAX_PER_ADDRESS = 64  # of this machine, all but a quarter
IDLE_TIMEOUT_SECONDS = 10.0  # until the head of a request is complete
ENDED_CONNECTIONS = 100  # after which what they left behind is freed: 256 kB, where TLS failed


@lru_cache(1024)
def is_loopback(address: str) -> bool:
    """Tell whether an address or a host name means this machine."""
    name = address.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return bool((getattr(ip, "ipv4_mapped", None) or ip).is_loopback)


def client_address(scope: Scope) -> str:
    """Return the address that a request is counted under: one for all of this machine's."""
    return _counted_address(scope["client"][0] if scope.get("client") else "")


def _counted_address(address: str) -> str:
    return "localhost" if is_loopback(address) else address


def connection_limit() -> int:
    """Return how many connections may be open: at most half of the process's file descriptors."""
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
    return min(MAX_CONNECTIONS, files // 2) if files > 0 else MAX_CONNECTIONS


@dataclass
class OpenConnection:
    """A connection that was accepted."""

    socket: socket.socket
    peer: tuple[str, int]
    idle_since: float
    requests: int = 0  # under way: one may begin before the one before has quite ended


class ConnectionLimiter(socket.socket):
    """Listening socket that closes connections beyond the limits, before TLS begins."""

    limit = MAX_CONNECTIONS
    idle_timeout = IDLE_TIMEOUT_SECONDS
    _open: tuple[OpenConnection, ...] = ()
    _admitted = 0  # since what the others left behind was freed

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            if self.admit(connection, (str(address[0]), int(address[1]))):
                return connection, address
            connection.close()

    def admit(self, connection: socket.socket, peer: tuple[str, int]) -> bool:
        """Count a connection until it is closed, unless a limit is reached."""
        self._open = tuple(other for other in self._open if other.socket.fileno() >= 0)
        if len(self._open) >= self.limit:
            return False
        address = _counted_address(peer[0])
        same = sum(_counted_address(other.peer[0]) == address for other in self._open)
        if same >= (self.limit * MAX_SHARE if address == "localhost" else MAX_PER_ADDRESS):
            return False
        self._open = (*self._open, OpenConnection(connection, peer, monotonic()))
        self._admitted += 1
        return True

    @contextmanager
    def request(self, peer: tuple[str, int]) -> Iterator[None]:
        """Stop the idle timeout of a connection while a request is under way."""
        connections = [connection for connection in self._open if connection.peer == peer]
        for connection in connections:
            connection.requests += 1
        try:
            yield
        finally:
            for connection in connections:
                connection.requests -= 1
                connection.idle_since = monotonic()

    def close_idle(self) -> None:
        """Hang up where no request has begun for too long, once all is sent."""
        oldest = monotonic() - self.idle_timeout
        for connection in self._open:
            if not connection.requests and connection.idle_since < oldest:
                with suppress(OSError):  # it is closed already
                    connection.socket.shutdown(socket.SHUT_RD)  # read as the client's end

    def free_ended(self) -> None:
        """Free what ended connections left behind in cycles of references, if they were many."""
        if self._admitted >= ENDED_CONNECTIONS:
            self._admitted = 0
            gc.collect()
            trim_memory()


class IdleTimeoutMiddleware:
    """Closes connections on which no request begins in time: at first, and after each answer."""

    def __init__(self, app: ASGIApp, connections: ConnectionLimiter) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            with self._connections.request(tuple(scope["client"] or ("", 0))):
                await self._app(scope, receive, send)
            return
        watching = asyncio.create_task(self._watch())
        try:
            await self._app(scope, receive, send)
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._connections.idle_timeout / 10)
            self._connections.close_idle()
            self._connections.free_ended()
