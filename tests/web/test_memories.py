"""The memories of a folder: listed, made, opened, copied and replaced, by their names alone."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.api import OpenPage, Page, Photos, refused
from support.server import ServerProcess, next_event, teach, until

from cbcl import Recognizer
from cbcl.cli.commands import main
from cbcl.errors import ServerError
from cbcl.memory.check import check
from cbcl.vision.backbones.base import Backbone
from cbcl.web.served_memory import MAX_MEMORY_NAME, as_memory_name

pytest_plugins = ["support.api_fixtures"]


@pytest.fixture
def folder(tmp_path: Path, lessons: bytes, backbone: Backbone, photos: Any) -> Path:
    """A folder of two memories, and of files that are none."""
    (tmp_path / "things.cbcl").write_bytes(lessons)
    with Recognizer(tmp_path / "space.cbcl", backbone) as recognizer:
        recognizer.learn("rocket", photos["rocket"][:3])
    os.utime(tmp_path / "space.cbcl", (10, 10))
    (tmp_path / "notes.txt").write_text("not a memory")
    (tmp_path / ".hidden.cbcl").write_bytes(lessons)
    (tmp_path / "inner.cbcl").mkdir()
    return tmp_path


@pytest.fixture
def page(open_page: OpenPage, folder: Path) -> Page:
    return open_page(folder / "things.cbcl", several=True)


def names(page: Page) -> list[str]:
    return [entry["name"] for entry in page.get("/api/memories").json()["memories"]]


def opened(page: Page, name: str) -> Any:
    return page.post("/api/memories/open", json={"name": name})


def test_the_memories_of_the_folder_are_listed_the_latest_first(page: Page, folder: Path) -> None:
    (folder / "broken.cbcl").write_bytes(b"this is no memory, but it is called one" * 9)
    os.utime(folder / "broken.cbcl", (5, 5))
    told = page.get("/api/memories").json()
    assert (told["open"], told["several"]) == ("things.cbcl", True)
    things, space, broken = told["memories"]
    assert (things["name"], things["things"], things["problem"]) == ("things.cbcl", 2, None)
    assert (space["name"], space["things"]) == ("space.cbcl", 1)
    assert space["changed"] == "1970-01-01T00:00:10+00:00"
    assert broken["things"] is None
    assert broken["problem"] == "broken.cbcl is not a memory of cbcl."


def test_another_memory_is_opened_for_everybody_and_the_one_before_keeps_all(
    page: Page, folder: Path, photos: Photos
) -> None:
    assert page.learn("mug", photos["coffee"][3]).status_code == 200
    assert opened(page, "space.cbcl").json() == {"memory": "space.cbcl", "revision": 1}
    assert page.get("/api/health").json()["memory"] == "space.cbcl"
    assert page.labels() == {"rocket": 3}
    assert page.recognize(photos["rocket"][4]).json()["label"] == "rocket"
    assert page.learn("cat", photos["chelsea"][0]).status_code == 200
    assert opened(page, "things.cbcl").status_code == 200
    assert page.labels() == {"chelsea": 3, "mug": 1, "coffee": 3}
    assert opened(page, "things.cbcl").status_code == 200  # which is open
    with Recognizer(folder / "space.cbcl") as recognizer:
        assert recognizer.labels() == {"cat": 1, "rocket": 3}


def test_a_request_that_is_meant_for_another_memory_does_nothing(page: Page) -> None:
    meant = {"CBCL-Memory": "things.cbcl"}
    assert page.get("/api/labels", headers=meant).status_code == 200
    assert opened(page, "space.cbcl").status_code == 200
    told = refused(page.post("/api/undo", headers=meant), "switched")
    assert "space.cbcl was opened here in place of things.cbcl" in told["message"]
    assert page.labels() == {"rocket": 3}
    assert page.get("/api/labels", headers={"CBCL-Memory": "space%2Ecbcl"}).status_code == 200


def test_a_request_under_way_is_finished_on_the_memory_it_was_sent_to(
    page: Page, folder: Path, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    may, begun = threading.Event(), threading.Event()
    learn = Recognizer.learn

    def slow(self: Recognizer, *words: Any, **options: Any) -> Any:
        begun.set()
        assert may.wait(60)
        return learn(self, *words, **options)

    monkeypatch.setattr(Recognizer, "learn", slow)
    answers: list[Any] = []
    teaching = threading.Thread(
        target=lambda: answers.append(page.learn("mug", photos["coffee"][3]))
    )
    teaching.start()
    assert begun.wait(60)
    assert opened(page, "space.cbcl").status_code == 200
    assert page.labels() == {"rocket": 3}
    may.set()
    teaching.join()
    assert answers[0].json()["learned"] == {"mug": 1}
    with Recognizer(folder / "things.cbcl") as recognizer:
        assert "mug" in recognizer.labels()
    assert page.labels() == {"rocket": 3}
    until(lambda: threads_of("changes") <= 1)  # those of the memory before are gone


def threads_of(queue: str) -> int:
    return sum(thread.name.startswith(queue) for thread in threading.enumerate())


def test_a_new_memory_is_opened_and_its_file_is_made_by_the_first_thing_learned(
    page: Page, folder: Path, photos: Photos
) -> None:
    made = page.post("/api/memories", json={"name": " kitchen "}).json()
    assert made == {"memory": "kitchen.cbcl", "revision": 0}
    assert page.labels() == {}
    assert not (folder / "kitchen.cbcl").exists()
    told = page.get("/api/memories").json()
    assert told["memories"][0] == {
        "name": "kitchen.cbcl",
        "things": 0,
        "changed": None,
        "problem": None,
    }
    assert page.learn("mug", photos["coffee"][0]).status_code == 200
    assert names(page)[0] == "kitchen.cbcl"
    assert check(folder / "kitchen.cbcl") == []
    for taken in ("kitchen", "SPACE.cbcl"):
        message = refused(page.post("/api/memories", json={"name": taken}), "memory")["message"]
        assert "is there already" in message


HOSTILE = [
    "",
    "  ",
    ".cbcl",
    ".",
    "..",
    "../evil",
    "..\\evil",
    "/etc/passwd",
    "C:evil",
    "a/b",
    "a\\b",
    "evil\0",
    "evil\nname",
    "\u202eevil",
    ".hidden",
    "-rf",
    "~",
    "nul",
    "COM1.x",
    "dot.",
    'a"b',
    "a*b",
    "x" * (MAX_MEMORY_NAME + 1),
    "\N{GRINNING FACE}" * 60,
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_name_makes_copies_and_opens_nothing(
    page: Page, folder: Path, name: str
) -> None:
    before = {path: path.stat().st_ino for path in folder.parent.rglob("*.cbcl")}
    body = f'{{"name": {ascii_json(name)}}}'
    refused(posted(page, "/api/memories", body), "argument")
    refused(posted(page, "/api/memories/open", body), "missing")
    body = f'{{"name": "things.cbcl", "new": {ascii_json(name)}}}'
    refused(posted(page, "/api/memories/duplicate", body), "argument")
    assert {path: path.stat().st_ino for path in folder.parent.rglob("*.cbcl")} == before
    assert page.labels() == {"chelsea": 3, "coffee": 3}


def ascii_json(text: str) -> str:
    return '"' + "".join(f"\\u{unit:04x}" for unit in utf16(text)) + '"'


def utf16(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


def posted(page: Page, address: str, body: str) -> Any:
    return page.post(address, content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("name", [".hidden.cbcl", "inner.cbcl", "notes.txt", "../things.cbcl"])
def test_what_is_not_listed_cannot_be_opened(page: Page, folder: Path, name: str) -> None:
    shutil.copy(folder / "things.cbcl", folder.parent / "outside.cbcl")
    refused(opened(page, name), "missing")
    refused(opened(page, "../outside.cbcl"), "missing")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kitchen", "kitchen.cbcl"),
        ("kitchen.cbcl", "kitchen.cbcl"),
        ("Küche", "Küche.cbcl"),
        ("Ku\u0308che", "Küche.cbcl"),
        ("مطبخ", "مطبخ.cbcl"),
        ("my 2nd shop (old)", "my 2nd shop (old).cbcl"),
        ("v1.2", "v1.2.cbcl"),
        (" shop\n", "shop.cbcl"),
    ],
)
def test_names_as_people_write_them(text: str, name: str) -> None:
    assert as_memory_name(text) == name


def test_a_copy_knows_the_same_and_the_memory_that_is_open_stays_open(
    page: Page, folder: Path
) -> None:
    page.post("/api/rename", json={"label": "coffee", "new": "mug"})
    body = {"name": "things.cbcl", "new": "things copy"}
    assert page.post("/api/memories/duplicate", json=body).json() == {"memory": "things copy.cbcl"}
    assert page.get("/api/health").json()["memory"] == "things.cbcl"
    refused(page.post("/api/memories/duplicate", json=body), "memory")
    missing = {"name": "nothing.cbcl", "new": "x"}
    refused(page.post("/api/memories/duplicate", json=missing), "missing")
    assert opened(page, "things copy.cbcl").status_code == 200
    assert page.labels() == {"chelsea": 3, "mug": 3}
    assert check(folder / "things copy.cbcl") == []


def restored(page: Page, data: bytes, name: str = "backup.cbcl") -> Any:
    return page.post("/api/memories/restore", files={"memory": (name, data)})


def test_a_backup_takes_the_place_of_the_memory_which_is_kept_and_put_back(
    page: Page, folder: Path, photos: Photos
) -> None:
    backup = page.get("/api/export").content
    page.learn("mug", photos["coffee"][3])
    page.post("/api/forget", json={"label": "chelsea"})
    steps = len(page.get("/api/history").json()["steps"])
    kept = restored(page, backup).json()["kept"]
    assert page.labels() == {"chelsea": 3, "coffee": 3}
    assert page.recognize(photos["chelsea"][4]).json()["label"] == "chelsea"
    assert page.learn("rocket", photos["rocket"][0]).status_code == 200
    assert kept in names(page)
    undone = page.post("/api/memories/undo-restore").json()
    assert page.labels() == {"coffee": 3, "mug": 1}
    assert len(page.get("/api/history").json()["steps"]) == steps  # it is the very file
    assert not (folder / kept).exists()
    page.post("/api/memories/undo-restore")  # undo of the undo
    assert page.labels() == {"chelsea": 3, "coffee": 3, "rocket": 1}
    assert undone["kept"] not in names(page)
    assert all(check(path) == [] for path in folder.glob("[!.i]*.cbcl"))


def test_a_link_is_not_replaced(open_page: OpenPage, folder: Path, lessons: bytes) -> None:
    (folder / "link.cbcl").symlink_to(folder / "things.cbcl")
    page = open_page(folder / "link.cbcl")
    assert "is a link" in refused(restored(page, lessons), "memory")["message"]
    assert page.labels() == {"chelsea": 3, "coffee": 3}


def test_where_nothing_was_learned_yet_a_backup_is_simply_there(
    page: Page, folder: Path, lessons: bytes
) -> None:
    page.post("/api/memories", json={"name": "new"})
    assert restored(page, lessons).json()["kept"] is None
    assert page.labels() == {"chelsea": 3, "coffee": 3}
    refused(page.post("/api/memories/undo-restore"), "memory")
    assert check(folder / "new.cbcl") == []


def test_what_is_no_memory_replaces_nothing(page: Page, folder: Path, lessons: bytes) -> None:
    half = len(lessons) // 2
    damaged = lessons[:half] + bytes(byte ^ 255 for byte in lessons[half:])
    for data in (b"", b"no memory" * 100, lessons[:half], damaged):
        told = refused(restored(page, data, "holiday.jpg"), "memory")
        assert "holiday.jpg" in told["message"]
        assert str(folder) not in told["message"]
    refused(page.post("/api/memories/undo-restore"), "memory")
    assert page.labels() == {"chelsea": 3, "coffee": 3}
    assert names(page) == ["things.cbcl", "space.cbcl"]


def test_a_damaged_memory_is_replaced_by_a_backup_and_kept(
    page: Page, folder: Path, lessons: bytes
) -> None:
    assert page.labels()
    path = folder / "things.cbcl"
    path.write_bytes(b"x" * 4096)
    kept = restored(page, lessons).json()["kept"]
    assert page.labels() == {"chelsea": 3, "coffee": 3}
    assert (folder / kept).read_bytes() == b"x" * 4096


def test_a_memory_that_another_process_has_open_is_not_replaced(
    page: Page, folder: Path, lessons: bytes
) -> None:
    code = (
        "import sys; from cbcl import Recognizer\n"
        "with Recognizer(sys.argv[1]) as r: print(len(r.labels()), flush=True); input()"
    )
    path = str(folder / "things.cbcl")
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"2\n"
        told = refused(restored(page, lessons), "memory")
        assert told["message"] == (
            "things.cbcl is open in another program, too: close it there, then try again."
        )
        assert page.labels() == {"chelsea": 3, "coffee": 3}
        other.communicate(b"\n")
    assert restored(page, lessons).status_code == 200


def test_what_another_process_makes_is_listed_and_its_name_is_taken(
    page: Page, folder: Path, lessons: bytes
) -> None:
    (folder / "late.cbcl").write_bytes(lessons)
    assert "late.cbcl" in names(page)
    refused(page.post("/api/memories", json={"name": "late"}), "memory")
    (folder / "late.cbcl").unlink()
    refused(opened(page, "late.cbcl"), "missing")
    assert page.post("/api/memories", json={"name": "late"}).status_code == 200


def test_a_memory_that_cannot_be_read_leaves_the_other_open(page: Page, folder: Path) -> None:
    (folder / "broken.cbcl").write_bytes(b"this is no memory, but it is called one" * 9)
    told = refused(opened(page, "broken.cbcl"), "memory")
    assert told["message"] == "broken.cbcl is not a memory of cbcl."
    assert page.labels() == {"chelsea": 3, "coffee": 3}


def test_a_folder_that_is_gone_is_told(page: Page, folder: Path) -> None:
    assert page.labels()
    moved = folder.rename(folder.with_name("moved"))
    told = refused(page.get("/api/memories"), "memory")
    assert str(moved.parent) not in told["message"]
    refused(page.post("/api/memories", json={"name": "x"}), "memory")
    moved.rename(folder)
    assert names(page)


def test_a_server_of_one_memory_shows_and_opens_no_other(
    open_page: OpenPage, folder: Path, lessons: bytes
) -> None:
    page = open_page(folder / "things.cbcl")
    told = page.get("/api/memories").json()
    assert (told["several"], [one["name"] for one in told["memories"]]) == (False, ["things.cbcl"])
    for answer in (
        opened(page, "space.cbcl"),
        page.post("/api/memories", json={"name": "x"}),
        page.post("/api/memories/duplicate", json={"name": "things.cbcl", "new": "x"}),
    ):
        assert "one memory" in refused(answer, "memory")["message"]
    assert restored(page, lessons).status_code == 200
    assert page.post("/api/memories/undo-restore").status_code == 200


def test_without_more_room_nothing_is_changed(page: Page, folder: Path, lessons: bytes) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails as on a full disk
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
        body = {"name": "things.cbcl", "new": "copy"}
        refused(page.post("/api/memories/duplicate", json=body), "memory")
        refused(restored(page, lessons), "memory")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert page.labels() == {"chelsea": 3, "coffee": 3}
    assert sorted(path.name for path in folder.glob("*.cbcl*") if path.is_file()) == [
        ".hidden.cbcl",
        "space.cbcl",
        "things.cbcl",
        "things.cbcl-shm",
        "things.cbcl-wal",
    ]


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    with teach(folder) as running:
        yield running


def test_teach_on_a_folder_opens_the_memory_changed_latest_and_names_the_others(
    server: ServerProcess,
) -> None:
    assert server.client.health()["memory"] == "things.cbcl"
    assert server.client.memories() == ["things.cbcl", "space.cbcl"]
    server.client.open_memory("space.cbcl")
    assert server.client.labels() == {"rocket": 3}
    with pytest.raises(ServerError, match="there is no memory of this name"):
        server.client.open_memory("nothing.cbcl")
    said, wrong = server.stop()
    assert "Also in this folder, under Memories on the page: space.cbcl." in said
    assert (said.splitlines()[-1], wrong) == ("stopped.", "")


def test_teach_without_a_name_is_about_the_folder_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "cbcl.web.server.serve", lambda recognizer, **options: served.append((recognizer, options))
    )
    assert CliRunner().invoke(main, ["teach"]).exit_code == 0
    ((recognizer, options),) = served
    assert (recognizer.path, options["several"]) == (tmp_path / "things.cbcl", True)
    assert CliRunner().invoke(main, ["teach", "a.cbcl"]).exit_code == 0
    assert served[1][1]["several"] is False


def test_streams_go_on_with_the_memory_that_was_opened(
    server: ServerProcess, folder: Path, photos: Photos
) -> None:
    def open_memory(name: str) -> None:
        headers = {"Content-Type": "application/json"}
        answer, _ = server.ask(
            "POST", "/api/memories/open", body=f'{{"name": "{name}"}}', headers=headers
        )
        assert answer.status == 200

    with server.events() as one, server.events() as two:
        for stream in (one, two):
            assert next_event(stream) == ("changed", {"revision": 2})
        open_memory("space.cbcl")
        for stream in (one, two):
            assert next_event(stream) == ("opened", {"memory": "space.cbcl", "revision": 1})
            assert next_event(stream) == ("changed", {"revision": 1})
        server.client.learn("cat", photos["chelsea"][0])
        for stream in (one, two):
            assert next_event(stream) == ("changed", {"revision": 2})
        server.client.recognize(photos["chelsea"][0])
        assert next_event(one)[0] == "recognized"
    server.stop()
    with Recognizer(folder / "space.cbcl") as recognizer:
        assert recognizer.labels() == {"cat": 1, "rocket": 3}


def test_streams_tell_that_another_file_has_taken_the_place(
    server: ServerProcess, lessons: bytes
) -> None:
    boundary = b"--x\r\nContent-Disposition: form-data; name=memory; filename=a.cbcl\r\n\r\n"
    body = boundary + lessons + b"\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with server.events() as stream:
        next_event(stream)
        answer, told = server.ask("POST", "/api/memories/restore", body=body, headers=headers)
        assert answer.status == 200
        event = next_event(stream)
        if event[0] == "changed":  # its number may be read before the file is known to be another
            event = next_event(stream)
        assert event == ("opened", {"memory": "things.cbcl", "revision": told["revision"]})
