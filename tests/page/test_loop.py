"""The loop of teaching in a real browser: show, name, judge, and again, without a stall."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import Browsers, drop, shot
from support.page_actions import (
    PHONE,
    UNKNOWN,
    Open,
    Photographs,
    Serve,
    answer,
    card,
    found_by_axe,
    held,
    knows,
    message,
    name_field,
    tiles,
)
from support.scripted_camera import SCRIPTED_CAMERA, show, turn_on

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser


@pytest.fixture
def page(memory: Path, serve: Serve, visit: Open) -> Page:
    """The page with a camera that shows what a test wants."""
    return visit(serve(memory), script=SCRIPTED_CAMERA)


def paused(page: Page) -> bool:
    return page.locator("#held").is_visible()


# The keyboard alone.


def test_thing_after_thing_is_taught_without_a_click(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "shop.cbcl"), script=SCRIPTED_CAMERA)
    turn_on(page, photographs("coffee", 1)[0])
    press = page.keyboard.press
    things = {"cup": "coffee", "cat": "chelsea", "pilot": "astronaut"}
    for number, (label, name) in enumerate(things.items(), start=1):
        for view, photo in enumerate(photographs(name, 2), start=1):
            show(page, photo)
            press("Space")
            expect(tiles(page)).to_have_count(view)
        press("n")
        expect(page.get_by_role("combobox", name="Name these 2 photos")).to_be_focused()
        page.keyboard.type(f"my {label}")
        press("Enter")
        expect(name_field(page)).not_to_be_focused()
        expect(name_field(page)).to_have_value("")
        expect(card(page, f"my {label}")).to_be_visible()
        expect(page.locator("#cards > li")).to_have_count(number)
        expect(tiles(page)).to_have_count(0)
    expect(answer(page)).to_have_text("my pilot")
    assert not paused(page)


# Nothing stays paused.


def test_a_click_on_a_choice_leaves_nothing_paused(page: Page, photographs: Photographs) -> None:
    mug, cat = photographs("coffee", 1, seed=4)[0], photographs("chelsea", 1, seed=4)[0]
    turn_on(page, mug)
    expect(answer(page)).to_have_text("mug")
    for choice, said, other in (("Yes, mug", cat, "cat"), ("mug", mug, "mug")):
        button = page.get_by_role("button", name=choice, exact=True)
        button.hover()
        expect(page.locator("#held")).to_be_visible()
        button.click()
        expect(page.locator("#held")).to_be_hidden()  # though the pointer rests there
        assert page.evaluate("document.activeElement === document.body")
        show(page, said)
        expect(answer(page)).to_have_text(other)
        page.mouse.move(700, 700)
        assert not paused(page)


def test_a_pointer_that_leaves_ends_its_pause_whatever_it_has_pressed(
    page: Page, photographs: Photographs
) -> None:
    turn_on(page, photographs("coffee", 1, seed=4)[0])
    expect(answer(page)).to_have_text("mug")
    page.locator("#yes").hover()
    page.mouse.down()
    expect(page.locator("#held")).to_be_visible()
    page.mouse.move(700, 700)
    page.mouse.up()  # it was not meant
    expect(page.locator("#held")).to_be_hidden()
    show(page, photographs("chelsea", 1, seed=4)[0])
    expect(answer(page)).to_have_text("cat")


def test_a_choice_by_keyboard_gives_the_focus_back(page: Page, photographs: Photographs) -> None:
    turn_on(page, photographs("coffee", 1, seed=4)[0])
    expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_visible()
    page.locator("#yes").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(page.locator("#yes")).to_be_focused()
    expect(page.locator("#held")).to_be_visible()
    page.keyboard.press("Enter")
    expect(message(page, "Thanks")).to_be_visible()
    expect(page.locator("#snap")).to_be_focused()
    expect(page.locator("#held")).to_be_hidden()
    page.keyboard.press("Space")
    expect(tiles(page)).to_have_count(1)


def test_on_a_phone_a_touch_pauses_for_a_moment_only(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory), script=SCRIPTED_CAMERA, **PHONE)
    turn_on(page, photographs("coffee", 1, seed=4)[0])
    expect(answer(page)).to_have_text("mug")
    page.locator("#correction-words").tap()
    expect(page.locator("#held")).to_be_visible()
    show(page, photographs("chelsea", 1, seed=4)[0])
    expect(answer(page)).to_have_text("cat")
    assert not paused(page)


def test_choices_and_headline_are_always_of_the_same_answer(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee", "chelsea", "rocket"))
    expect(answer(page)).to_have_text("mug")
    seen = page.evaluate(
        """() => new Promise((done) => {
          const seen = {};
          const note = () => {
            const headline = document.getElementById("answer-label").textContent;
            const yes = document.getElementById("yes");
            const chips = [...document.querySelectorAll("#chips > :not([hidden])")];
            const said = yes.hidden ? "" : yes.textContent;
            seen[headline] ??= [];
            const choices = [said, ...chips.map((chip) => chip.textContent).sort()].join("|");
            if (!seen[headline].includes(choices)) seen[headline].push(choices);
            if (performance.now() < until) requestAnimationFrame(note);
            else done(seen);
          };
          const until = performance.now() + 14_000;
          note();
        })"""
    )
    expected = {"mug": ["Yes, mug|cat"], "cat": ["Yes, cat|mug"]}
    unknown = {UNKNOWN: ["|cat|mug"]}
    assert expected.items() <= seen.items()
    assert seen.items() <= (expected | unknown).items()


# One field for names.


def test_the_one_name_field_says_what_it_names(page: Page, photographs: Photographs) -> None:
    target = page.locator("#name-target")
    expect(page.locator("#teach input[type=text]")).to_have_count(1)
    expect(target).to_have_text("Name")
    name_field(page).fill("rocket")
    page.keyboard.press("Enter")
    expect(page.locator("#name-problem")).to_contain_text("Show me a photo of it first")
    page.keyboard.press("Escape")
    turn_on(page, photographs("rocket", 1)[0])
    expect(target).to_have_text("Name what I see now")
    expect(page.locator("#name-problem")).to_be_empty()
    expect(name_field(page)).to_have_value("rocket")  # what was typed is not lost
    page.keyboard.press("n")
    expect(page.locator("#held")).to_be_visible()
    expect(page.locator("#name-subject")).to_be_visible()
    shot(page, "name-what-i-see")
    page.get_by_role("button", name="Teach this").click()
    expect(message(page, "Learned 1 photo of rocket.")).to_be_visible()
    knows(page, mug=3, cat=3, rocket=1)
    expect(page.locator("#held")).to_be_hidden()
    expect(page.locator("#name-subject")).to_be_hidden()
    expect(page.locator("#snap")).to_be_focused()

    page.keyboard.press("Space")
    expect(target).to_have_text("Name this photo")
    drop(page, *photographs("astronaut", 2))
    expect(target).to_have_text("Name these 3 photos")
    page.get_by_role("button", name="None", exact=True).click()
    expect(target).to_have_text("Select the photos to name")
    page.get_by_role("button", name="All", exact=True).click()
    show(page, photographs("coffee", 1, seed=4)[0])
    expect(answer(page)).to_have_text("mug")
    page.keyboard.press("x")  # no, this is something else
    expect(page.get_by_role("combobox", name="Name what I see now")).to_be_focused()
    page.keyboard.press("Escape")
    expect(target).to_have_text("Name these 3 photos")
    page.get_by_role("button", name="Something else…").click()
    expect(page.get_by_role("combobox", name="Name what I see now")).to_be_focused()
    expect(page.locator("#held")).to_be_visible()
    page.keyboard.type("cup")
    page.keyboard.press("Enter")
    knows(page, mug=3, cat=3, rocket=1, cup=1)
    expect(tiles(page)).to_have_count(3)
    expect(target).to_have_text("Name these 3 photos")


def test_without_a_camera_a_correction_names_the_photo_that_is_shown(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory))
    drop(page, *photographs("rocket", 3))
    expect(page.locator("#name-target")).to_have_text("Name these 3 photos")
    expect(page.locator("#something-else")).to_be_visible()
    page.keyboard.press("x")
    expect(page.get_by_role("combobox", name="Name this photo")).to_be_focused()
    page.keyboard.type("rocket")
    page.keyboard.press("Enter")
    knows(page, mug=3, cat=3, rocket=1)
    expect(tiles(page)).to_have_count(2)


def test_what_is_typed_while_the_last_name_is_learned_is_the_next_name(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory))
    drop(page, *photographs("rocket", 2))
    expect(tiles(page)).to_have_count(2)
    with held(page, "/api/examples"):
        name_field(page).fill("rocket")
        page.keyboard.press("Enter")
        page.keyboard.type("ship")
    expect(card(page, "rocket")).to_be_visible()
    expect(name_field(page)).to_have_value("ship")


# Praise.


def test_twenty_times_yes_on_one_view_count_and_teach_what_is_new(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(memory)
    page = visit(server, script=SCRIPTED_CAMERA)
    turn_on(page, photographs("coffee", 1, seed=5)[0])
    expect(answer(page)).to_have_text("mug")
    for number in range(1, 21):
        expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_visible()
        page.keyboard.press("y")
        expect(page.locator("#confirmed")).to_have_text(f"{number} confirmed")
        if number == 1:
            expect(message(page, "Thanks, learned a new view of mug.")).to_be_visible()
            expect(card(page, "mug")).to_contain_text("4 photos")
    expect(message(page, "Thanks. Nothing new to learn from it.")).to_have_count(1)
    knows(page, mug=4, cat=3)
    with Recognizer(memory) as recognizer:
        assert len(recognizer.history()) == 3
    page.keyboard.press("Control+z")
    knows(page, mug=3, cat=3)


# Recording.

VIEWS = ("coffee", "chelsea", "astronaut", "rocket", "moon", "coins", "retina", "brick")


def turned(photographs: Photographs) -> list[Path]:
    """Fourteen views that differ, one after another."""
    return [photo for name in VIEWS for photo in photographs(name, 2)][:14]


def test_a_hold_keeps_what_differs_and_says_so(page: Page, photographs: Photographs) -> None:
    one, two, three = photographs("coffee", 3)
    turn_on(page, one)
    page.get_by_role("button", name="Snap").hover()
    page.mouse.down()
    expect(page.locator("#record")).to_have_text(re.compile(r"Kept 1 of 1\d: turn it"))
    expect(page.locator("#ring")).to_be_visible()
    show(page, two)
    expect(page.locator("#record")).to_have_text(re.compile(r"Kept 2 of \d+: turn it"))
    page.mouse.move(700, 700)  # a hand that slips records on
    show(page, three)
    expect(page.locator("#record")).to_have_text(re.compile(r"Kept 3 of \d+: turn it"))
    shot(page, "recording")
    page.mouse.up()
    expect(page.locator("#record")).to_have_text(re.compile(r"Kept 3 of \d+$"))
    expect(page.locator("#record-said")).to_have_text(re.compile(r"Kept 3 of \d+$"))
    assert found_by_axe(page) == []
    expect(page.locator("#ring")).to_be_hidden()
    expect(tiles(page)).to_have_count(3)
    show(page, photographs("rocket", 1)[0])
    expect(page.locator("#record")).to_be_hidden()
    expect(tiles(page)).to_have_count(3)


@pytest.mark.parametrize("way", ["mouse", "keyboard", "touch"])
def test_a_recording_stops_by_itself_when_it_has_enough(
    way: str, memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    how = PHONE if way == "touch" else {"reduced_motion": "reduce"}
    page = visit(serve(memory), script=SCRIPTED_CAMERA, **how)
    first, *others = turned(photographs)
    turn_on(page, first)
    end = hold_snap(page, way)
    expect(page.locator("#record")).to_have_text(re.compile(r"Kept 1 of"))
    for photo in others:
        show(page, photo)
        page.wait_for_timeout(250)
    expect(page.locator("#record-said")).to_have_text("12 views kept: that\u2019s enough")
    expect(tiles(page)).to_have_count(12)
    end()
    expect(tiles(page)).to_have_count(12)
    expect(page.locator("#name-target")).to_have_text("Name these 12 photos")


def hold_snap(page: Page, way: str) -> Callable[[], None]:
    """Press the button down, or the space key; return what lets it go."""
    if way == "keyboard":
        page.keyboard.down("Space")
        return lambda: page.keyboard.up("Space")
    button = page.get_by_role("button", name="Snap")
    if way == "mouse":
        button.hover()
        page.mouse.down()
        return page.mouse.up
    box = button.bounding_box()
    assert box
    session = page.context.new_cdp_session(page)
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [place]})

    def end() -> None:
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    return end


def test_a_tap_is_one_photo_even_of_the_same(page: Page, photographs: Photographs) -> None:
    turn_on(page, photographs("coffee", 1)[0])
    for number in range(1, 4):
        page.get_by_role("button", name="Snap").click()
        expect(tiles(page)).to_have_count(number)
    expect(page.locator("#record")).to_be_hidden()
