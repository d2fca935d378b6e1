"""API errors: a status, a kind that programs can rely on, and a sentence without paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from cbcl.errors import CBCLError

STATUSES = {
    "picture": 422,
    "label": 422,
    "argument": 422,
    "memory": 409,
    "switched": 409,
    "backbone": 503,
    "size": 413,
    "slow": 408,
    "busy": 429,
    "rate": 429,
    "token": 401,
    "origin": 403,
    "view": 403,
    "missing": 404,
    "method": 405,
    "seen": 410,
    "internal": 500,
}
NOT_FOUND = "there is nothing at this address: see /api/docs."


class ApiError(HTTPException):
    """A request that was refused or failed, and why."""

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

    def response(self) -> JSONResponse:
        error: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.retry_after is not None:
            error["retry_after"] = self.retry_after
        if self.seen is not None:
            error["seen"] = [*self.seen]
        return JSONResponse({"error": error}, self.status_code, self.headers)


def as_api_error(error: Exception) -> ApiError:
    """Return what to answer for an error of the library, of a request's shape or of its address."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, CBCLError):
        return ApiError(error.kind, error.public)
    if isinstance(error, RequestValidationError):
        return ApiError("argument", _validation_message(error))
    if isinstance(error, HTTPException) and error.status_code == 404:
        return ApiError("missing", NOT_FOUND)
    if isinstance(error, HTTPException) and error.status_code == 405:
        return ApiError("method", "this address has no such method: see /api/docs.")
    return ApiError("argument", "the request cannot be read.")


def _validation_message(error: RequestValidationError) -> str:
    """Return the first problem with a body or an address, as a sentence."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"][1:]]
    if first["type"] == "json_invalid":
        return "the body is not JSON."
    subject = f"{location[-1]!r}" if location else "the body"
    if first["type"] == "missing":
        return f"{subject} is missing."
    problem = str(first["msg"]).rstrip(".")
    return f"{subject} is invalid: {problem[:1].lower()}{problem[1:]}."
