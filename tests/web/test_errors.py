"""Errors of the API: kind, status and message."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.api import NOISE, OpenPage, Page, Photos, files, leaves, refused
from support.server import until

from cbcl import Recognizer, load_backbone
from cbcl.errors import CBCLError, MemoryFileError, PictureError, WeightsError
from cbcl.recognition.snapshot import Snapshot

pytest_plugins = ["support.api_fixtures"]


FORM = "multipart/form-data; boundary=x"
FILE = b'--x\r\nContent-Disposition: form-data; name="%b"; filename="a"\r\n\r\n'
LATIN = b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\ncaf\xe9\r\n'


def bad(page: Page, photos: Photos) -> list[tuple[str, str, Callable[[], Any] | str]]:
    """Requests that cannot be done: kind, some words of the message, how they are made or where."""
    photo = photos["coffee"][0]
    lost = "0" * 64
    newer = page.get("/api/export").content
    newer = newer[:60] + (99).to_bytes(4, "big") + newer[64:]

    def form(name: str, body: bytes, kind: str = FORM) -> Callable[[], Any]:
        headers = {"Content-Type": kind}
        return lambda: page.post(f"/api/{name}", content=body, headers=headers)

    def sent(name: str, **told: Any) -> Callable[[], Any]:
        return lambda: page.post(f"/api/{name}", json=told)

    def given(field: str, name: str, data: bytes, file: str, **words: Any) -> Callable[[], Any]:
        return lambda: page.post(f"/api/{name}", files={field: (file, data)}, data=words)

    def asked(data: bytes, file: str = "x.jpg", **words: Any) -> Callable[[], Any]:
        return given("picture", "recognize", data, file, **words)

    def taught(data: bytes, **words: Any) -> Callable[[], Any]:
        return given("pictures", "examples", data, "x.jpg", **words)

    json_type = "application/json"
    return [
        ("picture", "x.jpg is not a picture", asked(NOISE)),
        ("picture", "x.jpg is incomplete: copy it again", asked(photo[:3000])),
        ("picture", "it is empty", asked(b"")),
        ("picture", "^x.png is not", asked(NOISE, "/etc/../a\\x.png")),
        ("picture", "x.jpg is not", taught(NOISE, label="mug")),
        ("argument", "'label' is missing", taught(photo)),
        (
            "argument",
            "^'label' is not UTF-8.$",
            form("examples", LATIN + FILE % b"pictures" + photo + b"\r\n--x--\r\n"),
        ),
        ("argument", "more than once", taught(photo, label=["a", "b"])),
        ("label", "cannot be a label", taught(photo, label="a\nb")),
        ("label", "cannot be a label", taught(photo, label="unknown")),
        ("argument", "has more than 2000 bytes", taught(photo, label="a" * 3000)),
        ("argument", "no picture", lambda: page.learn("mug", seen=[])),
        ("argument", "no picture", form("recognize-many", b"--x--\r\n")),
        ("argument", "give one file", asked(photo, seen=lost)),
        ("seen", "no longer cached", lambda: page.learn("mug", seen=[lost])),
        ("argument", "unknown field 'photo'", given("photo", "recognize", photo, "x.jpg")),
        ("argument", "not a form", form("recognize", b"{}", json_type)),
        ("argument", "not a form", form("recognize", b"", "multipart/form-data")),
        ("argument", "form is broken", form("recognize", b"hello")),
        ("argument", "ends too early", form("recognize", FILE % b"picture" + b"abc")),
        (
            "argument",
            "no name",
            form("recognize", b"--x\r\nContent-Type: a/b\r\n\r\nabc\r\n--x--\r\n"),
        ),
        (
            "argument",
            "too long a header",
            form("recognize", b"--x\r\n" + 3 * (b"A: " + b"b" * 3000 + b"\r\n")),
        ),
        ("label", "'cofee' is not known: did you mean 'coffee'?", sent("forget", label="cofee")),
        ("label", "cannot be a label", form("forget", rb'{"label": "\ud800"}', json_type)),
        ("label", "^'/usr/local/mugs' is not", sent("forget", label="/usr/local/mugs")),
        ("label", "'coffee' is taken", sent("rename", label="chelsea", new="coffee")),
        ("label", "with itself", sent("merge", label="coffee", into="coffee")),
        ("label", "is not known", "/api/examples?label=x"),
        ("argument", "'label' is missing", "/api/examples"),
        ("argument", "not JSON", form("forget", b"{", json_type)),
        ("argument", "the body is missing", lambda: page.post("/api/forget")),
        ("argument", "'label' is invalid", sent("forget", label=1)),
        ("argument", "'more' is invalid", sent("forget", label="coffee", more=1)),
        ("argument", "'number' is invalid", "/api/examples/x/thumbnail"),
        (
            "argument",
            "'number' is invalid",
            lambda: page.http.delete(f"/api/examples/{2**63}"),
        ),
        (
            "missing",
            "there is no example 999",
            lambda: page.http.delete("/api/examples/999"),
        ),
        ("missing", "no example 999", "/api/examples/999/thumbnail"),
        ("memory", "^x.cbcl is not a memory", given("memory", "import", NOISE, "x.cbcl")),
        ("memory", "^x.cbcl was written by a newer", given("memory", "import", newer, "x.cbcl")),
        ("argument", "'memory' is missing", form("import", b"--x--\r\n")),
        (
            "argument",
            "give one file",
            lambda: page.post("/api/import", data={"memory": "x"}, files={"a": b""}),
        ),
        ("missing", "nothing at this address", "/api/nothing"),
        ("missing", "nothing at this", "/static/..%2f__init__.py"),
        ("missing", "nothing at this", "/static/nothing.js"),
        ("method", "no such method", "/api/undo"),
    ]


def test_what_cannot_be_done_is_one_sentence_without_a_path_and_changes_nothing(
    taught: Page, photos: Photos, tmp_path: Path
) -> None:
    before = taught.get("/api/labels").json()
    for kind, words, ask in bad(taught, photos):
        answer = taught.get(ask) if isinstance(ask, str) else ask()
        message = refused(answer, kind)["message"]
        assert re.search(words, message), (words, message)
        for place in (str(tmp_path), str(Path.home()), "/tmp", "site-packages"):
            assert place not in answer.text, (words, message)
        assert taught.get("/api/labels").json() == before, words


def test_a_memory_that_went_away_is_told_without_its_path(taught: Page) -> None:
    until(lambda: taught.get("/api/health").json()["backbone"]["ready"])
    for ending in ("", "-wal", "-shm"):
        taught.memory.with_name(taught.memory.name + ending).unlink(missing_ok=True)
    message = refused(taught.get("/api/labels"), "memory")["message"]
    assert message.startswith("things.cbcl was moved or deleted")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode here")
def test_a_memory_whose_name_is_not_utf8_is_served_like_any_other(
    open_page: OpenPage, lessons: bytes, tmp_path: Path
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
    message = refused(taught.post("/api/undo"), "memory")["message"]
    assert message == "things.cbcl has nothing to undo."


def test_those_that_are_no_longer_remembered_are_named(taught: Page, photos: Photos) -> None:
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


@pytest.mark.parametrize("error", leaves(CBCLError))
def test_every_error_has_a_status_and_names_no_folder(
    open_page: OpenPage, failing: Failing, error: type[CBCLError]
) -> None:
    page = open_page(recognizer=failing)
    failing.error = error(SECRET / "x y.onnx", "is broken", "mend it")
    told = refused(page.get("/api/history"), error.kind)
    assert told["message"] == "x y.onnx is broken: mend it."
    failing.error = error("'/usr/local/mugs'", "is a label")
    told = refused(page.get("/api/history"), error.kind)
    assert told["message"] == "'/usr/local/mugs' is a label."


def test_files_have_the_names_they_were_sent_under(open_page: OpenPage, failing: Failing) -> None:
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


def test_a_backbone_given_by_its_path_is_shown_by_name(open_page: OpenPage, tmp_path: Path) -> None:
    network = load_backbone(lambda things: things, name=str(SECRET / "my net.onnx"))
    page = open_page(recognizer=Failing(tmp_path / "x.cbcl", network))
    until(lambda: page.get("/api/health").json()["backbone"]["problem"])
    assert page.get("/api/health").json()["backbone"] == {
        "name": "my net.onnx",
        "ready": False,
        "problem": "my net.onnx is not a network: give another.",
        "looks_at": None,
    }


@pytest.mark.parametrize("error", [RuntimeError, ValueError, OSError])
def test_an_error_of_ours_tells_nothing_but_is_in_the_log(
    open_page: OpenPage,
    failing: Failing,
    error: type[Exception],
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing.error = error(f"something secret at {failing.path}")
    page = open_page(recognizer=failing)
    message = refused(page.get("/api/history"), "internal")["message"]
    assert message == "internal error: the server's log has the details."
    entry = json.loads(capsys.readouterr().err)
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
