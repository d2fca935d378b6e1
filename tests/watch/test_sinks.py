"""Sinks: a webhook, a command and a double of Frigate's API; none makes a watch wait."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event

import pytest
from support.http_double import HttpDouble, Received, Reply, http_double

from cbcl.errors import ServerError
from cbcl.recognition.answer import Answer
from cbcl.watch import sinks as sinks_module
from cbcl.watch.frames import ProblemLog
from cbcl.watch.sinks import BackgroundSink, Command, FrigateSubLabel, Webhook
from cbcl.watch.watcher import Sighting

TIMEOUT_SECONDS = 60


def sighting(label: str | None = "cup", confidence: float = 0.97) -> Sighting:
    answer = Answer(label, confidence, ranking=(), evidence=(), strangeness=0.5)
    return Sighting("2026-11-16T12:00:00.000+00:00", "/in/a b.jpg", answer)


class Flaky:
    """A sink that fails as often as it is told to."""

    name = "flaky"

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.delivered = list[str | None]()
        self.is_done = Event()

    def __call__(self, sighting: Sighting) -> None:
        if self.failures:
            self.failures -= 1
            raise ServerError("flaky", "is down")
        self.delivered.append(sighting.answer.label)
        if sighting.answer.label == "d":
            self.is_done.set()


def test_what_fails_is_tried_again_and_told_once_until_it_works() -> None:
    told: list[str] = []
    sink = Flaky(failures=1 + 3 + 3)
    background = BackgroundSink(sink, ProblemLog(told.append), delays=(0.0, 0.0))
    for label in ("a", "b", "c", "d"):
        background.send(sighting(label))
    assert sink.is_done.wait(TIMEOUT_SECONDS)
    background.close()
    assert sink.delivered == ["c", "d"]  # a and b were tried three times each, c twice
    assert told == ["flaky is down."]


def test_a_sink_that_hangs_makes_nobody_wait_and_what_is_lost_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sinks_module, "CLOSE_SECONDS", 0.0)
    told: list[str] = []
    go_on = Event()

    class Hanging(Flaky):
        def __call__(self, _: Sighting) -> None:
            go_on.wait()

    background = BackgroundSink(Hanging(), ProblemLog(told.append))
    for _ in range(sinks_module.MAX_WAITING + 5):
        background.send(sighting())
    background.close()
    go_on.set()
    assert told == ["flaky is too slow: not all answers are sent."]


def test_when_the_watch_ends_what_waits_is_delivered() -> None:
    sink = Flaky()
    background = BackgroundSink(sink, ProblemLog(print))
    for _ in range(50):
        background.send(sighting())
    background.close()
    assert len(sink.delivered) == 50


def test_a_webhook_gets_json() -> None:
    with http_double(lambda _: Reply()) as server:
        Webhook(f"{server.url}/hook?key=7")(sighting())
        server.answer = lambda _: Reply(status=500)
        with pytest.raises(ServerError, match=r"/hook answers 500 Internal Server Error\.$"):
            Webhook(f"{server.url}/hook?key=7")(sighting())
    request = server.received[0]
    assert (request.method, request.path) == ("POST", "/hook?key=7")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == sighting().as_dict()


def test_a_command_gets_label_and_source_and_no_shell_reads_them(tmp_path: Path) -> None:
    program = tmp_path / "print.py"
    program.write_text(
        "import json, os, sys\n"
        "open(sys.argv[1], 'w').write(json.dumps([sys.argv[2:], dict(os.environ)]))\n"
    )
    label = "$(touch /tmp/x); 'cup'"
    Command(f"'{sys.executable}' '{program}' '{tmp_path / 'out.json'}' --flag")(sighting(label))
    words, variables = json.loads((tmp_path / "out.json").read_text())
    assert words == ["--flag", label, "/in/a b.jpg"]
    assert variables.items() >= {
        ("CBCL_LABEL", label),
        ("CBCL_CONFIDENCE", "0.97"),
        ("CBCL_SOURCE", "/in/a b.jpg"),
        ("CBCL_TIME", "2026-11-16T12:00:00.000+00:00"),
    }


def test_a_command_that_fails_or_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks_module, "COMMAND_SECONDS", 0.5)
    with pytest.raises(ServerError, match=r"failed with exit code 3\.$"):
        Command(f"'{sys.executable}' -c 'raise SystemExit(3)'")(sighting())
    with pytest.raises(ServerError, match=r"was stopped after 0\.5 s\.$"):
        Command(f"'{sys.executable}' -c 'import time; time.sleep(60)'")(sighting(None))


@pytest.mark.parametrize("text", ["", "no-such-program-here", "'unclosed"])
def test_what_is_not_a_command_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a command"):
        Command(text)


def frigate(request: Received) -> Reply:
    """Answer as Frigate's documented API does, as far as a sub_label needs it."""
    if request.path.startswith("/api/events?"):
        tracked = [{"id": "1700.5-ab", "label": "person", "camera": "door"}, {"id": "1701.5-cd"}]
        return Reply(json.dumps(tracked).encode())
    return Reply(b'{"success": true}')


def posted(server: HttpDouble) -> list[tuple[str, dict[str, object]]]:
    return [(one.path, json.loads(one.body)) for one in server.received if one.method == "POST"]


def test_what_frigate_is_tracking_on_the_camera_gets_the_label() -> None:
    with http_double(frigate) as server:
        FrigateSubLabel(f"{server.url}/api/door/latest.jpg?h=300")(sighting("x" * 120))
    assert server.received[0].path == (
        "/api/events?cameras=door&in_progress=1&include_thumbnails=0"
    )
    body = {"subLabel": "x" * 100, "subLabelScore": 0.97}
    assert posted(server) == [
        ("/api/events/1700.5-ab/sub_label", body),
        ("/api/events/1701.5-cd/sub_label", body),
    ]


def test_frigate_is_not_told_of_the_unknown_and_asked_again_where_it_tracks_nothing() -> None:
    with http_double(frigate) as server:
        sink = FrigateSubLabel(f"{server.url}/api/door/latest.jpg")
        sink(sighting(None))
        assert server.received == []
        server.answer = lambda _: Reply(b"[]")
        with pytest.raises(ServerError, match="tracks nothing"):
            sink(sighting())
        server.answer = lambda _: Reply(b'{"a page": 1}')
        with pytest.raises(ServerError, match="does not answer as Frigate does"):
            sink(sighting())
        assert posted(server) == []


def test_only_a_camera_of_frigate_has_sub_labels() -> None:
    with pytest.raises(ServerError, match="is not a camera of Frigate"):
        FrigateSubLabel("http://camera/snapshot.jpg")
