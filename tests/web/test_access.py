"""Access: hosts, origins and tokens; headers that protect browsers."""

from __future__ import annotations

import re

import pytest
from support.api import HERE, TOKEN, TOKENS, OpenPage, Page, bearer, refused
from support.server import until

from cbcl.web.security import HEADERS, AccessPolicy

pytest_plugins = ["support.api_fixtures"]


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("127.0.0.1:8737", True),
        ("localhost:8737", True),
        ("LOCALHOST", True),
        ("[::1]:8737", True),
        ("127.8.9.1", True),
        ("teach.localhost:8737", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:8737", False),
        ("localhost.evil.example", False),
        ("192.168.1.7:8737", False),
        ("[::1", False),
        ("[::1].evil.example", False),
        ("[::1]evil.example:80", False),
        ("localhost:80@evil.example", False),
        ("localhost:http", False),
        ("", False),
    ],
)
def test_a_server_of_this_machine_answers_to_its_own_names_only(
    page: Page, host: str, may: bool
) -> None:
    answer = page.get("/api/version", headers={"Host": host})
    if may:
        assert answer.status_code == 200
    else:
        refused(answer, "origin")


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({}, True),
        ({"Origin": HERE}, True),
        ({"Origin": HERE, "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://127.0.0.1:8737"}, False),
        ({"Origin": "http://127.0.0.1:3000"}, False),
        ({"Origin": "http://localhost:8737"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
    ],
)
def test_other_sites_can_change_nothing(taught: Page, headers: dict[str, str], may: bool) -> None:
    for answer in (
        taught.post("/api/rename", json={"label": "coffee", "new": "cup"}, headers=headers),
        taught.http.delete("/api/examples/1", headers=headers),
    ):
        if may:
            assert answer.status_code == 200
        else:
            refused(answer, "origin")
    assert taught.labels() == ({"chelsea": 2, "cup": 3} if may else {"chelsea": 3, "coffee": 3})


def test_other_sites_can_link_here_but_not_read(page: Page) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert page.get("/", headers=link).status_code == 200
    refused(page.get("/api/labels", headers={**link, "Sec-Fetch-Mode": "no-cors"}), "origin")
    answer = page.get("/api/labels", headers={"Origin": "http://a.b"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.fixture
def guarded(open_page: OpenPage) -> Page:
    return open_page(
        policy=AccessPolicy(TOKENS, "cbcl-8737"),
        client="192.168.1.9",
        base_url="http://192.168.1.7:8737",
    )


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/static/css/base.css",
        "/api/version",
        "/api/labels",
        "/api/docs",
        "/api/openapi.json",
        "/metrics",
    ],
)
def test_beyond_this_machine_nothing_is_had_without_the_token(guarded: Page, address: str) -> None:
    refused(guarded.get(address), "token")
    for wrong in (bearer("wrong"), {"Authorization": TOKEN}, {"Cookie": "cbcl-8737=wrong"}):
        refused(guarded.get(address, headers=wrong), "token")
    for right in (bearer(), {"Cookie": f"a=b; cbcl-8737={TOKEN}"}):
        assert guarded.get(address, headers=right).status_code == 200


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(guarded: Page) -> None:
    answer = guarded.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"] == (
        f"cbcl-8737={TOKEN}; HttpOnly; Max-Age={400 * 24 * 3600}; Path=/; SameSite=strict"
    )
    assert answer.headers["cache-control"] == "no-store"
    assert guarded.get("/api/version").status_code == 200  # cookies are kept, as by a browser
    refused(guarded.http.get(f"/api/version?token={TOKEN}", headers={"Cookie": ""}), "token")


def test_over_tls_the_cookie_is_never_sent_in_the_clear(open_page: OpenPage) -> None:
    page = open_page(policy=AccessPolicy(TOKENS, secure=True), base_url="https://192.168.1.7:8737")
    assert "Secure" in page.get(f"/?token={TOKEN}", follow_redirects=False).headers["set-cookie"]


def test_without_a_token_there_is_a_page_that_says_so(guarded: Page) -> None:
    answer = guarded.get("/?token=old", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert "needs its token" in answer.text
    assert TOKEN not in answer.text


def test_wrong_tokens_are_limited_but_the_right_one_still_opens(guarded: Page) -> None:
    answers = [guarded.get("/api/version", headers=bearer(str(n))) for n in range(30)]
    assert [answer.status_code for answer in answers[:20]] == [401] * 20
    assert int(answers[-1].headers["retry-after"]) == refused(answers[-1], "rate")["retry_after"]
    assert guarded.get("/api/version", headers=bearer()).status_code == 200


def test_cross_site_rules_hold_with_a_token_too(guarded: Page) -> None:
    for origin, kind in (("http://evil.example", "origin"), ("http://192.168.1.7:8737", "memory")):
        refused(guarded.post("/api/undo", headers={**bearer(), "Origin": origin}), kind)


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/static/icon.svg",
        "/api/docs",
        "/api/version",
        "/api/labels",
        "/api/openapi.json",
        "/metrics",
    ],
)
def test_every_answer_has_the_headers_that_keep_browsers_safe(page: Page, address: str) -> None:
    answer = page.get(address)
    assert answer.status_code == 200
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert answer.headers["cache-control"] == (
        "no-store" if address.startswith(("/api/l", "/api/v")) else answer.headers["cache-control"]
    )
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "address", ["/", "/static/icon.svg", "/api/health", "/api/examples/1/thumbnail"]
)
def test_who_asks_for_the_head_only_gets_that(taught: Page, address: str) -> None:
    until(lambda: taught.get("/api/health").json()["backbone"]["ready"])  # which health tells
    taught.http.headers["Accept-Encoding"] = "identity"
    whole, head = taught.get(address), taught.http.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == str(len(whole.content))
    assert taught.http.head("/api/nothing").status_code == 404
    assert taught.http.head("/api/events").status_code == 405
    counted = r'cbcl_requests_total\{method="HEAD",route="([^"]+)"'
    first = re.findall(counted, taught.get("/metrics").text)[0]
    assert first.replace("{number}", "1").replace("{name:path}", "icon.svg") == address
