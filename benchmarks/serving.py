"""How the teaching server does under load: `python benchmarks/serving.py [REQUESTS]`, 20,000 unless told otherwise.

Claim, on two cores, clients and server on one machine: 32 clients, who recognize in three requests of four and teach in
one, every picture new to the server, get no error and no refusal, and every example acknowledged is in the memory;
the server takes no more than a tenth more memory in the end than after a quarter of the run; and from teaching a photo,
upload included, to the changed answer for another takes less than half a second, and at most 2 x as long with 1,000
things known as with 10. The peer is the library in the same run: threads that call `Recognizer` without a server.
The last line is a JSON record of the run.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread, local
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import fastapi
import numpy as np
import onnxruntime
import skimage.data
import uvicorn
from contest import record
from PIL import Image

import cbcl
from cbcl import Recognizer
from cbcl.machine import cores
from cbcl.recognition.examples import EmbeddedPicture

CLIENTS = 32
LABELS = [f"thing {number}" for number in range(50)]
BOUNDARY = "a-boundary-that-is-in-no-picture"


class Pictures:
    """JPEG files of a camera's size, no two alike, of four photographs."""

    def __init__(self) -> None:
        photos = [
            Image.fromarray(getattr(skimage.data, name)())
            for name in ("astronaut", "chelsea", "coffee", "rocket")
        ]
        rng = np.random.default_rng(0)
        self._files = [_view(photos[number % len(photos)], rng) for number in range(200)]
        self._number = count()

    def __call__(self) -> bytes:
        number = next(self._number)
        # What follows the end of a JPEG is not looked at, but makes it another file, which nothing remembers.
        return self._files[number % len(self._files)] + number.to_bytes(8, "big")


def _view(photo: Image.Image, rng: np.random.Generator) -> bytes:
    width, height = photo.size
    wide = min(width, height * 4 / 3) * rng.uniform(0.6, 0.95)
    left, top = rng.uniform(0, width - wide), rng.uniform(0, height - wide * 3 / 4)
    file = io.BytesIO()
    part = photo.resize(
        (640, 480), Image.Resampling.BICUBIC, box=(left, top, left + wide, top + wide * 3 / 4)
    )
    part.save(file, "JPEG", quality=90)
    return file.getvalue()


class Client:
    """One connection, kept open, as a browser keeps it."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)

    def post(
        self, route: str, picture: tuple[str, bytes], **fields: str
    ) -> tuple[int, dict[str, Any]]:
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in fields.items()
        ]
        name, data = picture
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="frame.jpg"\r\n'
        body = b"".join([*parts, head.encode(), b"Content-Type: image/jpeg\r\n\r\n", data, b"\r\n"])
        self._connection.request(
            "POST",
            route,
            body + f"--{BOUNDARY}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
        )
        return self._answer()

    def get(self, route: str) -> dict[str, Any]:
        self._connection.request("GET", route)
        return self._answer()[1]

    def _answer(self) -> tuple[int, dict[str, Any]]:
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


@contextmanager
def served(memory: Path) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "cbcl", "teach", str(memory), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(
            found[0] for line in process.stdout if (found := re.search(r"http://\S+", line))
        )
        try:
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGINT)


def resident(process: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Watch:
    """Looks at a process's memory once a second."""

    def __init__(self, process: int) -> None:
        self.megabytes: list[float] = []
        self._process, self._over = process, Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(1.0):
            self.megabytes.append(resident(self._process))

    def end(self) -> list[float]:
        self._over.set()
        self._thread.join()
        return self.megabytes


