"""Kill a server that is being taught over HTTP, at calls that write.

The server is `cbcl teach`, in a process forked from one that has its imports. What it answered for
before it was killed is in the memory, with or without the change that was under way.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from support.photos import encoded

from cbcl.cli.commands import main
from cbcl.client import Client
from cbcl.errors import ServerError
from cbcl.web import server as _imported_before_the_fork  # noqa: F401
from endurance.steps import look
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import (
    KILLS,
    Strike,
    arm,
    kinds_of,
    parse_trace,
    places,
    preloaded,
    start,
    wait,
)


def picture(number: int) -> bytes:
    rng = np.random.default_rng(number)
    return encoded(rng.integers(0, 256, (32, 32, 3)).astype(np.uint8), "PNG")


def changes(client: Client, other: Path) -> Iterator[Callable[[], object]]:
    """Yield what is done to the memory, one after the other."""
    yield lambda: client.learn("cup", [picture(number) for number in range(3)])
    yield lambda: client.learn("key", [picture(number) for number in range(3, 6)])
    yield lambda: client.learn(None, [picture(6)])
    yield lambda: client.learn("pen", [picture(2), picture(7)])  # one of them was a cup
    yield lambda: client.rename("cup", "mug")
    yield lambda: client.unlearn(client.examples("mug")[0])
    yield lambda: client.move(client.examples("key")[:2], "mug")
    yield lambda: client.unlearn_many(client.examples("mug")[-2:])
    yield lambda: client.merge("mug", "key")
    yield client.undo
    yield lambda: client.adopt(other)
    yield lambda: client.forget("key")
    yield client.undo
    yield lambda: client.forget("pen", for_good=True)
    yield client.forget_negatives


@contextmanager
def serving(memory: Path, arming: Callable[[], None]) -> Iterator[tuple[Client, list[int]]]:
    """Serve a memory; yield a client and, in a list, the server's exit status when it has ended."""
    reading, writing = os.pipe()

    def serve() -> None:
        os.dup2(writing, sys.stdout.fileno())
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        arming()
        words = ["teach", str(memory), "--no-browser", "--port", "0", "--backbone", "pixels"]
        main(words, standalone_mode=False)

    child = start(serve)
    os.close(writing)
    status: list[int] = []
    with os.fdopen(reading) as lines:
        try:
            yield Client(lines.readline().partition(" at ")[2].strip()), status
        finally:
            os.kill(child, signal.SIGTERM)
            lines.read()
            status.append(wait(child))


def kill_server(attack: Attack) -> Outcome:
    outcome, rng = Outcome(), random.Random(attack.seed)
    other, work = attack.folder / "other.cbcl", attack.folder / "work"
    work.mkdir()
    memory = work / "things.cbcl"
    with serving(other, lambda: None) as (client, _):
        client.learn("owl", [picture(20)])
        client.learn("key", [picture(21)])
    states = [look(memory)[0]]
    with TemporaryFile() as trace:
        tracing = partial(arm, work, Strike.TRACE, trace=trace.fileno())
        with serving(memory, tracing) as (client, _):
            for change in changes(client, other):
                change()
                states.append(look(memory)[0])
        kinds = kinds_of(parse_trace(trace))
    every = places(kinds, KILLS)
    for at, how in every if len(every) <= attack.count else rng.sample(every, attack.count):
        for file in work.iterdir():
            file.unlink()
        done = 0
        with serving(memory, partial(arm, work, how, at)) as (client, status):
            try:
                for change in changes(client, other):
                    change()
                    done += 1
            except ServerError:
                pass
        if status != [-signal.SIGKILL]:  # its threads took another turn, and wrote less often
            continue
        case = f"{how.name} at call {at} of the server"
        found, findings = look(memory)
        if found not in states[done : done + 2]:
            outcome.lost += 1
            outcome.found.append(f"{case}: {done} changes were answered for, but found {found}")
        outcome.found += [f"{case}: {finding}" for finding in findings]
        outcome.tried += 1
        attack.progress(outcome.tried)
    outcome.remarks.append(f"{len(states) - 1} changes, {len(kinds)} writes")
    return outcome


TRIALS = (Trial("kills at writes of the server", "kills", 10, 300, preloaded(kill_server)),)
