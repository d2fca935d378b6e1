"""Metrics in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cbcl.web.work_queue import WorkQueue

MEDIA_TYPE = CONTENT_TYPE_LATEST
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


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
            self._waiting.labels(queue.name).set_function(partial(_count_waiting, queue))
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


def _count_waiting(queue: WorkQueue) -> float:
    return queue.waiting