def load(folder: Path, requests: int, pictures: Pictures) -> dict[str, Any]:
    """All clients at once: what they got, and how long it took them."""
    seconds: dict[str, list[float]] = {"recognize": [], "learn": []}
    statuses: dict[str, int] = {}
    mine = local()

    with served(folder / "load.cbcl") as (address, process):
        first = Client(address)
        for label in LABELS:
            first.post("/api/examples", ("pictures", pictures()), label=label)

        def ask(number: int) -> None:
            if not hasattr(mine, "client"):
                mine.client = Client(address)
            begun = perf_counter()
            if number % 4:
                kind, (status, _) = (
                    "recognize",
                    mine.client.post("/api/recognize", ("picture", pictures())),
                )
            else:
                label = LABELS[number // 4 % len(LABELS)]
                kind, (status, _) = (
                    "learn",
                    mine.client.post("/api/examples", ("pictures", pictures()), label=label),
                )
            seconds[kind].append(perf_counter() - begun)
            statuses[f"{kind} {status}"] = statuses.get(f"{kind} {status}", 0) + 1

        watch = Watch(process)
        begun = perf_counter()
        with ThreadPoolExecutor(CLIENTS) as executor:
            for number, _ in enumerate(executor.map(ask, range(requests)), 1):
                if number % (requests // 10) == 0:
                    print(
                        f"{number} requests, {perf_counter() - begun:.0f} s, {resident(process):.0f} MB"
                    )
        took = perf_counter() - begun
        megabytes = watch.end()
        known = sum(label["examples"] for label in Client(address).get("/api/labels")["labels"])
    learned = statuses.get("learn 200", 0) + len(LABELS)
    with Recognizer(folder / "load.cbcl") as recognizer:
        on_disk = sum(recognizer.labels().values())
    return {
        "work": f"{requests} requests of {CLIENTS} clients, one of four teaches",
        "statuses": statuses,
        "examples acknowledged": learned,
        "examples known": known,
        "examples in the file": on_disk,
        "requests a second": requests / took,
        "milliseconds": {kind: _quantiles(times) for kind, times in seconds.items()},
        "megabytes": {
            f"after {share} %": megabytes[len(megabytes) * share // 100]
            for share in (5, 25, 50, 75)
        }
        | {"in the end": megabytes[-1], "most": max(megabytes)},
        "met": {*statuses} == {"recognize 200", "learn 200"}
        and learned == known == on_disk
        and megabytes[-1] <= 1.1 * megabytes[len(megabytes) // 4],
    }


def _quantiles(times: list[float]) -> dict[str, float]:
    return {f"{share} %": 1000 * float(np.percentile(times, share)) for share in (50, 95, 99, 100)}


def peer(folder: Path, requests: int, pictures: Pictures) -> float:
    """The same mixture without a server: requests a second of the library, a thread a core."""
    with Recognizer(folder / "peer.cbcl", cache=False) as recognizer:
        for label in LABELS:
            recognizer.learn(label, pictures())

        def ask(number: int) -> None:
            if number % 4:
                recognizer.recognize(pictures())
            else:
                recognizer.learn(LABELS[number // 4 % len(LABELS)], pictures())

        begun = perf_counter()
        with ThreadPoolExecutor(cores()) as executor:
            list(executor.map(ask, range(requests)))
        return requests / (perf_counter() - begun)


def crowd(memory: Path, things: int, pictures: Pictures) -> None:
    """A memory that knows so many things: vectors around those of real photographs."""
    rng = np.random.default_rng(0)
    with Recognizer(memory, cache=False) as recognizer:
        seen = recognizer.look([pictures() for _ in range(20)])

        def another() -> EmbeddedPicture:
            one = seen[rng.integers(len(seen))]
            vector = (
                one.vector + rng.normal(scale=0.5, size=one.vector.shape).astype(np.float32)
            ).clip(0)
            return EmbeddedPicture(vector, one.jpeg, one.fingerprint)

        recognizer.learn_many(
            {f"thing {number:04}": [another() for _ in range(5)] for number in range(things)}
        )


def teaching(folder: Path, things: int, pictures: Pictures, times: int = 40) -> list[float]:
    """From teaching one photo to the answer for another of the same: seconds."""
    crowd(folder / f"{things}.cbcl", things, pictures)
    took = []
    with served(folder / f"{things}.cbcl") as (address, _):
        client = Client(address)
        client.post("/api/recognize", ("picture", pictures()))
        for _ in range(times):
            begun = perf_counter()
            _, learned = client.post("/api/examples", ("pictures", pictures()), label="new")
            _, answer = client.post("/api/recognize", ("picture", pictures()))
            took.append(perf_counter() - begun)
            assert answer["revision"] >= learned["revision"]
    return took


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    pictures = Pictures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results: list[dict[str, Any]] = []
        middle = {}
        for things in (10, 100, 1000):
            took = teaching(folder, things, pictures)
            middle[things] = float(np.median(took))
            results.append(
                {
                    "work": f"from teaching a photo to the changed answer, {things} things known",
                    "milliseconds": _quantiles(took),
                    "target": "< 500",
                    "met": float(np.percentile(took, 95)) < 0.5,
                }
            )
            print(json.dumps(results[-1]))
        ratio = middle[1000] / middle[10]
        results.append(
            {
                "work": "the same, 1,000 things / 10",
                "ratio": ratio,
                "target": "<= 2",
                "met": ratio <= 2,
            }
        )
        loaded = load(folder, requests, pictures)
        alone = peer(folder, min(requests, 2000), pictures)
        results += [
            loaded,
            {
                "work": "requests a second: server / library",
                "ratio": loaded["requests a second"] / alone,
            },
        ]
        for result in results[-3:]:
            print(json.dumps(result))
    modules = [cbcl, fastapi, np, onnxruntime, uvicorn]
    print(
        json.dumps(
            record(modules, results, data="four photographs of scikit-image, views of 640 x 480")
        )
    )


if __name__ == "__main__":
    main()
