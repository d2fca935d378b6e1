"""Request log: every request, or errors only, as JSON lines without tokens and queries."""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbcl.web.events import EVENTS_PATH
from cbcl.web.metrics import Metrics

METHODS = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}
CLIENT_CLOSED_REQUEST = 499  # the client was gone before there was an answer


class RequestLog:
    """A file to which requests are logged: all, or only those that failed with a bug."""

    def __init__(self, *, everything: bool = False, file: TextIO | None = None) -> None:
        self._everything, self._file = everything, file

    def write(self, entry: dict[str, Any], error: BaseException | None = None) -> None:
        """Write a line; an error with its traceback."""
        if error is not None:
            trace = "".join(traceback.format_exception(error))
            entry = {**entry, "error": repr(error), "trace": trace}
        elif not self._everything:
            return
        line = json.dumps(entry)  # in ASCII: a terminal obeys none of it
        (self._file or sys.stderr).write(f"{line}\n")


class RequestLogMiddleware:
    """Logs and counts every request, also those that fail."""

    def __init__(self, app: ASGIApp, log: RequestLog, metrics: Metrics) -> None:
        self._app, self._log, self._metrics = app, log, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = perf_counter()
        status, size = 0, 0
        failure: Exception | None = None

        async def send_counted(message: Message) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except Exception as error:  # answered already
            failure = error
        finally:
            self._write(scope, status or CLIENT_CLOSED_REQUEST, size, begun, failure)

    def _write(
        self, scope: Scope, status: int, size: int, begun: float, failure: Exception | None
    ) -> None:
        seconds = perf_counter() - begun
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count_request(
            method, route, status, None if route == EVENTS_PATH else seconds
        )
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "method": method,
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
            "bytes": size,
            "client": scope["client"][0] if scope.get("client") else "",
        }
        self._log.write(entry, failure)
