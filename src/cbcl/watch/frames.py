"""Frames: the pictures of a source, and the time between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple


class WatchedFrame(NamedTuple):
    """The file of a picture, and its source."""

    source: str  # path of the photo, or name of the camera
    data: bytes


def ticks(seconds: float) -> Iterator[None]:
    """Yield at once, then after each period of `seconds`; a slow caller misses some."""
    while True:
        due = time.monotonic() + seconds
        yield
        time.sleep(max(0.0, due - time.monotonic()))
