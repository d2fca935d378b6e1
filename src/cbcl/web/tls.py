"""TLS of the server: its certificate; who speaks plain http is sent on to the https address."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from cbcl.errors import ServerError, reason

REQUEST_LINE = re.compile(rb"[A-Z]+ (/[!-~]*) HTTP/1\.[01]\r\n")
HOST = re.compile(rb"\r\nhost: *([\w.:\[\]-]+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class ServerCertificate:
    """A certificate in a file, as a server needs it and a person may compare it."""

    path: Path  # PEM: the certificate, and its key unless that is in a file of its own
    fingerprint: str  # SHA-256, as phones show it
    authority: bytes | None = None  # DER, of the one that we made


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate, as phones show it."""
    return sha256(der).digest().hex(" ").upper()


def load_certificate(context: ssl.SSLContext, path: Path, key: Path | None) -> ServerCertificate:
    """Let a context use a certificate that the user gave."""
    try:
        context.load_cert_chain(path, key)
    except OSError as error:  # of which ssl.SSLError is one
        problem = f"cannot be used as a certificate ({reason(error)})"
        raise ServerError(path, problem, "give a PEM file, and its key with --key") from error
    pem = path.read_text(encoding="ascii", errors="ignore")
    begin = pem.index(ssl.PEM_HEADER)  # of a chain, the first is the server's own
    end = pem.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
    return ServerCertificate(path, fingerprint(ssl.PEM_cert_to_DER_cert(pem[begin:end])))


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


def answer_to_plain_http(request: bytes) -> bytes:
    """Return a redirect to the https address of a request, or nothing if it is none."""
    line, host = REQUEST_LINE.match(request), HOST.search(request)
    if line is None or host is None:
        return b""
    address = b"https://" + host[1] + line[1]
    body = b"This server speaks https: " + address + b"\n"
    head = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b\r\nContent-Length: %d\r\n"
    kind = b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
    end = b"Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    return head % (address, len(body)) + kind + end + body
