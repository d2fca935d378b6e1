"""The API of what is unknown: the report, and how often something unknown is to be expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.api import HERE, TOKENS, VIEW_TOKEN, OpenPage, Page, Photos, bearer, refused

from cbcl import Recognizer
from cbcl.vision.backbones.base import Backbone
from cbcl.web.security import AccessPolicy

pytest_plugins = ["support.api_fixtures"]


def expect(page: Page, how_often: object, **options: Any) -> Any:
    return page.http.put("/api/strangers", json={"strangers": how_often}, **options)


def setting(page: Page) -> str | None:
    """How often, as everybody sees it who reads the labels."""
    how_often: str | None = page.get("/api/labels").json()["strangers"]
    return how_often


def test_the_setting_is_one_step_that_undo_takes_back(taught: Page) -> None:
    before = taught.get("/api/labels").json()
    assert before["strangers"] == "sometimes"
    done = expect(taught, "often").json()
    assert done["revision"] == before["revision"] + 1
    assert done["done"] == {"action": "strangers", "text": "strangers often"}
    assert setting(taught) == taught.get("/api/unknown").json()["report"]["strangers"] == "often"
    step = taught.get("/api/history").json()["steps"][0]
    assert (step["action"], step["text"]) == ("strangers", "often")
    again = expect(taught, "often").json()
    assert again["revision"] == done["revision"]  # which is no step
    undone = taught.post("/api/undo").json()["undone"]
    assert undone == {"action": "strangers", "text": "often", "labels": []}
    assert setting(taught) == "sometimes"


def test_the_report_is_that_of_the_library(taught: Page) -> None:
    told = taught.get("/api/unknown").json()
    assert told["revision"] == taught.get("/api/labels").json()["revision"]
    with Recognizer(taught.memory) as recognizer:
        wanted = recognizer.snapshot().unknown()
    assert wanted is not None
    report = told["report"]
    for name, pair in (("known", wanted.known), ("strange", wanted.strange)):
        assert (report[name]["mean"], report[name]["deviation"]) == pair
    for name in ("strangers", "limit", "known_scores", "strange_scores"):
        assert report[name] == getattr(wanted, name)
    assert report["forecasts"] == {
        how_often: one._asdict() for how_often, one in wanted.forecasts.items()
    }
    assert len(report["known_scores"]) == report["forecasts"]["often"]["known"] == 6


def test_answers_change_without_learning(taught: Page, photos: Photos) -> None:
    strange = []
    for how_often in ("rarely", "sometimes", "often"):
        expect(taught, how_often)
        strange.append(taught.recognize(photos["coffee"][4]).json()["strangeness"])
    assert strange == sorted({*strange})
    assert taught.labels() == {"chelsea": 3, "coffee": 3}


def test_an_empty_memory_has_no_report_and_no_setting(page: Page) -> None:
    assert page.get("/api/unknown").json() == {"revision": 0, "report": None}
    assert setting(page) is None
    refused(expect(page, "often"), "memory")
    assert not page.memory.exists()


def test_the_vote_has_neither_and_says_so(
    tmp_path: Path,
    backbone: Backbone,
    open_page: OpenPage,
    photos: Photos,
) -> None:
    page = open_page(recognizer=Recognizer(tmp_path / "things.cbcl", backbone, head="vote"))
    page.learn("coffee", *photos["coffee"][:3])
    told = page.get("/api/unknown").json()
    assert (told["revision"], told["report"], setting(page)) == (1, None, None)
    assert refused(expect(page, "often"), "memory")["message"] == (
        "things.cbcl learns by the vote, which has no strangers setting: `cbcl upgrade` may help."
    )


@pytest.mark.parametrize("wrong", ["always", "", None, 1, ["often"]])
def test_another_word_is_refused(taught: Page, wrong: object) -> None:
    refused(expect(taught, wrong), "argument")
    assert setting(taught) == "sometimes"


def test_other_sites_and_who_may_look_only_cannot_set_it(taught: Page, open_page: OpenPage) -> None:
    refused(expect(taught, "often", headers={"Origin": "https://evil.example"}), "origin")
    guarded = open_page(policy=AccessPolicy(TOKENS), base_url=HERE)
    looking = bearer(VIEW_TOKEN)
    refused(expect(guarded, "often", headers=looking), "view")
    assert guarded.get("/api/unknown", headers=looking).json()["report"]["strangers"] == "sometimes"
