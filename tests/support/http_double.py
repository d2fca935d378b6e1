"""A small HTTP server in the place of cameras, webhooks and other people's systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import NamedTuple


class Received(NamedTuple):
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


class Reply(NamedTuple):
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


class HttpDouble:
    """The requests received, and the function that answers them."""

    def __init__(self, answer: Callable[[Received], Reply]) -> None:
        self.answer = answer
        self.received = list[Received]()
        self.url = ""


@contextmanager
def http_double(answer: Callable[[Received], Reply]) -> Iterator[HttpDouble]:
    double = HttpDouble(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Received(self.command, self.path, body, dict(self.headers))
            double.received.append(request)
            reply = double.answer(request)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        double.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()
