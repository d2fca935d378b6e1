"""Limits: sizes, counts and rates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route
from support.api import HOST, NOISE, TOKENS, OpenPage, Page, Photos, bearer, files, refused
from support.server import run_async

from cbcl import Recognizer
from cbcl.vision.backbones.base import Backbone
from cbcl.web import asking_routes, request_body, security
from cbcl.web.app import ROUTERS
from cbcl.web.limits import DECLARED, MAX_PICTURES, MB, STRICTEST, RouteTable
from cbcl.web.security import AccessPolicy

pytest_plugins = ["support.api_fixtures"]

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
POSTS = [route for route in ROUTES if "POST" in (route.methods or ())]


def test_every_route_declares_its_limits_and_what_no_route_takes_has_the_strictest(
    page: Page,
) -> None:
    table = RouteTable(ROUTES)
    for route in ROUTES:
        path = route.path_format.format(number=17, digest="a" * 64, name="x.jpg")
        for method in route.methods or ():
            found = table.find({"method": method, "path": path})
            assert found is DECLARED[route.endpoint], (method, path)
    app: Any = page.http.app
    alone = [route for route in app.routes if isinstance(route, Route)]
    assert [route for route in alone if route.endpoint not in DECLARED] == []
    for method, path in (("POST", "/api/new"), ("POST", "/api/recognize/"), ("PUT", "/api/undo")):
        assert table.find({"method": method, "path": path}) is STRICTEST


def test_what_takes_a_file_takes_as_much_as_is_documented() -> None:
    """`docs/serving.md` and the OpenAPI description say how much."""
    forms: dict[str, int] = {}
    for route in POSTS:
        extra: Any = route.openapi_extra or {"requestBody": {"content": {}}}
        for form in extra["requestBody"]["content"].values():
            limits = DECLARED[route.endpoint]
            (kind,) = {"picture", "pictures", "memory"} & {*form["schema"]["properties"]}
            least = {"picture": 25, "pictures": 64, "memory": 1000}[kind]
            assert limits.body >= least * MB, route.path
            assert limits.on_disk == (kind == "memory"), route.path
            assert limits.pictures == (kind != "memory"), route.path
            forms[route.path] = least
    assert len(forms) == 7


@pytest.mark.parametrize("question", ["recognize", "suspects"])
def test_a_question_takes_a_picture_of_up_to_25_megabytes(
    taught: Page, photos: Photos, question: str
) -> None:
    largest = photos["coffee"][0].ljust(25 * MB, b"\0")  # decoders pass over what follows it
    answer = taught.post(f"/api/{question}", files={"picture": ("large.jpg", largest)})
    assert answer.status_code == 200, answer.text
    larger = taught.post(f"/api/{question}", files={"picture": ("large.jpg", largest + b"\0")})
    assert "large.jpg has more than 25 MB" in refused(larger, "size")["message"]


def test_bodies_that_are_too_large_are_refused_by_their_length_and_while_they_come(
    page: Page,
) -> None:
    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
        while True:
            yield bytes(1 << 20)

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for route in POSTS:
        most = DECLARED[route.endpoint].body
        headers = {**kind, "Content-Length": str(most + 1)}
        refused(page.post(route.path, content=b"", headers=headers), "size")
    refused(page.post("/api/forget", content=b" " * 70_000), "size")
    refused(page.post("/api/forget", content=iter([b" " * 70_000])), "size")
    few = (piece for _, piece in zip(range(40), endless(), strict=False))
    told = refused(page.post("/api/examples", content=few, headers=kind), "size")
    assert "has more than 25 MB" in told["message"]


def test_a_request_has_a_hundred_pictures_at_most(page: Page, photos: Photos) -> None:
    refused(page.post("/api/recognize-many", files=files(*[NOISE] * 101)), "size")
    refused(page.learn("x", NOISE, seen=["0" * 64] * 100), "size")
    answers = page.post("/api/recognize-many", files=files(*[photos["coffee"][0]] * 100)).json()[
        "answers"
    ]
    assert len({answer["seen"] for answer in answers}) == 1


def test_all_bodies_together_are_bounded(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "MAX_HELD_BYTES", 100_000)
    page = open_page()
    assert refused(page.recognize(bytes(200_000)), "busy")["retry_after"] == 2
    refused(page.recognize(bytes(50_000)), "picture")  # what was held is let go


def test_others_have_a_rate_and_this_machine_has_none(open_page: OpenPage, page: Page) -> None:
    other = open_page(policy=AccessPolicy(TOKENS), client="192.168.1.9")
    headers = bearer()
    answers = [other.post("/api/recognize", headers=headers) for _ in range(150)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) - len(limited) >= 60
    assert int(limited[-1].headers["retry-after"]) == refused(limited[-1], "rate")["retry_after"]
    assert other.get("/api/labels", headers=headers).status_code == 200
    assert {page.post("/api/recognize").status_code for _ in range(150)} == {422}


def test_so_many_may_ask_at_once(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_CONCURRENT_REQUESTS", 0)
    assert refused(open_page().get("/api/version"), "busy")["retry_after"] == 1


def test_more_labels_than_there_may_be_centroids_are_refused(
    open_page: OpenPage,
    backbone: Backbone,
    photos: Photos,
    tmp_path: Path,
) -> None:
    page = open_page(recognizer=Recognizer(tmp_path / "few.cbcl", backbone, max_centroids=1))
    assert page.learn("coffee", photos["coffee"][0]).status_code == 200
    told = refused(page.learn("rocket", photos["rocket"][0]), "argument")
    assert "cannot hold 2 classes" in told["message"]


def test_an_export_has_its_place_until_its_end(taught: Page) -> None:
    app: Any = taught.http.app
    sending: list[int] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sending.append(app.state.exports.taken)
            if len(sending) > 2:
                raise OSError("who asked is gone")

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/api/export",
        "query_string": b"",
    }
    scope |= {
        "scheme": "http",
        "headers": [(b"host", HOST.encode())],
        "client": ("127.0.0.1", 5000),
        "asgi": {"spec_version": "2.3"},
    }
    run_async(app(scope, receive, send))
    assert set(sending) == {1}
    assert app.state.exports.taken == 0


def test_bodies_begin_and_the_server_stops_while_another_body_is_timed_out() -> None:
    async def run() -> None:
        bodies = request_body.BodyRegistry()

        async def receive() -> None:
            async with bodies.timeout("10.0.0.1", 0.0):
                await asyncio.sleep(60)

        receiving = asyncio.create_task(receive())
        for _ in range(2):  # its time is over then, and it does not know yet
            await asyncio.sleep(0)
        for _ in range(int(request_body.MAX_ARRIVING * request_body.CROWDED_SHARE) + 1):
            bodies.begin("10.0.0.1")
        bodies.stop()
        with pytest.raises(TimeoutError):
            await receiving

    run_async(run())


def test_the_limit_on_pictures_is_the_same_wherever_it_is_written() -> None:
    root = Path(__file__).parents[2]
    script = (root / "src/cbcl/web/static/js/teaching.js").read_text()
    guide = (root / "docs/serving.md").read_text()
    assert f"MAX_DIGESTS = {MAX_PICTURES};" in script
    assert f"recognize one picture, or up to {MAX_PICTURES} |" in guide
    assert f"| request | 64 MB and {MAX_PICTURES} pictures;" in guide
    assert f"up to {MAX_PICTURES} pictures" in (asking_routes.recognize_many.__doc__ or "")
