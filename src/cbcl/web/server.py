"""Server process: its address, its access token, and its stop."""

from __future__ import annotations

import asyncio
import gc
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
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any
from urllib.parse import quote

import segno
import uvicorn
from fastapi import FastAPI

from cbcl.errors import BackboneError, MemoryFileError, ServerError, first_line, reason
from cbcl.recognition.recognizer import Recognizer
from cbcl.vision.backbones import DEFAULT
from cbcl.web.app import begin_stop, create_app
from cbcl.web.connections import (
    ConnectionLimiter,
    IdleTimeoutMiddleware,
    connection_limit,
    is_loopback,
)
from cbcl.web.request_log import RequestLog
from cbcl.web.security import AccessPolicy

DEFAULT_PORT = 8737
PORTS_TRIED = 100  # where the default port is taken
SHUTDOWN_TIMEOUT_SECONDS = 75  # more than a change waits for another process's lock on the memory


@dataclass(frozen=True)
class ServerAddress:
    """A socket that a server listens on."""

    host: str  # as it was given
    listening: ConnectionLimiter
    secure: bool

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """True where only this machine can reach it."""
        return is_loopback(self.listening.getsockname()[0])

    def url(self, token: str | None = None) -> str:
        """Return the address to open; of a server on all addresses of this machine, one of them."""
        bound = self.listening.getsockname()[0]
        name = _own_address(self.listening.family) if bound in ("0.0.0.0", "::") else self.host
        name = f"[{name}]" if ":" in name else name
        query = f"?token={quote(token)}" if token else ""
        return f"http{'s' if self.secure else ''}://{name}:{self.port}/{query}"


def listen(host: str, port: int | None, *, secure: bool = False) -> ServerAddress:
    """Listen on the port given, or on the first free one from 8737 on."""
    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    problem = ""
    for number in ports:
        try:
            return ServerAddress(host, _bind(host, number), secure)
        except OSError as error:
            problem = f"cannot be used ({reason(error)})"
    tried = f"port {ports[0]}" if port is not None else f"every port from {DEFAULT_PORT} on"
    raise ServerError(f"{tried} of {host}", problem, "give another with --port")


def _bind(host: str, port: int) -> ConnectionLimiter:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        problem = reason(error) if isinstance(error, OSError) else first_line(error)
        raise ServerError(
            repr(host), f"is not an address to listen on ({problem})", "give another with --host"
        ) from error
    listening = ConnectionLimiter(family, kind, protocol)
    listening.limit = connection_limit()
    try:
        if os.name == "posix":  # elsewhere this would let two servers have one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(socket.SOMAXCONN)  # now, so that no other process gets the port
    except OSError:
        listening.close()
        raise
    return listening


def _own_address(family: int) -> str:
    """Return the address by which other machines reach this one; nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("2001:db8::1", 9) if family == socket.AF_INET6 else ("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


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
    """Serve a memory until SIGINT or SIGTERM; requests that were accepted are finished."""
    for name in ("python_multipart", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.ERROR)  # the sender gets these errors as answers
    _check_memory(recognizer, private=private)
    _check_certificate(certificate, key)
    address = listen(host, port, secure=certificate is not None)
    token = None if address.loopback else secrets.token_urlsafe(24)
    app = create_app(
        recognizer,
        policy=AccessPolicy(token, f"cbcl-{address.port}", address.secure, host),
        log=RequestLog(everything=log),
        backbone=backbone or DEFAULT,
        private=private,
    )

    def announce() -> None:
        for line in _greeting(recognizer.path.name, address, token, port):
            say(line)
        if browser and _has_browser():
            Thread(target=webbrowser.open, args=[address.url(token)], daemon=True).start()

    _run(app, address, announce, ssl_certfile=certificate, ssl_keyfile=key)


def _run(app: FastAPI, address: ServerAddress, announce: Callable[[], None], **tls: Any) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            IdleTimeoutMiddleware(app, address.listening),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # no proxy is trusted to name the client
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
            **tls,
        )
    )

    def start() -> None:
        # In place of uvicorn's handlers: theirs leave requests unfinished at a second Ctrl-C, and
        # raise the signal again in the end, before the memory is closed.
        loop = asyncio.get_running_loop()

        def stop(*_: object) -> None:
            server.should_exit = True
            loop.call_soon_threadsafe(begin_stop, app)

        if current_thread() is main_thread():  # no other can handle signals
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, stop)
        gc.freeze()  # the modules: what connections leave behind is then collected quickly
        announce()

    app.state.on_start = start
    server.run([address.listening])


def _greeting(
    memory: str, address: ServerAddress, token: str | None, port: int | None
) -> Iterator[str]:
    if port is None and address.port != DEFAULT_PORT:
        yield f"port {DEFAULT_PORT} is taken: this is {address.port}."
    url = address.url(token)
    yield f"teach {memory} at {url}"
    if token is not None:
        yield f"{_qr_code(url)}Whoever has this address can see and change the memory."
    yield "Ctrl-C stops."


def _qr_code(url: str) -> str:
    """Return an address as a QR code in letters, where a terminal shows them."""
    if not sys.stdout.isatty():
        return ""
    file = io.StringIO()
    segno.make(url, micro=False).terminal(file, compact=True)
    return file.getvalue()


def _has_browser() -> bool:
    """Tell whether there is a screen: else a browser might open in this very terminal."""
    return sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )


def _check_memory(recognizer: Recognizer, *, private: bool) -> None:
    info = recognizer.about()  # raises an error where the file is no memory
    if private and info is not None and not info.private:
        raise BackboneError(
            recognizer.path,
            "was not begun as a private memory and cannot become one",
            "begin a new one",
        )
    if not recognizer.path.parent.is_dir():
        raise MemoryFileError(recognizer.path.parent, "does not exist", "make that folder first")


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    if certificate is None:
        if key is not None:
            raise ServerError("--key", "is of no use alone", "give --certificate, too")
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:  # of which ssl.SSLError is one
        problem = f"cannot be used as a certificate ({reason(error)})"
        raise ServerError(
            certificate, problem, "give a PEM file, and its key with --key"
        ) from error
