"""The parts of the server, each by itself: connections, desks, request_body, events, and sentences without paths."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from support.server import PATIENCE, awaited
from uvicorn.server import ServerState

from cbcl import PictureError
from cbcl.recognition.examples import EmbeddedPicture
from cbcl.web import connections, events, rate_limit, request_body
from cbcl.web.connections import Connection, ConnectionLimiter
from cbcl.web.errors import PathRedactor, RequestRefused
from cbcl.web.metrics import Metrics
from cbcl.web.picture_cache import PictureCache
from cbcl.web.rate_limit import RateLimiter, is_loopback
from cbcl.web.response_cache import MemoryRevision
from cbcl.web.security import AccessPolicy, SecurityMiddleware
from cbcl.web.uploads import save_file
from cbcl.web.work_queue import WorkQueue

FILE = 1, 2


def test_who_sends_nothing_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence() -> Any:
        await asyncio.sleep(PATIENCE)

    monkeypatch.setattr(request_body, "PATIENCE", 0.01)
    scope = {"path": "/api/recognize", "method": "POST", "headers": [(b"content-length", b"10")]}
    with pytest.raises(RequestRefused, match="nothing came") as refusal:
        awaited(request_body.Body(scope, silence, request_body.Bodies()).receive())
    assert (refusal.value.kind, refusal.value.status_code) == ("slow", 408)


def test_once_the_server_stops_who_is_silent_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_body, "LAST_PATIENCE", 0.01)

    async def silence() -> Any:
        await asyncio.sleep(PATIENCE)

    async def day() -> None:
        bodies = request_body.Bodies()
        scope = {
            "path": "/api/recognize",
            "method": "POST",
            "headers": [(b"content-length", b"10")],
        }
        body = request_body.Body(scope, silence, bodies)
        waiting = asyncio.create_task(body.receive())
        await asyncio.sleep(0)
        bodies.stop()
        with pytest.raises(RequestRefused, match="the server stops"):
            await waiting
        await body.hear_out()
        await request_body.Body(scope, silence, bodies).hear_out()  # nor one that comes later

    awaited(asyncio.wait_for(day(), PATIENCE / 2))


def test_what_is_not_finished_when_the_server_stops_is_told() -> None:
    begun, sent = asyncio.Event(), list[Any]()

    async def endless(*_: Any) -> None:
        begun.set()
        await asyncio.sleep(PATIENCE)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def day() -> None:
        guard = SecurityMiddleware(endless, AccessPolicy(), Metrics(), request_body.Bodies())
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/undo",
            "query_string": b"",
            "scheme": "http",
        }
        asking = asyncio.create_task(
            guard({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
        )
        await begun.wait()
        asking.cancel()
        await asking

    awaited(day())
    assert (sent[0]["status"], b"the server stops" in sent[1]["body"]) == (429, True)


def test_a_file_for_which_there_is_no_room_is_no_error_of_ours() -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="memory"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}

    async def receive() -> Any:
        return {"type": "http.request", "body": form, "more_body": False}

    with pytest.raises(RequestRefused, match="no space left on device") as refusal:
        awaited(save_file(Request(scope, receive), files="memory", path=Path("/dev/full")))
    assert refusal.value.kind == "memory"


def connected(listening: socket.socket) -> socket.socket:
    return socket.create_connection(listening.getsockname(), timeout=PATIENCE)


def test_there_is_room_for_so_many_connections_and_again_when_one_ends() -> None:
    with ConnectionLimiter() as gate:
        gate.most = 2
        gate.bind(("127.0.0.1", 0))
        gate.listen()
        gate.setblocking(False)
        with connected(gate), connected(gate), connected(gate) as third:
            one, two = gate.accept()[0], gate.accept()[0]
            with pytest.raises(BlockingIOError):
                gate.accept()
            assert third.recv(1) == b""
            one.close()
            with connected(gate):
                gate.accept()[0].close()
            two.close()


def test_of_one_address_there_are_fewer_connections_but_not_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_OF_ONE", 2)
    with ConnectionLimiter() as gate, socket.socket() as one:
        assert [gate.admits(one, "192.168.1.9") for _ in range(3)] == [True, True, False]
        assert gate.admits(one, "192.168.1.8")
        assert [gate.admits(one, "127.0.0.1") for _ in range(3)] == [True] * 3


def test_connections_leave_files_for_other_things() -> None:
    assert 0 < connections.room() <= connections.MOST


async def slow(_: Scope, __: Receive, send: Send) -> None:
    await asyncio.sleep(0.2)  # longer than a connection may be idle, below
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


class Impatient(Connection):
    patience = 0.05


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
    async def day() -> bytes:
        config = uvicorn.Config(slow, http=Impatient, lifespan="off", log_config=None)
        loop, state = asyncio.get_running_loop(), ServerState()
        server = await loop.create_server(lambda: Impatient(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(sent)
            answer = await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            await writer.wait_closed()
        return answer

    assert awaited(day()).endswith(answered)


def test_another_file_in_the_memorys_place_is_told_whatever_its_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "OFTEN", 0.01)
    now = MemoryRevision(FILE, 7)

    async def day() -> None:
        nonlocal now
        told = events.Events(lambda: now)
        stream = await told.subscribe()
        assert '"revision": 7' in await anext(stream)
        for state in (
            MemoryRevision((1, 3), 2),
            MemoryRevision((1, 4), 2),
            MemoryRevision((1, 4), 1),
        ):
            now = state
            assert f'"revision": {state.revision}' in await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator

    awaited(asyncio.wait_for(day(), PATIENCE))


def test_a_stream_says_at_times_that_it_is_still_there_and_there_are_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "QUIET", 0.01)

    async def day() -> None:
        told = events.Events(lambda: MemoryRevision(FILE, 7), most=1)
        stream = await told.subscribe()
        assert await anext(stream) == 'event: changed\ndata: {"revision": 7}\n\n'
        assert await anext(stream) == ": still here\n\n"
        with pytest.raises(RequestRefused, match="too many pages"):
            await told.subscribe()
        told.notice(MemoryRevision(FILE, 6))  # which was slow to arrive, and is old by now
        assert await anext(stream) == ": still here\n\n"
        told.notice(MemoryRevision((0, 0), 0))  # the memory is gone
        assert "0" in await anext(stream)
        told.end()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert told.listeners == 0

    awaited(day())


def test_an_allowance_fills_up_again_and_forgets_old_addresses() -> None:
    now = 0.0
    allowance = RateLimiter(2.0, 3.0, clock=lambda: now)

    def taken(address: str = "a") -> bool:
        try:
            allowance.take(address, "too many")
        except RequestRefused:
            return False
        return True

    assert [taken() for _ in range(4)] == [True, True, True, False]
    assert taken("b")
    now = 1.0
    assert [taken() for _ in range(3)] == [True, True, False]
    for number in range(rate_limit.ADDRESSES):
        taken(str(number))
    assert [taken() for _ in range(3)] == [True, True, True]


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


def test_a_desk_with_too_much_waiting_sends_away() -> None:
    hold = threading.Event()

    async def day() -> list[Any]:
        desk = WorkQueue("one", 1, 2)
        jobs = [asyncio.create_task(desk.do(hold.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        assert (desk.pending, desk.waiting) == (3, 2)
        hold.set()
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert desk.pending == 0
        assert await desk.do(lambda: 7) == 7
        desk.close()
        return done

    *done, last = awaited(day())
    assert done == [True] * 3
    assert isinstance(last, RequestRefused)
    assert (last.kind, last.retry_after) == ("busy", 1)


def test_what_was_let_in_goes_on_even_where_nobody_else_is_let_in() -> None:
    hold = threading.Event()

    async def day() -> None:
        desk = WorkQueue("one", 1, 0)
        first = asyncio.create_task(desk.do(hold.wait))
        await asyncio.sleep(0)
        piece = asyncio.create_task(desk.go_on(lambda: 7))
        with pytest.raises(RequestRefused):
            await desk.do(lambda: 8)
        hold.set()
        assert (await first, await piece) == (True, 7)
        desk.close()

    awaited(day())


def test_a_job_that_fails_leaves_its_desk_free() -> None:
    async def day() -> None:
        desk = WorkQueue("one", 1, 0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await desk.do(lambda: 1 / 0)
        desk.close()

    awaited(day())


class Eyes:
    """Looks at pictures, and counts how often."""

    def __init__(self) -> None:
        self.looks: list[list[bytes]] = []
        self.hold = threading.Event()

    def look(self, pictures: list[bytes], broken: str) -> list[Any]:
        assert broken == "report"
        self.looks.append(pictures)
        self.hold.wait()
        if b"weights" in pictures:
            raise OSError("no weights")
        return [
            PictureError("broken")
            if one == b"broken"
            else EmbeddedPicture(np.zeros(2, np.float32), one, "")
            for one in pictures
        ]


def test_the_same_picture_is_looked_at_once_even_by_many_at_once() -> None:
    eyes = Eyes()
    lately = PictureCache(eyes.look, most=2)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(lately.look([b"a", b"b", b"a"])))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    eyes.hold.set()
    for thread in threads:
        thread.join()
    assert eyes.looks == [[b"a", b"b"]]
    assert {tuple(digest for digest, _ in one) for one in found} == {
        tuple(digest for digest, _ in found[0])
    }
    (first, _), (second, _), _ = found[0]
    lately.recall([first])  # so b was used the longest time ago
    lately.look([b"c", b"broken"])
    with pytest.raises(RequestRefused) as refusal:
        lately.recall([first, second])
    assert refusal.value.seen == [second]
    assert len(eyes.looks) == 2
    lately.look([b"broken"])  # what is broken is not remembered
    assert len(eyes.looks) == 3


def test_what_is_cleared_is_not_remembered_nor_what_is_being_looked_at() -> None:
    eyes = Eyes()
    lately = PictureCache(eyes.look)
    looking = threading.Thread(target=lambda: lately.look([b"a"]))
    looking.start()
    while not eyes.looks:
        pass
    lately.clear()
    eyes.hold.set()
    looking.join()
    ((digest, _),) = lately.look([b"b"])
    lately.recall([digest])
    lately.clear()
    lately.look([b"a"])
    assert eyes.looks == [[b"a"], [b"b"], [b"a"]]
    with pytest.raises(RequestRefused):
        lately.recall([digest])


def test_who_waits_for_another_who_fails_is_told_and_may_try_again() -> None:
    eyes = Eyes()
    eyes.hold.set()
    lately = PictureCache(eyes.look)
    for _ in range(2):
        with pytest.raises(OSError, match="no weights"):
            lately.look([b"weights"])
    assert len(eyes.looks) == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "{memory} is damaged: see `cbcl check {memory}`.",
            "things.cbcl is damaged: see `cbcl check things.cbcl`.",
        ),
        ("{folder} is missing or read-only.", "my folder is missing or read-only."),
        ("{folder}/deep/er/x.onnx cannot be read.", "x.onnx cannot be read."),
        ("{home}/.cache/cbcl/net.onnx: gone", "net.onnx: gone"),
        ("'/var/lib/some/net.onnx' is no network", "'net.onnx' is no network"),
        ("/data/my nets/net.onnx is no network, 1/2", "net.onnx is no network, 1/2"),
        ("/given, by you/my net.onnx is no network", "my net.onnx is no network"),
        ("{folder}/a b/c d/net.onnx cannot be read.", "net.onnx cannot be read."),
        ("see file:///data/x/y", "see y"),
        ("\\\\server\\share\\x is gone", "x is gone"),
        ("fetched from https://a.test/b/c.onnx", "fetched from https://a.test/b/c.onnx"),
        ("C:\\Users\\me\\net.onnx is no network", "net.onnx is no network"),
        (
            "'a/b' and 1/2 are labels, and / alone is none",
            "'a/b' and 1/2 are labels, and / alone is none",
        ),
    ],
)
def test_paths_are_taken_out_of_sentences(said: str, told: str, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    memory = folder / "things.cbcl"
    sentence = said.format(memory=memory, folder=folder, home=Path.home())
    assert PathRedactor(memory, "/given, by you/my net.onnx")(sentence) == told
    assert PathRedactor(memory)("in {cwd}".format(cwd=Path.cwd() / "x")) == "in x"
