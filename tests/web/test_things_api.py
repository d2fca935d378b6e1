"""The API of things: moved and removed examples, the self-test, look-alikes, spelling, undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.api import OpenPage, Page, Photos, refused

from cbcl import Recognizer
from cbcl.vision.backbones.base import Backbone

pytest_plugins = ["support.api_fixtures"]


def kept(page: Page, label: str) -> list[int]:
    listed = page.get("/api/examples", params={"label": label}).json()["kept"]
    return [example["example"] for example in listed]


def test_examples_move_in_one_change_that_undo_takes_back(taught: Page) -> None:
    cats = kept(taught, "chelsea")
    result = taught.post("/api/move", json={"examples": cats[:2], "into": " tiger "}).json()
    revision = result.pop("revision")
    assert result == {"moved": {"chelsea": 2}, "copies": 0, "gone": [], "spelled_alike": {}}
    assert taught.labels() == {"chelsea": 1, "coffee": 3, "tiger": 2}
    assert kept(taught, "tiger") == cats[:2]
    listed = taught.get("/api/history").json()
    assert listed["revision"] == revision
    assert (listed["steps"][0]["action"], listed["steps"][0]["text"]) == (
        "move",
        "chelsea (2) → tiger",
    )
    undone = taught.post("/api/undo").json()["undone"]
    assert undone == {
        "action": "move",
        "text": "chelsea (2) → tiger",
        "labels": ["chelsea", "tiger"],
    }
    assert taught.labels() == {"chelsea": 3, "coffee": 3}
    result = taught.post("/api/move", json={"examples": cats, "into": "Coffee"}).json()
    assert (result["gone"], result["spelled_alike"]) == (["chelsea"], {"Coffee": "coffee"})
    taught.post("/api/undo")
    assert taught.post("/api/move", json={"examples": cats[:1], "into": None}).json()["moved"] == {
        "chelsea": 1
    }
    assert taught.get("/api/labels").json()["negatives"]["examples"] == 1


def test_several_examples_are_removed_in_one_change(taught: Page) -> None:
    cats, cups = kept(taught, "chelsea"), kept(taught, "coffee")
    removed = taught.post("/api/unlearn", json={"examples": [*cats[:2], cups[0]]}).json()
    assert removed["removed"] == {"chelsea": 2, "coffee": 1}
    assert taught.labels() == {"chelsea": 1, "coffee": 2}
    taught.post("/api/undo")
    assert taught.labels() == {"chelsea": 3, "coffee": 3}


def test_what_cannot_be_moved_or_removed_is_told(taught: Page) -> None:
    (cat, *_), before = kept(taught, "chelsea"), taught.labels()
    move, unlearn = "/api/move", "/api/unlearn"
    told = refused(taught.post(move, json={"examples": [cat], "into": "chelsea"}), "label")
    assert told["message"] == (
        f"'chelsea' has example {cat} already: choose examples of other labels."
    )
    refused(taught.post(move, json={"examples": [cat, 999], "into": "cup"}), "label")
    refused(taught.post(move, json={"examples": [cat], "into": "unknown"}), "label")
    for wrong in ({"examples": [], "into": "cup"}, {"examples": [cat]}, {"examples": [-1]}):
        refused(taught.post(move, json=wrong), "argument")
    refused(taught.post(move, json={"examples": [1] * 1001, "into": "cup"}), "argument")
    told = refused(taught.post(unlearn, json={"examples": [cat, 999]}), "missing")
    assert told["message"] == "one of these examples is not there, or no longer."
    refused(taught.post(unlearn, json={"examples": []}), "argument")
    assert taught.labels() == before


def test_an_empty_memory_has_nothing_to_move_or_test(page: Page) -> None:
    refused(page.post("/api/move", json={"examples": [1], "into": "cup"}), "memory")
    refused(page.post("/api/unlearn", json={"examples": [1]}), "missing")
    refused(page.get("/api/similar", params={"label": "cup"}), "label")
    assert page.get("/api/self-test").json() == {"revision": 0, "labels": []}
    assert not page.memory.exists()


def test_the_self_test_tells_label_by_label_which_examples_fail(
    taught: Page, photos: Photos
) -> None:
    taught.learn("beans", photos["coffee"][4])
    taught.learn("coffee", photos["chelsea"][4])  # which is no coffee
    tested = taught.get("/api/self-test").json()
    with Recognizer(taught.memory) as recognizer:
        result = recognizer.snapshot().examine()
    assert tested["revision"] == taught.get("/api/labels").json()["revision"]
    assert [entry["label"] for entry in tested["labels"]] == ["beans", "chelsea", "coffee"]
    assert sum(entry["tested"] for entry in tested["labels"]) == result.asked
    assert sum(entry["recognized"] for entry in tested["labels"]) == result.right
    beans, _, coffee = tested["labels"]
    assert (beans["tested"], beans["recognized"], beans["wrong"]) == (0, 0, [])
    assert coffee["tested"] - coffee["recognized"] == len(coffee["wrong"]) >= 1
    wrong = {miss["example"]: miss["answer"] for miss in coffee["wrong"]}
    assert kept(taught, "coffee")[-1] in wrong


@pytest.mark.parametrize("head", ["discriminant", "vote"])
def test_what_looks_most_alike_comes_first(
    head: str,
    tmp_path: Path,
    backbone: Backbone,
    open_page: OpenPage,
    photos: Photos,
) -> None:
    page = open_page(recognizer=Recognizer(tmp_path / "things.cbcl", backbone, head=head))
    for label, name in {"cat": "chelsea", "mug": "coffee", "ship": "rocket"}.items():
        page.learn(label, *photos[name][:2])
    page.learn("cup", *photos["coffee"][2:])
    found = page.get("/api/similar", params={"label": "cup"}).json()
    assert found["similar"][0] == "mug"
    assert {*found["similar"]} == {"cat", "mug", "ship"}
    assert found["revision"] == page.get("/api/labels").json()["revision"]
    told = refused(page.get("/api/similar", params={"label": "cupp"}), "label")
    assert told["message"] == "'cupp' is not known: did you mean 'cup'?"


def test_a_label_that_differs_in_case_only_is_told(taught: Page, photos: Photos) -> None:
    learned = taught.learn("Coffee", photos["rocket"][0]).json()
    assert learned["spelled_alike"] == {"Coffee": "coffee"}
    assert learned["gone"] == []
    moved = taught.learn("ship", photos["rocket"][0]).json()
    assert (moved["moved"], moved["gone"], moved["spelled_alike"]) == (
        {"Coffee": 1},
        ["Coffee"],
        {},
    )
    renamed = taught.post("/api/rename", json={"label": "ship", "new": "Chelsea"}).json()
    assert renamed["spelled_alike"] == {"Chelsea": "chelsea"}
    renamed = taught.post("/api/rename", json={"label": "Chelsea", "new": "ship"}).json()
    assert renamed["spelled_alike"] == {}
    renamed = taught.post("/api/rename", json={"label": "chelsea", "new": "Chelsea"}).json()
    assert renamed["spelled_alike"] == {}  # it is the same thing


def test_the_latest_change_of_a_label_has_the_largest_number(taught: Page, photos: Photos) -> None:
    def latest() -> list[str]:
        labels = taught.get("/api/labels").json()["labels"]
        return [one["label"] for one in sorted(labels, key=lambda one: -one["changed"])]

    assert latest() == ["coffee", "chelsea"]
    taught.learn("beans", photos["rocket"][0])
    assert latest() == ["beans", "coffee", "chelsea"]
    taught.learn("chelsea", photos["chelsea"][3])
    assert latest() == ["chelsea", "beans", "coffee"]
    taught.post("/api/undo")
    assert latest() == ["beans", "coffee", "chelsea"]
