"""Requests from the server's own OpenAPI description, valid and not; answers checked by it.

A generator of our own: schemathesis would bring a dozen packages, knows none of our forms of
pictures, and is too slow for the number of requests that are wanted here.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from cbcl.web.errors import STATUSES
from cbcl.web.events import EVENTS_PATH
from cbcl.web.security import HEADERS
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


class ApiRequest(NamedTuple):
    """A request, as it is sent."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def raw(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    @classmethod
    def parse(cls, raw: bytes) -> ApiRequest:
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = tuple((name, value) for name, _, value in (one.partition(": ") for one in lines))
        return cls(method, target, headers, body)


class ApiAnswer(NamedTuple):
    """An answer, as it came."""

    status: int
    headers: dict[str, str]  # names in small letters
    body: bytes


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
        whole = _resolved(schema, self.description)
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


def _resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    whole: dict[str, Any] = description["components"]["schemas"][name]
    return whole


def check_answer(
    request: ApiRequest, answer: ApiAnswer, description: dict[str, Any], secrets: list[str]
) -> None:
    """Raise an error if an answer is not as described, or tells what nobody should know."""
    text = answer.body.decode("utf-8", "replace")
    shown = f"{answer.status} {text[:200]}"
    if answer.status >= 500:
        raise AssertionError(f"{request.method} {request.target} is answered {shown}")
    is_page = request.target.startswith("/?") and answer.status == 303  # which sets a cookie
    told = text + ("" if is_page else str(answer.headers))
    for secret in secrets:
        if secret in told:
            raise AssertionError(f"{request.method} {request.target} tells {secret!r}: {shown}")
    for name, value in HEADERS.items():
        if answer.headers.get(name.lower()) != value:
            raise AssertionError(f"{request.method} {request.target} lacks {name}: {shown}")
    if request.method != "HEAD":
        _check_body(request, answer, description, shown)


def _check_body(
    request: ApiRequest, answer: ApiAnswer, description: dict[str, Any], shown: str
) -> None:
    path, methods = _described(request.target, description)
    if answer.status == 405:
        _check_allow(path, methods, answer)
    operation = methods.get(request.method.lower())
    is_json = answer.headers.get("content-type", "") == "application/json"
    if answer.status >= 400 and is_json:
        error = json.loads(answer.body)["error"]
        if STATUSES[error["kind"]] != answer.status or not error["message"].endswith("."):
            raise AssertionError(f"{request.method} {request.target}: {shown}")
    if operation is None or answer.status in (304, 405):
        return
    if str(answer.status) not in operation["responses"]:
        raise AssertionError(f"{request.method} {path} does not describe {shown}")
    described = operation["responses"][str(answer.status)].get("content", {})
    schema = described.get("application/json", {}).get("schema")
    if schema and is_json:
        problem = mismatch(json.loads(answer.body), schema, description)
        if problem:
            raise AssertionError(f"{request.method} {path}: {problem} in {shown}")
    elif answer.status == 200 and answer.headers["content-type"].partition(";")[0] not in described:
        raise AssertionError(f"{request.method} {path}: {answer.headers['content-type']}")


def _described(target: str, description: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    path = urlsplit(target).path if target.startswith("/api") else target
    for template, methods in description["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return template, methods
    return path, {}


def _check_allow(path: str, methods: dict[str, Any], answer: ApiAnswer) -> None:
    wanted = {method.upper() for method in methods}
    if "GET" in wanted and path != EVENTS_PATH:
        wanted.add("HEAD")
    allowed = {*answer.headers.get("allow", "").split(", ")}
    if methods and allowed != wanted:
        raise AssertionError(f"{path} allows {sorted(allowed)}, but has {sorted(wanted)}")


TYPES: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def mismatch(value: Any, schema: dict[str, Any], description: dict[str, Any]) -> str:
    """Return how a value differs from a schema in the words that FastAPI writes."""
    schema = _resolved(schema, description)
    if "anyOf" in schema:
        problems = [mismatch(value, one, description) for one in schema["anyOf"]]
        return "" if "" in problems else problems[0]
    kind = schema.get("type")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = isinstance(value, TYPES[kind]) if kind in TYPES else True
    if kind in ("integer", "number"):
        fits = is_number and (kind == "number" or isinstance(value, int))
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else [value])
    if not fits or value not in allowed:
        return f"{value!r} is no {kind or allowed}"
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{value} is out of range"
    if isinstance(value, str):
        short, long = schema.get("minLength", 0), schema.get("maxLength", len(value))
        is_match = re.search(schema.get("pattern", ""), value) is not None
        return "" if short <= len(value) <= long and is_match else f"{value!r} breaks its rules"
    return _part_mismatch(value, schema, description)


def _part_mismatch(value: Any, schema: dict[str, Any], description: dict[str, Any]) -> str:
    parts: list[tuple[Any, dict[str, Any]]] = []
    if isinstance(value, list):
        parts = [(item, schema.get("items", {})) for item in value]
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        if lacking := {*schema.get("required", [])} - {*value}:
            return f"{sorted(lacking)} are missing"
        rest = schema.get("additionalProperties", {})
        if unknown := {*value} - {*known} if rest is False or known else set[str]():
            return f"{sorted(unknown)} are not described"
        parts = [(item, known.get(name, rest or {})) for name, item in value.items()]
    problems = [mismatch(item, one, description) for item, one in parts]
    return next((problem for problem in problems if problem), "")
