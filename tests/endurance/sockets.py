"""Slow, half-open, trickling and oversize connections; a good client is answered throughout."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import ssl
import struct
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np
from support.server import ServerProcess, make_certificate, teach

from endurance.network import memory_file, own_home
from endurance.picture_seeds import seeds
from endurance.socket_scripts import FORM, PART, PLAIN, SECURE, Script, Victim
from endurance.trial import Attack, Outcome, Trial

AT_ONCE = 200  # hostile connections to each server; of one address, 384 are let in
HOLD_SECONDS = (0.2, 12.0)  # that one is kept up; the server hangs up on the idle after ten
PATIENCE_SECONDS = 5.0  # in which a good client must be answered, on a busy machine
SETTLE_SECONDS = 60.0  # in which everything must be given back
MAX_GROWTH_MB = 100.0  # of the server, in the end
MAX_MORE_FILES = 30  # likewise: each thread that reads the memory opens it
STREAMS = 40  # of 64, of which one address has three quarters


async def attack_once(victim: Victim, script: Script, seconds: float) -> None:
    """Be a hostile connection for so long, or until the server hangs up."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", victim.port, limit=1 << 12)
        connection = writer.get_extra_info("socket")
        try:
            async with asyncio.timeout(seconds):
                for piece in script.pieces(victim):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(script.pause)
                if script.end == "half-close":
                    writer.write_eof()
                if script.end in ("half-close", "read"):
                    await reader.read()
                if script.end != "reset":
                    await asyncio.sleep(seconds)
        finally:
            if script.end == "reset":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()


async def attack_all(attack: Attack, victims: list[Victim], outcome: Outcome) -> None:
    """Keep so many hostile connections up until all were tried."""
    rng = random.Random(attack.seed)
    places = asyncio.Semaphore(AT_ONCE * len(victims))

    async def one(victim: Victim, script: Script, seconds: float) -> None:
        async with places:
            await attack_once(victim, script, seconds)
            outcome.tried += 1
            attack.progress(outcome.tried)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(attack.count):
            victim = rng.choices(victims, [4 if not one.secure else 1 for one in victims])[0]
            script = rng.choice([*(SECURE if victim.secure else PLAIN).values()])
            tasks.create_task(one(victim, script, rng.uniform(*HOLD_SECONDS)))


