"""Hostile connections, as scripts: what each sends, how slowly, and how it ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import NamedTuple


class Victim(NamedTuple):
    """A server that is attacked over loopback; its good client has another address."""

    port: int
    token: str
    secure: bool

    def head(self, first: str, *lines: str) -> bytes:
        own = (f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.token}")
        return "\r\n".join([f"{first} HTTP/1.1", *own, *lines, "", ""]).encode()


class Script(NamedTuple):
    """A hostile connection: the bytes that it sends, with pauses between them, and its end."""

    pieces: Callable[[Victim], Iterable[bytes]]
    pause: float = 0.0  # seconds after each piece
    end: str = "hold"  # or "reset", "half-close", "read"


def _get(path: str) -> Callable[[Victim], list[bytes]]:
    return lambda victim: [victim.head(f"GET {path}")]


def _post(
    path: str, *lines: str, then: Iterable[bytes] = ()
) -> Callable[[Victim], Iterable[bytes]]:
    def pieces(victim: Victim) -> Iterable[bytes]:
        yield victim.head(f"POST {path}", *lines)
        yield from then

    return pieces


FORM = "Content-Type: multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="picture"; filename="a.jpg"\r\n\r\n'
CLIENT_HELLO = bytes.fromhex("160301020001 0001fc0303".replace(" ", "")) + bytes(100)

PLAIN: dict[str, Script] = {
    "silent": Script(lambda _: []),
    "half a head": Script(lambda victim: [victim.head("GET /api/labels")[:-4]]),
    "a head by letters": Script(
        lambda victim: (b"%c" % letter for letter in victim.head("GET /api/labels")), 0.5
    ),
    "a head without end": Script(lambda victim: [victim.head("GET /")[:-2], *[b"a: b\r\n"] * 9999]),
    "an oversize header": Script(lambda victim: [victim.head("GET /", "X: " + "y" * 200_000)]),
    "an oversize target": Script(_get("/api/examples?label=" + "y" * 200_000)),
    "a trickling body": Script(
        _post("/api/recognize", FORM, "Content-Length: 1000000", then=repeat(PART[:10])), 0.3
    ),
    "a trickling import": Script(
        _post("/api/import", FORM, "Content-Length: 900000000", then=repeat(bytes(50))), 0.3
    ),
    "half a body": Script(
        _post("/api/examples", FORM, "Content-Length: 100000", then=[PART + bytes(50_000)])
    ),
    "chunks without end": Script(
        _post("/api/recognize", FORM, "Transfer-Encoding: chunked", then=repeat(b"1\r\na\r\n")), 0.1
    ),
    "a huge chunk": Script(
        _post("/api/recognize", FORM, "Transfer-Encoding: chunked", then=[b"f" * 16 + b"\r\nabc"])
    ),
    "two lengths": Script(
        _post("/api/undo", "Content-Length: 5", "Content-Length: 6", then=[b"abcdef"]), end="read"
    ),
    "a length and chunks": Script(
        _post(
            "/api/undo", "Content-Length: 5", "Transfer-Encoding: chunked", then=[b"0\r\n\r\nGET"]
        ),
        end="read",
    ),
    "waiting to be asked on": Script(
        _post("/api/recognize", FORM, "Expect: 100-continue", "Content-Length: 5000")
    ),
    "pipelined": Script(lambda victim: [victim.head("GET /api/labels") * 200]),
    "pipelined, read": Script(lambda victim: [victim.head("GET /api/labels") * 50], end="read"),
    "an export not read": Script(_get("/api/export")),
    "a page not read": Script(lambda victim: [victim.head("GET /static/js/teaching.js") * 20]),
    "an event stream": Script(_get("/api/events")),
    "event streams, pipelined": Script(lambda victim: [victim.head("GET /api/events") * 50]),
    "half-closed": Script(_get("/api/labels"), end="half-close"),
    "reset at once": Script(_get("/api/scores"), end="reset"),
    "reset in a body": Script(
        _post("/api/examples", FORM, "Content-Length: 100000", then=[PART]), end="reset"
    ),
    "noise": Script(lambda _: [random.Random(1).randbytes(5000)], end="read"),
    "half a TLS hello": Script(lambda _: [CLIENT_HELLO[:30]]),
    "another protocol": Script(lambda _: [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], end="read"),
}
SECURE: dict[str, Script] = {
    "silent": Script(lambda _: []),
    "half a hello": Script(lambda _: [CLIENT_HELLO[:30]]),
    "a hello by bytes": Script(lambda _: (b"%c" % byte for byte in CLIENT_HELLO), 0.3),
    "a hello of nothing": Script(lambda _: [CLIENT_HELLO + bytes(500)]),
    "plain HTTP": Script(_get("/api/labels"), end="read"),
    "noise": Script(lambda _: [random.Random(2).randbytes(5000)], end="read"),
    "reset": Script(lambda _: [CLIENT_HELLO[:60]], end="reset"),
}
