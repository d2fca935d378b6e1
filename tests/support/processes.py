"""Other processes, waited for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(there: Callable[[], bool], process: subprocess.Popen[Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert process.poll() is None, "it ended before that"
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)
