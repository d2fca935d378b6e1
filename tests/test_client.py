"""The client: what a `Recognizer` does, through a server; and what goes wrong between them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from photos import folders
from teaching import Running, teach

from cbcl import CBCLError, LabelError, MemoryFileError, PictureError, Recognizer
from cbcl.web.client import BusyError, Client


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("photos"), ("chelsea", "coffee"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with teach(tmp_path_factory.mktemp("served") / "things.cbcl") as running:
        yield running


def test_a_session(server: Running, photos: Path, tmp_path: Path) -> None:
    client = server.client
    assert client.labels() == {}
    cats, cups = sorted((photos / "chelsea").iterdir()), sorted((photos / "coffee").iterdir())
    assert client.learn("cat", cats)["learned"] == {"cat": 3}
    assert client.learn("cup", cups[0].read_bytes())["learned"] == {"cup": 1}
    answer = client.recognize(cups[1])
    assert (answer["label"], answer["picture"]) == ("cup", "1.jpg")
    client.learn("cup", seen=[answer["seen"]])
    assert client.labels() == {"cat": 3, "cup": 2}
    assert [one["label"] for one in client.recognize_many([*cats, cups[2].read_bytes()])] == ["cat"] * 3 + ["cup"]
    client.rename("cup", "tasse / café?&")
    assert len(client.examples("tasse / café?&")) == 2
    assert client.thumbnail(client.examples("cat")[0]).startswith(b"\xff\xd8")
    assert client.unlearn(client.examples("cat")[0]) == "cat"
    client.merge("tasse / café?&", "cat")
    assert client.undo() == "undo merge tasse / café?& → cat"
    client.export(tmp_path / "copy.cbcl")
    with Recognizer(tmp_path / "copy.cbcl") as copy:
        assert copy.labels() == client.labels() == {"cat": 2, "tasse / café?&": 2}
    client.forget("cat", for_good=True)
    assert client.adopt(tmp_path / "copy.cbcl")["added"] == ["cat"]
    assert client.history()[0]["action"] == "adopt"
    assert client.health()["backbone"]["ready"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda client: client.forget("nothing"), LabelError, "'nothing' is not known"),
        (lambda client: client.recognize(b"text"), PictureError, "^picture is not a picture"),
        (lambda client: client.recognize("no.jpg"), PictureError, "^no.jpg cannot be read"),
        (lambda client: client.adopt(__file__), MemoryFileError, "^test_client.py is not a memory"),
        (lambda client: client.thumbnail(10**6), CBCLError, "there is no example 1000000"),
        (lambda client: client.learn("x", []), CBCLError, "there is no picture in it"),
    ],
)
def test_what_goes_wrong_is_raised_as_a_recognizer_would(
    server: Running, call: Any, kind: type[CBCLError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(server.client)


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[str]:
    """A server that gives these answers, whatever it is asked."""
    left = [*answers]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = left.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name there)
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


BUSY = json.dumps({"error": {"kind": "busy", "message": "too much.", "retry_after": 0}}).encode()


def test_a_busy_server_is_asked_again_a_few_times() -> None:
    with answering((429, BUSY), (429, BUSY), (200, b'{"labels": []}')) as url:
        assert Client(url).labels() == {}
    with answering(*[(429, BUSY)] * 9) as url, pytest.raises(BusyError, match=r"too much\."):
        Client(url).labels()


def test_another_server_is_told_from_ours() -> None:
    with answering((404, b"<html>")) as url, pytest.raises(CBCLError, match=r"404 .*not one of cbcl"):
        Client(url).labels()


def test_no_server_is_told() -> None:
    with pytest.raises(CBCLError, match=r"no answer from http://127.0.0.1:9: .*Does `cbcl teach` run there"):
        Client("http://127.0.0.1:9").labels()
