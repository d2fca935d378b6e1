"""The API: what it answers. (Its process: test_server.py.)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.api import NOISE, OpenPage, Page, Photos, files, refused

from cbcl import Recognizer, load_backbone
from cbcl.vision.backbones.base import Backbone

pytest_plugins = ["support.api_fixtures"]


def test_an_empty_memory_answers_that_nothing_is_known(page: Page, photos: Photos) -> None:
    health = page.get("/api/health").json()
    assert (health["memory"], health["revision"], health["private"]) == ("things.cbcl", 0, False)
    assert page.get("/api/labels").json() == {
        "revision": 0,
        "private": False,
        "labels": [],
        "undo": None,
        "head": None,
        "abilities": ["copies", "negatives", "strangers", "suspects"],
        "negatives": None,
        "strangers": None,
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
        "taught": None,
    }
    many = page.post("/api/recognize-many", files=files(*photos["coffee"][:2])).json()
    assert many["order"] == [0, 1]
    advice = page.get("/api/advice").json()
    assert (advice["alike"], advice["more"]) == ([], [])
    scores = page.get("/api/scores").json()
    assert (scores["labels"], scores["matrix"], scores["asked"]) == ([], [], 0)
    assert scores["problem"]
    assert not page.memory.exists()


def test_a_session_from_teaching_to_correcting(taught: Page, photos: Photos) -> None:
    answer = taught.recognize(photos["coffee"][3]).json()
    assert answer["label"] == "coffee"
    assert 0 < answer["confidence"] <= 1
    assert answer["strangeness"] < 1
    assert [guess["label"] for guess in answer["ranking"]] == ["coffee", "chelsea"]
    *like, against = answer["evidence"]
    assert [(reason["label"], reason["against"]) for reason in like] == [("coffee", False)] * 3
    assert (against["label"], against["against"]) == ("chelsea", True)
    assert {number for reason in like for number in reason["examples"]} == {4, 5, 6}
    assert against["examples"][0] in {1, 2, 3}
    distances = [reason["distance"] for reason in answer["evidence"]]
    assert distances == sorted(distances)
    assert sum(reason["share"] for reason in answer["evidence"]) == pytest.approx(1)
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


def test_examples_are_listed_shown_and_taken_back_one_by_one(taught: Page, photos: Photos) -> None:
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


def test_a_picture_that_was_only_asked_about_can_be_seen(taught: Page, photos: Photos) -> None:
    seen = taught.recognize(photos["rocket"][0]).json()["seen"]
    small = taught.get(f"/api/seen/{seen}/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    assert small.content.startswith(b"\xff\xd8")
    refused(taught.get(f"/api/seen/{'0' * 64}/thumbnail"), "seen")


def test_copies_add_nothing_and_a_picture_taught_again_with_another_label_moves(
    taught: Page, photos: Photos
) -> None:
    told = taught.learn("coffee", *photos["coffee"][:4]).json()
    assert (told["learned"], told["copies"], told["moved"]) == ({"coffee": 4}, {"coffee": 3}, {})
    assert taught.labels() == {"chelsea": 3, "coffee": 4}
    told = taught.learn("mug", photos["coffee"][0]).json()
    assert (told["learned"], told["copies"], told["moved"]) == ({"mug": 1}, {}, {"coffee": 1})
    assert taught.labels() == {"chelsea": 3, "coffee": 3, "mug": 1}


def test_pictures_of_none_of_these_are_unknown_listed_taken_back_and_forgotten(
    taught: Page, photos: Photos
) -> None:
    assert taught.get("/api/negatives").json()["examples"] == 0
    seen = taught.recognize(photos["coffee"][0]).json()["seen"]
    told = taught.learn_negatives(photos["rocket"][0], seen=[seen]).json()
    assert (told["learned"], told["moved"]) == ({"": 2}, {"coffee": 1})
    assert taught.recognize(photos["coffee"][0]).json()["label"] is None
    listed = taught.get("/api/labels").json()
    assert {thing["label"]: thing["examples"] for thing in listed["labels"]} == {
        "chelsea": 3,
        "coffee": 2,
    }
    assert listed["undo"]["text"] == "learn none of these (2)"
    negatives = taught.get("/api/negatives").json()
    assert (negatives["label"], negatives["examples"]) == ("", 2)
    numbers = [kept["example"] for kept in negatives["kept"]]
    assert listed["negatives"] == {"examples": 2, "kept": 2, "shown": numbers}
    small = taught.get(f"/api/examples/{numbers[0]}/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    assert taught.http.delete(f"/api/examples/{numbers[0]}").json()["label"] == ""
    assert taught.get("/api/negatives").json()["examples"] == 1
    done = taught.http.delete("/api/negatives").json()["done"]
    assert done == {"action": "forget", "text": "forget none of these"}
    assert taught.get("/api/labels").json()["negatives"] is None
    refused(taught.http.delete("/api/negatives"), "label")
    taught.post("/api/undo")
    assert taught.get("/api/negatives").json()["examples"] == 1


def test_a_memory_of_the_vote_says_so_and_takes_no_negatives(
    open_page: OpenPage,
    backbone: Backbone,
    photos: Photos,
    tmp_path: Path,
) -> None:
    page = open_page(recognizer=Recognizer(tmp_path / "vote.cbcl", backbone, head="vote"))
    page.learn("coffee", *photos["coffee"][:3])
    assert page.get("/api/labels").json()["head"] == "vote"
    told = refused(page.learn_negatives(photos["rocket"][0]), "label")
    assert told["message"] == (
        'this memory learns by the vote, which cannot learn "none of these":'
        " `cbcl upgrade` may help."
    )
    (reason,) = page.recognize(photos["coffee"][3]).json()["evidence"]
    assert (reason["label"], reason["pictures"], reason["share"]) == ("coffee", 3, 1.0)
    assert (len(reason["examples"]), reason["against"]) == (3, False)


def test_many_pictures_are_answered_in_their_order_and_broken_ones_told(
    taught: Page, photos: Photos
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


def test_advice_and_scores_are_those_of_the_recognizer(taught: Page, photos: Photos) -> None:
    taught.learn("beans", photos["coffee"][4])
    advice = taught.get("/api/advice").json()
    with Recognizer(taught.memory) as recognizer:
        found, examined = recognizer.snapshot().advise(), recognizer.snapshot().examine()
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


def test_answers_are_those_of_the_recognizer(taught: Page, photos: Photos) -> None:
    with Recognizer(taught.memory) as recognizer:
        for picture in (*photos["coffee"], *photos["chelsea"], *photos["rocket"]):
            told, answer = taught.recognize(picture).json(), recognizer.recognize(picture)
            assert (told["label"], told["confidence"]) == (answer.label, answer.confidence)
            assert told["strangeness"] == answer.strangeness
            assert [tuple(guess.values()) for guess in told["ranking"]] == [*answer.ranking]


def test_what_is_exported_and_imported_gives_the_same_answers(
    taught: Page, open_page: OpenPage, photos: Photos, tmp_path: Path
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
    assert other.labels() == {"chelsea": 3, "coffee": 3}  # what is known already adds nothing
    other.post("/api/undo")
    assert other.labels() == {"chelsea": 3, "coffee": 3}


def test_a_private_memory_shows_nothing(
    open_page: OpenPage,
    backbone: Backbone,
    photos: Photos,
    tmp_path: Path,
) -> None:
    recognizer = Recognizer(tmp_path / "private.cbcl", backbone, private=True)
    page = open_page(recognizer=recognizer)
    assert page.get("/api/health").json()["private"] is True
    page.learn("coffee", *photos["coffee"][:3])
    listed = page.get("/api/labels").json()
    assert listed["private"] is True
    assert (listed["labels"][0]["examples"], listed["labels"][0]["kept"]) == (3, 0)
    answer = page.recognize(photos["coffee"][3]).json()
    evidence = answer["evidence"]
    assert [(reason["pictures"], reason["examples"]) for reason in evidence] == [(1, [])] * 3
    refused(page.get(f"/api/seen/{answer['seen']}/thumbnail"), "missing")
    page.learn_negatives(photos["rocket"][0])
    assert page.get("/api/labels").json()["negatives"] == {"examples": 1, "kept": 0, "shown": []}


def test_a_backbone_that_cannot_be_had_is_told_and_nothing_else_fails(
    open_page: OpenPage, photos: Photos, tmp_path: Path
) -> None:
    memory = tmp_path / "letters.cbcl"
    letters = load_backbone(
        lambda words: [[word.count(c) for c in "abc"] for word in words], name="letters"
    )
    with Recognizer(memory, letters) as recognizer:
        recognizer.learn("fruit", ["abc", "cabbage"])
    page = open_page(memory, through=None)
    message = refused(page.recognize(photos["coffee"][0]), "backbone")["message"]
    health = page.get("/api/health").json()["backbone"]
    known = {"name": "letters", "ready": False, "problem": message}
    assert health == {**known, "looks_at": None}
    assert "letters" in message
    assert str(tmp_path) not in message
    refused(page.learn("coffee", photos["coffee"][0]), "backbone")
    assert page.labels() == {"fruit": 2}


def test_suspects_are_examples_with_the_answer_without_them(page: Page, photos: Photos) -> None:
    picture = photos["coffee"][0]
    assert page.post("/api/suspects", files={"picture": ("a.jpg", picture)}).json() == {
        "suspects": [],
        "revision": 0,
    }
    page.learn("mug", *photos["coffee"][1:4])
    page.learn("cat", *photos["chelsea"][:3], picture)
    seen = page.recognize(picture).json()
    assert seen["label"] == "cat"
    answer = page.post("/api/suspects", files={"seen": (None, seen["seen"])}).json()
    kept = page.get("/api/examples", params={"label": "cat"}).json()["kept"]
    assert answer["suspects"][0]["example"] == kept[-1]["example"]
    assert answer["suspects"][0]["label"] == "mug"
    assert 0 < answer["suspects"][0]["confidence"] <= 1
    refused(page.post("/api/suspects", files={"picture": ("a.jpg", NOISE)}), "picture")
    refused(page.post("/api/suspects", files={"other": ("a.jpg", picture)}), "argument")
