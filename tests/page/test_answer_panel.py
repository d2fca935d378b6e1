"""The answer on the page: its evidence in sight, doubts told, and what made a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from support.browser import Browsers, drop, painted, shot
from support.page_actions import Open, Photographs, Serve, answer, looked_at, message

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

LAPTOP, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 844}


def test_what_the_answer_comes_from_is_in_sight_on_a_laptop_and_on_a_phone(
    browsers: Browsers, memory: Path, serve: Serve, visit: Open
) -> None:
    server = serve(memory)
    for size in (LAPTOP, PHONE):
        page = visit(server, browsers.showing("coffee"), viewport=size)
        expect(answer(page)).to_have_text("mug")
        pictures = page.locator("#reasons img")
        expect(pictures).to_have_count(3)
        for picture in pictures.all():
            expect(picture).to_be_in_viewport(ratio=1)
        expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_in_viewport(ratio=1)
        expect(page.locator("#runners")).not_to_contain_text("0%")


def test_all_that_can_be_said_of_six_things_is_in_sight_on_a_laptop(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    things = {"coffee": "mug", "chelsea": "cat", "rocket": "rocket", "astronaut": "pilot"}
    things |= {"moon": "moonlight", "brick": "brick wall"}
    with Recognizer(tmp_path / "six.cbcl") as recognizer:
        for name, label in things.items():
            recognizer.learn(label, photographs(name, 2))
    page = visit(serve(tmp_path / "six.cbcl"), viewport=LAPTOP)
    drop(page, *photographs("coffee", 1, seed=5))
    looked_at(page, 1)
    expect(answer(page)).to_have_text("mug")
    expect(page.locator("#chips button")).to_have_count(6)  # five, and none of these
    expect(page.get_by_role("button", name="Something else…")).to_be_in_viewport(ratio=1)


def test_a_photo_that_made_a_wrong_answer_is_named_and_set_aside(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(memory) as recognizer:
        recognizer.learn("cat", photographs("coffee", 1, seed=4))  # by mistake
        mistaken = recognizer.snapshot().examples("cat")[-1].number
    page = visit(serve(memory))
    expect(page.locator("#wrong")).to_be_hidden()  # as long as nothing was said
    drop(page, *photographs("coffee", 1, seed=4))
    looked_at(page, 1)
    expect(answer(page)).to_have_text("cat")
    page.get_by_role("button", name="That was wrong").click()
    dialog = page.get_by_role("dialog", name="That was wrong")
    first = dialog.get_by_role("listitem").first
    expect(first).to_contain_text("Without it I would say: mug")
    assert str(mistaken) in str(first.locator("img").get_attribute("src"))
    shot(page, "that-was-wrong")
    first.get_by_role("button", name="Set aside").click()
    expect(dialog.locator(f'img[src*="/{mistaken}/"]')).to_have_count(0)
    page.keyboard.press("Escape")
    expect(answer(page)).to_have_text("mug")
    message(page, "Removed 1 photo of cat.").get_by_role("button", name="Undo").click()
    expect(answer(page)).to_have_text("cat")


def test_what_the_finder_does_not_show_is_not_taught(
    browsers: Browsers, memory: Path, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee"), viewport=LAPTOP)
    expect(answer(page)).to_have_text("mug")
    square = "node => Object.assign(node.style, { aspectRatio: 1, width: '200px' })"
    page.locator("#finder").evaluate(square)
    page.get_by_role("button", name="Snap").click()
    photo = looked_at(page, 1).locator("img").first
    assert photo.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [480, 480]


def not_loaded_yet(route: Route) -> None:
    """Answer as a server does that was started a moment ago."""
    health = route.fetch().json()
    health["backbone"] |= {"ready": False, "looks_at": None}
    route.fulfill(json=health)


def test_the_part_that_is_looked_at_is_drawn_on_the_finder(
    tmp_path: Path, browsers: Browsers, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(tmp_path / "middle.cbcl", "efficientnet-lite0") as recognizer:
        recognizer.learn("mug", photographs("coffee", 3))
        square = recognizer.backbone.description["square"]
    page = visit(serve(tmp_path / "middle.cbcl"), browsers.showing("coffee"), viewport=LAPTOP)
    expect(answer(page)).to_have_text("mug")
    page.route("**/api/health", not_loaded_yet, times=1)
    page.reload()
    expect(page.locator("#looked-at")).to_be_visible()
    frame, view = page.locator("#looked-at").bounding_box(), page.locator("#video").bounding_box()
    assert frame is not None
    assert view is not None
    assert 0.5 < square <= 1
    assert frame["height"] == pytest.approx(square * view["height"], abs=1)
    assert frame["width"] == pytest.approx(frame["height"], abs=1)
    assert frame["x"] + frame["width"] / 2 == pytest.approx(view["x"] + view["width"] / 2, abs=1)


def test_a_flat_window_shows_and_teaches_no_strip(
    browsers: Browsers, memory: Path, serve: Serve, visit: Open
) -> None:
    zoomed = {"width": 640, "height": 360}  # a laptop at 200 %
    page = visit(serve(memory), browsers.showing("coffee"), viewport=zoomed)
    expect(answer(page)).to_have_text("mug")
    page.get_by_role("button", name="Snap").click()
    photo = looked_at(page, 1).locator("img").first
    photo.scroll_into_view_if_needed()
    painted(page)
    ratio = photo.evaluate("image => image.naturalWidth / image.naturalHeight")
    assert 1.7 < ratio < 1.8
