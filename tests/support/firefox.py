"""Firefox, driven by its own remote protocol, Marionette: for a smoke test, without a driver.

Playwright drives builds of Firefox of its own, or one newer than Debian's; this needs neither.
A message is its length, a colon and JSON: [0, number, command, parameters] is answered by
[1, number, error, result].
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("firefox", "firefox-esr")
TIMEOUT_SECONDS = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, by the standard
PREFERENCES = {
    "marionette.port": 0,  # any; Firefox writes down which
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.normandy.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "intl.accept_languages": "en",
}
ERRORS = """
const of = (each) => each.QueryInterface(Ci.nsIScriptError);
return Services.console.getMessageArray()
  .filter((each) => each instanceof Ci.nsIScriptError && !(of(each).flags & of(each).warningFlag))
  .filter((each) => each.sourceName.startsWith(arguments[0]))
  .map((each) => each.errorMessage);
"""


class FirefoxPage:
    """A page in Firefox."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._number = 0
        self._stream = connection.makefile("rb")
        self._read()  # its greeting
        self.command("WebDriver:NewSession", capabilities={"alwaysMatch": {}})
        self.command("WebDriver:SetTimeouts", script=TIMEOUT_SECONDS * 1000)

    def close(self) -> None:
        self._stream.close()

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._stream.read(1)
        return json.loads(self._stream.read(int(length[:-1])))

    def command(self, name: str, **parameters: Any) -> Any:
        """Send a command of WebDriver, or of Marionette, and return its result."""
        self._number += 1
        data = json.dumps([0, self._number, name, parameters]).encode()
        self._connection.sendall(b"%d:" % len(data) + data)
        _, number, error, result = self._read()
        assert (number, error) == (self._number, None)
        return result

    def open(self, address: str) -> None:
        self.command("WebDriver:Navigate", url=address)

    def evaluate(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns, or what the promise that it returns is resolved to."""
        script = "const done = arguments[arguments.length - 1];" + (
            f"(async function () {{ {script} }}).apply(null, arguments).then(done, (error) =>"
            " done(`failed: ${error}`));"
        )
        run = {"script": script, "args": arguments, "sandbox": None}
        return self.command("WebDriver:ExecuteAsyncScript", **run)["value"]

    def until(self, condition: str) -> None:
        """Wait until a condition of the page holds."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while self.evaluate(f"return Boolean({condition});") is not True:
            assert time.monotonic() < end, condition
            time.sleep(0.1)

    def find(self, selector: str) -> str:
        found = self.command("WebDriver:FindElement", using="css selector", value=selector)
        return str(found["value"][ELEMENT])

    def click(self, selector: str) -> None:
        self.command("WebDriver:ElementClick", id=self.find(selector))

    def type(self, selector: str, text: str) -> None:
        self.command("WebDriver:ElementSendKeys", id=self.find(selector), text=text)

    def choose(self, selector: str, files: Sequence[Path]) -> None:
        self.type(selector, "\n".join(map(str, files)))

    def errors(self, origin: str) -> list[str]:
        """Return the errors of scripts, styles and policies of an origin."""
        self.command("Marionette:SetContext", value="chrome")
        found = self.command("WebDriver:ExecuteScript", script=ERRORS, args=[origin])["value"]
        self.command("Marionette:SetContext", value="content")
        return [str(each) for each in found]


@contextmanager
def firefox(profile: Path) -> Iterator[FirefoxPage]:
    """Firefox without a window, with a new profile; where it is not here, skip."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("Firefox is not here. On Debian: apt install firefox-esr")
    profile.mkdir()
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    command = [program, "--headless", "--marionette", "--remote-allow-system-access"]
    command += ["--profile", str(profile)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=silent, stderr=silent) as process:
        try:
            with (
                closing(_connect(profile / "MarionetteActivePort")) as connection,
                closing(FirefoxPage(connection)) as page,
            ):
                yield page
        finally:
            process.terminate()
            process.wait(TIMEOUT_SECONDS)


def _connect(port: Path) -> socket.socket:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (port.exists() and port.read_text()):
        assert time.monotonic() < end, "Firefox did not start"
        time.sleep(0.1)
    return socket.create_connection(("127.0.0.1", int(port.read_text())), TIMEOUT_SECONDS)
