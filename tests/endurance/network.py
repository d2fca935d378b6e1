"""Requests that schemathesis makes from the OpenAPI description, valid and not, to a server.

Each answer has a status and a body that the description names, and tells nothing secret.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import hypothesis
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, Response
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from support.server import teach

from cbcl import Recognizer
from cbcl.web.app import create_app
from cbcl.web.errors import STATUSES
from cbcl.web.events import EVENTS_PATH
from cbcl.web.security import HEADERS
from cbcl_study.backbones.pixels import PIXELS
from endurance.mutation import edited_bytes
from endurance.picture_seeds import seeds
from endurance.trial import Attack, Outcome, Trial

SECRET = "a-folder-to-be-kept-secret"
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
LABELS = ("mug", "cup", "a label", "Tasse ☕", "x" * 200, "\u202e", "a\nb")
ODD_HEADERS: tuple[dict[str, str], ...] = (
    {"Authorization": ""},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Basic YTpi"},
    {"Origin": "https://elsewhere.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"If-None-Match": "*"},
    {"Range": "bytes=0-10"},
    {"Cookie": "cbcl=x; a=\xff"},
    {"X-Forwarded-For": "10.0.0.1"},
    {"Accept": "text/html"},
    {"X" * 300: "y" * 3000},
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW")


NO_HEADERS: dict[str, str] = {}


def cases_of(description: dict[str, Any], files: list[bytes]) -> st.SearchStrategy[Case[Any]]:
    """Return requests to all paths but that of events, which has no end."""
    schemathesis.openapi.format("binary", st.sampled_from(files).flatmap(_sometimes_edited))
    schema = schemathesis.openapi.from_dict(description).exclude(path=EVENTS_PATH)
    return st.one_of([schema.as_strategy(generation_mode=mode) for mode in GenerationMode])


def _sometimes_edited(data: bytes) -> st.SearchStrategy[bytes]:
    edits = st.integers(0, 1 << 32).map(lambda seed: edited_bytes(data, [data], Random(seed)))
    return st.just(data) | edits


def set_label(case: Case[Any], label: str) -> None:
    """Put a label in place of those in a request, most of which nobody knows."""
    for part in (case.body, case.query):
        for name in ("label", "labels", "new", "into"):
            if isinstance(part, dict) and name in part:
                part[name] = label


def check_answer(case: Case[Any], response: Response, secrets: list[str]) -> None:
    """Check what every answer has, and what none may tell."""
    shown = f"{case.as_curl_command()} is answered {response.status_code}"
    if response.status_code >= 500:
        raise AssertionError(f"{shown}: {response.content[:200]!r}")
    told = f"{response.headers} {response.content.decode('utf-8', 'replace')}"
    if leaked := [secret for secret in secrets if secret in told]:
        raise AssertionError(f"{shown}, which tells {leaked}")
    lacking = [name for name in HEADERS if response.headers.get(name.lower()) != [HEADERS[name]]]
    if lacking:
        raise AssertionError(f"{shown} without {lacking}")
    if response.status_code == 405:
        described = {method.upper() for method in case.operation.schema[case.path]}
        wanted = described | ({"HEAD"} if "GET" in described else set())
        if {*response.headers.get("allow", [""])[0].split(", ")} != wanted:
            raise AssertionError(f"{shown}, and its methods are not {wanted}")
    elif response.status_code >= 400 and case.method != "HEAD":
        error = response.json()["error"]
        if STATUSES[error["kind"]] != response.status_code or error["message"][-1] != ".":
            raise AssertionError(f"{shown}: {error}")


def files_to_send(memory: bytes) -> list[bytes]:
    """Return pictures, of which some cannot be read, and a memory."""
    kinds = ("JPEG", "PNG", "WebP", "GIF", "others")
    return [data for kind in kinds for data in seeds()[kind][:4]] + [b"", memory]


def memory_file(folder: Path) -> bytes:
    """Return a memory in which two labels were learned."""
    path = folder / "learned.cbcl"
    with Recognizer(path, PIXELS, cache=False) as recognizer:
        recognizer.learn("mug", seeds()["JPEG"][:2])
        recognizer.learn("cup", seeds()["PNG"][7:9])
    return path.read_bytes()


def own_home(folder: Path) -> AbstractContextManager[object]:
    """Let servers keep their cache in a folder of the trial, not in the user's."""
    return patch.dict(os.environ, CBCL_HOME=str(folder / "home"))


def request_server(attack: Attack) -> Outcome:
    """Send requests to a server that others can reach, so that it has a token."""
    outcome, statuses = Outcome(), Counter[int]()
    memory = attack.folder / SECRET / "things.cbcl"
    memory.parent.mkdir()
    memory.write_bytes(memory_file(attack.folder))
    description = create_app(Recognizer(memory, PIXELS, cache=False)).openapi()
    words = ("--host", "0.0.0.0", "--http", "--backbone", "pixels")
    with own_home(attack.folder), teach(memory, *words) as server:
        parts = urlsplit(server.url)
        (token,) = parse_qs(parts.query)["token"]

        @hypothesis.seed(attack.seed)
        @hypothesis.settings(
            max_examples=attack.count,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=[*hypothesis.HealthCheck],
        )
        @hypothesis.given(
            cases_of(description, files_to_send(memory.read_bytes())),
            st.sampled_from([None, None, *LABELS]),
            st.sampled_from([*[NO_HEADERS] * 50, *ODD_HEADERS]),
            st.sampled_from([*[None] * 80, *METHODS]),
        )
        def exchange(
            case: Case[Any], label: str | None, headers: dict[str, str], method: Any
        ) -> None:
            if label is not None:
                set_label(case, label)
            case.method = method or case.method
            response = case.call(
                base_url=f"http://127.0.0.1:{parts.port}",
                headers={"Authorization": f"Bearer {token}"} | headers,
            )
            statuses[response.status_code] += 1
            outcome.tried += 1
            attack.progress(outcome.tried)
            check_answer(case, response, [token, SECRET])
            if method is None:
                case.validate_response(response, checks=[*CHECKS])

        try:
            exchange()
        except (Exception, BaseExceptionGroup) as error:
            outcome.found.append(f"seed {attack.seed}, request {outcome.tried}: {error}")
        _, errors = server.stop()
    if errors:
        outcome.found.append(f"the server wrote: {errors[-1000:]}")
    outcome.remarks.append(", ".join(f"{status} {n:,}" for status, n in statuses.most_common()))
    return outcome


TRIALS: tuple[Trial, ...] = (Trial("requests", "requests", 250, 5000, request_server),)
