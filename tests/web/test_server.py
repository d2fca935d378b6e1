"""`cbcl teach` as a process: port, stop, events, and other processes with the same memory."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.photos import encoded, folders, views
from support.server import (
    TIMEOUT_SECONDS,
    ServerProcess,
    make_certificate,
    next_event,
    teach,
    until,
)

from cbcl import CBCLError, Recognizer, load_backbone
from cbcl.cli.commands import main
from cbcl.client import Client
from cbcl.memory.check import check
from cbcl.web.connections import connection_limit
from cbcl.web.limits import MB
from cbcl.web.server import listen


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("photos"), ("chelsea", "coffee"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Any:
    """One that knows two things; tests may teach it more."""
    memory = tmp_path_factory.mktemp("served") / "things.cbcl"
    with teach(memory) as running:
        for name in ("chelsea", "coffee"):
            running.client.learn(name, sorted((photos / name).iterdir()))
        yield running


def test_a_restarted_server_knows_all_it_knew(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "things.cbcl"
    with teach(memory) as server:
        for name in ("chelsea", "coffee"):
            server.client.learn(name, sorted((photos / name).iterdir()))
        before = server.client.recognize(photos / "coffee" / "1.jpg")
        said, wrong = server.stop(signal.SIGINT)
        assert server.process.returncode == 0
        assert said.endswith(f"stopped; {memory} knows 2 things.\n")
        assert wrong == ""
    with teach(memory) as server:
        assert server.client.recognize(photos / "coffee" / "1.jpg") == before


def test_pages_hear_of_changes_made_here_and_by_other_processes(
    server: ServerProcess, photos: Path
) -> None:
    with server.events() as one, server.events() as two:
        assert one.headers["content-type"].startswith("text/event-stream")
        first = next_event(one)[1]["revision"]
        assert next_event(two)[1]["revision"] == first
        server.client.learn("mug", photos / "coffee" / "0.jpg")
        assert next_event(one) == next_event(two) == ("changed", {"revision": first + 1})
        assert CliRunner().invoke(main, ["forget", str(server.memory), "mug"]).exit_code == 0
        assert next_event(one) == next_event(two) == ("changed", {"revision": first + 2})
        assert "mug" not in server.client.labels()
        assert figure(server, "cbcl_event_streams") == 2
    until(lambda: figure(server, "cbcl_event_streams") == 0)


def test_streams_tell_what_is_recognized_and_show_no_picture(
    server: ServerProcess, photos: Path
) -> None:
    def told_of(answer: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        told = {name: answer[name] for name in ("label", "confidence", "revision")}
        return "recognized", told

    coffee, cat = photos / "coffee" / "1.jpg", photos / "chelsea" / "1.jpg"
    with server.events() as stream:
        next_event(stream)
        one = server.client.recognize(coffee)
        assert next_event(stream) == told_of(one)
        first, broken, last = server.client.recognize_many([str(cat), b"no picture", str(coffee)])
        assert "error" in broken
        assert [next_event(stream), next_event(stream)] == [told_of(first), told_of(last)]


def figure(server: ServerProcess, name: str) -> float:
    with closing(server.connect()) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def test_a_stop_ends_streams_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    memory = tmp_path / "things.cbcl"
    acknowledged: list[int] = []  # revisions
    refused: list[str] = []
    with teach(memory) as server, server.events() as stream:
        next_event(stream)
        pictures = [encoded(pixels) for pixels in views("rocket", 4)]

        def work(number: int) -> None:
            client = Client(server.url)
            try:
                while True:
                    acknowledged.append(client.learn(f"thing {number}", pictures)["revision"])
            except CBCLError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) >= 6)
        _, wrong = server.stop()
        for thread in threads:
            thread.join()
        assert server.process.returncode == 0
        assert wrong == ""
        assert stream.read().decode().endswith("\n\n")  # it has an end, and a whole one
    assert len(refused) == 4
    with Recognizer(memory) as recognizer:
        steps = [step.step for step in recognizer.history()]
        assert {*acknowledged} <= {*steps}
        assert len({*acknowledged}) <= len(steps) <= len(acknowledged) + len(threads)
        assert sum(recognizer.labels().values()) == 4  # the last who taught a picture has it
    assert check(memory) == []


def test_who_says_stop_twice_loses_nothing_either(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "things.cbcl"
    learned: list[Any] = []
    with teach(memory) as server:
        server.client.learn("coffee", photos / "coffee" / "0.jpg")
        with closing(sqlite3.connect(memory, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            thread = threading.Thread(
                target=lambda: learned.append(
                    server.client.learn("cat", photos / "chelsea" / "0.jpg")
                )
            )
            thread.start()
            until(lambda: bool(server.client.health()["learning"]))
            server.process.send_signal(signal.SIGINT)
            until(lambda: not answers(server))
            server.process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):  # it waits for what was accepted
                server.process.wait(0.5)
            other.execute("COMMIT")
        said, wrong = server.rest()
        thread.join()
        assert server.process.returncode == 0
    assert learned[0]["learned"] == {"cat": 1}
    assert said.endswith("knows 2 things.\n")
    assert wrong == ""


def answers(server: ServerProcess) -> bool:
    try:
        return bool(server.client.health()["status"] == "ok")
    except CBCLError:
        return False


HALF = (
    b"POST /api/recognize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
)


def test_who_sends_half_a_request_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with (
        teach(tmp_path / "x.cbcl") as server,
        closing(server.connect()) as one,
        closing(server.connect()) as two,
    ):
        for connection, request in ((one, HALF), (two, HALF[:30])):
            connection.connect()
            connection.sock.sendall(request)
        assert answers(server)
        _, wrong = server.stop()
        assert (server.process.returncode, wrong) == (0, "")
        assert b"the server stops" in one.sock.makefile("rb").read()


def test_too_many_connections_are_hung_up_on_and_nothing_is_said(tmp_path: Path) -> None:
    with teach(tmp_path / "x.cbcl") as server, ExitStack() as held:
        for _ in range(connection_limit()):
            connection = held.enter_context(closing(server.connect()))
            connection.connect()
            connection.sock.sendall(HALF[:30])
        with closing(server.connect()) as connection:
            connection.connect()
            assert connection.sock.recv(1) == b""
        assert not answers(server)
        held.close()
        until(lambda: answers(server))
        _, wrong = server.stop()
        assert wrong == ""


def open_sockets(server: ServerProcess, number: int, request: bytes, held: ExitStack) -> list[Any]:
    """Open connections, send the same on each, and return their sockets."""
    sockets = []
    for _ in range(number):
        connection = held.enter_context(closing(server.connect()))
        connection.connect()
        sockets.append(connection.sock)
    for opened in sockets:
        opened.sendall(request)
    return sockets


def test_streams_opened_at_once_are_as_few_as_documented_and_keep_nobody_else_away(
    tmp_path: Path,
) -> None:
    request = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with teach(tmp_path / "x.cbcl") as server, ExitStack() as held:
        sockets = open_sockets(server, 300, request, held)
        statuses = [opened.recv(12).split()[1] for opened in sockets]
        assert statuses.count(b"200") == 48  # three quarters of 64: one address cannot have all
        assert statuses.count(b"429") == 300 - 48
        assert answers(server)


@pytest.mark.parametrize("path", [b"recognize", b"import"])
def test_bodies_that_trickle_keep_nobody_else_away(tmp_path: Path, path: bytes) -> None:
    with teach(tmp_path / "x.cbcl") as server, ExitStack() as held:
        server.client.learn("rocket", encoded(views("rocket", 1)[0]))
        open_sockets(server, 40, HALF.replace(b"recognize", path), held)
        server.client.export(tmp_path / "copy.cbcl")
        assert server.client.adopt(tmp_path / "copy.cbcl")["added"] == []
        open_sockets(server, 260, HALF.replace(b"recognize", path), held)
        assert answers(server)
        until(lambda: server.ask("POST", "/api/undo", body=b" ")[0].status == 200)


def test_when_too_much_waits_some_are_sent_away_and_the_rest_is_done(
    server: ServerProcess,
) -> None:
    picture = encoded(views("rocket", 1)[0])
    fields = {"label": "full", "seen": server.client.recognize(picture)["seen"]}
    before = server.client.health()["revision"]
    part = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    body = "".join(part.format(*field) for field in fields.items()) + "--x--\r\n"
    answers: list[tuple[HTTPResponse, Any]] = []

    def ask() -> None:
        answers.append(
            server.ask(
                "POST",
                "/api/examples",
                body=body,
                headers={"Content-Type": "multipart/form-data; boundary=x"},
            )
        )

    threads = [threading.Thread(target=ask) for _ in range(80)]
    with closing(sqlite3.connect(server.memory, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for thread in threads:
            thread.start()
        until(lambda: len(answers) >= 80 - 65)  # one is learning, 64 wait
        assert {answer.status for answer, _ in answers} == {429}
        assert all(
            int(answer.headers["Retry-After"]) == told["error"]["retry_after"]
            for answer, told in answers
        )
        assert {told["error"]["kind"] for _, told in answers} == {"busy"}
        other.execute("COMMIT")
    for thread in threads:
        thread.join()
    done = [told for answer, told in answers if answer.status == 200]
    assert [told["revision"] for told in done] == [before + 1] * 65  # the others add nothing
    assert server.client.labels()["full"] == 1
    server.client.forget("full")


@pytest.mark.parametrize("chunked", [False, True])
def test_who_sends_too_much_hears_that_it_is_too_much(server: ServerProcess, chunked: bool) -> None:
    pieces = (bytes(MB) for _ in range(30))
    length = {} if chunked else {"Content-Length": str(30 * MB)}
    answer, told = server.ask(
        "POST",
        "/api/recognize",
        body=pieces,
        headers={"Content-Type": "multipart/form-data; boundary=x", **length},
        encode_chunked=chunked,
    )
    assert (answer.status, told["error"]["kind"]) in ((413, "size"), (422, "argument"))
    assert answer.status == 413 or chunked
    assert "Content-Security-Policy" in answer.headers


def test_who_leaves_in_the_middle_harms_nobody(server: ServerProcess) -> None:
    for request in (
        HALF,
        b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo",
        b"\0\1\2 garbage \r\n\r\n",
    ):
        with closing(server.connect()) as connection:
            connection.connect()
            connection.sock.sendall(request)
            assert answers(server)  # so it has read what was sent before
    assert answers(server)


def test_a_port_that_is_given_and_taken_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    port = server.url.rstrip("/").rpartition(":")[2]
    result = CliRunner().invoke(
        main, ["teach", str(tmp_path / "x.cbcl"), "--port", port, "--no-browser"]
    )
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: port {port} of 127.0.0.1 cannot be used ")


def test_without_a_port_the_next_free_one_is_taken() -> None:
    with listen("127.0.0.1", None).listening as one, listen("127.0.0.1", None).listening as two:
        first, second = one.getsockname()[1], two.getsockname()[1]
    assert 8737 <= first < second


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["not.cbcl"], "not.cbcl is not a memory of cbcl."),
        (["a/folder/x.cbcl"], "make that folder first"),
        (
            ["x.cbcl", "--host", "no.such.host.invalid"],
            "'no.such.host.invalid' is not an address to listen on",
        ),
        (["x.cbcl", "--backbone", "lite"], "'lite'"),
        (["x.cbcl", "--certificate", "none.pem"], "none.pem cannot be used as a certificate"),
        (["x.cbcl", "--key", "key.pem"], "give --certificate, too"),
        (["x.cbcl", "--new-token"], "give --host, too"),
        (["x.cbcl", "--certificate", "a.pem", "--http"], "leave one of the two out"),
        (["shown.cbcl", "--private"], "was not begun as a private memory"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_exit_1(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("not.cbcl").write_text("hello, I am no memory at all, but long enough to be looked at")
    letters = load_backbone(
        lambda things: [[thing.count(c) for c in "abc"] for thing in things], name="letters"
    )
    with Recognizer("shown.cbcl", letters) as recognizer:
        recognizer.learn("fruit", ["abc", "cab"])
    result = CliRunner().invoke(main, ["teach", "--no-browser", "--port", "0", *words])
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from cbcl.cli.commands import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "teach", str(tmp_path / "x.cbcl")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        'Error: the teaching page needs the extra "web": pip install "cbcl[web]"\n',
    )


def test_the_server_of_other_machines_has_a_token_in_its_address(tmp_path: Path) -> None:
    with teach(tmp_path / "x.cbcl", "--host", "0.0.0.0", "--http", "--log") as server:
        port = server.connect().port
        token = server.url.partition("?token=")[2]
        assert len(token) >= 32
        with pytest.raises(CBCLError, match="this server needs its token"):
            Client(f"http://127.0.0.1:{port}").labels()
        assert Client(f"http://127.0.0.1:{port}", token).labels() == {}
        assert Client(f"http://127.0.0.1:{port}/?token={token}").labels() == {}
        said, log = server.stop()
    assert "Whoever has this address" in said
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["status"] for line in lines] == [401, 200, 200]
    assert token not in log


def test_a_terminal_shows_the_address_as_a_code_for_phones(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "cbcl",
        "teach",
        str(tmp_path / "x.cbcl"),
        "--host",
        "0.0.0.0",
        "--port",
        "0",
    ]
    environment = {
        name: value
        for name, value in os.environ.items()
        if "DISPLAY" not in name and name != "BROWSER"
    }
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while b"Ctrl-C stops" not in shown:
            shown += os.read(leader, 10_000)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=TIMEOUT_SECONDS)
    os.close(leader)
    assert process.returncode == 0
    assert shown.decode().count("█") > 100


def test_over_tls(photos: Path, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with teach(tmp_path / "x.cbcl", "--certificate", certificate, "--key", key) as server:
        assert server.url.startswith("https://")
        client = Client(server.url, certificate=certificate)
        client.learn("coffee", photos / "coffee" / "0.jpg")
        assert client.labels() == {"coffee": 1}
        with pytest.raises(CBCLError, match=r"https.* is not trusted \(self-signed certificate\)"):
            server.client.labels()  # which does not know the certificate


def test_the_robot_says_what_it_sees_and_learns_what_it_is_told(
    server: ServerProcess, photos: Path, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    shutil.copy(photos / "coffee" / "0.jpg", seen)
    robot = Path(__file__).parents[2] / "examples" / "robot.py"
    done = subprocess.run(
        [sys.executable, str(robot), server.url, str(seen)],
        input="robot's cup\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.stdout.splitlines()[:2] == ["I see coffee.", "So this is robot's cup."]
    assert done.stderr == ""
    assert server.client.labels()["robot's cup"] == 1
    server.client.forget("robot's cup")
