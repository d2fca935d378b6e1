"""A real MQTT broker for tests: mosquitto, or amqtt, whichever program is there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 30


def broker_program() -> str | None:
    """Return the program to run: that of $CBCL_BROKER, or the first one found."""
    candidates = (os.environ.get("CBCL_BROKER"), "mosquitto", "/usr/sbin/mosquitto", "amqtt")
    return next(filter(None, (shutil.which(name) for name in candidates if name)), None)


@contextmanager
def running_broker(
    program: str, port: int, folder: Path, *, open_to_all: bool = True
) -> Iterator[None]:
    """Run a broker on this port that lets in anybody or nobody, until the end of the block."""
    anonymous = str(open_to_all).lower()
    if Path(program).name == "amqtt":
        config = folder / "amqtt.yaml"
        config.write_text(
            f"listeners:\n  default: {{type: tcp, bind: '127.0.0.1:{port}'}}\n"
            "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n"
            f"    allow_anonymous: {anonymous}\n"
        )
        command = [program, "-c", str(config)]
    else:
        config = folder / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous {anonymous}\n")
        command = [program, "-c", str(config)]
    log = (folder / "broker.log").open("ab")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_for(port, process, folder / "broker.log")
            yield
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no broker: {log.read_text()}") from None
            time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
