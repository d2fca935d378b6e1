"""Many requests at once."""

from __future__ import annotations

import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from support.api import OpenPage, Page, Photos, files, refused
from support.server import TIMEOUT_SECONDS, until

from cbcl import Recognizer
from cbcl.heads.self_test import SelfTestResult
from cbcl.recognition.snapshot import Snapshot
from cbcl.vision.backbones.base import Backbone
from cbcl.web import embedding

pytest_plugins = ["support.api_fixtures"]


class Watched(Recognizer):
    """One that looks when it may, and notes at how many pictures in one go."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.may, self.looks = threading.Semaphore(0), list[int]()

    def snapshot(self) -> Snapshot:
        snapshot = super().snapshot()

        def look(pictures: Any, **options: Any) -> Any:
            self.may.acquire()
            self.looks.append(len(pictures))
            return Snapshot.look(snapshot, pictures, **options)

        vars(snapshot)["look"] = look
        return snapshot


def test_a_single_picture_need_not_wait_for_a_whole_batch(
    open_page: OpenPage,
    backbone: Backbone,
    photos: Photos,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedding, "cores", lambda: 1)
    watched = Watched(tmp_path / "x.cbcl", backbone)
    page = open_page(recognizer=watched)
    queue = cast(Any, page.http.app).state.served.service.embedding.queue
    watched.may.release()  # for what it looks at by itself, to warm up
    until(lambda: watched.looks and not queue.pending)
    batch = threading.Thread(
        target=lambda: page.post("/api/recognize-many", files=files(*photos["coffee"]))
    )
    frame = threading.Thread(target=page.recognize, args=[photos["rocket"][0]])
    batch.start()
    until(lambda: queue.pending)
    frame.start()
    until(lambda: queue.pending == 2)
    watched.may.release(9)
    for thread in (batch, frame):
        thread.join()
    assert watched.looks == [1, 2, 1, 2, 1]


def test_another_file_in_the_memorys_place_is_what_is_shown(
    taught: Page, tmp_path: Path, backbone: Backbone, photos: Photos
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


def learns(page: Page, label: str, photo: bytes) -> bool:
    return bool(page.learn(label, photo).status_code == 200)


@pytest.mark.skipif(sys.platform != "linux", reason="it takes locks that only Linux has")
def test_replacing_the_memory_again_and_again_leaks_no_files(
    taught: Page, photos: Photos, lessons: bytes, tmp_path: Path
) -> None:
    other = tmp_path / "other.cbcl"
    descriptors: list[int] = []
    for turn in range(8):
        label = f"rocket {turn}"  # at first it may be told that the file was replaced
        until(partial(learns, taught, label, photos["rocket"][0]))
        assert label in taught.labels()
        with closing(sqlite3.connect(taught.memory)) as emptying:  # its log must not outlive it
            emptying.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.write_bytes(lessons)
        other.replace(taught.memory)
        until(lambda: taught.get("/api/labels").status_code == 200)
        assert taught.labels() == {"chelsea": 3, "coffee": 3}
        descriptors.append(len([*Path("/proc/self/fd").iterdir()]))
    assert descriptors[-1] <= descriptors[1]


def test_what_is_forgotten_for_good_is_not_remembered_by_the_server(
    taught: Page, photos: Photos
) -> None:
    seen = taught.recognize(photos["rocket"][0]).json()["seen"]
    taught.learn("rocket", seen=[seen])
    taught.post("/api/forget", json={"label": "rocket"})
    assert taught.learn("rocket", seen=[seen]).status_code == 200
    taught.post("/api/forget", json={"label": "rocket", "for_good": True})
    assert refused(taught.learn("rocket", seen=[seen]), "seen")["seen"] == [seen]


def test_reading_and_asking_do_not_wait_for_learning(taught: Page, photos: Photos) -> None:
    asked = taught.recognize(photos["rocket"][0]).json()["seen"]
    with closing(sqlite3.connect(taught.memory, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another process writes, and takes its time
        learning = threading.Thread(target=taught.learn, args=["rocket"], kwargs={"seen": [asked]})
        learning.start()
        until(lambda: taught.get("/api/health").json()["learning"])
        assert taught.labels() == {"chelsea": 3, "coffee": 3}
        assert taught.recognize(photos["coffee"][4]).json()["label"] == "coffee"
        assert taught.get("/api/history").status_code == 200
        assert taught.get("/api/examples/1/thumbnail").status_code == 200
        assert taught.get("/api/scores").status_code == 200
        assert learning.is_alive()
        other.execute("COMMIT")
    learning.join()
    assert taught.labels() == {"chelsea": 3, "coffee": 3, "rocket": 1}


def test_an_export_does_not_wait_for_scores(taught: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    may, begun = threading.Event(), threading.Event()
    examine = Snapshot.examine

    def slow(snapshot: Snapshot) -> SelfTestResult:
        begun.set()
        assert may.wait(TIMEOUT_SECONDS)
        return examine(snapshot)

    monkeypatch.setattr(Snapshot, "examine", slow)
    with ThreadPoolExecutor() as executor:
        try:
            scores = executor.submit(taught.get, "/api/scores")
            assert begun.wait(TIMEOUT_SECONDS)
            exports = [executor.submit(taught.get, "/api/export") for _ in range(2)]
            statuses = [export.result(TIMEOUT_SECONDS / 4).status_code for export in exports]
            assert statuses == [200, 200]
            assert not scores.done()
        finally:
            may.set()
        assert scores.result().status_code == 200


def test_many_teach_and_ask_at_once_and_nothing_is_lost(taught: Page, photos: Photos) -> None:
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
    labels = taught.labels()
    assert (labels.pop("chelsea"), labels.pop("coffee")) == (3, 3)
    assert sum(labels.values()) == 5  # each picture has the label that it was taught last
    with Recognizer(taught.memory) as recognizer:
        assert recognizer.snapshot().revision == 2 + 36
