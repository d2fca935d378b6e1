"""An application to test against, without a network between it and the test."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from cbcl.errors import CBCLError
from cbcl.web.errors import STATUSES
from cbcl.web.security import HEADERS
from cbcl.web.tokens import AccessTokens, Role, new_tokens

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it recommends another package, which does the same
    from starlette.testclient import TestClient as TestClient

TOKEN = "a-token-of-the-tests"
VIEW_TOKEN = "a-token-to-look-only"
HOST = "127.0.0.1:8737"
HERE = f"http://{HOST}"
NOISE = b"this is no picture"


class FixedTokens(AccessTokens):
    """Tokens that are kept nowhere."""

    def __init__(self, full: str = TOKEN, view: str = VIEW_TOKEN) -> None:
        self._tokens = {"full": full, "view": view}

    def current(self) -> dict[Role, str]:
        return self._tokens

    def renew(self) -> None:
        self._tokens = new_tokens()


TOKENS = FixedTokens()


class Page:
    """Client of the application, for browsers and programs, without a network."""

    def __init__(self, client: TestClient, memory: Path) -> None:
        self.http = client
        self.memory = memory

    def get(self, address: str, **options: Any) -> Any:
        return self.http.get(address, **options)

    def post(self, address: str, **options: Any) -> Any:
        return self.http.post(address, **options)

    def learn(self, label: str, *pictures: bytes, seen: list[str] | None = None) -> Any:
        words = [
            ("label", (None, label.encode())),
            *(("seen", (None, digest.encode())) for digest in seen or []),
        ]
        return self.post("/api/examples", files=[*words, *files(*pictures)])

    def learn_negatives(self, *pictures: bytes, seen: list[str] | None = None) -> Any:
        digests = [("seen", (None, digest.encode())) for digest in seen or []]
        return self.post("/api/negatives", files=[*digests, *files(*pictures)])

    def recognize(self, picture: bytes, name: str = "new.jpg") -> Any:
        return self.post("/api/recognize", files={"picture": (name, picture)})

    def labels(self) -> dict[str, int]:
        return {
            thing["label"]: thing["examples"] for thing in self.get("/api/labels").json()["labels"]
        }


OpenPage: TypeAlias = Callable[..., Page]
Photos: TypeAlias = dict[str, list[bytes]]  # by name, as files


def bearer(token: str = TOKEN) -> dict[str, str]:
    """Headers of a program that has a token."""
    return {"Authorization": f"Bearer {token}"}


def files(*pictures: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("pictures", (f"{number}.jpg", picture)) for number, picture in enumerate(pictures)]


def leaves(error: type[CBCLError]) -> list[type[CBCLError]]:
    """The errors of a kind that are raised, not only caught."""
    below = [leaf for child in error.__subclasses__() for leaf in leaves(child)]
    return below or [error]


def refused(answer: Any, kind: str) -> dict[str, Any]:
    """An answer that is a refusal of this kind, as it must look."""
    assert answer.status_code == STATUSES[kind], answer.text
    told: dict[str, Any] = answer.json()["error"]
    assert told["kind"] == kind
    assert re.fullmatch(r".+[.?]", told["message"])
    assert set(told) == {"kind", "message"} | (
        {"retry_after"} if answer.status_code == 429 else set()
    ) | ({"seen"} if kind == "seen" else set())
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    return told
