"""Parts of the server: request bodies, uploads, events, rate limits, work queue, picture cache."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request
from starlette.types import Receive
from support.server import TIMEOUT_SECONDS, run_async, until

from cbcl import PictureError
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web import embedding, events, limits, request_body
from cbcl.web.embedding import PictureCache
from cbcl.web.errors import ApiError
from cbcl.web.events import MemoryRevision
from cbcl.web.limits import MB, Capacity, RateLimiter, RouteLimits, RouteTable
from cbcl.web.monitoring import Metrics
from cbcl.web.request_body import BodyRegistry, RequestBody
from cbcl.web.security import AccessPolicy, SecurityMiddleware
from cbcl.web.uploads import read_form, save_file
from cbcl.web.work_queue import WorkQueue

FILE = 1, 2
NOW: Any = None  # a snapshot


def waiting_body(receive: Receive, bodies: BodyRegistry | None = None) -> RequestBody:
    """Return a body that is announced, and has not arrived."""
    scope = {"headers": [(b"content-length", b"10")]}
    return RequestBody(scope, receive, bodies or BodyRegistry(), RouteLimits())


def test_who_sends_nothing_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence() -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(request_body, "READ_TIMEOUT_SECONDS", 0.01)
    with pytest.raises(ApiError, match="arrived too slowly") as refusal:
        run_async(waiting_body(silence).receive())
    assert (refusal.value.kind, refusal.value.status_code) == ("slow", 408)


@pytest.mark.parametrize(("least", "most"), [(1e6, 100.0), (1e-9, 0.05)])
def test_who_sends_a_byte_now_and_then_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, least: float, most: float
) -> None:
    """There is a least rate, and for who keeps to it a time for all of a body."""

    async def trickle() -> Any:
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def day() -> None:
        body = waiting_body(trickle)
        while True:
            await body.receive()

    monkeypatch.setattr(request_body, "READ_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(request_body, "MIN_BYTES_PER_SECOND", least)
    monkeypatch.setattr(request_body, "MAX_BODY_SECONDS", most)
    with pytest.raises(ApiError, match="arrived too slowly"):
        run_async(asyncio.wait_for(day(), TIMEOUT_SECONDS))


def test_once_the_server_stops_who_is_silent_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_body, "STOP_TIMEOUT_SECONDS", 0.01)

    async def silence() -> Any:
        await asyncio.Event().wait()

    async def day() -> None:
        bodies = BodyRegistry()
        body = waiting_body(silence, bodies)
        waiting = asyncio.create_task(body.receive())
        await asyncio.sleep(0)
        bodies.stop()
        with pytest.raises(ApiError, match="the server stops"):
            await waiting
        await body.drain()
        await waiting_body(silence, bodies).drain()  # nor one that comes later

    run_async(asyncio.wait_for(day(), TIMEOUT_SECONDS / 2))


def test_what_is_not_finished_when_the_server_stops_is_told() -> None:
    begun, sent = asyncio.Event(), list[Any]()

    async def endless(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def day() -> None:
        middleware = SecurityMiddleware(
            endless, AccessPolicy(), Metrics(), BodyRegistry(), RouteTable([])
        )
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/undo",
            "query_string": b"",
            "scheme": "http",
        }
        asking = asyncio.create_task(
            middleware({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
        )
        await begun.wait()
        asking.cancel()
        await asking

    run_async(day())
    assert (sent[0]["status"], b"the server stops" in sent[1]["body"]) == (429, True)


def test_a_file_for_which_there_is_no_room_is_no_error_of_ours() -> None:
    header = b'Content-Disposition: form-data; name="memory"; filename="a"'
    form = b"--x\r\n" + header + b"\r\n\r\nabc\r\n--x--\r\n"
    scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=x")]}

    async def receive() -> Any:
        return {"type": "http.request", "body": form, "more_body": False}

    with pytest.raises(ApiError, match="No space left on device") as refusal:
        run_async(save_file(Request(scope, receive), field="memory", path=Path("/dev/full")))
    assert refusal.value.kind == "memory"


def test_another_file_in_the_memorys_place_is_told_whatever_its_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    now = MemoryRevision(FILE, 7)

    async def day() -> None:
        nonlocal now
        told = events.ChangeNotifier(lambda: now)
        stream = await told.subscribe()
        assert '"revision": 7' in await anext(stream)
        for state in (
            MemoryRevision((1, 3), 2),
            MemoryRevision((1, 4), 2),
            MemoryRevision((1, 4), 1),
        ):
            now = state
            assert f'"revision": {state.revision}' in await anext(stream)
        await stream.aclose()

    run_async(asyncio.wait_for(day(), TIMEOUT_SECONDS))


def test_a_stream_says_at_times_that_it_is_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_SECONDS", 0.01)

    async def day() -> None:
        told = events.ChangeNotifier(lambda: MemoryRevision(FILE, 7))
        stream = await told.subscribe()
        assert await anext(stream) == 'event: changed\ndata: {"revision": 7}\n\n'
        assert await anext(stream) == ": keep-alive\n\n"
        told.publish(MemoryRevision(FILE, 6))  # which was slow to arrive, and is old by now
        assert await anext(stream) == ": keep-alive\n\n"
        told.publish(MemoryRevision((0, 0), 0))  # the memory is gone
        assert "0" in await anext(stream)
        told.close()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert told.subscribers == 0

    run_async(day())


def test_streams_tell_what_is_recognized_while_they_listen_and_only_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MAX_RECOGNITIONS", 2)

    async def day() -> None:
        told = events.ChangeNotifier(lambda: MemoryRevision(FILE, 7))
        told.publish_recognition("before anybody listened")
        stream = await told.subscribe()
        assert "changed" in await anext(stream)
        for number in (1, 2, 3):
            told.publish_recognition(f"{number}")
        latest = "event: recognized\ndata: 2\n\nevent: recognized\ndata: 3\n\n"
        assert await anext(stream) == latest
        told.publish_recognition("a label")
        told.clear()  # it was forgotten for good
        told.publish_recognition("4")
        assert await anext(stream) == "event: recognized\ndata: 4\n\n"
        await stream.aclose()

    run_async(asyncio.wait_for(day(), TIMEOUT_SECONDS))


def test_one_address_cannot_take_all_and_what_is_given_back_can_be_taken() -> None:
    capacity = Capacity(4, "too many", retry_after=3)
    for _ in range(3):
        capacity.take("a")
    with pytest.raises(ApiError, match=r"too many: try again in 3 s\."):
        capacity.take("a")
    with capacity.reserve("b"), pytest.raises(ApiError):
        capacity.take("c")
    capacity.give_back("a", 2)
    capacity.take("c", 3)
    assert (capacity.taken, capacity.share("c")) == (4, 0.75)


def test_an_allowance_fills_up_again_and_forgets_old_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(limits, "monotonic", lambda: now)
    allowance = RateLimiter(2.0, 3.0)

    def taken(address: str = "a") -> bool:
        try:
            allowance.take(address, "too many")
        except ApiError:
            return False
        return True

    assert [taken() for _ in range(4)] == [True, True, True, False]
    assert taken("b")
    now = 1.0
    assert [taken() for _ in range(3)] == [True, True, False]
    for number in range(limits.MAX_ADDRESSES):
        taken(str(number))
    assert [taken() for _ in range(3)] == [True, True, True]


def test_a_queue_with_too_much_waiting_sends_away() -> None:
    hold = threading.Event()

    async def day() -> list[Any]:
        queue = WorkQueue("one", 1, 2)
        jobs = [asyncio.create_task(queue.run(hold.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        assert (queue.pending, queue.waiting()) == (3, 2)
        hold.set()
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert queue.pending == 0
        assert await queue.run(lambda: 7) == 7
        queue.close()
        return done

    *done, last = run_async(day())
    assert done == [True] * 3
    assert isinstance(last, ApiError)
    assert (last.kind, last.retry_after) == ("busy", 1)


def test_what_was_let_in_goes_on_even_where_nobody_else_is_let_in() -> None:
    hold = threading.Event()

    async def day() -> None:
        queue = WorkQueue("one", 1, 0)
        first = asyncio.create_task(queue.run(hold.wait))
        await asyncio.sleep(0)
        piece = asyncio.create_task(queue.run_part(lambda: 7))
        with pytest.raises(ApiError):
            await queue.run(lambda: 8)
        hold.set()
        assert (await first, await piece) == (True, 7)
        queue.close()

    run_async(day())


def test_a_job_that_fails_leaves_its_queue_free() -> None:
    async def day() -> None:
        queue = WorkQueue("one", 1, 0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await queue.run(lambda: 1 / 0)
        queue.close()

    run_async(day())


def form_request(chunks: Iterator[bytes]) -> Request:
    async def receive() -> Any:
        return {"type": "http.request", "body": next(chunks), "more_body": True}

    header = (b"content-type", b"multipart/form-data; boundary=x")
    return Request({"type": "http", "headers": [header]}, receive)


@pytest.mark.parametrize(
    ("field", "chunks", "message"),
    [("pictures", 26, "a.jpg has more than 25 MB"), ("other", 0, "unknown field 'other'")],
)
def test_a_form_is_refused_before_all_of_it_has_arrived(
    field: str, chunks: int, message: str
) -> None:
    arrived = 0

    def endless() -> Iterator[bytes]:
        nonlocal arrived
        head = f'Content-Disposition: form-data; name="{field}"; filename="a.jpg"'
        yield f"--x\r\n{head}\r\n\r\n".encode()
        while True:
            arrived += 1
            yield bytes(MB)

    reading = read_form(form_request(endless()), files="pictures", fields=["label"])
    with pytest.raises(ApiError, match=message):
        run_async(reading)
    assert arrived <= chunks


class Eyes:
    """Looks at pictures, and counts how often."""

    def __init__(self) -> None:
        self.looks: list[list[bytes]] = []
        self.hold = threading.Event()

    def look(self, pictures: list[bytes], _: object) -> list[Any]:
        self.looks.append(pictures)
        self.hold.wait()
        if b"weights" in pictures:
            raise OSError("no weights")
        return [
            PictureError("picture 1", "is broken")
            if one == b"broken"
            else EmbeddedPicture(np.zeros(2, np.float32), one, "")
            for one in pictures
        ]


def test_the_same_picture_is_looked_at_once_even_by_many_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedding, "MAX_CACHED_PICTURES", 2)
    eyes = Eyes()
    cache = PictureCache(eyes.look)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.look([b"a", b"b", b"a"], NOW)))
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
    cache.get([first])  # so b was used the longest time ago
    cache.look([b"c", b"broken"], NOW)
    with pytest.raises(ApiError) as refusal:
        cache.get([first, second])
    assert refusal.value.seen == [second]
    assert len(eyes.looks) == 2
    cache.look([b"broken"], NOW)  # what is broken is not remembered
    assert len(eyes.looks) == 3


def test_what_is_cleared_is_not_remembered_nor_what_is_being_looked_at() -> None:
    eyes = Eyes()
    cache = PictureCache(eyes.look)
    looking = threading.Thread(target=lambda: cache.look([b"a"], NOW))
    looking.start()
    until(lambda: eyes.looks)
    cache.clear()
    eyes.hold.set()
    looking.join()
    ((digest, _),) = cache.look([b"b"], NOW)
    cache.get([digest])
    cache.clear()
    cache.look([b"a"], NOW)
    assert eyes.looks == [[b"a"], [b"b"], [b"a"]]
    with pytest.raises(ApiError):
        cache.get([digest])


def test_who_waits_for_another_who_fails_is_told_and_may_try_again() -> None:
    eyes = Eyes()
    eyes.hold.set()
    cache = PictureCache(eyes.look)
    for _ in range(2):
        with pytest.raises(OSError, match="no weights"):
            cache.look([b"weights"], NOW)
    assert len(eyes.looks) == 2
