"""Answers of the server, checked by its own OpenAPI description."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cbcl.web.errors import STATUSES
from cbcl.web.events import EVENTS_PATH
from cbcl.web.security import HEADERS


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


def resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
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
    schema = resolved(schema, description)
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
