"""Answers that a server other than cbcl's may give to the client."""

from __future__ import annotations

import email.message
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.request import Request

from cbcl import Client
from cbcl.errors import CBCLError

ANSWER: dict[str, Any] = {  # all fields that the client takes from an answer
    "labels": [{"label": "mug", "examples": 3}],
    "answers": [{"label": "mug"}],
    "done": {"text": "learn mug (3)"},
    "steps": [{"action": "learn"}],
    "kept": [{"example": 17}],
    "label": "mug",
    "removed": {"mug": 1},
    "suspects": [{"example": 17}],
    "memories": [{"name": "shop.cbcl"}],
}
REFUSAL = {"error": {"kind": "busy", "message": "it is busy.", "retry_after": 1}}


def make_answers(place: Path) -> None:
    (place / "answer.json").write_text(json.dumps(ANSWER))
    (place / "refusal.json").write_text(json.dumps(REFUSAL))


class _OtherServer:
    """In place of the client's connection: it gives an answer, or a refusal."""

    def __init__(self, body: bytes, status: int) -> None:
        self.body, self.status = body, status

    def open(self, request: Request, **_options: float) -> io.BytesIO:
        if self.status == 200:
            return io.BytesIO(self.body)
        headers = email.message.Message()
        raise HTTPError(request.full_url, self.status, "", headers, io.BytesIO(self.body))


def _sleep(seconds: float) -> None:
    if not 0.0 <= seconds <= 600.0:
        raise AssertionError(f"the client would sleep for {seconds} s")


def read_answers(place: Path) -> None:
    """Have the client read answers and refusals by all of its methods."""
    client = Client("http://127.0.0.1:9")
    calls: list[Callable[[], object]] = [
        client.labels,
        client.undo,
        client.history,
        client.negatives,
        lambda: client.recognize_many([b"x"]),
        lambda: client.examples("mug"),
        lambda: client.unlearn(1),
        lambda: client.unlearn_many([1]),
        lambda: client.suspects(b"x"),
        client.memories,
    ]
    refused: CBCLError | None = None
    for name, status in (("answer.json", 200), ("refusal.json", 429), ("refusal.json", 422)):
        body = (place / name).read_bytes() if (place / name).exists() else b""
        client._opener = _OtherServer(body, status)  # type: ignore[assignment]
        for call in calls:
            try:
                with patch("cbcl.client.time.sleep", _sleep):
                    call()
            except CBCLError as error:
                refused = error if status == 200 else refused
    if refused is not None:
        raise refused
