"""What went wrong, as an answer: a status, a kind that programs can rely on, and a sentence that names no path."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from cbcl.errors import (
    BackboneError,
    CBCLError,
    LabelError,
    MemoryFileError,
    PictureError,
    WeightsError,
)
from cbcl.folders import backbones_folder, cache_folder

STATUSES = {
    "picture": 422,
    "label": 422,
    "argument": 422,
    "memory": 409,
    "backbone": 503,
    "size": 413,
    "slow": 408,
    "busy": 429,
    "rate": 429,
    "token": 401,
    "origin": 403,
    "missing": 404,
    "method": 405,
    "seen": 410,
    "internal": 500,
}
OURS: dict[type[Exception], str] = {
    PictureError: "picture",
    LabelError: "label",
    MemoryFileError: "memory",
    WeightsError: "backbone",
    BackboneError: "backbone",
    CBCLError: "memory",
}


class RequestRefused(HTTPException):
    """A request that is not done, and why."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retry_after: int | None = None,
        seen: Sequence[str] | None = None,
    ) -> None:
        headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
        if kind == "token":
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(STATUSES[kind], message, headers)
        self.kind, self.message = kind, message
        self.retry_after, self.seen = retry_after, seen

    def body(self) -> dict[str, Any]:
        """For JSON: kind and message, and where they apply, retry_after and seen."""
        told: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.retry_after is not None:
            told["retry_after"] = self.retry_after
        if self.seen is not None:
            told["seen"] = [*self.seen]
        return {"error": told}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status_code, self.headers)


def unexpected() -> RequestRefused:
    """What is told of an error that is ours: nothing."""
    return RequestRefused("internal", "something went wrong here; the log has it.")


_SPACED = r"[/\\](?=\S)[^/\\'\":,;.\n]+(?=[/\\])"  # a folder in a path: it may have spaces, if one more part follows
_PLAIN = r"[/\\][^\s'\":,;/\\]*"  # any other part of a path
_PATH = re.compile(
    rf"(?<![\w./\\])(?:file:/*(?=/)|\\(?=\\))?(?:[A-Za-z]:)?(?:{_SPACED}|[/\\][\w.@~+-]+)+[/\\][\w.@~+-]+"
)


class PathRedactor:
    """Takes paths out of sentences: who asks over the network need not know where files lie."""

    def __init__(self, memory: Path, backbone: str = "") -> None:
        places = [
            Path.home(),
            cache_folder(),
            backbones_folder(),
            Path(tempfile.gettempdir()),
            Path.cwd(),
        ]
        places += [Path(sys.prefix), Path(sys.base_prefix), memory.parent]
        spellings = {
            spelling for place in places for spelling in (str(place), str(place.resolve()))
        }
        self._known = {
            spelling: file.name
            for file in [memory, *([Path(backbone)] if backbone else [])]
            for spelling in (str(file), str(file.absolute()), str(file.resolve()))
            if os.path.basename(spelling) != spelling
        }
        self._patterns = [
            re.compile(f"{re.escape(place)}(?:{_SPACED})*(?:{_PLAIN})*")
            for place in sorted(spellings, key=len, reverse=True)
            if len(place) > 1
        ]
        self._patterns.append(_PATH)

    def __call__(self, sentence: str) -> str:
        """The sentence, with a file's name in place of its path."""
        for path in sorted(self._known, key=len, reverse=True):
            sentence = sentence.replace(path, self._known[path])
        for pattern in self._patterns:
            sentence = pattern.sub(lambda found: _last(found.group()), sentence)
        return sentence


def _last(path: str) -> str:
    ending = "." if path.endswith(".") else ""  # the sentence's, not the path's
    return (os.path.basename(path.rstrip("/\\.").replace("\\", "/")) or "a file") + ending


def refusal_of(error: Exception, discretion: PathRedactor) -> RequestRefused:
    """What to tell about an error that can be told."""
    if isinstance(error, RequestRefused):
        return error
    if isinstance(error, RequestValidationError):
        return RequestRefused("argument", _invalid(error))
    if isinstance(error, HTTPException):
        return _of_http(error)
    kind = next(kind for ours, kind in OURS.items() if isinstance(error, ours))
    return RequestRefused(
        kind, str(error) if kind == "label" else discretion(str(error))
    )  # a label may look like a path


def _invalid(error: RequestValidationError) -> str:
    """The first thing that is wrong with a body or an address, in one sentence."""
    first = error.errors()[0]
    where = [str(part) for part in first["loc"][1:]]
    if first["type"] == "json_invalid":
        return "the body is not JSON."
    what = "the body" if not where else f"{where[-1]!r}"
    if first["type"] == "missing":
        return f"{what} is missing."
    said = str(first["msg"]).rstrip(".")
    return f"{what} is not as it should be: {said[:1].lower()}{said[1:]}."


def _of_http(error: HTTPException) -> RequestRefused:
    if error.status_code == 404:
        return RequestRefused(
            "missing", "there is nothing at this address: /api/docs says what there is."
        )
    if error.status_code == 405:
        refusal = RequestRefused(
            "method", "that cannot be done at this address: /api/docs says what can."
        )
        refusal.headers = error.headers
        return refusal
    return RequestRefused("argument", "the request cannot be read.")
