"""Frames: pictures as a source gives them, one after another, and the time between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple


class WatchedFrame(NamedTuple):
    """The file of a picture, and where it is from."""

    source: str  # path of the photo, or name of the camera
    data: bytes


def ticks(seconds: float) -> Iterator[None]:
    """Return at once, then each time so many seconds have passed; a slow user misses some."""
    while True:
        due = time.monotonic() + seconds
        yield
        time.sleep(max(0.0, due - time.monotonic()))
