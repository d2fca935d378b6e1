"""Who may connect: so many in all, so many of one address, and each has a time in which to ask for something."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from cbcl.web.rate_limit import is_loopback

MOST = 512  # connections
MAX_OF_ONE = 64  # of an address; this machine's own has no limit but that of all
PATIENCE = 10.0  # seconds for the head of a request


class ConnectionLimiter(socket.socket):
    """A socket to listen at, which hangs up on those for whom there is no room: also before TLS has begun."""

    most = MOST
    _open: tuple[tuple[socket.socket, str], ...] = ()

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            if self.admits(connection, str(address[0])):
                return connection, address
            connection.close()

    def admits(self, connection: socket.socket, address: str) -> bool:
        """Whether there is room for one more of this address; who is let in has it until the connection is closed."""
        self._open = tuple(one for one in self._open if one[0].fileno() >= 0)
        own = is_loopback(address)
        if len(self._open) >= self.most or (
            not own and [a for _, a in self._open].count(address) >= MAX_OF_ONE
        ):
            return False
        self._open = (*self._open, (connection, address))
        return True


def room() -> int:
    """As many connections as there may be: half of the files that this process may open are for other things."""
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
    return min(MOST, files // 2) if files > 0 else MOST


class Connection(H11Protocol):
    """A connection that is closed if no request begins in time: at first, and after each answer."""

    patience = PATIENCE
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as there
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
