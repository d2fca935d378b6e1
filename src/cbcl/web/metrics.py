"""What is counted while serving, in Prometheus' format."""

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
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "cbcl_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "cbcl_request_seconds",
            "Seconds from a request to the end of its answer.",
            ["route"],
            registry=self._registry,
            buckets=SECONDS,
        )
        self._refused = Counter(
            "cbcl_refused", "Requests refused.", ["reason"], registry=self._registry
        )
        self._waiting = Gauge(
            "cbcl_jobs_waiting", "Jobs that wait for a thread.", ["desk"], registry=self._registry
        )
        self.looked_at = Counter(
            "cbcl_pictures_looked_at", "Pictures looked at.", registry=self._registry
        )
        self.learned = Counter(
            "cbcl_examples_learned", "Examples learned.", registry=self._registry
        )
        self._labels = Gauge("cbcl_labels", "Labels known.", registry=self._registry)
        self._streams = Gauge(
            "cbcl_event_streams", "Event streams that are open.", registry=self._registry
        )

    def watch(
        self, desks: Iterable[WorkQueue], labels: Callable[[], float], streams: Callable[[], float]
    ) -> None:
        """What is asked for when the figures are."""
        for desk in desks:
            self._waiting.labels(desk.name).set_function(partial(_waiting, desk))
        self._labels.set_function(labels)
        self._streams.set_function(streams)

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request; without seconds where these say nothing, as of an event stream."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def refused(self, kind: str) -> None:
        self._refused.labels(kind).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _waiting(desk: WorkQueue) -> float:
    return desk.waiting
