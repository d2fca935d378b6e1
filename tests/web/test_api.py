"""The teaching page's API: what it answers, to whom, and what it refuses. (Its process: test_server.py.)"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.photos import encoded, views
from support.server import awaited

from cbcl import Recognizer, load_backbone
from cbcl.vision.backbones.base import Backbone
from cbcl.web import request_body, security, service
from cbcl.web.app import create_app
from cbcl.web.errors import STATUSES
from cbcl.web.request_log import RequestLog
from cbcl.web.security import HEADERS, AccessPolicy

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # it would like another package to be installed, which does the same
    from starlette.testclient import TestClient

TOKEN = "a-token-of-the-tests"
HOST = "127.0.0.1:8737"
HERE = f"http://{HOST}"
NOISE = b"this is no picture"


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return cast(Backbone, load_backbone("efficientnet-lite0"))


@pytest.fixture(scope="module")
def photos() -> dict[str, list[bytes]]:
    return {
        name: [encoded(pixels) for pixels in views(name, 5)]
        for name in ("chelsea", "coffee", "rocket")
    }


class Page:
    """A browser's or a program's way to the application, without a network between them."""

    def __init__(self, client: TestClient, memory: Path) -> None:
        self.http, self.memory = client, memory

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

    def recognize(self, picture: bytes, name: str = "new.jpg") -> Any:
        return self.post("/api/recognize", files={"picture": (name, picture)})

    def labels(self) -> dict[str, int]:
        return {
            thing["label"]: thing["examples"] for thing in self.get("/api/labels").json()["labels"]
        }


def files(*pictures: bytes) -> list[tuple[str, tuple[str, bytes]]]:
    return [("pictures", (f"{number}.jpg", picture)) for number, picture in enumerate(pictures)]


@pytest.fixture
def open_page(tmp_path: Path, backbone: Backbone) -> Iterator[Callable[..., Page]]:
    """Opens a page on a memory: as others see it with client=, door=, log=."""
    opened: list[TestClient] = []
    recognizers: list[Recognizer] = []

    def page(memory: Path = tmp_path / "things.cbcl", **options: Any) -> Page:
        recognizer = options.pop("recognizer", None) or Recognizer(
            memory, options.pop("through", backbone)
        )
        recognizers.append(recognizer)
        who = {
            "base_url": options.pop("base_url", HERE),
            "client": (options.pop("client", "127.0.0.1"), 5000),
        }
        client = TestClient(create_app(recognizer, **options), raise_server_exceptions=False, **who)
        client.__enter__()
        opened.append(client)
        return Page(client, memory)

    yield page
    for client in opened:
        client.__exit__()
    for recognizer in recognizers:
        recognizer.close()


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture(scope="module")
def lessons(
    tmp_path_factory: pytest.TempPathFactory, backbone: Backbone, photos: dict[str, list[bytes]]
) -> bytes:
    """A memory in which two things were learned, from three photos each."""
    memory = tmp_path_factory.mktemp("lessons") / "things.cbcl"
    with Recognizer(memory, backbone) as recognizer:
        for name in ("chelsea", "coffee"):
            recognizer.learn(name, photos[name][:3])
    return memory.read_bytes()


@pytest.fixture
def taught(open_page: Callable[..., Page], lessons: bytes, tmp_path: Path) -> Page:
    (tmp_path / "things.cbcl").write_bytes(lessons)
    return open_page()


def refused(answer: Any, kind: str) -> dict[str, Any]:
    """An answer that is a refusal of this kind, as it must look."""
    assert answer.status_code == STATUSES[kind], answer.text
    told: dict[str, Any] = answer.json()["error"]
    assert told["kind"] == kind
    assert re.fullmatch(r".+\.", told["message"])
    assert set(told) == {"kind", "message"} | (
        {"retry_after"} if answer.status_code == 429 else set()
    ) | ({"seen"} if kind == "seen" else set())
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    return told


# What is answered.


def test_an_empty_memory_answers_that_nothing_is_known(
    page: Page, photos: dict[str, list[bytes]]
) -> None:
    health = page.get("/api/health").json()
    assert (health["memory"], health["revision"], health["private"]) == ("things.cbcl", 0, False)
    assert page.get("/api/labels").json() == {
        "revision": 0,
        "private": False,
        "labels": [],
        "undo": None,
    }
    assert page.get("/api/history").json() == {"revision": 0, "steps": []}
    answer = page.recognize(photos["coffee"][0]).json()
    assert len(answer.pop("seen")) == 64
    assert answer == {
        "picture": "new.jpg",
        "label": None,
        "confidence": None,
        "strangeness": None,
        "ranking": [],
        "evidence": [],
        "revision": 0,
    }
    many = page.post("/api/recognize-many", files=files(*photos["coffee"][:2])).json()
    assert many["order"] == [0, 1]
    advice = page.get("/api/advice").json()
    assert (advice["alike"], advice["more"]) == ([], [])
    scores = page.get("/api/scores").json()
    assert (scores["labels"], scores["matrix"], scores["asked"]) == ([], [], 0)
    assert scores["problem"]
    assert not page.memory.exists()


def test_a_session_from_teaching_to_correcting(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    answer = taught.recognize(photos["coffee"][3]).json()
    assert answer["label"] == "coffee"
    assert 0 < answer["confidence"] <= 1
    assert answer["strangeness"] < 1
    assert [guess["label"] for guess in answer["ranking"]] == ["coffee", "chelsea"]
    (reason,) = answer["evidence"]
    assert (reason["label"], reason["pictures"], reason["share"]) == ("coffee", 3, 1.0)
    assert set(reason["examples"]) == {4, 5, 6}
    assert taught.recognize(photos["rocket"][0]).json()["label"] is None
    # No, it's a rocket: taught by what was seen, without sending it again.
    asked = taught.recognize(photos["rocket"][1]).json()["seen"]
    learned = taught.learn("rocket", seen=[asked]).json()
    assert (learned["learned"], learned["problems"]) == ({"rocket": 1}, [])
    assert taught.recognize(photos["rocket"][1]).json()["label"] == "rocket"
    done = taught.post("/api/rename", json={"label": "rocket", "new": "moon rocket"}).json()["done"]
    assert done == {"action": "rename", "text": "rename rocket → moon rocket"}
    taught.post("/api/merge", json={"label": "moon rocket", "into": "coffee"})
    assert taught.labels() == {"chelsea": 3, "coffee": 4}
    undone = taught.post("/api/undo").json()["done"]
    assert undone == {"action": "undo", "text": "undo merge moon rocket → coffee"}
    taught.post("/api/forget", json={"label": "chelsea"})
    assert taught.labels() == {"coffee": 3, "moon rocket": 1}
    assert taught.get("/api/labels").json()["undo"] == {
        "action": "forget",
        "text": "forget chelsea",
    }
    taught.post("/api/undo")
    assert taught.labels() == {"chelsea": 3, "coffee": 3, "moon rocket": 1}
    taught.post("/api/forget", json={"label": "chelsea", "for_good": True})
    assert taught.get("/api/labels").json()["undo"] is None


def test_examples_are_listed_shown_and_taken_back_one_by_one(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    listed = taught.get("/api/examples", params={"label": "coffee"}).json()
    numbers = [kept["example"] for kept in listed["kept"]]
    assert (listed["label"], listed["examples"], len(numbers)) == ("coffee", 3, 3)
    shown = {thing["label"]: thing["shown"] for thing in taught.get("/api/labels").json()["labels"]}
    assert set(shown["coffee"]) <= set(numbers)
    small = taught.get(f"/api/examples/{numbers[0]}/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    assert small.content.startswith(b"\xff\xd8")
    again = taught.get(
        f"/api/examples/{numbers[0]}/thumbnail", headers={"If-None-Match": small.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    before = taught.recognize(photos["coffee"][4]).json()
    extra = taught.learn("coffee", photos["coffee"][3]).json()["revision"]
    number = taught.get("/api/examples", params={"label": "coffee"}).json()["kept"][-1]["example"]
    assert taught.http.delete(f"/api/examples/{number}").json() == {
        "label": "coffee",
        "revision": extra + 1,
    }
    after = taught.recognize(photos["coffee"][4]).json()
    assert {**after, "revision": 0} == {**before, "revision": 0}
    refused(taught.get(f"/api/examples/{number}/thumbnail"), "missing")


def test_many_pictures_are_answered_in_their_order_and_broken_ones_told(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    seen = taught.recognize(photos["coffee"][4]).json()["seen"]
    told = taught.post(
        "/api/recognize-many",
        files=files(photos["chelsea"][3], NOISE, photos["rocket"][0]),
        data={"seen": [seen]},
    ).json()
    assert [answer.get("label", "broken") for answer in told["answers"]] == [
        "chelsea",
        "broken",
        None,
        "coffee",
    ]
    assert told["answers"][1]["error"]["message"].startswith("1.jpg is not a picture")
    assert sorted(told["order"]) == [0, 2, 3]
    learned = taught.learn("coffee", photos["coffee"][3], NOISE).json()
    assert learned["learned"] == {"coffee": 1}
    assert [problem["picture"] for problem in learned["problems"]] == ["1.jpg"]


def test_history_tells_what_undo_takes_back(taught: Page) -> None:
    taught.post("/api/forget", json={"label": "coffee"})
    taught.post("/api/undo")
    steps = taught.get("/api/history").json()["steps"]
    assert [(step["action"], step["text"], step["undone"], step["next"]) for step in steps] == [
        ("undo", "forget coffee", False, False),
        ("forget", "coffee", True, False),
        ("learn", "coffee (3)", False, True),
        ("learn", "chelsea (3)", False, False),
    ]


def test_advice_and_scores_are_those_of_the_recognizer(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    taught.learn("beans", photos["coffee"][4])
    advice = taught.get("/api/advice").json()
    with Recognizer(taught.memory) as recognizer:
        found, examined = recognizer.advise(), recognizer.examine()
    assert advice["alike"] == [
        {"label": one.label, "other": one.other, "closeness": one.closeness} for one in found.alike
    ]
    assert [one["label"] for one in advice["more"]] == [one.label for one in found.more]
    scores = taught.get("/api/scores").json()
    assert scores["labels"] == [*examined.labels]
    assert scores["matrix"] == np.asarray(examined.matrix).tolist()
    assert (scores["asked"], scores["right"], scores["unknown"]) == (
        examined.asked,
        examined.right,
        examined.unknown,
    )
    assert scores["revision"] == taught.get("/api/labels").json()["revision"]


def test_answers_are_those_of_the_recognizer(taught: Page, photos: dict[str, list[bytes]]) -> None:
    with Recognizer(taught.memory) as recognizer:
        for picture in (*photos["coffee"], *photos["chelsea"], *photos["rocket"]):
            told, answer = taught.recognize(picture).json(), recognizer.recognize(picture)
            assert (told["label"], told["confidence"]) == (answer.label, answer.confidence)
            assert told["strangeness"] == answer.strangeness
            assert [tuple(guess.values()) for guess in told["ranking"]] == [*answer.ranking]


def test_what_is_exported_and_imported_gives_the_same_answers(
    taught: Page, open_page: Callable[..., Page], photos: dict[str, list[bytes]], tmp_path: Path
) -> None:
    exported = taught.get("/api/export")
    assert exported.headers["content-disposition"] == "attachment; filename*=UTF-8''things.cbcl"
    other = open_page(tmp_path / "other.cbcl")
    adopted = other.post("/api/import", files={"memory": ("things.cbcl", exported.content)}).json()
    assert adopted == {
        "added": ["chelsea", "coffee"],
        "joined": [],
        "revision": adopted["revision"],
    }
    for picture in (photos["coffee"][3], photos["rocket"][3]):
        one, two = taught.recognize(picture).json(), other.recognize(picture).json()
        assert (one["label"], one["confidence"], one["ranking"]) == (
            two["label"],
            two["confidence"],
            two["ranking"],
        )
    again = other.post("/api/import", files={"memory": ("things.cbcl", exported.content)}).json()
    assert again["joined"] == ["chelsea", "coffee"]
    other.post("/api/undo")
    assert other.labels() == {"chelsea": 3, "coffee": 3}


def test_a_private_memory_shows_nothing(
    open_page: Callable[..., Page],
    backbone: Backbone,
    photos: dict[str, list[bytes]],
    tmp_path: Path,
) -> None:
    recognizer = Recognizer(tmp_path / "private.cbcl", backbone, private=True)
    page = open_page(recognizer=recognizer, private=True)
    assert page.get("/api/health").json()["private"] is True
    page.learn("coffee", *photos["coffee"][:3])
    listed = page.get("/api/labels").json()
    assert listed["private"] is True
    assert (listed["labels"][0]["examples"], listed["labels"][0]["kept"]) == (3, 0)
    (reason,) = page.recognize(photos["coffee"][3]).json()["evidence"]
    assert (reason["pictures"], reason["examples"]) == (3, [])


def test_a_backbone_that_cannot_be_had_is_told_and_nothing_else_fails(
    open_page: Callable[..., Page], photos: dict[str, list[bytes]], tmp_path: Path
) -> None:
    memory = tmp_path / "letters.cbcl"
    letters = load_backbone(
        lambda words: [[word.count(c) for c in "abc"] for word in words], name="letters"
    )
    with Recognizer(memory, letters) as recognizer:
        recognizer.learn("fruit", ["abc", "cab"])
    page = open_page(memory, through=None)
    message = refused(page.recognize(photos["coffee"][0]), "backbone")["message"]
    health = page.get("/api/health").json()["backbone"]
    assert health == {"name": "letters", "ready": False, "problem": message}
    assert "letters" in message
    assert str(tmp_path) not in message
    refused(page.learn("coffee", photos["coffee"][0]), "backbone")
    assert page.labels() == {"fruit": 2}


# What is refused.


def bad(
    page: Page, photos: dict[str, list[bytes]]
) -> dict[str, tuple[str, str, Callable[[], Any]]]:
    """Requests that cannot be done: their kind, some words of the message, and how they are made."""
    photo = photos["coffee"][0]
    lost = "0" * 64
    newer = page.get("/api/export").content
    newer = newer[:60] + (99).to_bytes(4, "big") + newer[64:]

    def form(
        address: str, body: bytes, kind: str = "multipart/form-data; boundary=x"
    ) -> Callable[[], Any]:
        return lambda: page.post(address, content=body, headers={"Content-Type": kind})

    def sent(address: str, **told: Any) -> Callable[[], Any]:
        return lambda: page.post(address, json=told)

    def given(
        address: str, field: str, data: bytes, name: str = "x.jpg", **words: Any
    ) -> Callable[[], Any]:
        return lambda: page.post(address, files={field: (name, data)}, data=words)

    return {
        "no picture": (
            "picture",
            "x.jpg is not a picture",
            given("/api/recognize", "picture", NOISE),
        ),
        "cut": ("picture", "x.jpg is broken", given("/api/recognize", "picture", photo[:3000])),
        "an empty file": ("picture", "it is empty", given("/api/recognize", "picture", b"")),
        "a path as name": (
            "picture",
            "^x.png is not",
            given("/api/recognize", "picture", NOISE, "/etc/../a\\x.png"),
        ),
        "all broken": (
            "picture",
            "x.jpg is not",
            given("/api/examples", "pictures", NOISE, label="mug"),
        ),
        "no label": ("argument", "'label' is missing", given("/api/examples", "pictures", photo)),
        "another encoding": (
            "argument",
            "^'label' is not UTF-8.$",
            form(
                "/api/examples",
                b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\ncaf\xe9\r\n'
                b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n%b\r\n--x--\r\n'
                % photo,
            ),
        ),
        "two labels": (
            "argument",
            "more than once",
            given("/api/examples", "pictures", photo, label=["a", "b"]),
        ),
        "a label of two lines": (
            "label",
            "cannot be a label",
            given("/api/examples", "pictures", photo, label="a\nb"),
        ),
        "unknown as label": (
            "label",
            "cannot be a label",
            given("/api/examples", "pictures", photo, label="unknown"),
        ),
        "a long word": (
            "argument",
            "is longer than",
            given("/api/examples", "pictures", photo, label="a" * 3000),
        ),
        "nothing to learn": ("argument", "no picture", lambda: page.learn("mug", seen=[])),
        "nothing to ask": ("argument", "no picture", form("/api/recognize-many", b"--x--\r\n")),
        "two to ask": (
            "argument",
            "give one file",
            given("/api/recognize", "picture", photo, seen=lost),
        ),
        "forgotten by us": ("seen", "no longer remembered", lambda: page.learn("mug", seen=[lost])),
        "another field": (
            "argument",
            "not wanted, 'photo'",
            given("/api/recognize", "photo", photo),
        ),
        "no form": ("argument", "no form", form("/api/recognize", b"{}", "application/json")),
        "no boundary": ("argument", "no form", form("/api/recognize", b"", "multipart/form-data")),
        "a broken form": ("argument", "form is broken", form("/api/recognize", b"hello")),
        "half a form": (
            "argument",
            "ends too early",
            form(
                "/api/recognize",
                b'--x\r\nContent-Disposition: form-data; name="picture"; filename="a"\r\n\r\nabc',
            ),
        ),
        "a nameless part": (
            "argument",
            "no name",
            form("/api/recognize", b"--x\r\nContent-Type: a/b\r\n\r\nabc\r\n--x--\r\n"),
        ),
        "a long head": (
            "argument",
            "too long a head",
            form("/api/recognize", b"--x\r\n" + 3 * (b"A: " + b"b" * 3000 + b"\r\n")),
        ),
        "an unknown label": (
            "label",
            "'cofee' is not known; there are 'coffee'",
            sent("/api/forget", label="cofee"),
        ),
        "half a letter": (
            "label",
            "cannot be a label",
            form("/api/forget", rb'{"label": "\ud800"}', "application/json"),
        ),
        "a label like a path": (
            "label",
            "^'/usr/local/mugs' is not",
            sent("/api/forget", label="/usr/local/mugs"),
        ),
        "a taken label": (
            "label",
            "'coffee' is taken",
            sent("/api/rename", label="chelsea", new="coffee"),
        ),
        "with itself": ("label", "with itself", sent("/api/merge", label="coffee", into="coffee")),
        "examples of nothing": ("label", "is not known", lambda: page.get("/api/examples?label=x")),
        "of no label": ("argument", "'label' is missing", lambda: page.get("/api/examples")),
        "no JSON": ("argument", "not JSON", form("/api/forget", b"{", "application/json")),
        "no body": ("argument", "the body is missing", lambda: page.post("/api/forget")),
        "not a text": ("argument", "'label' is not as it should be", sent("/api/forget", label=1)),
        "one word too many": (
            "argument",
            "'more' is not as",
            sent("/api/forget", label="coffee", more=1),
        ),
        "no number": (
            "argument",
            "'number' is not as",
            lambda: page.get("/api/examples/x/thumbnail"),
        ),
        "too large a number": (
            "argument",
            "'number' is not as",
            lambda: page.http.delete(f"/api/examples/{2**63}"),
        ),
        "no such example": (
            "missing",
            "there is no example 999",
            lambda: page.http.delete("/api/examples/999"),
        ),
        "no such thumbnail": (
            "missing",
            "no example 999",
            lambda: page.get("/api/examples/999/thumbnail"),
        ),
        "no memory sent": (
            "memory",
            "^x.cbcl is not a memory",
            given("/api/import", "memory", NOISE, "x.cbcl"),
        ),
        "a newer memory": (
            "memory",
            "^x.cbcl was written by a newer",
            given("/api/import", "memory", newer, "x.cbcl"),
        ),
        "an empty form": ("argument", "'memory' is missing", form("/api/import", b"--x--\r\n")),
        "no file": (
            "argument",
            "give one file",
            lambda: page.post("/api/import", data={"memory": "x"}, files={"a": b""}),
        ),
        "nowhere": ("missing", "nothing at this address", lambda: page.get("/api/nothing")),
        "out of the page": (
            "missing",
            "nothing at this",
            lambda: page.get("/static/..%2f__init__.py"),
        ),
        "no part of the page": (
            "missing",
            "nothing at this",
            lambda: page.get("/static/nothing.js"),
        ),
        "another method": ("method", "cannot be done", lambda: page.get("/api/undo")),
    }


def test_what_cannot_be_done_is_one_sentence_without_a_path_and_changes_nothing(
    taught: Page, photos: dict[str, list[bytes]], tmp_path: Path
) -> None:
    before = taught.get("/api/labels").json()
    for what, (kind, words, ask) in bad(taught, photos).items():
        answer = ask()
        message = refused(answer, kind)["message"]
        assert re.search(words, message), (what, message)
        for place in (str(tmp_path), str(Path.home()), "/tmp", "site-packages"):
            assert place not in answer.text, (what, message)
        assert taught.get("/api/labels").json() == before, what


def test_a_memory_that_went_away_is_told_without_its_path(taught: Page) -> None:
    while not taught.get("/api/health").json()["backbone"]["ready"]:
        pass  # it would be told what only the first to ask is told
    for ending in ("", "-wal", "-shm"):
        taught.memory.with_name(taught.memory.name + ending).unlink(missing_ok=True)
    message = refused(taught.get("/api/labels"), "memory")["message"]
    assert message.startswith("things.cbcl was moved or deleted")


def test_undo_of_nothing_is_refused(taught: Page) -> None:
    for _ in range(2):
        assert taught.post("/api/undo").status_code == 200
    assert (
        refused(taught.post("/api/undo"), "memory")["message"] == "things.cbcl has nothing to undo."
    )


def test_those_that_are_no_longer_remembered_are_named(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    known = taught.recognize(photos["coffee"][0]).json()["seen"]
    answer = taught.post(
        "/api/recognize-many", data={"seen": [known, "1" * 64, "2" * 64]}, files={"pictures": b""}
    )
    assert refused(answer, "seen")["seen"] == ["1" * 64, "2" * 64]


class Failing(Recognizer):
    """One that has an error of ours in it."""

    error: type[Exception]

    def history(self) -> Any:
        raise self.error(f"something secret at {self.path}")


@pytest.mark.parametrize("error", [RuntimeError, ValueError, OSError])
def test_an_error_of_ours_tells_nothing_but_is_in_the_log(
    open_page: Callable[..., Page], tmp_path: Path, error: type[Exception]
) -> None:
    file = io.StringIO()
    failing = Failing(tmp_path / "x.cbcl")
    failing.error = error
    page = open_page(recognizer=failing, log=RequestLog(file=file))
    assert (
        refused(page.get("/api/history"), "internal")["message"]
        == "something went wrong here; the log has it."
    )
    told = json.loads(file.getvalue())
    assert (told["route"], told["status"]) == ("/api/history", 500)
    assert "something secret" in told["trace"]


@pytest.mark.parametrize("seed", range(3))
def test_garbage_is_refused_and_never_an_error_of_ours(taught: Page, seed: int) -> None:
    rng = np.random.default_rng(seed)
    marks = [
        b"--x",
        b"\r\n",
        b"--",
        b'Content-Disposition: form-data; name="picture"; filename="a"',
        b"\0",
        b":",
        b"x",
    ]
    addresses = [
        "/api/recognize",
        "/api/recognize-many",
        "/api/examples",
        "/api/import",
        "/api/forget",
        "/api/merge",
    ]
    for _ in range(60):
        pieces = [marks[i] if i < len(marks) else rng.bytes(5) for i in rng.integers(0, 9, size=20)]
        kind = rng.choice(
            [
                "multipart/form-data; boundary=x",
                "application/json",
                "multipart/form-data; boundary=",
                "",
            ]
        )
        answer = taught.post(
            rng.choice(addresses), content=b"".join(pieces), headers={"Content-Type": kind}
        )
        assert 400 <= answer.status_code < 500
        refused(answer, answer.json()["error"]["kind"])


# To whom.


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
    assert (
        page.get(
            "/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        ).status_code
        == 200
    )
    refused(
        page.get(
            "/api/labels", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        ),
        "origin",
    )
    assert (
        "access-control-allow-origin"
        not in page.get("/api/labels", headers={"Origin": "http://a.b"}).headers
    )


@pytest.fixture
def guarded(open_page: Callable[..., Page]) -> Page:
    return open_page(
        door=AccessPolicy(TOKEN, "cbcl-8737"),
        client="192.168.1.9",
        base_url="http://192.168.1.7:8737",
    )


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/static/icon.svg",
        "/api/version",
        "/api/labels",
        "/api/docs",
        "/api/openapi.json",
        "/metrics",
    ],
)
def test_beyond_this_machine_nothing_is_had_without_the_token(guarded: Page, address: str) -> None:
    refused(guarded.get(address), "token")
    refused(guarded.get(address, headers={"Authorization": "Bearer wrong"}), "token")
    refused(guarded.get(address, headers={"Authorization": TOKEN}), "token")
    refused(guarded.get(address, headers={"Cookie": "cbcl-8737=wrong"}), "token")
    assert guarded.get(address, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get(address, headers={"Cookie": f"a=b; cbcl-8737={TOKEN}"}).status_code == 200


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(guarded: Page) -> None:
    answer = guarded.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"] == f"cbcl-8737={TOKEN}; HttpOnly; Path=/; SameSite=strict"
    assert answer.headers["cache-control"] == "no-store"
    assert (
        guarded.get("/api/version").status_code == 200
    )  # the client keeps cookies, as a browser does
    refused(guarded.http.get(f"/api/version?token={TOKEN}", headers={"Cookie": ""}), "token")


def test_over_tls_the_cookie_is_never_sent_in_the_clear(open_page: Callable[..., Page]) -> None:
    page = open_page(door=AccessPolicy(TOKEN, secure=True), base_url="https://192.168.1.7:8737")
    assert "Secure" in page.get(f"/?token={TOKEN}", follow_redirects=False).headers["set-cookie"]


def test_without_a_token_there_is_a_page_that_says_so(guarded: Page) -> None:
    answer = guarded.get("/?token=old", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert "needs its token" in answer.text
    assert TOKEN not in answer.text


def test_wrong_tokens_are_limited_but_the_right_one_still_opens(guarded: Page) -> None:
    answers = [
        guarded.get("/api/version", headers={"Authorization": f"Bearer {n}"}) for n in range(30)
    ]
    assert [answer.status_code for answer in answers[:20]] == [401] * 20
    assert int(answers[-1].headers["retry-after"]) == refused(answers[-1], "rate")["retry_after"]
    assert (
        guarded.get("/api/version", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    )


def test_cross_site_rules_hold_with_a_token_too(guarded: Page) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    refused(
        guarded.post("/api/undo", headers={**headers, "Origin": "http://evil.example"}), "origin"
    )
    refused(
        guarded.post("/api/undo", headers={**headers, "Origin": "http://192.168.1.7:8737"}),
        "memory",
    )


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/static/css/base.css",
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
    whole, head = taught.get(address), taught.http.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == str(len(whole.content))
    assert taught.http.head("/api/nothing").status_code == 404
    assert taught.http.head("/api/events").status_code == 405
    routes = re.findall(
        r'cbcl_requests_total\{method="HEAD",route="([^"]+)"', taught.get("/metrics").text
    )
    assert [route.replace("{number}", "1").replace("{name}", "icon.svg") for route in routes][
        :1
    ] == [address]


# How much.


def test_bodies_that_are_too_large_are_refused_by_their_length_and_while_they_come(
    page: Page,
) -> None:
    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
        while True:
            yield bytes(1 << 20)

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for address, most in request_body.BODIES.items():
        refused(
            page.post(address, content=b"", headers={**kind, "Content-Length": str(most + 1)}),
            "size",
        )
    refused(page.post("/api/forget", content=b" " * 70_000), "size")
    refused(page.post("/api/forget", content=iter([b" " * 70_000])), "size")
    few = (piece for _, piece in zip(range(40), endless(), strict=False))
    assert (
        "has more than 25 MB"
        in refused(page.post("/api/examples", content=few, headers=kind), "size")["message"]
    )


def test_a_request_has_a_hundred_pictures_at_most(
    page: Page, photos: dict[str, list[bytes]]
) -> None:
    refused(page.post("/api/recognize-many", files=files(*[NOISE] * 101)), "size")
    refused(page.learn("x", NOISE, seen=["0" * 64] * 100), "size")
    answers = page.post("/api/recognize-many", files=files(*[photos["coffee"][0]] * 100)).json()[
        "answers"
    ]
    assert len({answer["seen"] for answer in answers}) == 1


def test_all_bodies_together_are_bounded(
    open_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "HELD", 100_000)
    page = open_page()
    assert refused(page.recognize(bytes(200_000)), "busy")["retry_after"] == 2
    refused(page.recognize(bytes(50_000)), "picture")  # what was held is let go


def test_others_have_a_rate_and_this_machine_has_none(
    open_page: Callable[..., Page], page: Page
) -> None:
    other = open_page(door=AccessPolicy(TOKEN), client="192.168.1.9")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answers = [other.post("/api/recognize", headers=headers) for _ in range(150)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) - len(limited) >= 60
    assert int(limited[-1].headers["retry-after"]) == refused(limited[-1], "rate")["retry_after"]
    assert other.get("/api/labels", headers=headers).status_code == 200
    assert {page.post("/api/recognize").status_code for _ in range(150)} == {422}


def test_so_many_may_ask_at_once(
    open_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "AT_ONCE", 0)
    assert refused(open_page().get("/api/version"), "busy")["retry_after"] == 1


def test_more_labels_than_there_may_be_centroids_are_refused(
    open_page: Callable[..., Page],
    backbone: Backbone,
    photos: dict[str, list[bytes]],
    tmp_path: Path,
) -> None:
    page = open_page(recognizer=Recognizer(tmp_path / "few.cbcl", backbone, max_centroids=1))
    assert page.learn("coffee", photos["coffee"][0]).status_code == 200
    assert (
        "cannot hold 2 classes"
        in refused(page.learn("rocket", photos["rocket"][0]), "argument")["message"]
    )


def test_a_memory_has_its_place_among_those_that_are_sent_until_its_end(taught: Page) -> None:
    app: Any = taught.http.app
    sending: list[int] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sending.append(app.state.transfers)
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
    awaited(app(scope, receive, send))
    assert set(sending) == {1}
    assert app.state.transfers == 0


# Many at once.


class Watched(Recognizer):
    """One that looks when it may, and notes at how many pictures in one go."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.may, self.looks = threading.Semaphore(0), list[int]()

    def look(self, pictures: Any, **options: Any) -> Any:
        self.may.acquire()
        self.looks.append(len(pictures))
        return super().look(pictures, **options)


