"""Many pictures: groups of those that look alike, several labels in one change, known pictures."""

from __future__ import annotations

from typing import Any

from support.api import NOISE, Page, Photos, files, refused

pytest_plugins = ["support.api_fixtures"]
LOST = "0" * 64


def seen(page: Page, *pictures: bytes) -> list[str]:
    answers = page.post("/api/recognize-many", files=files(*pictures)).json()["answers"]
    return [answer["seen"] for answer in answers]


def test_pictures_that_look_alike_are_grouped_by_their_digests(page: Page, photos: Photos) -> None:
    cups, cats = seen(page, *photos["coffee"][:3]), seen(page, *photos["chelsea"][:2])
    asked = [cups[0], LOST, *cats, *cups[1:]]
    groups = page.post("/api/group", json={"seen": asked}).json()["groups"]
    assert [sorted(group) for group in groups] == [sorted(cups), sorted(cats)]
    assert page.post("/api/group", json={"seen": [LOST]}).json() == {"groups": []}
    assert not page.memory.exists()


def test_several_labels_are_learned_in_one_change(page: Page, photos: Photos) -> None:
    cups, cats = seen(page, *photos["coffee"][:3]), seen(page, *photos["chelsea"][:2])
    things = [
        {"label": "cup", "seen": cups[:2]},
        {"label": "cat", "seen": cats},
        {"label": "cup", "seen": cups[2:]},
    ]
    learned = page.post("/api/learn-many", json={"things": things}).json()
    assert learned["learned"] == {"cup": 3, "cat": 2}
    assert page.labels() == {"cat": 2, "cup": 3}
    page.post("/api/undo")
    assert page.labels() == {}


def test_nothing_is_learned_if_a_picture_is_gone_or_a_label_bad(page: Page, photos: Photos) -> None:
    (cup,) = seen(page, photos["coffee"][0])
    things = [{"label": "cup", "seen": [cup]}, {"label": "cat", "seen": [LOST]}]
    error = refused(page.post("/api/learn-many", json={"things": things}), "seen")
    assert error["seen"] == [LOST]
    things[1] = {"label": "unknown", "seen": [cup]}
    refused(page.post("/api/learn-many", json={"things": things}), "label")
    bodies: list[dict[str, Any]] = [
        {"things": []},
        {"things": [{"label": "cup", "seen": []}]},
        {"seen": [cup]},
    ]
    for body in bodies:
        refused(page.post("/api/learn-many", json=body), "argument")
    refused(page.post("/api/group", json={"seen": []}), "argument")
    assert page.labels() == {}


def test_the_most_digests_of_a_request_fit_into_its_body(page: Page) -> None:
    most = [LOST] * 900
    assert page.post("/api/group", json={"seen": most}).json() == {"groups": []}
    refused(page.post("/api/group", json={"seen": [*most, LOST]}), "argument")
    refused(page.post("/api/learn-many", json={"things": [{"label": "cup", "seen": most}]}), "seen")


def test_a_picture_that_is_known_already_is_told(taught: Page, photos: Photos) -> None:
    old, new = photos["coffee"][0], photos["coffee"][3]
    many = taught.post("/api/recognize-many", files=files(old, NOISE, new)).json()
    answers = [answer.get("taught", "-") for answer in many["answers"]]
    assert answers == ["coffee", "-", None]
    assert taught.recognize(old).json()["taught"] == "coffee"
    assert taught.recognize(new).json()["taught"] is None


def test_a_problem_is_told_without_the_name_so_that_the_same_can_be_told_once(page: Page) -> None:
    answers = page.post("/api/recognize-many", files=files(NOISE, NOISE[:9])).json()["answers"]
    one, other = (answer["error"] for answer in answers)
    assert one["message"] != other["message"]
    assert one["message"].endswith(f"{one['problem']}.")
    assert one["problem"].startswith("is not a picture")
