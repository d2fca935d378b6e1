"""Other processes: what they import, and waiting for them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def importing_tests() -> dict[str, str]:
    """Return the environment of a process that imports from the tests and those of the study."""
    folders = [TESTS.parent / "study" / "tests", TESTS]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def until(there: Callable[[], bool], process: subprocess.Popen[Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert process.poll() is None, "it ended before that"
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)
