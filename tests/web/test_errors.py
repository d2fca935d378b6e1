"""Errors of the API: kind, status and message."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.api import NOISE, Page, files, refused
from support.server import until

from cbcl import Recognizer
from cbcl.errors import CBCLError, MemoryFileError, PictureError, WeightsError
from cbcl.recognition.snapshot import Snapshot
from cbcl.web.monitoring import RequestLog

pytest_plugins = ["support.api_fixtures"]


def bad(
    page: Page, photos: dict[str, list[bytes]]
) -> dict[str, tuple[str, str, Callable[[], Any]]]:
    """Requests that cannot be done: kind, some words of the message, and how they are made."""
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
                b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n'
                b"\r\n%b\r\n--x--\r\n" % photo,
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
            "has more than 2000 bytes",
            given("/api/examples", "pictures", photo, label="a" * 3000),
        ),
        "nothing to learn": ("argument", "no picture", lambda: page.learn("mug", seen=[])),
        "nothing to ask": ("argument", "no picture", form("/api/recognize-many", b"--x--\r\n")),
        "two to ask": (
            "argument",
            "give one file",
            given("/api/recognize", "picture", photo, seen=lost),
        ),
        "forgotten by us": ("seen", "no longer cached", lambda: page.learn("mug", seen=[lost])),
        "another field": (
            "argument",
            "unknown field 'photo'",
            given("/api/recognize", "photo", photo),
        ),
        "not a form": ("argument", "not a form", form("/api/recognize", b"{}", "application/json")),
        "no boundary": (
            "argument",
            "not a form",
            form("/api/recognize", b"", "multipart/form-data"),
        ),
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
            "too long a header",
            form("/api/recognize", b"--x\r\n" + 3 * (b"A: " + b"b" * 3000 + b"\r\n")),
        ),
        "an unknown label": (
            "label",
            "'cofee' is not known: did you mean 'coffee'?",
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
        "not a text": ("argument", "'label' is invalid", sent("/api/forget", label=1)),
        "one word too many": (
            "argument",
            "'more' is invalid",
            sent("/api/forget", label="coffee", more=1),
        ),
        "no number": (
            "argument",
            "'number' is invalid",
            lambda: page.get("/api/examples/x/thumbnail"),
        ),
        "too large a number": (
            "argument",
            "'number' is invalid",
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
        "another method": ("method", "no such method", lambda: page.get("/api/undo")),
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
    until(lambda: taught.get("/api/health").json()["backbone"]["ready"])
    for ending in ("", "-wal", "-shm"):
        taught.memory.with_name(taught.memory.name + ending).unlink(missing_ok=True)
    message = refused(taught.get("/api/labels"), "memory")["message"]
    assert message.startswith("things.cbcl was moved or deleted")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode here")
def test_a_memory_whose_name_is_not_utf8_is_served_like_any_other(
    open_page: Callable[..., Page], lessons: bytes, tmp_path: Path
) -> None:
    memory = tmp_path / os.fsdecode(b"caf\xe9.cbcl")
    memory.write_bytes(lessons)
    page = open_page(memory)
    assert page.get("/api/health").json()["memory"] == "caf\N{REPLACEMENT CHARACTER}.cbcl"
    assert page.get("/api/export").headers["content-disposition"].endswith("caf%EF%BF%BD.cbcl")
    memory.write_bytes(b"no memory any more")
    for address in ("/api/health", "/api/labels", "/api/export"):
        refused(page.get(address), "memory")


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
    """One in which something fails, as a memory, a network or a program does."""

    error: Exception
    errors: Sequence[PictureError] = ()

    def history(self) -> Any:
        raise self.error

    def adopt(self, path: Any) -> Any:
        raise MemoryFileError(path, "is damaged", "export it again")

    def rename(self, *_: str) -> Any:
        raise MemoryFileError(self.path, "is locked", "try again")

    def snapshot(self) -> Snapshot:
        snapshot = super().snapshot()
        vars(snapshot)["look"] = self.see_nothing
        return snapshot

    def see_nothing(self, pictures: Any, **_: Any) -> Any:
        if isinstance(pictures[0], np.ndarray):  # it warms up
            raise WeightsError(SECRET / "my net.onnx", "is not a network", "give another")
        return [*self.errors][: len(pictures)]


SECRET = Path("/given, by you/some where")


@pytest.fixture
def failing(tmp_path: Path) -> Failing:
    return Failing(tmp_path / "x.cbcl")


def leaves(error: type[CBCLError]) -> list[type[CBCLError]]:
    below = [leaf for child in error.__subclasses__() for leaf in leaves(child)]
    return below or [error]


@pytest.mark.parametrize("error", leaves(CBCLError))
def test_every_error_has_a_status_and_names_no_folder(
    open_page: Callable[..., Page], failing: Failing, error: type[CBCLError]
) -> None:
    page = open_page(recognizer=failing)
    failing.error = error(SECRET / "x y.onnx", "is broken", "mend it")
    told = refused(page.get("/api/history"), error.kind)
    assert told["message"] == "x y.onnx is broken: mend it."
    failing.error = error("'/usr/local/mugs'", "is a label")
    assert (
        refused(page.get("/api/history"), error.kind)["message"] == "'/usr/local/mugs' is a label."
    )


def test_files_have_the_names_they_were_sent_under(
    open_page: Callable[..., Page], failing: Failing
) -> None:
    page = open_page(recognizer=failing)
    sent = {"memory": ("/home/ann/shop.cbcl", b"")}
    message = refused(page.post("/api/import", files=sent), "memory")["message"]
    assert message == "shop.cbcl is damaged: export it again."
    renamed = page.post("/api/rename", json={"label": "a", "new": "b"})
    assert refused(renamed, "memory")["message"] == "x.cbcl is locked: try again."
    failing.errors = [PictureError(f"picture {n}", "is broken: cut off") for n in (1, 2)]
    asked = page.recognize(NOISE, "a.jpg")
    assert refused(asked, "picture")["message"] == "a.jpg is broken: cut off."
    learned = page.learn("mug", NOISE, b"other noise")
    assert refused(learned, "picture")["message"] == "0.jpg is broken: cut off."
    many = page.post("/api/recognize-many", files=files(NOISE, b"other noise")).json()["answers"]
    assert [answer["error"]["message"] for answer in many] == [
        "0.jpg is broken: cut off.",
        "1.jpg is broken: cut off.",
    ]


def test_a_backbone_given_by_its_path_is_shown_by_name(
    open_page: Callable[..., Page], failing: Failing
) -> None:
    page = open_page(recognizer=failing, backbone=str(SECRET / "my net.onnx"))
    until(lambda: page.get("/api/health").json()["backbone"]["problem"])
    assert page.get("/api/health").json()["backbone"] == {
        "name": "my net.onnx",
        "ready": False,
        "problem": "my net.onnx is not a network: give another.",
        "looks_at": None,
    }


@pytest.mark.parametrize("error", [RuntimeError, ValueError, OSError])
def test_an_error_of_ours_tells_nothing_but_is_in_the_log(
    open_page: Callable[..., Page], failing: Failing, error: type[Exception]
) -> None:
    file = io.StringIO()
    failing.error = error(f"something secret at {failing.path}")
    page = open_page(recognizer=failing, log=RequestLog(file=file))
    message = refused(page.get("/api/history"), "internal")["message"]
    assert message == "internal error: the server's log has the details."
    entry = json.loads(file.getvalue())
    assert (entry["route"], entry["status"]) == ("/api/history", 500)
    assert "something secret" in entry["trace"]


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
