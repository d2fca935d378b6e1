"""Connections: limits, and the timeout for those without a request."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from support.server import TIMEOUT_SECONDS, make_certificate

from cbcl.web import connections
from cbcl.web.connections import (
    ENDED_CONNECTIONS,
    ConnectionLimiter,
    IdleTimeoutMiddleware,
    connection_limit,
    is_loopback,
)


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("x", False),
    ],
)
def test_this_machine_is_known_by_its_addresses(address: str, own: bool) -> None:
    assert is_loopback(address) is own


def connect(listening: socket.socket) -> socket.socket:
    return socket.create_connection(listening.getsockname(), timeout=TIMEOUT_SECONDS)


def test_there_is_room_for_so_many_connections_and_again_when_one_ends() -> None:
    with ConnectionLimiter() as limiter:
        limiter.limit = 2
        limiter.bind(("127.0.0.1", 0))
        limiter.listen()
        limiter.setblocking(False)
        with connect(limiter), connect(limiter), connect(limiter) as third:
            first, second = limiter.accept()[0], limiter.accept()[0]
            with pytest.raises(BlockingIOError):
                limiter.accept()
            assert third.recv(1) == b""
            first.close()
            with connect(limiter):
                limiter.accept()[0].close()
            second.close()


def test_of_one_address_there_are_fewer_connections_and_of_this_machine_three_quarters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_PER_ADDRESS", 2)
    with ConnectionLimiter() as limiter, socket.socket() as connection:

        def admitted(address: str, count: int) -> list[bool]:
            return [limiter.admit(connection, (address, port)) for port in range(count)]

        assert admitted("192.168.1.9", 3) == [True, True, False]
        assert admitted("192.168.1.8", 1) == [True]
        limiter.limit = 16
        assert admitted("127.0.0.1", 3) == [True] * 3
        assert admitted("127.0.0.2", 10) == [True] * 9 + [False]


def test_connections_leave_files_for_other_things() -> None:
    assert 0 < connection_limit() <= connections.MAX_CONNECTIONS


def test_a_request_that_begins_before_another_has_ended_is_not_cut_off() -> None:
    with ConnectionLimiter() as limiter:
        limiter.idle_timeout = -1.0  # whatever is idle is so for too long
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            peer = "127.0.0.1", 5000
            limiter.admit(ours, peer)
            first, second = limiter.request(peer), limiter.request(peer)
            first.__enter__()
            with second:
                first.__exit__(None, None, None)
                limiter.close_idle()
                with pytest.raises(BlockingIOError):
                    ours.recv(1)
            limiter.close_idle()
            assert ours.recv(1) == b""
            ours.sendall(b"the rest of an answer")
            assert theirs.recv(100) == b"the rest of an answer"


class Impatient(ConnectionLimiter):
    """One that hangs up soon, and counts how often it looked for idle connections."""

    idle_timeout = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.rounds = threading.Semaphore(0)

    def close_idle(self) -> None:
        super().close_idle()
        self.rounds.release()

    def wait(self) -> None:
        """Wait for longer than a connection may be idle: ten looks are one timeout."""
        for _ in range(25):
            assert self.rounds.acquire(timeout=TIMEOUT_SECONDS)


@contextmanager
def serving(**options: Any) -> Iterator[Impatient]:
    with Impatient() as limiter:
        limiter.bind(("127.0.0.1", 0))
        limiter.listen()

        async def answer_late(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await asyncio.to_thread(limiter.wait)
                headers = [(b"content-length", b"2")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": b"ok"})
                return
            for step in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{step}"
                await send({"type": f"lifespan.{step}.complete"})

        server = uvicorn.Server(
            uvicorn.Config(
                IdleTimeoutMiddleware(answer_late, limiter),
                http="h11",
                ws="none",
                log_config=None,
                **options,
            )
        )
        thread = threading.Thread(target=server.run, args=[[limiter]])
        thread.start()
        try:
            yield limiter
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"ok"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHo", b"ok"),
    ],
)
def test_a_connection_without_a_request_is_closed_and_one_with_a_request_is_not(
    sent: bytes, answered: bytes
) -> None:
    with serving(timeout_keep_alive=TIMEOUT_SECONDS) as limiter, connect(limiter) as connection:
        connection.sendall(sent)
        answer = connection.makefile("rb").read()
    assert answer.endswith(answered)
    assert bool(answer) == bool(answered)


@pytest.mark.parametrize("handshake", [False, True])
def test_over_tls_too_a_connection_without_a_request_is_closed(
    tmp_path: Path, handshake: bool
) -> None:
    certificate, key = make_certificate(tmp_path)
    with (
        serving(ssl_certfile=certificate, ssl_keyfile=key) as limiter,
        connect(limiter) as connection,
    ):
        if handshake:
            trust = ssl.create_default_context(cafile=certificate)
            with trust.wrap_socket(connection, server_hostname="localhost") as secure:
                assert secure.recv(1) == b""
        else:
            connection.sendall(b"\x16\x03\x01")
            assert connection.recv(1) == b""


def test_what_many_connections_left_in_cycles_is_freed() -> None:
    class Left:
        pass

    limiter = ConnectionLimiter()
    with limiter, closing(socket.socket()) as connection:
        gc.disable()
        try:
            left = Left()
            left.itself = left  # type: ignore[attr-defined]
            seen = weakref.ref(left)
            del left
            limiter.limit = 2 * ENDED_CONNECTIONS
            for number in range(ENDED_CONNECTIONS):
                limiter.free_ended()
                assert seen() is not None
                assert limiter.admit(connection, ("127.0.0.1", number))
            limiter.free_ended()
            assert seen() is None
        finally:
            gc.enable()
