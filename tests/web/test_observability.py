"""OpenAPI description, page, metrics and request log."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.api import NOISE, TOKEN, TOKENS, OpenPage, Page, Photos, refused

from cbcl import LabelError
from cbcl.memory.rows import as_label
from cbcl.web.errors import STATUSES
from cbcl.web.limits import MAX_PICTURES
from cbcl.web.security import AccessPolicy

pytest_plugins = ["support.api_fixtures"]

THUMBNAILS = "examples/{number}/thumbnail seen/{digest}/thumbnail"
OPERATIONS = {  # of the description, by method
    "get": "version health labels examples negatives unknown self-test similar history advice"
    f" scores export memories events {THUMBNAILS}",
    "post": "examples negatives recognize recognize-many suspects group learn-many forget rename"
    " merge undo move unlearn import memories memories/open memories/duplicate memories/restore"
    " memories/undo-restore",
    "put": "strangers",
    "delete": "examples/{number} negatives",
}


def test_the_description_names_every_address_and_all_that_it_names_is_there(page: Page) -> None:
    told = page.get("/api/openapi.json").json()
    assert told["openapi"].startswith("3.")
    operations: dict[str, list[str]] = {}
    for path, methods in told["paths"].items():
        for method in methods:
            operations.setdefault(method, []).append(path.removeprefix("/api/"))
    assert {method: sorted(paths) for method, paths in operations.items()} == {
        method: sorted(paths.split()) for method, paths in OPERATIONS.items()
    }
    events = told["paths"]["/api/events"]["get"]
    assert "`recognized`" in events["description"]
    assert "recognized" in events["responses"]["200"]["content"]["text/event-stream"]["example"]
    names = set()
    for methods in told["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert operation["tags"]
            assert "200" in operation["responses"]
            names.add(operation["operationId"])
    assert len(names) == sum(map(len, operations.values()))
    for reference in re.findall(r'"\$ref": ?"#/([^"]+)"', json.dumps(told)):
        found = told
        for part in reference.split("/"):
            found = found[part]
    assert "HTTPValidationError" not in told["components"]["schemas"]
    for address in ("/docs", "/redoc", "/openapi.json"):
        refused(page.get(address), "missing")


def test_the_description_allows_no_form_or_label_that_is_refused(page: Page) -> None:
    told = page.get("/api/openapi.json").json()
    forms: dict[str, Any] = {}
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            assert {"401", "403", "408", "413", "429"} <= {*operation["responses"]}, (path, method)
            content = operation.get("requestBody", {}).get("content", {})
            if "multipart/form-data" in content:
                forms[path] = content["multipart/form-data"]["schema"]
    assert len(forms) == 7
    for path, form in forms.items():
        assert form["additionalProperties"] is False
        for field in form["properties"].values():
            assert field["type"] != "array" or field["maxItems"] == MAX_PICTURES
        if path not in ("/api/import", "/api/memories/restore"):
            one = path in ("/api/recognize", "/api/suspects")
            least = form["oneOf"] if one else form["anyOf"]
            assert [option["required"] for option in least] == [
                [name] for name in form["properties"] if name != "label"
            ]
    (parameter,) = told["paths"]["/api/examples"]["get"]["parameters"]
    schemas = told["components"]["schemas"]
    for label in (
        parameter["schema"],
        forms["/api/examples"]["properties"]["label"],
        schemas["ForgetRequest"]["properties"]["label"],
        schemas["RenameRequest"]["properties"]["new"],
        schemas["MergeRequest"]["properties"]["into"],
    ):
        for text in ("mug", "café / 7", "unknown cup", "a" * 200):
            assert fits(text, label)
            assert as_label(text) == text
        for text in ("", " ", "a\nb", "\x1b[31m", "a\u202eb", "a\u2028b", "Unknown", "a" * 201):
            assert not fits(text, label)
            with pytest.raises(LabelError):
                as_label(text)


def fits(text: str, schema: dict[str, Any]) -> bool:
    """Tell whether a text is as the description of it says."""
    return schema["minLength"] <= len(text) <= schema["maxLength"] and bool(
        re.search(schema["pattern"], text)
    )


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/api/examples", "GET, HEAD, POST"),
        ("/api/negatives", "DELETE, GET, HEAD, POST"),
        ("/api/examples/17", "DELETE"),
        ("/api/undo", "POST"),
        ("/api/events", "GET"),
        ("/api/openapi.json", "GET, HEAD"),
        ("/", "GET, HEAD"),
    ],
)
def test_a_method_that_is_refused_is_answered_with_all_there_are(
    page: Page, address: str, allowed: str
) -> None:
    answer = page.http.request("PUT", address)
    refused(answer, "method")
    assert answer.headers["allow"] == allowed


def test_the_kinds_in_the_description_are_all_there_are(page: Page) -> None:
    schema = page.get("/api/openapi.json").json()["components"]["schemas"]["ErrorDetail"]
    assert schema["properties"]["kind"]["enum"] == [*STATUSES]


def test_the_page_and_its_documentation_load_nothing_from_elsewhere(page: Page) -> None:
    for address in ("/", "/api/docs"):
        text = page.get(address).text
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="([^"]+)"', text)
        assert loaded
        for link in loaded:
            assert page.get(link).status_code == 200, link
        assert "<style" not in text
        assert not re.search(r'<script(?![^>]*(?:src=|type="application/json"))', text)


def test_metrics_are_counted(taught: Page, photos: Photos) -> None:
    for picture in photos["rocket"][:2]:
        taught.learn("rocket", picture, picture)
    taught.recognize(NOISE)
    taught.http.request("BREW", "/coffee")
    answer = taught.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["cbcl_requests_total", "/api/examples", "200", "POST"] == 2
    assert samples["cbcl_requests_total", "404", "none", "other"] == 1
    assert samples["cbcl_refused_total", "picture"] == 1
    assert samples["cbcl_request_seconds_count", "/api/examples"] == 2
    assert samples["cbcl_examples_learned_total",] == 4
    assert samples["cbcl_pictures_looked_at_total",] >= 3
    assert samples["cbcl_labels",] == 3
    assert samples["cbcl_event_streams",] == 0
    desks = {sample[1] for sample in samples if sample[0] == "cbcl_jobs_waiting"}
    assert desks == {"changes", "embedding", "exports", "reports"}


def test_the_log_has_one_line_a_request_and_no_secret(
    open_page: OpenPage, photos: Photos, capsys: pytest.CaptureFixture[str]
) -> None:
    page = open_page(policy=AccessPolicy(TOKENS), client="192.168.1.9", log=True)
    page.get(f"/?token={TOKEN}")
    page.learn("a secret thing", photos["coffee"][0])
    page.get("/api/examples?label=a+secret+thing")
    page.get(f"/api/version?token={TOKEN}")
    log = capsys.readouterr().err
    lines = [json.loads(line) for line in log.splitlines()]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "none", 303),
        ("GET", "/", 200),
        ("POST", "/api/examples", 200),
        ("GET", "/api/examples", 200),
        ("GET", "/api/version", 200),
    ]
    assert set(lines[0]) == {"time", "method", "route", "status", "ms", "bytes", "client"}
    assert TOKEN not in log
    assert "secret" not in log


def test_without_being_asked_the_log_has_what_is_wrong_only(
    open_page: OpenPage, capsys: pytest.CaptureFixture[str]
) -> None:
    open_page().get("/api/nothing")
    assert capsys.readouterr().err == ""
