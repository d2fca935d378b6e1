"""Frames of cameras: snapshots over http, or cameras and streams that OpenCV opens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from cbcl.errors import PictureError, ServerError
from cbcl.vision.decoding import MAX_PICTURE_BYTES
from cbcl.watch.frames import ProblemLog, WatchedFrame, ticks
from cbcl.watch.http_requests import HttpAddress

REOPEN_SECONDS = 5.0  # between two tries to open a lost camera


def snapshots(
    camera: HttpAddress, problems: ProblemLog, *, every: float = 1.0
) -> Iterator[WatchedFrame]:
    """Yield pictures of a camera for ever; report once that it does not answer."""
    for _ in ticks(every):
        try:
            data = camera.request(limit=MAX_PICTURE_BYTES)
        except ServerError as error:
            problems.report(camera.name, error)
            continue
        problems.resolve(camera.name)
        yield WatchedFrame(camera.name, data)


class VideoCamera:
    """A camera by its number, or a video stream by its address, through OpenCV."""

    def __init__(
        self, number_or_url: str, problems: ProblemLog, *, every: float = 1.0, cv2: Any = None
    ) -> None:
        self._cv2 = cv2 or _opencv()
        self._opened_by: int | str
        if number_or_url.isdecimal():
            self._opened_by = int(number_or_url)
            self._name = f"camera {int(number_or_url)}"
        else:
            parts = urlsplit(number_or_url)
            place = parts.netloc.rpartition("@")[2]
            self._opened_by = number_or_url
            self._name = f"{parts.scheme}://{place}{parts.path}"
        self._problems = problems
        self._every = every

    def frames(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[WatchedFrame]:
        """Yield frames for ever; report a lost camera once, and open it again."""
        while True:
            capture = self._cv2.VideoCapture(self._opened_by)
            try:
                yield from self._capture(capture)
            finally:
                capture.release()
            problem = PictureError(self._name, "gives no picture", "waiting for it")
            self._problems.report(self._name, problem)
            sleep(REOPEN_SECONDS)

    def _capture(self, capture: Any) -> Iterator[WatchedFrame]:
        """Yield a frame each period until there are none; skip those between: no frame is old."""
        while True:
            due = time.monotonic() + self._every
            is_taken, pixels = capture.read()
            if not is_taken:
                return
            self._problems.resolve(self._name)
            yield WatchedFrame(self._name, self._cv2.imencode(".jpg", pixels)[1].tobytes())
            while time.monotonic() < due:
                if not capture.grab():
                    return


def _opencv() -> Any:
    try:
        return import_module("cv2")
    except ImportError as error:
        advice = "pip install opencv-python-headless, or give an http address of its snapshots"
        raise PictureError("a camera", "needs OpenCV, which is not installed", advice) from error
