"""A server of files for downloads: from any byte on, with or without length; it may break off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, BrokenBarrierError, Thread


class FileServer:
    """Files by name, and the ranges that were asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str | None] = []
        self.cut: int | None = None  # bytes after which the connection breaks off
        self.ranges = True
        self.with_length = True
        self.together: Barrier | None = None  # all wait there after the first bytes
        self.url = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        given = request.headers.get("Range")
        self.asked.append(given)
        data = self.files.get(request.path.strip("/"))
        start = int(given.removeprefix("bytes=").removesuffix("-")) if given and self.ranges else 0
        if data is None or (start and start >= len(data)):
            request.send_error(404 if data is None else 416)
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.with_length:
            request.send_header("Content-Length", str(len(data) - start))
        request.end_headers()
        if self.together is not None:
            request.wfile.write(data[start : (start := start + 3000)])
            request.wfile.flush()
            try:
                self.together.wait(30)
            except BrokenBarrierError:
                return
        request.wfile.write(data[start:][: self.cut])


@contextmanager
def file_server() -> Iterator[FileServer]:
    served = FileServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        served.url = f"http://127.0.0.1:{server.server_port}"
        yield served
        server.shutdown()
