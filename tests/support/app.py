"""An exported app for the tests: a runtime in its place, the real one, and a static server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cbcl import CBCLError
from cbcl.export.runtime import FILES, Runtime, load_runtime


def fake_runtime(folder: Path) -> Path:
    """A folder with files of the runtime's names, which nobody runs."""
    (folder / "dist").mkdir(parents=True, exist_ok=True)
    for part, name in FILES.items():
        (folder / "dist" / name).write_text(part)
    (folder / "package.json").write_text('{"version": "1.2.3"}')
    return folder


def real_runtime() -> Runtime:
    """The runtime that $CBCL_RUNTIME names, or that was fetched before; else skip the test."""
    try:
        return load_runtime(os.environ.get("CBCL_RUNTIME"))
    except CBCLError as error:
        pytest.skip(f"the app is not run: {error}")


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def static_server(folder: Path) -> Iterator[str]:
    """Serve a folder as `python -m http.server` does; yield the address."""
    handler = partial(_QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
