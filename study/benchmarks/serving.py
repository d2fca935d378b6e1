"""Load test of the server: how fast it is, and that it loses nothing.

    python study/benchmarks/serving.py --requests 2000

Claim, on two cores, with clients and server on one machine: 32 clients, who recognize in three
requests of four and teach in one, every picture new to the server, get no error, and every example
that the server knows in the end is in the memory (most are near-copies, which count once); the
server's memory grows by at most a tenth after a quarter of the run; and from teaching a photo,
upload included, to the changed answer for another takes less than half a second, and at most 2 x as
long with 1,000 labels as with 10. The baseline is the library in the same run: threads that call
`Recognizer` without a server. The last line is a JSON record.
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
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event, Thread, local
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import fastapi
import numpy as np
import onnxruntime
import uvicorn
from contest import parser_of, photographs, record
from PIL import Image

import cbcl
from cbcl import Recognizer
from cbcl.machine import cores
from cbcl.vision.extraction import EmbeddedPicture

CLIENTS = 32
LABELS = [f"thing {number}" for number in range(50)]
BOUNDARY = "a-boundary-that-is-in-no-picture"


class Pictures:
    """JPEG files of a camera's size, no two alike, of four photographs."""

    def __init__(self) -> None:
        photos = photographs()
        rng = np.random.default_rng(0)
        self._files = [_view(photos[number % len(photos)], rng) for number in range(200)]
        self._number = count()

    def __call__(self) -> bytes:
        number = next(self._number)
        # Bytes after the end of a JPEG are ignored, but make it another file, which is not cached.
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


class KeepAliveClient:
    """A client with one connection, kept open, as a browser keeps it."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)

    def post(
        self, route: str, picture: tuple[str, bytes], **fields: str
    ) -> tuple[int, dict[str, Any]]:
        begin = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
        parts = [f'{begin}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
        name, data = picture
        head = f'{begin}"{name}"; filename="frame.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
        end = f"\r\n--{BOUNDARY}--\r\n"
        body = b"".join([*parts, head.encode(), data, end.encode()])
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        self._connection.request("POST", route, body, headers)
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
    """Return the resident memory of a process, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class MemorySampler:
    """Measures a process's memory once a second."""

    def __init__(self, process: int) -> None:
        self.megabytes: list[float] = []
        self._process, self._stopped = process, Event()
        self._thread = Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(1.0):
            self.megabytes.append(resident(self._process))

    def stop(self) -> list[float]:
        self._stopped.set()
        self._thread.join()
        return self.megabytes


def load(folder: Path, requests: int, pictures: Pictures) -> dict[str, Any]:
    """Run all clients at once; return their answers' statuses and latencies."""
    seconds: dict[str, list[float]] = {"recognize": [], "learn": []}
    statuses: dict[str, int] = {}
    thread = local()

    with served(folder / "load.cbcl") as (address, process):
        first = KeepAliveClient(address)
        for label in LABELS:
            first.post("/api/examples", ("pictures", pictures()), label=label)

        def ask(number: int) -> None:
            if not hasattr(thread, "client"):
                thread.client = KeepAliveClient(address)
            begun = perf_counter()
            if number % 4:
                kind = "recognize"
                status, _ = thread.client.post("/api/recognize", ("picture", pictures()))
            else:
                kind, label = "learn", LABELS[number // 4 % len(LABELS)]
                picture = "pictures", pictures()
                status, _ = thread.client.post("/api/examples", picture, label=label)
            seconds[kind].append(perf_counter() - begun)
            statuses[f"{kind} {status}"] = statuses.get(f"{kind} {status}", 0) + 1

        sampler = MemorySampler(process)
        begun = perf_counter()
        with ThreadPoolExecutor(CLIENTS) as executor:
            for number, _ in enumerate(executor.map(ask, range(requests)), 1):
                if number % (requests // 10) == 0:
                    took = perf_counter() - begun
                    print(f"{number} requests, {took:.0f} s, {resident(process):.0f} MB")
        took = perf_counter() - begun
        megabytes = sampler.stop()
        labels = KeepAliveClient(address).get("/api/labels")["labels"]
        known = sum(label["examples"] for label in labels)
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
        and known == on_disk
        and megabytes[-1] <= 1.1 * megabytes[len(megabytes) // 4],
    }


def _quantiles(times: list[float]) -> dict[str, float]:
    return {f"{share} %": 1000 * float(np.percentile(times, share)) for share in (50, 95, 99, 100)}


def baseline(folder: Path, requests: int, pictures: Pictures) -> float:
    """Return requests a second of the library without a server, with a thread for each core."""
    with Recognizer(folder / "library.cbcl", cache=False) as recognizer:
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


def make_memory(path: Path, labels: int, pictures: Pictures) -> None:
    """Write a memory with so many labels: vectors around those of real photographs."""
    rng = np.random.default_rng(0)
    with Recognizer(path, cache=False) as recognizer:
        embedded = recognizer.look([pictures() for _ in range(20)])

        def vary() -> EmbeddedPicture:
            picture = embedded[rng.integers(len(embedded))]
            noise = rng.normal(scale=0.5, size=picture.vector.shape).astype(np.float32)
            return replace(picture, vector=(picture.vector + noise).clip(0))

        recognizer.learn_many(
            {f"thing {number:04}": [vary() for _ in range(5)] for number in range(labels)}
        )


def teaching(folder: Path, things: int, pictures: Pictures, times: int = 40) -> list[float]:
    """Return the seconds from teaching one photo to the answer for another of the same label."""
    make_memory(folder / f"{things}.cbcl", things, pictures)
    took = []
    with served(folder / f"{things}.cbcl") as (address, _):
        client = KeepAliveClient(address)
        client.post("/api/recognize", ("picture", pictures()))
        for _ in range(times):
            begun = perf_counter()
            _, learned = client.post("/api/examples", ("pictures", pictures()), label="new")
            _, answer = client.post("/api/recognize", ("picture", pictures()))
            took.append(perf_counter() - begun)
            assert answer["revision"] >= learned["revision"]
    return took


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    requests = parser.parse_args().requests
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
        alone = baseline(folder, min(requests, 2000), pictures)
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
