"""A real browser for the tests of the page, a camera that shows photographs, and a server."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from support.photos import encoded, photo
from support.server import ServerProcess, teach

if TYPE_CHECKING:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Page,
        Playwright,
        Request,
    )

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (  # no connections of the browser's own
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--no-first-run",
)
ELSEWHERE = "shop.test"  # a name that is not this machine's own, as far as a browser knows
TIMEOUT_MS = 30_000  # that a busy machine may take


def browser_path() -> str:
    """Find the system's browser; without one, skip, or fail where CBCL_BROWSER=required."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        names = ", ".join(NAMES)
        missing = f"the page is not tested: no browser ({names}). On Debian: apt install chromium"
        if os.environ.get("CBCL_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def film(path: Path, *names: str, seconds: float = 2.0, rate: int = 30) -> Path:
    """Write a film for a fake camera: photographs, one after another, in an unsteady hand.

    Chromium shows 30 frames of it a second, whatever it says.
    """
    rng = np.random.default_rng(0)
    frames = []
    for name in names:
        image = photo(name)
        width, height = image.size
        side = min(width, height * 4 / 3) * 0.9
        for _ in range(round(seconds * rate)):
            left, top = rng.uniform(0, 8, size=2)
            box = (left, top, left + side, top + side * 3 / 4)
            frames.append(
                encoded(image.resize((640, 480), Image.Resampling.BICUBIC, box=box), quality=90)
            )
    path.write_bytes(b"".join(frames))
    return path


class Browsers:
    """Browsers of several kinds, each started when it is first asked for."""

    def __init__(self, playwright: Playwright, films: Path) -> None:
        self._playwright = playwright
        self._films = films
        self._open: dict[tuple[str, ...], Browser] = {}

    def showing(self, *names: str) -> Browser:
        """One with a camera that shows photographs, and that may be used."""
        path = self._films / f"{'-'.join(names)}.mjpeg"
        if not path.exists():
            film(path, *names)
        return self._one(
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-video-capture={path}",
            "--use-fake-ui-for-media-stream",
        )

    def with_two_cameras(self) -> Browser:
        """One that has cameras to choose from; they show a clock."""
        return self._one(
            "--use-fake-device-for-media-stream=device-count=2", "--use-fake-ui-for-media-stream"
        )

    def refused(self) -> Browser:
        """One whose user says no."""
        return self._one("--use-fake-device-for-media-stream", "--deny-permission-prompts")

    def without_camera(self) -> Browser:
        """One on a machine without a camera, for which ELSEWHERE is another machine's name."""
        return self._one(f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1")

    def close(self) -> None:
        for browser in self._open.values():
            browser.close()

    def _one(self, *options: str) -> Browser:
        if options not in self._open:
            launch = self._playwright.chromium.launch
            self._open[options] = launch(executable_path=browser_path(), args=[*QUIET, *options])
        return self._open[options]


@contextmanager
def opened(films: Path) -> Iterator[Browsers]:
    """Browsers, and all closed in the end."""
    from playwright.sync_api import expect, sync_playwright

    browser_path()
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browsers = Browsers(playwright, films)
        try:
            yield browsers
        finally:
            browsers.close()


WATCH = """
window.shifted = 0;
window.drops = 0;
document.addEventListener("drop", () => (window.drops += 1), true);
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`);
});
"""


class Visit:
    """Errors of a page in a browser, and its requests to any other place."""

    def __init__(self, context: BrowserContext, origin: str, forgiven: Sequence[str]) -> None:
        self.wrong: list[str] = []
        self._origin = origin
        self._forgiven = forgiven
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(WATCH)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self._note(f"an error: {error.error}"))
        context.on("request", self._asked)
        context.on("dialog", self._asked_to_answer)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "blob:", "data:")):
            self._note(f"a request to {request.url}")

    def _asked_to_answer(self, dialog: Dialog) -> None:
        self._note(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, text: str) -> None:
        if not any(re.search(pattern, text) for pattern in self._forgiven):
            self.wrong.append(text)


class Server:
    """`cbcl teach`, as a user starts it, on a free port that it keeps when it is started again."""

    def __init__(self, memory: Path, *options: str) -> None:
        self.memory = memory
        self.address = ""
        self.said = ""
        self._options = options
        self._port = "0"
        self._running: ServerProcess | None = None
        self._held = ExitStack()

    def start(self) -> None:
        self._running = self._held.enter_context(
            teach(self.memory, "--port", self._port, *self._options)
        )
        self.address = self._running.url
        self._port = str(re.findall(r":(\d+)", self.address)[0])

    def stop(self) -> None:
        running = self._running
        self._running = None
        with self._held:
            if running is not None:
                self.said, wrong = running.stop(signal.SIGINT)
                assert (running.process.returncode, wrong) == (0, "")

    def elsewhere(self) -> str:
        """Its address, under a name that is not this machine's own."""
        return re.sub(r"//[^:/]+", f"//{ELSEWHERE}", self.address)


@contextmanager
def served(memory: Path, *options: str) -> Iterator[Server]:
    """A server, stopped in the end as a user stops it: it must leave quietly."""
    server = Server(memory, *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


ARRIVED = """async (before) => {
  const until = performance.now() + 2000;
  while (window.drops === before && performance.now() < until) {
    await new Promise((done) => setTimeout(done, 10));
  }
  return window.drops > before;
}"""


def drop(page: Page, *files: Path) -> None:
    """Drop files onto the page, as the system does it: the page cannot tell the difference."""
    session = page.context.new_cdp_session(page)
    size = page.viewport_size or {"width": 400, "height": 400}
    place = {"x": size["width"] // 2, "y": size["height"] // 2}
    data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
    for _ in range(3):  # a busy browser now and then lets go of what is dragged
        before = page.evaluate("window.drops")
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
        if page.evaluate(ARRIVED, before):
            break
    session.detach()


def paste(page: Page, *files: Path) -> None:
    """Paste pictures, as from a clipboard."""
    given = [
        {"name": file.name, "data": base64.b64encode(file.read_bytes()).decode()} for file in files
    ]
    page.evaluate(
        """(files) => {
          const clipboardData = new DataTransfer();
          for (const { name, data } of files) {
            const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
            clipboardData.items.add(new File([bytes], name, { type: "image/jpeg" }));
          }
          const init = { clipboardData, bubbles: true, cancelable: true };
          document.body.dispatchEvent(new ClipboardEvent("paste", init));
        }""",
        given,
    )


def painted(page: Page) -> None:
    """Wait until all pictures in sight are there."""
    page.evaluate(
        """async () => {
          const late = (image) => {
            const { top, bottom } = image.getBoundingClientRect();
            return !image.complete && bottom > 0 && top < innerHeight;
          };
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          while ([...document.images].some(late)) await frame();
        }"""
    )


def shot(page: Page, name: str) -> None:
    """A picture for the docs, in the folder that CBCL_SCREENSHOTS names; else none."""
    folder = os.environ.get("CBCL_SCREENSHOTS")
    if not folder:
        return
    painted(page)
    picture = page.screenshot(animations="disabled", scale="css")
    Path(folder).mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(picture)).convert("RGB").save(
        Path(folder) / f"{name}.webp", quality=82, method=6
    )


def serious(found: Any) -> list[str]:
    """List the violations found by axe that keep people out."""
    lines = []
    for violation in found.response["violations"]:
        if violation["impact"] in ("serious", "critical"):
            nodes = [node["html"][:200] for node in violation["nodes"][:3]]
            lines.append("{id} ({impact}): {help}: ".format(**violation) + str(nodes))
    return lines
