"""TLS of the server; who speaks plain http to it is sent on to the https address."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any, cast

REQUEST_LINE = re.compile(rb"[A-Z]+ (/[!-~]*) HTTP/1\.[01]\r\n")
HOST = re.compile(rb"\r\nhost: *([\w.:\[\]-]+)\r\n", re.IGNORECASE)


class _Connection(ssl.SSLObject):
    """The server's end of a connection, which answers plain http once, in the clear."""

    received: ssl.MemoryBIO
    to_send: ssl.MemoryBIO
    begun = False

    def do_handshake(self) -> None:
        if not self.begun and self.received.pending:
            self.begun = True
            data = self.received.read()
            if answer := answer_to_plain_http(data):
                self.to_send.write(answer)
                raise ssl.SSLWantReadError  # it is sent then, and the client leaves
            self.received.write(data)
        super().do_handshake()


class ServerContext(ssl.SSLContext):
    """A server's certificate, and the kind of its connections."""

    sslobject_class = _Connection

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *options: Any, **named: Any
    ) -> ssl.SSLObject:
        connection = cast(_Connection, super().wrap_bio(incoming, outgoing, *options, **named))
        connection.received, connection.to_send = incoming, outgoing
        return connection


def server_context(certificate: Path, key: Path | None = None) -> ServerContext:
    """Return the context of a certificate; an `OSError` says why it cannot be used."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def answer_to_plain_http(request: bytes) -> bytes:
    """Return a redirect to the https address of a request, or nothing if it is none."""
    line, host = REQUEST_LINE.match(request), HOST.search(request)
    if line is None or host is None:
        return b""
    address = b"https://" + host[1] + line[1]
    body = b"This server speaks https: " + address + b"\n"
    head = [
        b"HTTP/1.1 307 Temporary Redirect",
        b"Location: " + address,
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: %d" % len(body),
        b"Cache-Control: no-store",
        b"X-Content-Type-Options: nosniff",
        b"Connection: close",
    ]
    return b"\r\n".join([*head, b"", body])
