"""Requests made from the server's own OpenAPI description, valid and not.

A generator of our own: schemathesis would bring ten packages, has no pictures to send, and makes a
fifth as many requests a second.
"""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

from endurance.api_answers import ApiRequest, resolved
from endurance.json_mutation import ODD, mutate_json
from endurance.mutation import mutated

LABELS = ("mug", "cup", "a label", "Tasse ☕", "x" * 200, "é")
ODD_TEXTS = (
    "",
    " ",
    "unknown",
    "x" * 201,
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    "../x",
    "%s",
    "0",
)
ODD_NUMBERS = ("0", "1", "2", "7", "-1", "1e3", "9" * 30, "0x1", "a", "%00", "1.5", "%D9%A1")
OTHER_PATHS = (
    "/",
    "/metrics",
    "/api",
    "/api/docs",
    "/api/openapi.json",
    "/static/js/teaching.js",
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "//api/labels",
    "/api/labels/",
    "/%00",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW")
BOUNDARY = "a-boundary"


class RequestMaker:
    """Makes requests from a description."""

    def __init__(
        self, description: dict[str, Any], files: list[bytes], memory: bytes, host: str, token: str
    ) -> None:
        self.description, self.files, self.memory = description, files, memory
        self.host, self.token = host, token
        self.operations = [
            (path, method) for path, methods in description["paths"].items() for method in methods
        ]

    def make(self, rng: random.Random) -> ApiRequest:
        path, method = rng.choice(self.operations)
        operation = self.description["paths"][path][method]
        target = self._target(path, operation, rng)
        headers, body = [("Host", self.host)], b""
        if "requestBody" in operation:
            (kind,) = operation["requestBody"]["content"]
            schema = operation["requestBody"]["content"][kind]["schema"]
            kind, body = self._body(path, kind, schema, rng)
            headers += [("Content-Type", kind)]
        chance = rng.random()
        if chance < 0.05:
            target = rng.choice(OTHER_PATHS)
        elif chance < 0.1:
            method = rng.choice(METHODS)
        headers += self._credentials(rng) + _odd_headers(rng)
        if body or method.upper() in ("POST", "PUT"):
            headers.append(("Content-Length", str(len(body))))
        return ApiRequest(method.upper(), target, tuple(headers), body)

    def _target(self, path: str, operation: dict[str, Any], rng: random.Random) -> str:
        target = path.replace("{number}", rng.choice(ODD_NUMBERS))
        words = []
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and rng.random() < 0.95:
                value = rng.choice(LABELS if rng.random() < 0.7 else ODD_TEXTS)
                words.append(f"{parameter['name']}={quote(value, errors='replace')}")
        if rng.random() < 0.05:
            words.append(rng.choice(("x=1", "label=a&label=b", "%ff=%00", "token=wrong")))
        return f"{target}?{'&'.join(words)}" if words else target

    def _credentials(self, rng: random.Random) -> list[tuple[str, str]]:
        if rng.random() < 0.9:
            return [("Authorization", f"Bearer {self.token}")]
        offers = ("Bearer wrong", "Basic YTpi", "Bearer", f"bearer  {self.token}")
        return [("Authorization", rng.choice(offers))] if rng.random() < 0.5 else []

    def _body(
        self, path: str, kind: str, schema: dict[str, Any], rng: random.Random
    ) -> tuple[str, bytes]:
        if kind == "application/json":
            return self._json(kind, schema, rng)
        parts = []
        for name, field in schema["properties"].items():
            is_needed = name in schema.get("required", [])
            for _ in range(rng.choice((0, 1, 1, 1, 2, 5)) if field["type"] == "array" else 1):
                if is_needed or rng.random() < 0.7:
                    parts.append(self._part(path, name, field, rng))
        if rng.random() < 0.1:
            parts.append(self._part(path, rng.choice(("x", "", "label", "a\x00")), {}, rng))
        end = f"--{BOUNDARY}--\r\n".encode()
        body = b"".join(f"--{BOUNDARY}\r\n".encode() + part + b"\r\n" for part in parts) + end
        if rng.random() < 0.05:
            body = mutated(body, [body], rng)
        boundary = BOUNDARY if rng.random() < 0.98 else rng.choice(("", "other", '"', "a" * 300))
        return f"multipart/form-data; boundary={boundary}", body

    def _part(self, path: str, name: str, field: dict[str, Any], rng: random.Random) -> bytes:
        field = field.get("items", field)
        head = f'Content-Disposition: form-data; name="{name}"'
        if field.get("format") == "binary":
            file_name = rng.choice(
                ("a.jpg", "", "../../x.png", "☕.png", "a" * 3000, "\x1b[31m.png")
            )
            content = self.memory if path.endswith("import") else rng.choice(self.files)
            if rng.random() < 0.2:
                content = mutated(content, self.files, rng)
            head += f'; filename="{file_name}"'
            return head.encode() + b"\r\nContent-Type: image/jpeg\r\n\r\n" + content
        text = rng.choice(LABELS if rng.random() < 0.7 else ODD_TEXTS)
        if name == "seen":
            text = rng.choice(("0" * 64, "", "x", "F" * 64))
        return head.encode() + b"\r\n\r\n" + text.encode(errors="replace")

    def _json(self, kind: str, schema: dict[str, Any], rng: random.Random) -> tuple[str, bytes]:
        whole = resolved(schema, self.description)
        value: dict[str, Any] = {}
        for name, field in whole["properties"].items():
            is_flag = field.get("type") == "boolean"
            value[name] = rng.random() < 0.5 if is_flag else rng.choice(LABELS)
        body = json.dumps(value).encode()
        if rng.random() < 0.3:
            body = mutate_json(body, rng)
        if rng.random() < 0.05:
            body = json.dumps(rng.choice(ODD)).encode()
        others = ("text/plain", "", "application/json; charset=utf-16", "multipart/form-data")
        return (kind if rng.random() < 0.95 else rng.choice(others)), body


def _odd_headers(rng: random.Random) -> list[tuple[str, str]]:
    chance = rng.random()
    if chance < 0.85:
        return []
    return [
        rng.choice(
            (
                ("Origin", "https://elsewhere.example"),
                ("Sec-Fetch-Site", "cross-site"),
                ("If-None-Match", "*"),
                ("Range", "bytes=0-10"),
                ("Expect", "100-continue"),
                ("Cookie", "cbcl=x; a=\xff"),
                ("X-Forwarded-For", "10.0.0.1"),
                ("Accept", "text/html"),
                ("Accept-Encoding", "gzip, br"),
                ("X" * 300, "y" * 3000),
            )
        )
    ]
