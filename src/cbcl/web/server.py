"""Serving a memory: which address, to whom, until somebody says stop."""

from __future__ import annotations

import io
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any
from urllib.parse import quote

import segno
import uvicorn
from fastapi import FastAPI

from cbcl.errors import BackboneError, CBCLError, MemoryFileError
from cbcl.recognition.recognizer import Recognizer
from cbcl.vision.backbones import DEFAULT
from cbcl.web.app import create_app
from cbcl.web.connections import Connection, ConnectionLimiter, room
from cbcl.web.rate_limit import is_loopback
from cbcl.web.request_log import RequestLog
from cbcl.web.security import AccessPolicy

PORT = 8737
MORE_PORTS = 100  # tried where that one is taken
LAST_WAIT = 75  # seconds that a stop waits for what was accepted: more than a memory waits for another process


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str  # as it was given
    listening: ConnectionLimiter
    secure: bool

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.listening.getsockname()[0])

    def url(self, token: str | None = None) -> str:
        """The address to open; a server on all of a machine's addresses is told by one of them."""
        bound = self.listening.getsockname()[0]
        name = _own_address(self.listening.family) if bound in ("0.0.0.0", "::") else self.host
        name = f"[{name}]" if ":" in name else name
        asked = f"?token={quote(token)}" if token else ""
        return f"http{'s' if self.secure else ''}://{name}:{self.port}/{asked}"


def listen(host: str, port: int | None, *, secure: bool = False) -> Address:
    """A place to listen: at the port given, or at the first free one from 8737 on."""
    ports = range(PORT, PORT + MORE_PORTS) if port is None else [port]
    problem = ""
    for number in ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
        except (OSError, UnicodeError) as error:
            raise CBCLError(
                f"there is no address {host!r} to listen at: {_reason(error)}."
            ) from error
        listening = ConnectionLimiter(family, kind, protocol)
        listening.most = room()
        try:
            if os.name == "posix":  # elsewhere this would let two servers have one port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(
                socket.SOMAXCONN
            )  # so that nobody else can, and the first who comes can wait
            return Address(host, listening, secure)
        except OSError as error:
            listening.close()
            problem = _reason(error)
    tried = (
        f"port {ports[0]} of {host}" if port is not None else f"any port from {PORT} on of {host}"
    )
    raise CBCLError(f"cannot listen at {tried}: {problem}. Give another with --port.")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".").lower()


def _own_address(family: int) -> str:
    """The address by which other machines near this one reach it; nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("2001:db8::1", 9) if family == socket.AF_INET6 else ("192.0.2.1", 9))
            return str(asking.getsockname()[0])
        except OSError:
            return socket.gethostname()


class Server(uvicorn.Server):
    """A server that, told to stop, ends what has no end, finishes the rest, and leaves quietly."""

    def __init__(self, app: FastAPI, started: Callable[[], None], **options: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # nobody in front of us is to be believed about who asks
                server_header=False,
                timeout_graceful_shutdown=LAST_WAIT,
                **options,
            )
        )
        self._state, self._started = app.state, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.classroom.events.end()
        self._state.bodies.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again in the end, which would kill us before the memory is closed. Nor does a
        # second Ctrl-C stop us sooner, with what was accepted half done.
        signals = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
        before = {number: signal.signal(number, self._stop) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self.should_exit = True


def serve(
    recognizer: Recognizer,
    *,
    say: Callable[[str], None],
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    backbone: str | None = None,
    private: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
    log: bool = False,
) -> None:
    """Serve a memory until told to stop, by Ctrl-C or a signal; what was accepted is finished then."""
    for name in ("python_multipart", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.ERROR)  # what others send broken is told to them
    _check_memory(recognizer, private=private)
    _check_certificate(certificate, key)
    address = listen(host, port, secure=certificate is not None)
    token = None if address.loopback else secrets.token_urlsafe(24)
    door = AccessPolicy(token, f"cbcl-{address.port}", address.secure, host)
    app = create_app(
        recognizer,
        door=door,
        log=RequestLog(everything=log),
        backbone=backbone or DEFAULT,
        private=private,
    )

    def started() -> None:
        if port is None and address.port != PORT:
            say(f"port {PORT} is taken: this is {address.port}.")
        say(f"teach {recognizer.path.name} at {address.url(token)}")
        if token is not None:
            say(
                as_qr(address.url(token))
                + "Whoever has this address can see and change the memory."
            )
        say("Ctrl-C stops.")
        if browser and _has_browser():
            Thread(target=webbrowser.open, args=[address.url(token)], daemon=True).start()

    Server(app, started, ssl_certfile=certificate, ssl_keyfile=key).run([address.listening])


def as_qr(url: str) -> str:
    """An address for a phone's camera, in letters, where a terminal shows them."""
    if not sys.stdout.isatty():
        return ""
    file = io.StringIO()
    segno.make(url, micro=False).terminal(file, compact=True)
    return file.getvalue()


def _has_browser() -> bool:
    """Whether there is a screen for one: else a browser might be opened in this very terminal."""
    return sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )


def _check_memory(recognizer: Recognizer, *, private: bool) -> None:
    about = recognizer.about()  # which fails where there is a file that is no memory
    if private and about is not None and not about.private:
        raise BackboneError(
            f"{recognizer.path} was not begun as a private memory and cannot become one: begin a new one."
        )
    if not recognizer.path.parent.is_dir():
        raise MemoryFileError(f"{recognizer.path.parent} does not exist: make that folder first.")


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    if certificate is None:
        if key is not None:
            raise CBCLError("a key alone is of no use: give --certificate, too.")
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CBCLError(
            f"{certificate} is no certificate that can be used: {_reason(error)}."
        ) from error
