"""A client of a teaching page's API, for robots and scripts: the standard library is all it needs."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener
from uuid import uuid4

from cbcl.errors import (
    BackboneError,
    BusyError,
    CBCLError,
    LabelError,
    MemoryFileError,
    PictureError,
    first_line,
)

Picture: TypeAlias = str | os.PathLike[str] | bytes  # a file, or the bytes of one

TRIES = 5  # of something that the server is too busy for
PATIENCE = 120.0  # seconds to wait for an answer
ERRORS: dict[str, type[CBCLError]] = {
    "picture": PictureError,
    "label": LabelError,
    "memory": MemoryFileError,
    "backbone": BackboneError,
}


class Client:
    """Asks and teaches a server that `cbcl teach` started, mostly as one would a `Recognizer`.

    What goes wrong is raised as the error that a `Recognizer` would raise, with the server's sentence. If the server is
    too busy, it is asked again after the time that it says, a few times.

    Parameters
    ----------
    url
        Where it is: `http://127.0.0.1:8737`, or the whole address that `cbcl teach` printed, token and all.
    token
        What a server beyond this machine asks for, if it is not in the address.
    certificate
        A file with the certificate to believe, for a server whose own was not signed by anybody known.

    Examples
    --------
    >>> from cbcl import Client
    >>> robot = Client("http://127.0.0.1:8737/?token=as-printed")  # no request is sent yet
    >>> robot.url
    'http://127.0.0.1:8737'

    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        certificate: str | os.PathLike[str] | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise CBCLError(f"{url!r} is no address: {error}.") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CBCLError(
                f"{url!r} is no address of a server: give one such as http://127.0.0.1:8737."
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._token = token or next(iter(parse_qs(parts.query).get("token", [])), None)
        context = _context(certificate) if parts.scheme == "https" else None
        # A proxy, as programs may be told to use one, knows nothing of machines nearby.
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    def health(self) -> dict[str, Any]:
        """How the server is, which memory it has, and whether it can see."""
        return self._json("GET", "/api/health")

    def labels(self) -> dict[str, int]:
        """What is known, and from how many pictures."""
        return {
            thing["label"]: thing["examples"]
            for thing in self._json("GET", "/api/labels")["labels"]
        }

    def learn(
        self, label: str, pictures: Picture | Iterable[Picture] = (), *, seen: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Learn a label from pictures, or from those that the server looked at lately: `seen` of its answers.

        Told are how many were learned, and the problems with those that could not be read.
        """
        words = [("label", label), *(("seen", digest) for digest in seen)]
        return self._form("/api/examples", words, "pictures", _each(pictures))

    def recognize(self, picture: Picture) -> dict[str, Any]:
        """What a picture shows: label (None: unknown), confidence, ranking, evidence and more."""
        return self._form("/api/recognize", [], "picture", [picture])

    def recognize_many(self, pictures: Iterable[Picture]) -> list[dict[str, Any]]:
        """An answer for each picture, in their order; in place of one that cannot be read, its error."""
        answers: list[dict[str, Any]] = self._form(
            "/api/recognize-many", [], "pictures", _each(pictures)
        )["answers"]
        return answers

    def forget(self, label: str, *, for_good: bool = False) -> None:
        """Forget a label."""
        self._json("POST", "/api/forget", {"label": label, "for_good": for_good})

    def rename(self, label: str, new: str) -> None:
        """Call a label something else."""
        self._json("POST", "/api/rename", {"label": label, "new": new})

    def merge(self, label: str, into: str) -> None:
        """Make one label part of another."""
        self._json("POST", "/api/merge", {"label": label, "into": into})

    def undo(self) -> str:
        """Take back the latest step, and say what it was."""
        return str(self._json("POST", "/api/undo")["done"]["text"])

    def history(self) -> list[dict[str, Any]]:
        """What was done, the latest first."""
        steps: list[dict[str, Any]] = self._json("GET", "/api/history")["steps"]
        return steps

    def examples(self, label: str) -> list[int]:
        """The numbers of a label's examples that are kept, in the order learned."""
        return [
            one["example"]
            for one in self._json("GET", f"/api/examples?label={quote(label, safe='')}")["kept"]
        ]

    def thumbnail(self, example: int) -> bytes:
        """A small picture of an example, as JPEG."""
        return self._send("GET", f"/api/examples/{example}/thumbnail")

    def unlearn(self, example: int) -> str:
        """Take one example back out of its label, which is returned."""
        return str(self._json("DELETE", f"/api/examples/{example}")["label"])

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the server's memory, as it is now, to a file."""
        memory = self._send("GET", "/api/export")
        try:
            Path(path).write_bytes(memory)
        except OSError as error:
            raise MemoryFileError(
                f"{path} cannot be written: {error.strerror or error}."
            ) from error

    def adopt(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Have the server learn all that a memory file knows."""
        return self._form("/api/import", [], "memory", [path], MemoryFileError)

    def _json(
        self, method: str, address: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        return self._told(self._send(method, address, data, "application/json"))

    def _form(
        self,
        address: str,
        words: list[tuple[str, str]],
        field: str,
        files: Iterable[Picture],
        unread: type[CBCLError] = PictureError,
    ) -> dict[str, Any]:
        boundary = uuid4().hex
        parts = [_part(boundary, name, value.encode()) for name, value in words]
        for file in files:
            data = file if isinstance(file, bytes) else _read(file, unread)
            name = "picture" if isinstance(file, bytes) else Path(file).name
            parts.append(_part(boundary, field, data, name))
        body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
        return self._told(
            self._send("POST", address, body, f"multipart/form-data; boundary={boundary}")
        )

    def _told(self, answer: bytes) -> dict[str, Any]:
        try:
            told = json.loads(answer)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise CBCLError(f"what {self.url} answers is not from cbcl.")
        return told

    def _send(self, method: str, address: str, data: bytes | None = None, kind: str = "") -> bytes:
        headers = {"Content-Type": kind} if data is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(f"{self.url}{address}", data=data, headers=headers, method=method)
        for _ in range(TRIES - 1):
            try:
                return self._once(request)
            except BusyError as busy:
                time.sleep(busy.seconds)
        return self._once(request)

    def _once(self, request: Request) -> bytes:
        try:
            with self._opener.open(request, timeout=PATIENCE) as answer:
                whole: bytes = answer.read()
                return whole
        except HTTPError as error:
            with error:
                raise _told(error) from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or first_line(error)
            raise CBCLError(
                f"no answer from {self.url}: {reason}. Does `cbcl teach` run there?"
            ) from error


def _each(pictures: Picture | Iterable[Picture]) -> Iterable[Picture]:
    return [pictures] if isinstance(pictures, str | os.PathLike | bytes) else pictures


def _read(path: str | os.PathLike[str], unread: type[CBCLError]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise unread(f"{path} cannot be read: {error.strerror or error}.") from error


def _context(certificate: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=certificate)
    except OSError as error:  # of which one of TLS is one
        raise CBCLError(
            f"{certificate} is no certificate that can be used: {error.strerror or error}."
        ) from error


def _part(boundary: str, name: str, data: bytes, filename: str | None = None) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        safe = "".join("_" if letter in '"\\\r\n' else letter for letter in filename)
        head += f'; filename="{safe}"\r\nContent-Type: application/octet-stream'
    return head.encode() + b"\r\n\r\n" + data + b"\r\n"


def _told(error: HTTPError) -> CBCLError:
    """What the server says, as the error that it would be here."""
    try:
        told: dict[str, Any] = json.loads(error.read())["error"]
        if error.code == 429:
            return BusyError(told["message"], seconds=float(told["retry_after"]))
        return ERRORS.get(told["kind"], CBCLError)(told["message"])
    except (ValueError, KeyError, TypeError):
        return CBCLError(f"the answer was {error.code} ({error.reason}), and not one of cbcl.")
