"""The parts of the server, each by itself: desks, what was seen lately, limits, events, and sentences without paths."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbcl import PictureError
from cbcl.album import Seen
from cbcl.web import events, limits
from cbcl.web.desks import Desk
from cbcl.web.faults import Discretion, Refusal
from cbcl.web.limits import Allowance, is_loopback
from cbcl.web.seen import Lately

PATIENCE = 60  # seconds for anything


def test_who_sends_nothing_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence() -> Any:
        await asyncio.sleep(PATIENCE)

    monkeypatch.setattr(limits, "PATIENCE", 0.01)
    scope = {"path": "/api/recognize", "method": "POST", "headers": [(b"content-length", b"10")]}
    with pytest.raises(Refusal, match="nothing came") as refusal:
        asyncio.run(limits.Body(scope, silence, limits.Bodies()).receive())
    assert (refusal.value.kind, refusal.value.status_code) == ("slow", 408)


def test_a_stream_says_at_times_that_it_is_still_there_and_there_are_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "QUIET", 0.01)

    async def day() -> None:
        told = events.Events(lambda: 7, most=1)
        stream = await told.subscribe()
        assert await anext(stream) == 'event: changed\ndata: {"revision": 7}\n\n'
        assert await anext(stream) == ": still here\n\n"
        with pytest.raises(Refusal, match="too many pages"):
            await told.subscribe()
        told.notice(6)  # which was slow to arrive, and is old by now
        assert await anext(stream) == ": still here\n\n"
        told.notice(0)  # the memory is gone
        assert "0" in await anext(stream)
        told.end()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert told.listeners == 0

    asyncio.run(day())


def test_an_allowance_fills_up_again_and_forgets_old_addresses() -> None:
    now = 0.0
    allowance = Allowance(2.0, 3.0, clock=lambda: now)

    def taken(address: str = "a") -> bool:
        try:
            allowance.take(address, "too many")
        except Refusal:
            return False
        return True

    assert [taken() for _ in range(4)] == [True, True, True, False]
    assert taken("b")
    now = 1.0
    assert [taken() for _ in range(3)] == [True, True, False]
    for number in range(limits.ADDRESSES):
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
        desk = Desk("one", 1, 2)
        jobs = [asyncio.create_task(desk.do(hold.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        assert (desk.pending, desk.waiting) == (3, 2)
        hold.set()
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert desk.pending == 0
        assert await desk.do(lambda: 7) == 7
        desk.close()
        return done

    *done, last = asyncio.run(day())
    assert done == [True] * 3
    assert isinstance(last, Refusal)
    assert (last.kind, last.retry_after) == ("busy", 1)


def test_a_job_that_fails_leaves_its_desk_free() -> None:
    async def day() -> None:
        desk = Desk("one", 1, 0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await desk.do(lambda: 1 / 0)
        desk.close()

    asyncio.run(day())


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
            PictureError("broken") if one == b"broken" else Seen(np.zeros(2, np.float32), one, "") for one in pictures
        ]


def test_the_same_picture_is_looked_at_once_even_by_many_at_once() -> None:
    eyes = Eyes()
    lately = Lately(eyes.look, most=2)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(lately.look([b"a", b"b", b"a"]))) for _ in range(5)]
    for thread in threads:
        thread.start()
    eyes.hold.set()
    for thread in threads:
        thread.join()
    assert eyes.looks == [[b"a", b"b"]]
    assert {tuple(digest for digest, _ in one) for one in found} == {tuple(digest for digest, _ in found[0])}
    (first, _), (second, _), _ = found[0]
    lately.recall([first])  # so b was used the longest time ago
    lately.look([b"c", b"broken"])
    with pytest.raises(Refusal) as refusal:
        lately.recall([first, second])
    assert refusal.value.seen == [second]
    assert len(eyes.looks) == 2
    lately.look([b"broken"])  # what is broken is not remembered
    assert len(eyes.looks) == 3


def test_who_waits_for_another_who_fails_is_told_and_may_try_again() -> None:
    eyes = Eyes()
    eyes.hold.set()
    lately = Lately(eyes.look)
    for _ in range(2):
        with pytest.raises(OSError, match="no weights"):
            lately.look([b"weights"])
    assert len(eyes.looks) == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{memory} is damaged: see `cbcl check {memory}`.", "things.cbcl is damaged: see `cbcl check things.cbcl`."),
        ("{folder} is missing or read-only.", "my folder is missing or read-only."),
        ("{folder}/deep/er/x.onnx cannot be read.", "x.onnx cannot be read."),
        ("{home}/.cache/cbcl/net.onnx: gone", "net.onnx: gone"),
        ("'/var/lib/some/net.onnx' is no network", "'net.onnx' is no network"),
        ("C:\\Users\\me\\net.onnx is no network", "net.onnx is no network"),
        ("'a/b' and 1/2 are labels, and / alone is none", "'a/b' and 1/2 are labels, and / alone is none"),
    ],
)
def test_paths_are_taken_out_of_sentences(said: str, told: str, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    memory = folder / "things.cbcl"
    sentence = said.format(memory=memory, folder=folder, home=Path.home())
    assert Discretion(memory)(sentence) == told