def own_address() -> str:
    """Return an address of this machine that is not loopback; if there is none, loopback."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def ask(victim: Victim, method: str, path: str, body: bytes = b"") -> int:
    """Send one proper request, and return its status."""
    host = own_address()
    context = ssl._create_unverified_context() if victim.secure else None  # it is self-signed
    connection = socket.create_connection((host, victim.port), PATIENCE_SECONDS)
    with closing(context.wrap_socket(connection) if context else connection) as stream:
        client = HTTPConnection(host, victim.port)
        client.sock = stream
        headers = {"Authorization": f"Bearer {victim.token}"}
        if body:
            headers["Content-Type"] = FORM.partition(": ")[2]
        client.request(method, path, body or None, headers)
        answer = client.getresponse()
        answer.read()
        return answer.status


def be_a_good_client(victims: list[Victim], stop: Path) -> tuple[list[float], list[str]]:
    """Ask the servers in turn until a file is there; return seconds, and what went wrong."""
    seconds, wrong = list[float](), list[str]()
    picture = PART + seeds()["PNG"][6] + b"\r\n--x--\r\n"
    turns = [
        ("GET", "/api/labels", b""),
        ("POST", "/api/recognize", picture),
        ("GET", "/api/health", b""),
    ]
    while not stop.exists() and len(wrong) < 20:
        for victim in victims:
            for turn in turns:
                begun = time.monotonic()
                try:
                    status = ask(victim, *turn)
                    problem = "" if status == 200 else f"answered {status}"
                except OSError as error:
                    problem = f"not answered: {error}"
                seconds.append(time.monotonic() - begun)
                if problem:
                    wrong.append(f"{turn[0]} {turn[1]} of a good client is {problem}")
        time.sleep(0.05)
    return seconds, wrong


class Resources(NamedTuple):
    """Resources that a server process has."""

    sockets: int
    files: list[str]
    megabytes: float
    peak_megabytes: float

    @classmethod
    def of(cls, server: ServerProcess) -> Resources:
        process = Path("/proc", str(server.process.pid))
        status = process.joinpath("status").read_text()
        now, peak = (
            int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM")
        )
        names = list[str]()
        for link in process.joinpath("fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                names.append(str(link.readlink()))
        files = [name for name in names if not name.startswith("socket:")]
        return cls(len(names) - len(files), files, now, peak)


def _check_given_back(server: ServerProcess, before: Resources, victim: Victim) -> list[str]:
    """Return what a server still has of the connections, once it had time to give it back."""
    end = time.monotonic() + SETTLE_SECONDS
    now = Resources.of(server)
    while now.sockets > before.sockets and time.monotonic() < end:
        time.sleep(0.5)
        now = Resources.of(server)
    found = []
    if now.sockets > before.sockets:
        found.append(f"{now.sockets - before.sockets} sockets are not given back")
    if len(now.files) > len(before.files) + MAX_MORE_FILES:
        found.append(f"more files are open than before: {now.files}")
    if now.megabytes > before.megabytes + MAX_GROWTH_MB:
        found.append(f"{now.megabytes - before.megabytes:.0f} MB are not given back")
    if not victim.secure:
        found += _check_streams(victim)
    return found


def _check_streams(victim: Victim) -> list[str]:
    """Check that all places for event streams are free again."""
    with ExitStack() as opened:
        for number in range(STREAMS):
            address = ("127.0.0.1", victim.port)
            stream = opened.enter_context(socket.create_connection(address, PATIENCE_SECONDS))
            stream.sendall(victim.head("GET /api/events"))
            if not stream.recv(100).startswith(b"HTTP/1.1 200"):
                return [f"only {number} of {STREAMS} event streams have a place again"]
    return []


def attack_sockets(attack: Attack) -> Outcome:
    """Attack a plain server and one with TLS by hostile connections of all kinds at once."""
    outcome, stop = Outcome(), attack.folder / "stop"
    content = memory_file(attack.folder)
    tls = make_certificate(attack.folder)
    options = ["--host", "0.0.0.0", "--backbone", "pixels"]
    with ExitStack() as running:
        running.enter_context(own_home(attack.folder))
        servers, victims = list[ServerProcess](), list[Victim]()
        for words in (["--http"], ["--certificate", tls[0], "--key", tls[1]]):
            memory = attack.folder / f"things{len(servers)}.cbcl"
            memory.write_bytes(content)
            server = running.enter_context(teach(memory, *options, *words))
            parts = urlsplit(server.url)
            (token,) = parse_qs(parts.query)["token"]
            servers.append(server)
            victims.append(Victim(parts.port or 0, token, parts.scheme == "https"))
        for victim in victims:  # whatever is made at the first request is there
            ask(victim, "GET", "/api/scores")
        before = [Resources.of(server) for server in servers]
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, fork) as executor:
            good = executor.submit(be_a_good_client, victims, stop)
            asyncio.run(attack_all(attack, victims, outcome))
            stop.touch()
            seconds, wrong = good.result()
        outcome.found += wrong
        for server, were, victim in zip(servers, before, victims, strict=True):
            name = "TLS server" if victim.secure else "server"
            outcome.found += [f"{name}: {one}" for one in _check_given_back(server, were, victim)]
            outcome.figures[f"{name}: peak MB"] = round(Resources.of(server).peak_megabytes, 1)
            _, errors = server.stop()
            outcome.found += [f"the {name} wrote: {errors[-1000:]}"] if errors else []
    for share in (50, 99, 100):
        milliseconds = 1000 * float(np.percentile(seconds, share))
        outcome.figures[f"good client: {share} % within ms"] = round(milliseconds, 1)
    outcome.remarks.append(f"a good client was answered {len(seconds):,} times meanwhile")
    return outcome


TRIALS: tuple[Trial, ...] = (
    Trial("hostile connections", "connections", 250, 10_000, attack_sockets),
)