def test_a_single_picture_need_not_wait_for_a_whole_batch(
    open_page: Callable[..., Page],
    backbone: Backbone,
    photos: dict[str, list[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "cores", lambda: 1)
    watched = Watched(tmp_path / "x.cbcl", backbone)
    page = open_page(recognizer=watched)
    looking = cast(Any, page.http.app).state.classroom.looking
    watched.may.release()  # for what it looks at by itself, to warm up
    while looking.pending or not watched.looks:
        pass
    batch = threading.Thread(
        target=lambda: page.post("/api/recognize-many", files=files(*photos["coffee"]))
    )
    frame = threading.Thread(target=page.recognize, args=[photos["rocket"][0]])
    for number, thread in enumerate((batch, frame), 1):
        thread.start()
        while looking.pending < number:
            pass
    watched.may.release(9)
    for thread in (batch, frame):
        thread.join()
    assert watched.looks == [1, 2, 1, 2, 1]


def test_another_file_in_the_memorys_place_is_what_is_shown(
    taught: Page, tmp_path: Path, backbone: Backbone, photos: dict[str, list[bytes]]
) -> None:
    other = tmp_path / "other.cbcl"
    with Recognizer(other, backbone) as recognizer:
        recognizer.learn("rocket", photos["rocket"][:2])
        recognizer.rename("rocket", "moon rocket")
    assert taught.labels() == {"chelsea": 3, "coffee": 3}
    assert taught.get("/api/scores").json()["labels"] == ["chelsea", "coffee"]
    before = taught.get("/api/labels").json()["revision"]
    other.replace(taught.memory)
    taught.get("/api/labels")  # it may be told that the file was replaced
    assert taught.get("/api/labels").json()["revision"] == before
    assert taught.labels() == {"moon rocket": 2}
    assert taught.get("/api/scores").json()["labels"] == ["moon rocket"]


def test_what_is_forgotten_for_good_is_not_remembered_by_the_server(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    seen = taught.recognize(photos["rocket"][0]).json()["seen"]
    taught.learn("rocket", seen=[seen])
    taught.post("/api/forget", json={"label": "rocket"})
    assert taught.learn("rocket", seen=[seen]).status_code == 200
    taught.post("/api/forget", json={"label": "rocket", "for_good": True})
    assert refused(taught.learn("rocket", seen=[seen]), "seen")["seen"] == [seen]


def test_reading_and_asking_do_not_wait_for_learning(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    asked = taught.recognize(photos["rocket"][0]).json()["seen"]
    with closing(sqlite3.connect(taught.memory, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another process writes, and takes its time
        learning = threading.Thread(target=taught.learn, args=["rocket"], kwargs={"seen": [asked]})
        learning.start()
        while learning.is_alive() and not taught.get("/api/health").json()["learning"]:
            pass
        assert taught.labels() == {"chelsea": 3, "coffee": 3}
        assert taught.recognize(photos["coffee"][4]).json()["label"] == "coffee"
        assert taught.get("/api/history").status_code == 200
        assert taught.get("/api/examples/1/thumbnail").status_code == 200
        assert taught.get("/api/scores").status_code == 200
        assert learning.is_alive()
        other.execute("COMMIT")
    learning.join()
    assert taught.labels() == {"chelsea": 3, "coffee": 3, "rocket": 1}


def test_many_teach_and_ask_at_once_and_nothing_is_lost(
    taught: Page, photos: dict[str, list[bytes]]
) -> None:
    failed: list[str] = []

    def work(number: int) -> None:
        for turn in range(6):
            label, picture = f"thing {number % 3}", photos["rocket"][(number + turn) % 5]
            answers = [taught.learn(label, picture), taught.recognize(photos["coffee"][turn % 5])]
            failed.extend(answer.text for answer in answers if answer.status_code != 200)

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert taught.labels() == {
        "chelsea": 3,
        "coffee": 3,
        "thing 0": 12,
        "thing 1": 12,
        "thing 2": 12,
    }
    with Recognizer(taught.memory) as recognizer:
        assert recognizer.revision() == 2 + 36


# What it tells of itself.


def test_the_description_names_every_address_and_all_that_it_names_is_there(page: Page) -> None:
    told = page.get("/api/openapi.json").json()
    assert told["openapi"].startswith("3.")
    operations = {(path, method) for path, methods in told["paths"].items() for method in methods}
    assert operations == {
        ("/api/version", "get"),
        ("/api/health", "get"),
        ("/api/labels", "get"),
        ("/api/examples", "get"),
        ("/api/examples", "post"),
        ("/api/examples/{number}", "delete"),
        ("/api/examples/{number}/thumbnail", "get"),
        ("/api/recognize", "post"),
        ("/api/recognize-many", "post"),
        ("/api/forget", "post"),
        ("/api/rename", "post"),
        ("/api/merge", "post"),
        ("/api/undo", "post"),
        ("/api/history", "get"),
        ("/api/advice", "get"),
        ("/api/scores", "get"),
        ("/api/export", "get"),
        ("/api/import", "post"),
        ("/api/events", "get"),
    }
    names = set()
    for methods in told["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            assert operation["tags"]
            assert "200" in operation["responses"]
            names.add(operation["operationId"])
    assert len(names) == len(operations)
    for reference in re.findall(r'"\$ref": ?"#/([^"]+)"', json.dumps(told)):
        found = told
        for part in reference.split("/"):
            found = found[part]
    assert "HTTPValidationError" not in told["components"]["schemas"]
    for address in ("/docs", "/redoc", "/openapi.json"):
        refused(page.get(address), "missing")


def test_the_kinds_in_the_description_are_all_there_are(page: Page) -> None:
    schema = page.get("/api/openapi.json").json()["components"]["schemas"]["Error"]
    assert schema["properties"]["kind"]["enum"] == [*STATUSES]


def test_the_page_and_its_documentation_load_nothing_from_elsewhere(page: Page) -> None:
    for address in ("/", "/api/docs"):
        text = page.get(address).text
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="([^"]+)"', text)
        assert loaded
        for link in loaded:
            assert page.get(link).status_code == 200, link
        assert "<style" not in text
        assert not re.search(r"<script(?![^>]*src=)", text)


def test_metrics_are_counted(taught: Page, photos: dict[str, list[bytes]]) -> None:
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
    assert desks == {"learning", "looking", "thinking"}


def test_the_log_has_one_line_a_request_and_no_secret(
    open_page: Callable[..., Page], photos: dict[str, list[bytes]]
) -> None:
    file = io.StringIO()
    page = open_page(
        door=AccessPolicy(TOKEN), client="192.168.1.9", log=RequestLog(everything=True, file=file)
    )
    page.get(f"/?token={TOKEN}")
    page.learn("a secret thing", photos["coffee"][0])
    page.get("/api/examples?label=a+secret+thing")
    page.get(f"/api/version?token={TOKEN}")
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "none", 303),
        ("GET", "/", 200),
        ("POST", "/api/examples", 200),
        ("GET", "/api/examples", 200),
        ("GET", "/api/version", 200),
    ]
    assert set(lines[0]) == {"time", "method", "route", "status", "ms", "bytes", "client"}
    assert TOKEN not in file.getvalue()
    assert "secret" not in file.getvalue()


def test_without_being_asked_the_log_has_what_is_wrong_only(open_page: Callable[..., Page]) -> None:
    file = io.StringIO()
    open_page(log=RequestLog(file=file)).get("/api/nothing")
    assert file.getvalue() == ""
