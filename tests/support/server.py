"""A `cbcl teach` to test against, in a process of its own; and ways to wait."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import pytest

from cbcl.client import Client

TIMEOUT_SECONDS = 60  # for anything

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: while a browser is open, this one has a loop."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def next_event(stream: HTTPResponse) -> tuple[str, dict[str, Any]]:
    """Name and data of the next event of a stream."""
    name = ""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
        name = line.decode().removeprefix("event: ").strip() or name
    return name, json.loads(line[6:])


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for this machine, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is here to make a certificate with")
    certificate = folder / "certificate.pem"
    key = folder / "key.pem"
    options = "-x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = f"-keyout {key} -out {certificate}"
    command = f"openssl req {options} {files} -addext {names}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return certificate, key


class ServerProcess:
    """A server process."""

    def __init__(
        self, process: subprocess.Popen[str], memory: Path, url: str, errors: IO[str]
    ) -> None:
        self.process = process
        self.memory = memory
        self.url = url
        self._errors = errors
        self.client = Client(url)

    def connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        return HTTPConnection(parts.hostname or "", parts.port or 0, timeout=TIMEOUT_SECONDS)

    @contextmanager
    def events(self) -> Iterator[HTTPResponse]:
        """Open a stream of events."""
        with closing(self.connect()) as connection:
            connection.request("GET", "/api/events")
            with connection.getresponse() as stream:
                yield stream

    def ask(self, method: str, address: str, **options: Any) -> tuple[HTTPResponse, Any]:
        """Return an answer, and its body as JSON."""
        with closing(self.connect()) as connection:
            connection.request(method, address, **options)
            answer = connection.getresponse()
            return answer, json.loads(answer.read())

    def stop(self, how: int = signal.SIGTERM) -> tuple[str, str]:
        """Stop the server, and return what else it printed, on standard output and error."""
        self.process.send_signal(how)
        return self.rest()

    def rest(self) -> tuple[str, str]:
        """Wait for the end, and return what else was printed, on standard output and error."""
        assert self.process.stdout is not None
        printed = self.process.stdout.read()
        self.process.wait(TIMEOUT_SECONDS)
        self._errors.seek(0)
        return printed, self._errors.read()


@contextmanager
def teach(memory: Path, *words: object) -> Iterator[ServerProcess]:
    """Run `cbcl teach` at a free port until the end of the block, unless it was stopped inside."""
    command = [sys.executable, "-m", "cbcl", "teach", str(memory), "--no-browser", *map(str, words)]
    command += [] if "--port" in words else ["--port", "0"]
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            running = ServerProcess(process, memory, line.partition(" at ")[2].strip(), errors)
            assert running.url.startswith("http"), (line, *running.rest())
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(TIMEOUT_SECONDS)
