"""Requests from the OpenAPI description: to the application itself, and to a server."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.api import FixedTokens
from support.server import teach

from cbcl import Recognizer
from cbcl.web.app import create_app
from cbcl.web.events import EVENTS_PATH
from cbcl.web.security import AccessPolicy
from cbcl_study.backbones.pixels import PIXELS
from endurance.api_answers import ApiAnswer, ApiRequest, check_answer
from endurance.api_requests import RequestMaker
from endurance.picture_seeds import seeds
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import (
    Batch,
    Input,
    Limits,
    attack_in_workers,
    fast_folder,
    packed,
)

TOKEN = "a-token-of-the-harness"
VIEW_TOKEN = "another-of-the-harness"
HOST = "127.0.0.1:8737"
BATCH = 500  # requests to one memory
LIMITS = Limits(megabytes=1000.0, seconds=30.0)
HEALTH = ApiRequest("GET", "/api/health", (("Host", HOST),), b"")


class Application:
    """The application, its lifespan begun, without a network before it."""

    def __init__(self, memory: Path) -> None:
        self.recognizer = Recognizer(memory, PIXELS, cache=False)
        self.app = create_app(self.recognizer, policy=AccessPolicy(FixedTokens(TOKEN, VIEW_TOKEN)))
        self.loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._lifespan = self.loop.create_task(self._live())
        self.description: dict[str, Any] = self.app.openapi()

    async def _live(self) -> None:
        is_begun = False

        async def receive() -> dict[str, str]:
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                return {"type": "lifespan.startup"}
            await self._stop.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Any) -> None:
            pass

        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    def ask(self, request: ApiRequest) -> ApiAnswer:
        return self.loop.run_until_complete(asyncio.wait_for(self._ask(request), 60.0))

    async def _ask(self, request: ApiRequest) -> ApiAnswer:
        path, _, query = request.target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers
            ],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8737),
        }
        sent: list[dict[str, Any]] = []
        left, done = [request.body], asyncio.Event()

        async def receive() -> dict[str, Any]:
            if left:
                return {"type": "http.request", "body": left.pop(), "more_body": False}
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            is_event = unquote(path) == EVENTS_PATH and bool(message.get("body"))
            if is_event or (message["type"].endswith("body") and not message.get("more_body")):
                done.set()

        await self.app(scope, receive, send)
        headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return ApiAnswer(sent[0]["status"], headers, body)

    def close(self) -> None:
        self._stop.set()
        self.loop.run_until_complete(self._lifespan)
        self.recognizer.close()
        self.loop.close()


def pictures() -> list[bytes]:
    """Return pictures to send, of which some cannot be read."""
    kinds = ("JPEG", "PNG", "WebP", "GIF", "others")
    return [data for kind in kinds for data in seeds()[kind][:4]] + [b""]


def memory_file(folder: Path) -> bytes:
    """Return a memory in which two labels were learned."""
    path = folder / "learned.cbcl"
    with Recognizer(path, PIXELS, cache=False) as recognizer:
        recognizer.learn("mug", seeds()["JPEG"][:2])
        recognizer.learn("cup", seeds()["PNG"][7:9])
    return path.read_bytes()


@contextmanager
def own_home(folder: Path) -> Iterator[None]:
    """Let servers keep their cache in a folder of the trial, not in the user's."""
    before = os.environ.get("CBCL_HOME")
    os.environ["CBCL_HOME"] = str(folder / "home")
    try:
        yield
    finally:
        del os.environ["CBCL_HOME"]
        if before is not None:
            os.environ["CBCL_HOME"] = before


