"""A `cbcl teach` to test against: a process of its own, as a user starts it; or parts of it, awaited."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from cbcl.client import Client

PATIENCE = 60  # seconds for anything

T = TypeVar("T")


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it, in a thread of its own: as long as a browser is open, the tests' own has a loop already."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


class Running:
    """A server that runs."""

    def __init__(
        self, process: subprocess.Popen[str], memory: Path, url: str, errors: IO[str]
    ) -> None:
        self.process, self.memory, self.url, self._errors = process, memory, url, errors
        self.client = Client(url)

    def connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        return HTTPConnection(parts.hostname or "", parts.port or 0, timeout=PATIENCE)

    @contextmanager
    def events(self) -> Iterator[HTTPResponse]:
        """The stream of events."""
        with closing(self.connect()) as connection:
            connection.request("GET", "/api/events")
            with connection.getresponse() as stream:
                yield stream

    def ask(self, method: str, address: str, **options: Any) -> tuple[HTTPResponse, Any]:
        """An answer, and its body as JSON."""
        with closing(self.connect()) as connection:
            connection.request(method, address, **options)
            answer = connection.getresponse()
            return answer, json.loads(answer.read())

    def stop(self, how: int = signal.SIGTERM) -> tuple[str, str]:
        """What else it said, on standard output and error."""
        self.process.send_signal(how)
        return self.rest()

    def rest(self) -> tuple[str, str]:
        assert self.process.stdout is not None
        said = self.process.stdout.read()
        self.process.wait(PATIENCE)
        self._errors.seek(0)
        return said, self._errors.read()


@contextmanager
def teach(memory: Path, *words: object) -> Iterator[Running]:
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
            running = Running(process, memory, line.partition(" at ")[2].strip(), errors)
            assert running.url.startswith("http"), (line, *running.rest())
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE)
