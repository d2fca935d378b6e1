"""Client of a server's API, for robots and scripts; it needs the standard library only."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
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
    ServerError,
    first_line,
    reason,
)

T = TypeVar("T")
PictureFile: TypeAlias = str | os.PathLike[str] | bytes  # a path, or the bytes of a file

MAX_TRIES = 5  # while the server is busy
MAX_WAIT_SECONDS = 600.0  # that a busy server may ask for
TIMEOUT_SECONDS = 120.0
NOT_OURS = (  # raised where another server's answer is read as one of cbcl's
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
ERRORS: dict[str, type[CBCLError]] = {  # others are a `ServerError`
    error.kind: error for error in (PictureError, LabelError, MemoryFileError, BackboneError)
}


class Client:
    """Client of a server that `cbcl teach` started, with methods like those of a `Recognizer`.

    Errors are those that a `Recognizer` would raise, with the server's sentence; a `ServerError`
    where the server cannot be reached or refuses a request. Requests that find the server busy are
    sent again after the time it asks for, up to four times.

    Parameters
    ----------
    url
        Address: `http://127.0.0.1:8737`, or the whole one that `cbcl teach` printed, with a token.
    token
        Access token, if it is not in the address.
    certificate
        File of a certificate to trust. A server that made its own has it at `/cbcl-authority.crt`.

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
            raise ServerError(repr(url), f"is not an address ({first_line(error)})") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            advice = "give one such as http://127.0.0.1:8737"
            raise ServerError(repr(url), "is not an address of a server", advice)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._token = token or next(iter(parse_qs(parts.query).get("token", [])), None)
        context = _tls_context(certificate) if parts.scheme == "https" else None
        # Proxies of the environment are ignored: they do not know machines nearby.
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    def health(self) -> dict[str, Any]:
        """Return the state of the server, its memory and its backbone."""
        return self._json("GET", "/api/health")

    def labels(self) -> dict[str, int]:
        """Return the number of examples of each label."""
        body = self._json("GET", "/api/labels")
        return self._take(lambda: {entry["label"]: entry["examples"] for entry in body["labels"]})

    def learn(
        self,
        label: str | None,
        pictures: PictureFile | Iterable[PictureFile] = (),
        *,
        seen: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Learn a label from pictures, or from the `seen` of answers, without sending them again.

        The label None teaches them as none of the known things: what looks like them is unknown.
        The answer counts the pictures learned, the `copies` among them, which add nothing, and
        those `moved` from other labels; it has the problems of those that were skipped.
        """
        digests = [("seen", digest) for digest in seen]
        if label is None:
            return self._form("/api/negatives", digests, "pictures", _as_list(pictures))
        fields = [("label", label), *digests]
        return self._form("/api/examples", fields, "pictures", _as_list(pictures))

    def recognize(self, picture: PictureFile) -> dict[str, Any]:
        """Return the answer for a picture: label (None: unknown), confidence, evidence and more."""
        return self._form("/api/recognize", [], "picture", [picture])

    def suspects(self, picture: PictureFile) -> list[dict[str, Any]]:
        """Return the examples that may be why an answer is wrong, with the answer without each."""
        body = self._form("/api/suspects", [], "picture", [picture])
        return self._take(lambda: body["suspects"])

    def recognize_many(self, pictures: Iterable[PictureFile]) -> list[dict[str, Any]]:
        """Return an answer for each picture, in order; an error where a picture cannot be read."""
        body = self._form("/api/recognize-many", [], "pictures", _as_list(pictures))
        return self._take(lambda: body["answers"])

    def memories(self) -> list[str]:
        """Return the names of the memories that can be opened, the latest changed first."""
        body = self._json("GET", "/api/memories")
        return self._take(lambda: [entry["name"] for entry in body["memories"]])

    def open_memory(self, name: str) -> None:
        """Open another memory in place of the one that is open, for everybody."""
        self._json("POST", "/api/memories/open", {"name": name})

    def forget(self, label: str, *, for_good: bool = False) -> None:
        """Forget a label."""
        self._json("POST", "/api/forget", {"label": label, "for_good": for_good})

    def forget_negatives(self) -> None:
        """Forget all pictures that were taught as none of the known things."""
        self._json("DELETE", "/api/negatives")

    def rename(self, label: str, new: str) -> None:
        """Rename a label."""
        self._json("POST", "/api/rename", {"label": label, "new": new})

    def merge(self, label: str, into: str) -> None:
        """Merge a label into another."""
        self._json("POST", "/api/merge", {"label": label, "into": into})

    def unknown(self) -> dict[str, Any] | None:
        """Return what decides between known and unknown; None: by the vote, or nothing is known."""
        body = self._json("GET", "/api/unknown")
        report: dict[str, Any] | None = self._take(lambda: body["report"])
        return report

    def expect_strangers(self, how_often: str) -> None:
        """Say how often something unknown is to be expected: often, sometimes or rarely."""
        self._json("PUT", "/api/strangers", {"strangers": how_often})

    def undo(self) -> str:
        """Revert the latest change, and return what it was."""
        body = self._json("POST", "/api/undo")
        return self._take(lambda: str(body["done"]["text"]))

    def history(self) -> list[dict[str, Any]]:
        """Return the changes, latest first."""
        body = self._json("GET", "/api/history")
        return self._take(lambda: body["steps"])

    def examples(self, label: str) -> list[int]:
        """Return the numbers of a label's examples that have a thumbnail, in the order learned."""
        return self._examples(f"/api/examples?label={quote(label, safe='')}")

    def negatives(self) -> list[int]:
        """Return the numbers of those taught as none of the known things, as `examples` does."""
        return self._examples("/api/negatives")

    def thumbnail(self, example: int) -> bytes:
        """Return the thumbnail of an example, a JPEG file."""
        return self._send("GET", f"/api/examples/{example}/thumbnail")

    def unlearn(self, example: int) -> str:
        """Remove an example from its label, and return the label; "": none of the known things."""
        body = self._json("DELETE", f"/api/examples/{example}")
        return self._take(lambda: str(body["label"]))

    def unlearn_many(self, examples: Iterable[int]) -> dict[str, int]:
        """Remove several examples in one change; return how many each label lost."""
        body = self._json("POST", "/api/unlearn", {"examples": [*examples]})
        return self._take(lambda: dict(body["removed"]))

    def move(self, examples: Iterable[int], into: str | None) -> dict[str, Any]:
        """Move examples to another label, known or new, in one change; None: to none of them.

        The answer counts those `moved` from each label and the `copies` among them, which add
        nothing, and lists the labels that have no examples left as `gone`.
        """
        return self._json("POST", "/api/move", {"examples": [*examples], "into": into})

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the server's memory to a file."""
        memory = self._send("GET", "/api/export")
        try:
            Path(path).write_bytes(memory)
        except OSError as error:
            raise MemoryFileError(Path(path), f"cannot be written ({reason(error)})") from error

    def adopt(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Have the server learn everything that a memory file knows."""
        return self._form("/api/import", [], "memory", [path], MemoryFileError)

    def _examples(self, address: str) -> list[int]:
        body = self._json("GET", address)
        return self._take(lambda: [entry["example"] for entry in body["kept"]])

    def _take(self, read: Callable[[], T]) -> T:
        """Return what `read` takes from an answer; a ServerError if it is not one of cbcl."""
        try:
            return read()
        except NOT_OURS as error:
            raise ServerError(self.url, "is not a server of cbcl") from error

    def _json(
        self, method: str, address: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        return self._parse(self._send(method, address, data, "application/json"))

    def _form(
        self,
        address: str,
        fields: list[tuple[str, str]],
        file_field: str,
        files: Iterable[PictureFile],
        error_type: type[CBCLError] = PictureError,
    ) -> dict[str, Any]:
        boundary = uuid4().hex
        parts = [_part(boundary, name, value.encode()) for name, value in fields]
        for file in files:
            data = file if isinstance(file, bytes) else _read(Path(file), error_type)
            name = "picture" if isinstance(file, bytes) else Path(file).name
            parts.append(_part(boundary, file_field, data, name))
        body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
        media_type = f"multipart/form-data; boundary={boundary}"
        return self._parse(self._send("POST", address, body, media_type))

    def _parse(self, answer: bytes) -> dict[str, Any]:
        try:
            body = json.loads(answer)
        except NOT_OURS:
            body = None
        if not isinstance(body, dict):
            raise ServerError(self.url, "is not a server of cbcl")
        return body

    def _send(
        self, method: str, address: str, data: bytes | None = None, media_type: str = ""
    ) -> bytes:
        headers = {"Content-Type": media_type} if data is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(f"{self.url}{address}", data=data, headers=headers, method=method)
        for _ in range(MAX_TRIES - 1):
            try:
                return self._send_once(request)
            except BusyError as busy:
                time.sleep(busy.seconds)
        return self._send_once(request)

    def _send_once(self, request: Request) -> bytes:
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                body: bytes = answer.read()
                return body
        except HTTPError as error:
            with error:
                raise self._as_error(error) from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            problem = getattr(error, "reason", None) or first_line(error)
            if isinstance(problem, ssl.SSLCertVerificationError):
                advice = f"give its certificate: {self.url}/cbcl-authority.crt if cbcl made it"
                raise ServerError(
                    self.url, f"is not trusted ({problem.verify_message})", advice
                ) from error
            advice = "start `cbcl teach` there"
            raise ServerError(self.url, f"does not answer ({problem})", advice) from error

    def _as_error(self, response: HTTPError) -> CBCLError:
        """Return the error that the server's answer stands for."""
        try:
            detail: dict[str, Any] = json.loads(response.read())["error"]
            problem = detail["message"].removesuffix(".")  # a sentence with its own subject
            if response.code == 429:
                seconds = float(detail["retry_after"])
                if not 0.0 <= seconds <= MAX_WAIT_SECONDS:
                    raise ValueError
                return BusyError("", problem, seconds=seconds)
            return ERRORS.get(detail["kind"], ServerError)("", problem)
        except NOT_OURS:
            problem = f"is not a server of cbcl: it answered {response.code} {response.reason}"
            return ServerError(self.url, problem)


def _as_list(pictures: PictureFile | Iterable[PictureFile]) -> Iterable[PictureFile]:
    return [pictures] if isinstance(pictures, str | os.PathLike | bytes) else pictures


def _read(path: Path, error_type: type[CBCLError]) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise error_type(path, f"cannot be read ({reason(error)})") from error


def _tls_context(certificate: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=certificate)
    except OSError as error:  # ssl.SSLError is a subclass
        problem = f"cannot be used as a certificate ({reason(error)})"
        raise ServerError(str(certificate), problem) from error


def _part(boundary: str, name: str, data: bytes, filename: str | None = None) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        safe = "".join("_" if letter in '"\\\r\n' else letter for letter in filename)
        head += f'; filename="{safe}"\r\nContent-Type: application/octet-stream'
    return head.encode() + b"\r\n\r\n" + data + b"\r\n"
