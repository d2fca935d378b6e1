"""A real browser for the tests of the page, a camera that shows photographs, and a server of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from photos import encoded, photo
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (  # no connections of the browser's own
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--no-first-run",
)


def browser_path() -> str:
    """The system's browser; where there is none, tests are skipped, unless CBCL_BROWSER says that there must be one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = f"the page is not tested: no browser is here ({', '.join(NAMES)}). On Debian: apt install chromium"
        if os.environ.get("CBCL_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def film(path: Path, *names: str, seconds: float = 2.0, rate: int = 10) -> Path:
    """A film for a camera that is none: photographs, one after another, in a hand that is not quite still."""
    rng = np.random.default_rng(0)
    frames = []
    for name in names:
        image = photo(name)
        width, height = image.size
        side = min(width, height * 4 / 3) * 0.9
        for _ in range(round(seconds * rate)):
            left, top = rng.uniform(0, 8, size=2)
            box = (left, top, left + side, top + side * 3 / 4)
            frames.append(encoded(image.resize((640, 480), Image.Resampling.BICUBIC, box=box), quality=90))
    path.write_bytes(b"".join(frames))
    return path


@contextmanager
def opened(camera: Path | None = None, *, allowed: bool = True) -> Iterator[Browser]:
    """A browser with a camera that shows a film; None: with none; it is allowed to be used, or not."""
    from playwright.sync_api import sync_playwright

    media = ["--use-fake-device-for-media-stream", f"--use-file-for-fake-video-capture={camera}"] if camera else []
    if allowed:
        media.append("--use-fake-ui-for-media-stream")
    else:
        media.append("--deny-permission-prompts")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=[*QUIET, *media])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(memory: Path, *options: str) -> Iterator[str]:
    """`cbcl teach`, as a user starts it, on a free port; its address."""
    command = [sys.executable, "-m", "cbcl", "teach", str(memory), "--no-browser", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"https?://\S+", line):
                yield found[0].rstrip(".")
                break
        else:
            pytest.fail(f"cbcl teach ended with {process.wait()} and told no address.")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        process.stdout.close()
