"""One JSON object a request, and what is wrong with its trace; never a token, never what a query says."""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbcl.web.metrics import Metrics

METHODS = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}
ENDLESS = "/api/events"
GONE = 499  # who asked had gone before there was an answer


class RequestLog:
    """Where it is written what was asked: all of it, or only what went wrong."""

    def __init__(self, *, everything: bool = False, file: TextIO | None = None) -> None:
        self._everything, self._file = everything, file

    def write(self, told: dict[str, Any], error: BaseException | None = None) -> None:
        """One line; an error with its trace."""
        if error is not None:
            told = {
                **told,
                "error": repr(error),
                "trace": "".join(traceback.format_exception(error)),
            }
        elif not self._everything:
            return
        (self._file or sys.stderr).write(f"{json.dumps(told, ensure_ascii=False)}\n")


class RequestLogMiddleware:
    """Notes every request, also those that failed."""

    def __init__(self, app: ASGIApp, log: RequestLog, metrics: Metrics) -> None:
        self._app, self._log, self._metrics = app, log, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = perf_counter()
        status, size = 0, 0
        failure: Exception | None = None

        async def counted(message: Message) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception as error:  # which is answered already
            failure = error
        finally:
            seconds = perf_counter() - begun
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(
                method, route, status or GONE, None if route == ENDLESS else seconds
            )
            told = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "method": method,
                "route": route,
                "status": status or GONE,
                "ms": round(1000 * seconds, 1),
                "bytes": size,
                "client": scope["client"][0] if scope.get("client") else "",
            }
            self._log.write(told, failure)
