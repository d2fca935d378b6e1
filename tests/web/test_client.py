"""The client: what a `Recognizer` does, through a server; and what goes wrong between them."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api import leaves
from support.http_double import Received, Reply, http_double
from support.photos import folders
from support.server import TIMEOUT_SECONDS, ServerProcess, teach

from cbcl import CBCLError, LabelError, MemoryFileError, PictureError, Recognizer
from cbcl.client import Client
from cbcl.errors import BusyError, ServerError
from cbcl.web.errors import as_api_error


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("photos"), ("chelsea", "coffee"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with teach(tmp_path_factory.mktemp("served") / "things.cbcl") as running:
        yield running


def test_a_session(server: ServerProcess, photos: Path, tmp_path: Path) -> None:
    client = server.client
    assert client.labels() == {}
    cats, cups = sorted((photos / "chelsea").iterdir()), sorted((photos / "coffee").iterdir())
    assert client.learn("cat", cats)["learned"] == {"cat": 3}
    assert client.learn("cup", cups[0].read_bytes())["learned"] == {"cup": 1}
    answer = client.recognize(cups[1])
    assert (answer["label"], answer["picture"]) == ("cup", "1.jpg")
    client.learn("cup", seen=[answer["seen"]])
    assert client.labels() == {"cat": 3, "cup": 2}
    assert [one["label"] for one in client.recognize_many([*cats, cups[2].read_bytes()])] == [
        "cat"
    ] * 3 + ["cup"]
    assert [len(client.suspects(cups[2])), client.suspects(cups[2])[0]["label"]] == [2, "cup"]
    client.expect_strangers("often")
    report = client.unknown()
    assert report is not None
    assert (report["strangers"], [*report["forecasts"]]) == (
        "often",
        ["often", "sometimes", "rarely"],
    )
    assert client.undo() == "undo strangers often"
    client.rename("cup", "tasse / café?&")
    assert len(client.examples("tasse / café?&")) == 2
    assert client.thumbnail(client.examples("cat")[0]).startswith(b"\xff\xd8")
    assert client.unlearn(client.examples("cat")[0]) == "cat"
    client.merge("tasse / café?&", "cat")
    assert client.undo() == "undo merge tasse / café?& → cat"
    client.export(tmp_path / "copy.cbcl")
    with Recognizer(tmp_path / "copy.cbcl") as copy:
        assert copy.labels() == client.labels() == {"cat": 2, "tasse / café?&": 2}
    told = client.learn(None, cups[2], seen=[answer["seen"]])
    assert (told["learned"], told["moved"]) == ({"": 2}, {"tasse / café?&": 1})
    assert len(client.negatives()) == 2
    assert client.unlearn(client.negatives()[0]) == ""
    client.forget_negatives()
    assert client.negatives() == []
    assert client.move(client.examples("cat")[:1], "tiger")["moved"] == {"cat": 1}
    assert client.unlearn_many(client.examples("tiger")) == {"tiger": 1}
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
        (lambda client: client.adopt("no.cbcl"), MemoryFileError, "^no.cbcl cannot be read"),
        (
            lambda client: client.export("no/folder/x.cbcl"),
            MemoryFileError,
            "^no/folder/x.cbcl cannot be written",
        ),
        (lambda client: client.thumbnail(10**6), ServerError, "there is no example 1000000"),
        (lambda client: client.learn("x", []), ServerError, "the request has no picture"),
    ],
)
def test_what_goes_wrong_is_raised_as_a_recognizer_would(
    server: ServerProcess, call: Any, kind: type[CBCLError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(server.client)


@contextmanager
def answering(
    *answers: tuple[int, bytes], learning: Sequence[tuple[int, bytes]] = ()
) -> Iterator[str]:
    """A server that gives these answers, the last again and again; to `learn`, others."""
    left = {"other": [*answers], "/api/examples": [*learning]}

    def answer(request: Received) -> Reply:
        some = left.get(request.path, left["other"])
        status, body = some.pop(0) if len(some) > 1 else some[0]
        return Reply(body, status)

    with http_double(answer) as double:
        yield double.url


@pytest.mark.parametrize("error", leaves(CBCLError))
def test_the_servers_error_is_that_of_the_library_where_its_kind_says_so(
    error: type[CBCLError],
) -> None:
    alike = [leaf for leaf in leaves(CBCLError) if leaf.kind == error.kind]
    answer = as_api_error(error(Path("/folder/x"), "is broken", "mend it")).response()
    with (
        answering((answer.status_code, bytes(answer.body))) as url,
        pytest.raises(CBCLError, match=r"^x is broken: mend it\.$") as raised,
    ):
        Client(url).labels()
    if error.kind == "argument":  # which is the kind of requests that make no sense, too
        assert raised.type is ServerError
    else:
        assert raised.type is error or len(alike) > 1
        assert raised.type.kind == error.kind


BUSY = json.dumps({"error": {"kind": "busy", "message": "too much.", "retry_after": 0}}).encode()


def test_a_busy_server_is_asked_again_a_few_times() -> None:
    with answering((429, BUSY), (429, BUSY), (200, b'{"labels": []}')) as url:
        assert Client(url).labels() == {}
    with answering(*[(429, BUSY)] * 9) as url, pytest.raises(BusyError, match=r"too much\."):
        Client(url).labels()


@pytest.mark.parametrize(
    "body", [b"{}", b'{"labels": 7}', b'{"labels": [3]}', b'{"labels": [{}]}', b"[" * 100_000]
)
def test_an_answer_that_ours_would_not_give_is_told(body: bytes) -> None:
    with answering((200, body)) as url, pytest.raises(ServerError, match="is not a server of cbcl"):
        Client(url).labels()


CALLS: list[Callable[[Client], object]] = [
    Client.undo,
    Client.history,
    Client.negatives,
    Client.memories,
    lambda client: client.recognize_many([b"picture"]),
    lambda client: client.suspects(b"picture"),
    lambda client: client.examples("mug"),
    lambda client: client.unlearn(1),
    lambda client: client.unlearn_many([1, 2]),
]


def test_every_method_tells_an_answer_that_ours_would_not_give() -> None:
    for call in CALLS:
        with answering((200, b'{"done": 1}')) as url:
            client = Client(url)
            with pytest.raises(ServerError, match="is not a server of cbcl"):
                call(client)


NAMES = st.sampled_from(
    [
        *("labels", "label", "examples", "answers", "done", "text", "steps", "action", "kept"),
        *("example", "removed", "suspects", "memories", "name", "error", "kind", "message"),
    ]
)
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
)


@given(st.sampled_from(CALLS), st.dictionaries(NAMES, ANSWERS))
def test_whatever_another_server_answers_is_taken_or_told(
    call: Callable[[Client], object], answer: dict[str, Any]
) -> None:
    body = json.dumps(answer).encode()
    client = Client("http://127.0.0.1:9")
    with patch.object(client, "_send", return_value=body), suppress(CBCLError):
        call(client)
    for status in (422, 429):
        refusal = HTTPError(client.url, status, "", Message(), io.BytesIO(body))
        assert isinstance(client._as_error(refusal), CBCLError)


@pytest.mark.parametrize(
    "seconds", ["1e308", "1" + "0" * 400, "-1", "NaN", "Infinity", "601", '"x"', "[]"]
)
def test_nobody_waits_as_long_as_another_server_likes(seconds: str) -> None:
    body = BUSY.replace(b'"retry_after": 0', f'"retry_after": {seconds}'.encode())
    with answering((429, body)) as url, pytest.raises(ServerError, match="it answered 429"):
        Client(url).labels()


def test_another_server_is_told_from_ours() -> None:
    with (
        answering((404, b"<html>")) as url,
        pytest.raises(CBCLError, match=r"is not a server of cbcl: it answered 404"),
    ):
        Client(url).labels()


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """A server that says this to the first who comes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
            "http.* does not answer .*IncompleteRead",
        ),
        (b"SSH-2.0-OpenSSH_9\r\n", "http.* does not answer .*SSH"),
        (b"", "http.* does not answer"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "http.* is not a server of cbcl"),
        (b"HTTP/1.1 200 OK\r\n\r\n[1]", "http.* is not a server of cbcl"),
    ],
)
def test_an_answer_that_is_none_is_told(answer: bytes, message: str) -> None:
    with saying(answer) as url, pytest.raises(CBCLError, match=message):
        Client(url).health()


