"""Server process: its address, its certificate and access tokens, and its stop."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import signal
import socket
import ssl
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread, current_thread, main_thread
from urllib.parse import quote

import segno
import uvicorn
from fastapi import FastAPI

from cbcl.errors import MemoryFileError, ServerError, encodable, first_line, reason
from cbcl.recognition.recognizer import Recognizer
from cbcl.web.app import begin_stop, create_app
from cbcl.web.connections import (
    ConnectionLimiter,
    IdleTimeoutMiddleware,
    connection_limit,
    is_loopback,
)
from cbcl.web.security import AccessPolicy
from cbcl.web.tls import ServerCertificate, ServerContext, load_certificate
from cbcl.web.tokens import AccessTokens

DEFAULT_PORT = 8737
MAX_NAMES = 5  # of memories, in the terminal
PORTS_TRIED = 100  # where the default port is taken
SHUTDOWN_TIMEOUT_SECONDS = 75  # more than a change waits for another process's lock on the memory


@dataclass(frozen=True)
class ServerAddress:
    """A socket that a server listens on."""

    host: str  # as it was given
    listening: ConnectionLimiter
    secure: bool = False

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """True where only this machine can reach it."""
        return is_loopback(self.listening.getsockname()[0])

    def name(self) -> str:
        """Return the name or address of this machine by which others reach it now."""
        bound = self.listening.getsockname()[0]
        return _own_address(self.listening.family) if bound in ("0.0.0.0", "::") else self.host

    def url(self, token: str | None = None) -> str:
        """Return the address to open; of a server on all addresses of this machine, one of them."""
        name = f"[{self.name()}]" if ":" in self.name() else self.name()
        query = f"?token={quote(token)}" if token else ""
        return f"http{'s' if self.secure else ''}://{name}:{self.port}/{query}"


def listen(host: str, port: int | None) -> ServerAddress:
    """Listen on the port given, or on the first free one from 8737 on."""
    ports = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    problem = ""
    for number in ports:
        try:
            return ServerAddress(host, _bind(host, number))
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


class ServerTls:
    """TLS of a server: its certificate, which follows the addresses of this machine."""

    def __init__(
        self, name: Callable[[], str], certificate: Path | None = None, key: Path | None = None
    ) -> None:
        self._name = name  # of this machine, by which others reach it now
        self._own = certificate is None
        self.context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        if certificate is None:
            self.certificate = self._made()
            self.context.load_cert_chain(self.certificate.path)
        else:
            self.certificate = load_certificate(self.context, certificate, key)

    def current(self) -> ServerCertificate:
        """Return the certificate; one that we make, for the addresses of now."""
        if self._own and (made := self._made()) != self.certificate:
            self.context.load_cert_chain(made.path)
            self.certificate = made
        return self.certificate

    def _made(self) -> ServerCertificate:
        try:
            from cbcl.web.certificates import machine_names, own_certificate
        except ModuleNotFoundError as error:
            advice = 'pip install "cbcl[web]", or give --certificate or --http'
            raise ServerError("https", f"needs the package {error.name}", advice) from error
        name = self._name().partition("%")[0].rstrip(".").lower()
        return own_certificate({*machine_names(), name.encode("idna").decode()})


def serve(
    recognizer: Recognizer,
    *,
    say: Callable[[str], None],
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    several: bool = False,
    inbox: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    http: bool = False,
    new_token: bool = False,
    log: bool = False,
) -> None:
    """Serve a memory until SIGINT or SIGTERM; requests that were accepted are finished.

    With `several`, the page can open other memories of its folder in its place.
    """
    for name in ("python_multipart", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.ERROR)  # the sender gets these errors as answers
    recognizer.embedder.check_usable()
    if not recognizer.path.parent.is_dir():
        raise MemoryFileError(recognizer.path.parent, "does not exist", "make that folder first")
    if key is not None and certificate is None:
        raise ServerError("--key", "is of no use alone", "give --certificate, too")
    if http and certificate is not None:
        raise ServerError("--http", "is served without a certificate", "leave one of the two out")
    address = listen(host, port)
    with address.listening:
        address = replace(address, secure=bool(certificate) or not (address.loopback or http))
        tls = ServerTls(address.name, certificate, key) if address.secure else None
        path = recognizer.path.parent if several else recognizer.path
        tokens = _tokens(address, path, new_token=new_token)
        policy = AccessPolicy(
            tokens,
            cookie=f"cbcl-{address.port}",
            secure=address.secure,
            name=host,
            link=address.url,
            certificate=tls.current if tls else lambda: None,
        )
        app = create_app(recognizer, policy=policy, several=several, inbox=inbox, log=log)
        memories = app.state.served.folder.paths()
        others = [path.name for path in memories if path != recognizer.path]

        def announce() -> None:
            for line in _greeting(recognizer.path.name, address, policy, port):
                say(line)
            if others:
                say(f"Also in this folder, under Memories on the page: {_list_names(others)}.")
            if browser and _has_browser():
                url = address.url(tokens.current()["full"] if tokens else None)
                url += "#memories" if others else ""
                Thread(target=webbrowser.open, args=[url], daemon=True).start()

        _run(app, address, announce, tls.context if tls else None)


def _list_names(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMES
    shown = ", ".join(map(encodable, names[:MAX_NAMES]))
    return f"{shown} and {rest} more" if rest > 0 else shown


def _tokens(address: ServerAddress, memory: Path, *, new_token: bool) -> AccessTokens | None:
    if address.loopback:
        if new_token:
            raise ServerError("--new-token", "is for other machines", "give --host, too")
        return None
    tokens = AccessTokens(memory)
    if new_token:
        tokens.renew()
    return tokens


def _run(
    app: FastAPI,
    address: ServerAddress,
    announce: Callable[[], None],
    tls: ssl.SSLContext | None,
) -> None:
    config = uvicorn.Config(
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
    )
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)

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
    memory: str, address: ServerAddress, policy: AccessPolicy, port: int | None
) -> Iterator[str]:
    if port is None and address.port != DEFAULT_PORT:
        yield f"port {DEFAULT_PORT} is taken: this is {address.port}."
    tokens = policy.tokens.current() if policy.tokens else None
    url = address.url(tokens["full"] if tokens else None)
    yield f"teach {memory} at {url}"
    if tokens is not None:
        yield f"{_qr_code(url)}Whoever has this address can see and change the memory."
        yield f"To look only: {address.url(tokens['view'])}"
    certificate = policy.certificate()
    if certificate is not None and certificate.authority is not None:
        yield "Browsers warn once: this machine made its certificate itself. Its SHA-256 is"
        yield certificate.fingerprint
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
