"""What is unknown, under the scores: how often to expect it, and the picture; in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import drop, shot
from support.page_actions import (
    PHONE,
    Open,
    Photographs,
    Serve,
    fits,
    found_by_axe,
    looked_at,
    message,
)

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser


def opened(page: Page) -> Locator:
    """The part of the scores about what is unknown, once it is drawn."""
    page.evaluate("location.hash = 'scores'")
    part = page.get_by_role("region", name="When I say")
    expect(part).to_be_visible()
    expect(part).not_to_have_attribute("aria-busy", "true")
    return part


def choice(page: Page, name: str) -> Locator:
    return page.get_by_role("radio", name=name)


def picture(page: Page) -> Locator:
    return page.get_by_role("img", name="Two curves")


def kept(memory: Path) -> str:
    with Recognizer(memory) as recognizer:
        return recognizer.snapshot().settings.strangers


def test_a_choice_is_saved_at_once_kept_and_undone(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(memory) as recognizer:
        report = recognizer.snapshot().unknown()
    assert report is not None
    page = visit(serve(memory))
    drop(page, *photographs("rocket", 1))
    looked_at(page, 1)
    part = opened(page)
    expect(choice(page, "Sometimes")).to_be_checked()
    for name, forecast in report.forecasts.items():
        line = part.locator("label").filter(has=page.locator(f"[value={name}]"))
        expect(line).to_contain_text(f"refuses {forecast.refused} of {forecast.known} of your")
        expect(line).to_contain_text(f"finds {forecast.found} of {forecast.strange} strange")
    expect(picture(page)).to_be_visible()
    part.scroll_into_view_if_needed()
    shot(page, "unknown-setting")
    limit = picture(page).locator(".limit")
    before = limit.get_attribute("d")
    assert found_by_axe(page) == []
    choice(page, "Sometimes").focus()
    with page.expect_response("**/api/recognize-many") as asked:  # the photo that waits
        page.keyboard.press("ArrowUp")
    assert asked.value.ok
    expect(message(page, "From now on I expect strange things often.")).to_be_visible()
    expect(choice(page, "Often")).to_be_focused()
    expect(limit).not_to_have_attribute("d", str(before))
    assert kept(memory) == "often"
    page.reload()
    opened(page)
    expect(choice(page, "Often")).to_be_checked()
    choice(page, "Rarely").click()
    done = message(page, "From now on I expect strange things rarely.")
    done.get_by_role("button", name="Undo").click()
    expect(message(page, "Undone: I expect strange things as often as before.")).to_be_visible()
    expect(choice(page, "Often")).to_be_checked()
    page.get_by_role("link", name="History").click()
    steps = page.locator("#steps > li")
    expect(steps.nth(0)).to_contain_text("expected strangers: rarely")
    expect(steps.nth(2)).to_contain_text("expected strangers:often")
    page.get_by_role("button", name="Undo: expected strangers: often").click()
    opened(page)
    expect(choice(page, "Sometimes")).to_be_checked()
    expect(limit).to_have_attribute("d", str(before))


def test_what_another_page_chooses_is_seen_and_a_refusal_changes_nothing(
    memory: Path, serve: Serve, visit: Open
) -> None:
    server = serve(memory)
    here, there = visit(server, forgiven=("409",)), visit(server, **PHONE)
    opened(here)
    opened(there)
    choice(there, "Rarely").check()
    expect(choice(here, "Rarely")).to_be_checked()
    assert fits(there)
    assert found_by_axe(there) == []
    refusal: dict[str, Any] = {"error": {"kind": "memory", "message": "shop.cbcl is locked."}}
    here.route("**/api/strangers", lambda route: route.fulfill(status=409, json=refusal))
    choice(here, "Often").click()
    expect(message(here, "shop.cbcl is locked.")).to_be_visible()
    expect(choice(here, "Rarely")).to_be_checked()
    assert kept(memory) == "rarely"


def test_little_was_taught(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    memory = tmp_path / "new.cbcl"
    page = visit(serve(memory))
    page.evaluate("location.hash = 'scores'")
    expect(page.locator("#scores-body .note")).to_be_visible()
    expect(page.locator("#unknown")).to_be_hidden()
    with Recognizer(memory) as recognizer:
        recognizer.learn("mug", photographs("coffee", 1))
    part = opened(page)
    expect(picture(page)).to_be_visible()
    expect(part).to_contain_text("Teach me two photos each of two things")
    expect(part).not_to_contain_text("Tested on")
    assert part.locator(".forecast").all_inner_texts() == ["", "", ""]
    assert found_by_axe(page) == []
    with Recognizer(memory) as recognizer:
        recognizer.learn("mug", photographs("coffee", 3))
    expect(part).to_contain_text("Tested on")
    expect(choice(page, "Often")).to_have_accessible_name(
        "often at first 1 photo in 2 refuses 0 of 3 of your photos"
    )


def test_a_memory_of_the_vote_has_no_such_setting(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    memory = tmp_path / "old.cbcl"
    with Recognizer(memory, head="vote") as recognizer:
        recognizer.learn("mug", photographs("coffee", 3))
    page = visit(serve(memory))
    told = "This memory has no such setting. cbcl upgrade gives it one."
    expect(opened(page)).to_contain_text(told)
    expect(page.get_by_role("radio")).to_have_count(0)
    expect(picture(page)).to_be_hidden()
    assert found_by_axe(page) == []
