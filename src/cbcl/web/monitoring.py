"""Monitoring: metrics in Prometheus' format, and the request log: all requests, or errors only.

The log has JSON lines, without tokens and queries.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbcl.web.events import EVENTS_PATH
from cbcl.web.work_queue import WorkQueue

LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
METHODS = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}
CLIENT_CLOSED_REQUEST = 499  # the client was gone before there was an answer


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        self._requests = counter(
            "cbcl_requests", "Requests answered.", ["method", "route", "status"]
        )
        self._seconds = Histogram(
            "cbcl_request_seconds",
            "Seconds from a request to the end of its answer.",
            ["route"],
            registry=self._registry,
            buckets=LATENCY_BUCKETS,
        )
        self._errors = counter("cbcl_refused", "Requests refused.", ["reason"])
        self.pictures_embedded = counter("cbcl_pictures_looked_at", "Pictures embedded.")
        self.examples_learned = counter("cbcl_examples_learned", "Examples learned.")
        self._waiting = gauge("cbcl_jobs_waiting", "Jobs waiting for a thread.", ["queue"])
        self._labels = gauge("cbcl_labels", "Labels known.")
        self._streams = gauge("cbcl_event_streams", "Open event streams.")

    def watch(
        self, queues: Iterable[WorkQueue], labels: Callable[[], float], streams: Callable[[], float]
    ) -> None:
        """Set the functions that gauges are read from."""
        for queue in queues:
            self._waiting.labels(queue.name).set_function(queue.waiting)
        self._labels.set_function(labels)
        self._streams.set_function(streams)

    def count_request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a request; without seconds where they mean nothing, as for an event stream."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def count_error(self, kind: str) -> None:
        self._errors.labels(kind).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class RequestLogMiddleware:
    """Counts every request; logs all of them, or only those that failed with a bug."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, log_all: bool) -> None:
        self._app, self._metrics, self._log_all = app, metrics, log_all

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
        if failure is None and not self._log_all:
            return
        entry: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "method": method,
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
            "bytes": size,
            "client": scope["client"][0] if scope.get("client") else "",
        }
        if failure is not None:
            entry["error"] = repr(failure)
            entry["trace"] = "".join(traceback.format_exception(failure))
        line = json.dumps(entry)  # in ASCII: a terminal obeys none of it
        sys.stderr.write(f"{line}\n")
