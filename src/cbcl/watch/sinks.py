"""Sinks of sightings: a webhook, a command, Frigate; each in a thread of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Protocol
from urllib.parse import quote

from cbcl.errors import CBCLError, ServerError, reason
from cbcl.watch.frames import ProblemLog
from cbcl.watch.http_requests import HttpAddress
from cbcl.watch.watcher import Sighting

MAX_WAITING = 100  # sightings in the queue of a slow sink
DELAYS = (1.0, 4.0)  # seconds before the second and third try
CLOSE_SECONDS = 10.0  # to empty the queue when the watch ends
COMMAND_SECONDS = 60.0
STDERR = 2
MAX_SUB_LABEL = 100  # letters, the limit of Frigate's API
POLL_SECONDS = 0.1


class Sink(Protocol):
    """Receiver of sightings; raises a CBCLError if one cannot be delivered."""

    name: str

    def __call__(self, sighting: Sighting, /) -> None: ...


class BackgroundSink:
    """A sink in a thread of its own, which tries again what could not be delivered."""

    def __init__(
        self, sink: Sink, problems: ProblemLog, delays: tuple[float, ...] = DELAYS
    ) -> None:
        self._name = sink.name
        self._deliver = sink
        self._problems = problems
        self._delays = delays
        self._queue: Queue[Sighting] = Queue(MAX_WAITING)
        self._closing = Event()
        self._thread = Thread(target=self._run, name=sink.name, daemon=True)
        self._thread.start()

    def send(self, sighting: Sighting) -> None:
        """Queue a sighting and return at once; if the queue is full, drop it and report that."""
        try:
            self._queue.put_nowait(sighting)
        except Full:
            problem = f"{self._name} is too slow: not all answers are sent."
            self._problems.report(f"{self._name}, full", problem)

    def close(self) -> None:
        """Deliver the queue, as far as time allows, with one try each."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            try:
                sighting = self._queue.get(timeout=POLL_SECONDS)
            except Empty:
                if self._closing.is_set():
                    return
                continue
            self._try(sighting)

    def _try(self, sighting: Sighting) -> None:
        for delay in (*self._delays, None):
            try:
                self._deliver(sighting)
            except CBCLError as error:
                if delay is None or self._closing.is_set():
                    self._problems.report(self._name, error)
                    return
                self._closing.wait(delay)
            else:
                self._problems.resolve(self._name)
                return


class Webhook:
    """An address to which sightings are posted as JSON."""

    def __init__(self, url: str) -> None:
        self._address = HttpAddress(url, "the address of --webhook", "http://127.0.0.1:1880/seen")
        self.name = self._address.name

    def __call__(self, sighting: Sighting) -> None:
        self._address.request(json=json.dumps(sighting.as_dict()).encode())


class Command:
    """A program run without a shell, with label and source as its last arguments.

    The label of an unknown picture is `unknown`. The environment has label, confidence, source and
    time, too: CBCL_LABEL and so on.
    """

    def __init__(self, text: str) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a command: {error}.") from error
        if not self._words or shutil.which(self._words[0]) is None:
            raise ValueError(f"{text!r} is not a command: there is no such program.")
        self.name = self._words[0]

    def __call__(self, sighting: Sighting) -> None:
        answer = sighting.answer
        label = answer.label or "unknown"  # never the name of a thing
        variables = {
            "CBCL_LABEL": label,
            "CBCL_CONFIDENCE": f"{answer.confidence:.6g}",
            "CBCL_SOURCE": sighting.source,
            "CBCL_TIME": sighting.time,
        }
        try:
            done = subprocess.run(
                [*self._words, label, sighting.source],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            problem = f"was stopped after {COMMAND_SECONDS:g} s"
            raise ServerError(self.name, problem) from None
        except OSError as error:
            raise ServerError(self.name, f"cannot be run ({reason(error)})") from error
        if done.returncode:
            raise ServerError(self.name, f"failed with exit code {done.returncode}")


class FrigateSubLabel:
    """The `sub_label` of everything that Frigate is tracking on a camera at the moment."""

    def __init__(self, url: str) -> None:
        self._address = HttpAddress(url)
        path = re.fullmatch(r"(.*/api)/([^/]+)/latest\.(?:jpg|jpeg|png|webp)", self._address.path)
        if path is None:
            advice = "give one such as http://frigate:5000/api/door/latest.jpg"
            raise ServerError(self._address.name, "is not a camera of Frigate", advice)
        self._api = path[1]
        self._camera = path[2]
        self.name = f"{self._address.name} (sub_label)"

    def __call__(self, sighting: Sighting) -> None:
        answer = sighting.answer
        if answer.label is None:  # an earlier label stays true of what was tracked then
            return
        body = {"subLabel": answer.label[:MAX_SUB_LABEL], "subLabelScore": answer.confidence}
        query = f"cameras={self._camera}&in_progress=1&include_thumbnails=0"
        events = self._tracked(f"{self._api}/events?{query}")
        if not events:  # there may be one at the next try
            raise ServerError(self.name, "tracks nothing that could be labelled")
        for event in events:
            target = f"{self._api}/events/{quote(event, safe='')}/sub_label"
            self._address.request(target, json=json.dumps(body).encode())

    def _tracked(self, target: str) -> list[str]:
        try:
            return [str(event["id"]) for event in json.loads(self._address.request(target))]
        except (ValueError, TypeError, KeyError) as error:
            raise ServerError(self.name, "does not answer as Frigate does") from error