@pytest.mark.parametrize(
    "url", ["localhost:8737", "127.0.0.1:8737", "ftp://localhost", "http://", "http://[::1", ""]
)
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(CBCLError, match="is not an address"):
        Client(url)


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CBCLError, match="cannot be used as a certificate"):
        Client("https://localhost:8737", certificate=tmp_path / "none.pem")


ROBOT = Path(__file__).parents[2] / "examples" / "robot.py"


def test_the_robot_stops_where_nobody_answers(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"a frame")
    done = subprocess.run(
        [sys.executable, str(ROBOT), "http://127.0.0.1:9", str(tmp_path)],
        input="a cup\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert "http://127.0.0.1:9 does not answer" in done.stderr


def test_the_robot_loses_no_name_where_learning_fails(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"a frame")
    failed = json.dumps({"error": {"kind": "memory", "message": "no room."}}).encode()
    seen = (200, b'{"label": null, "seen": "0"}')
    with answering(seen, learning=[(409, failed), (200, b"{}")]) as url:
        command = [sys.executable, str(ROBOT), url, str(tmp_path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as robot:
            assert robot.stdin is not None
            assert robot.stdout is not None
            assert robot.stderr is not None
            assert robot.stdout.readline() == "I see something that I do not know.\n"
            robot.stdin.write("a cup\n")
            robot.stdin.flush()
            assert robot.stderr.readline() == "no room.\n"
            assert robot.stdout.readline() == "So this is a cup.\n"
            robot.stdin.write("\n")
            robot.stdin.flush()
            assert robot.wait(TIMEOUT_SECONDS) == 0


def test_no_server_is_told() -> None:
    with pytest.raises(
        ServerError, match=r"http://127.0.0.1:9 does not answer .*: start `cbcl teach` there"
    ):
        Client("http://127.0.0.1:9").labels()