class Requests:
    """Requests to an application in this process, a new memory for each batch."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.files, self.memory = pictures(), memory_file(folder)
        self.application: Application | None = None

    def inputs(self, batch: Batch) -> Iterator[Input]:
        warnings.simplefilter("ignore")
        self.application = self._open(batch)
        description = self.application.description
        maker = RequestMaker(description, self.files, self.memory, HOST, TOKEN)
        for number in range(batch.start, batch.stop):
            request = maker.make(random.Random(f"{self.seed} {number}"))
            yield Input(f"seed {self.seed}, request {number}", request.raw())
        allowed = (*HEALTH.headers, ("Authorization", f"Bearer {TOKEN}"))
        yield Input(f"health after {batch}", HEALTH._replace(headers=allowed).raw())
        self.application.close()

    def _open(self, batch: Batch) -> Application:
        folder = self.folder / f"a-folder-to-be-kept-secret-{batch.start}"
        folder.mkdir(exist_ok=True)
        (folder / "things.cbcl").write_bytes(self.memory)
        return Application(folder / "things.cbcl")

    def examine(self, batch: Batch, given: Input) -> str:
        application = self.application = self.application or self._open(batch)
        request = ApiRequest.parse(given.data)
        answer = application.ask(request)
        check_answer(request, answer, application.description, [TOKEN, "to-be-kept-secret"])
        if given.name.startswith("health") and answer.status != 200:
            raise AssertionError(f"the server is not well afterwards: {answer}")
        return str(answer.status)


def request_application(attack: Attack) -> Outcome:
    """Send requests to the application."""
    starts = range(0, attack.count, BATCH)
    batches = [Batch("request", n, min(n + BATCH, attack.count)) for n in starts]
    with fast_folder(attack.folder) as folder:
        return attack_in_workers(attack, Requests(attack.seed, folder), batches, LIMITS)


def exchange(address: tuple[str, int], raw: bytes) -> ApiAnswer:
    """Send a request to a server, and return its answer."""
    request = ApiRequest.parse(raw)
    with closing(socket.create_connection(address, timeout=60.0)) as connection:
        connection.sendall(raw)
        with HTTPResponse(connection, method=request.method) as answer:
            answer.begin()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            is_stream = headers.get("content-type", "").startswith("text/event-stream")
            body = answer.read1() if is_stream and request.method == "GET" else answer.read()
            return ApiAnswer(answer.status, headers, body)


def request_server(attack: Attack) -> Outcome:
    """Send requests to a server that others can reach, so that it has a token."""
    outcome, statuses = Outcome(), dict[int, int]()
    memory = attack.folder / "a-folder-to-be-kept-secret" / "things.cbcl"
    memory.parent.mkdir()
    content = memory_file(attack.folder)
    memory.write_bytes(content)
    description = create_app(Recognizer(memory, PIXELS, cache=False)).openapi()
    words = ("--host", "0.0.0.0", "--http", "--backbone", "pixels")
    with own_home(attack.folder), teach(memory, *words) as server:
        parts = urlsplit(server.url)
        (token,) = parse_qs(parts.query)["token"]
        address = ("127.0.0.1", parts.port or 0)
        host = f"127.0.0.1:{parts.port}"
        maker = RequestMaker(description, pictures(), content, host, token)
        for number in range(attack.count):
            raw = maker.make(random.Random(f"{attack.seed} {number}")).raw()
            try:
                answer = exchange(address, raw)
                secrets = [token, "to-be-kept-secret"]
                if answer.status != 400:  # of h11, about what is not HTTP
                    check_answer(ApiRequest.parse(raw), answer, description, secrets)
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
            except Exception as error:
                problem = f"{type(error).__name__}: {error}{packed(raw)}"
                outcome.found.append(f"seed {attack.seed}, request {number}: {problem}")
            outcome.tried += 1
            attack.progress(outcome.tried)
        _, errors = server.stop()
    if errors:
        outcome.found.append(f"the server wrote: {errors[-1000:]}")
    tally = sorted(statuses.items(), key=lambda one: -one[1])
    outcome.remarks.append(", ".join(f"{status} {count:,}" for status, count in tally))
    return outcome


TRIALS: tuple[Trial, ...] = (
    Trial("requests", "requests", 800, 25_000, request_application),
    Trial("requests to a server", "requests", 150, 3000, request_server),
)
