"""Things on the page: status, photos enlarged and moved, merging, long lists, renaming, undo."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Browsers, drop, painted, shot
from support.page_actions import (
    PHONE,
    Open,
    Photographs,
    Serve,
    answer,
    card,
    cbcl,
    fits,
    found_by_axe,
    held,
    knows,
    looked_at,
    message,
    rename,
)
from support.photos import NAMES, views

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

# A picture of what was forgotten may still be asked for.
GONE = (r"404 .*/api/examples/\d+/thumbnail",)
READ_MS = 800  # after an undo, until the key undoes again
ZOOMED = {"width": 640, "height": 360}  # a laptop's 1280 x 720 at 200 %


@pytest.fixture
def page(memory: Path, serve: Serve, visit: Open) -> Page:
    """The page, where pictures of what was forgotten may be asked for."""
    return visit(serve(memory), forgiven=GONE)


def status(page: Page, label: str) -> Locator:
    return card(page, label).locator(".status")


def photos(page: Page) -> Locator:
    return page.locator("#examples-body li")


def open_photos(page: Page, label: str, count: int) -> Locator:
    page.get_by_role("button", name=f"See all photos of {label}", exact=True).click()
    expect(photos(page)).to_have_count(count)
    return photos(page)


def mix_up(memory: Path, photographs: Photographs) -> None:
    """Teach a photo of an astronaut as a cat, three as what they are, and one rocket."""
    with Recognizer(memory) as recognizer:
        recognizer.learn("astronaut", photographs("astronaut", 3))
        recognizer.learn("cat", photographs("astronaut", 1, seed=9))
        recognizer.learn("rocket", photographs("rocket", 1))


def write_many(memory: Path, count: int) -> None:
    """Write a memory of many things: thumbnails of a few photographs, vectors of their own."""
    rng = np.random.default_rng(0)
    with Recognizer(memory) as recognizer:
        seen = recognizer.look([view for name in NAMES[:4] for view in views(name, 1)])
        usual, d = float(np.mean(seen[0].vector)), len(seen[0].vector)
        lessons = {}
        for number in range(count):
            own = rng.exponential(size=d) * usual
            lessons[f"thing {number:03}"] = [
                replace(one, vector=np.abs(own + rng.normal(scale=usual, size=d)).astype("f4"))
                for one in (seen[number % 4], seen[(number + 1) % 4])
            ]
        recognizer.learn_many(lessons)


# The status.


def test_each_card_says_how_many_photos_are_recognized_and_shows_which_are_not(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    page = visit(serve(memory))
    expect(status(page, "mug")).to_have_text("recognized 3 of 3")
    expect(status(page, "rocket")).to_have_text("I have only one photo of it.")
    expect(status(page, "cat")).to_have_text("recognized 3 of 4")
    assert found_by_axe(page) == []
    shot(page, "status")
    status(page, "cat").click()
    dialog = page.get_by_role("dialog", name="cat")
    expect(dialog).to_contain_text("I would not recognize 1 of 4 photos.")
    expect(photos(page).nth(3)).to_have_text("I\u2019d say astronaut")
    expect(dialog.locator(".fails")).to_have_count(1)
    assert found_by_axe(page) == []
    dialog.get_by_role("button", name="Close").click()
    with Recognizer(memory) as recognizer:
        wrong = recognizer.snapshot().examples("cat")[3].number
        recognizer.unlearn(wrong)
    expect(status(page, "cat")).to_have_text("recognized 3 of 3")


def test_from_the_scores_a_photo_leads_to_its_thing(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    page = visit(serve(memory))
    page.get_by_role("link", name="Scores").click()
    page.get_by_role("button", name="It is cat, I say astronaut").click()
    expect(page.get_by_role("dialog", name="cat")).to_contain_text("I\u2019d say astronaut")
    assert found_by_axe(page) == []


def test_a_self_test_that_takes_long_keeps_nobody_waiting(
    tab: Page, photographs: Photographs
) -> None:
    expect(status(tab, "mug")).to_have_text("recognized 3 of 3")
    with held(tab, "/api/self-test"):
        drop(tab, *photographs("rocket", 2))
        looked_at(tab, 2)
        tab.locator("#name").fill("rocket")
        tab.keyboard.press("Enter")
        expect(card(tab, "rocket")).to_contain_text("2 photos")
        expect(status(tab, "rocket")).to_have_count(0)
        expect(status(tab, "mug")).to_have_text("recognized 3 of 3")
    expect(status(tab, "rocket")).to_contain_text("recognized")


# Photos.


def test_photos_enlarge_and_the_arrows_go_on(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    page = visit(serve(memory), forgiven=GONE)
    press = page.keyboard.press
    expect(status(page, "cat")).to_have_text("recognized 3 of 4")
    first = open_photos(page, "cat", 4).first.locator(".enlarge")
    first.focus()
    press("Enter")
    viewer = page.get_by_role("dialog", name="cat: photo 1 of 4")
    expect(viewer.get_by_role("img")).to_be_visible()
    press("ArrowLeft")
    expect(page.locator("#viewer-title")).to_have_text("cat: photo 4 of 4")
    expect(page.locator("#viewer-note")).to_have_text("I\u2019d say astronaut")
    painted(page)
    assert found_by_axe(page) == []
    press("ArrowRight")
    expect(page.locator("#viewer-title")).to_have_text("cat: photo 1 of 4")
    expect(page.locator("#viewer-note")).to_be_empty()
    page.get_by_role("checkbox", name="Select", exact=True).check()
    page.get_by_role("button", name="Next photo").click()
    expect(page.get_by_role("checkbox", name="Select", exact=True)).not_to_be_checked()
    page.locator("#viewer-remove").click()
    expect(page.locator("#viewer-title")).to_have_text("cat: photo 2 of 3")
    message(page, "Removed 1 photo of cat.").get_by_role("button", name="Undo").click()
    expect(page.locator("#viewer-title")).to_have_text("cat: photo 3 of 4")
    press("Escape")
    expect(page.locator("#viewer-dialog")).to_be_hidden()
    expect(page.get_by_role("dialog", name="cat")).to_be_visible()
    expect(page.locator("#photos-selected")).to_have_text("1 selected")
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_several_photos_move_to_a_new_thing_with_the_keyboard_alone_and_come_back(
    page: Page,
) -> None:
    press = page.keyboard.press
    ticks = open_photos(page, "mug", 3).get_by_role("checkbox")
    ticks.first.focus()
    press("Space")
    for _ in range(3):
        press("Tab")
    expect(ticks.nth(1)).to_be_focused()
    press("Space")
    expect(page.locator("#photos-selected")).to_have_text("2 selected")
    page.locator("#photos-move").focus()
    press("Enter")
    expect(page.get_by_role("combobox", name="Name of the thing")).to_be_focused()
    expect(page.locator("#move-offers li")).to_have_text(["cat", "None of these"])
    assert found_by_axe(page) == []
    shot(page, "move")
    page.keyboard.type("teapot")
    press("Enter")
    moved = message(page, "Moved 2 photos from mug to teapot.")
    expect(moved).to_be_visible()
    expect(photos(page)).to_have_count(1)
    moved.get_by_role("button", name="Undo").focus()
    press("Enter")
    expect(message(page, "Undone: the photos are back in mug.")).to_be_visible()
    expect(photos(page)).to_have_count(3)
    press("Escape")
    knows(page, mug=3, cat=3)


def test_photos_move_to_a_known_thing_or_to_none_of_them_with_one_click(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    page = visit(serve(memory), forgiven=GONE)
    open_photos(page, "cat", 4).nth(3).get_by_role("checkbox").check()
    page.locator("#photos-move").click()
    page.locator("#move-offers").get_by_role("button", name="astronaut").click()
    expect(message(page, "Moved 1 photo from cat to astronaut.")).to_be_visible()
    expect(photos(page)).to_have_count(3)
    page.locator("#photos-all").click()
    page.locator("#photos-move").click()
    page.locator("#move-offers").get_by_role("button", name="None of these").click()
    expect(page.get_by_role("dialog")).to_have_count(0)  # nothing is left of it
    knows(page, **{"astronaut": 4, "mug": 3, "rocket": 1, "none of these": 3})
    page.get_by_role("link", name="History").click()
    expect(page.locator("#undo")).to_have_text("Undo: move cat (3) → none of these")
    page.locator("#undo").click()
    page.get_by_role("link", name="Teach").click()
    knows(page, astronaut=4, cat=3, mug=3, rocket=1)


def test_several_photos_are_removed_in_one_act(page: Page) -> None:
    open_photos(page, "mug", 3)
    page.locator("#photos-all").click()
    expect(page.locator("#photos-all")).to_be_hidden()
    page.locator("#photos-none").click()
    ticks = photos(page).get_by_role("checkbox")
    ticks.first.check()
    ticks.nth(2).click(modifiers=["Shift"])
    expect(page.locator("#photos-selected")).to_have_text("3 selected")
    ticks.nth(1).uncheck()
    page.locator("#photos-remove").click()
    removed = message(page, "Removed 2 photos of mug.")
    expect(photos(page)).to_have_count(1)
    expect(page.locator("#photos-selected")).to_have_text("Select photos to move or remove them.")
    removed.get_by_role("button", name="Undo").click()
    expect(message(page, "Undone: the photos of mug are back.")).to_be_visible()
    expect(photos(page)).to_have_count(3)


def test_presses_of_ctrl_z_undo_one_step_until_it_can_be_read_what_that_was(page: Page) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    rename(page, "mug", "cup")
    card(page, "cat").get_by_role("button", name="Forget cat").click()
    knows(page, cup=3)
    for _ in range(4):
        page.keyboard.press("Control+z")
    knows(page, cat=3, cup=3)
    expect(message(page, "Undone: cat is back.")).to_be_visible()
    page.wait_for_timeout(READ_MS)
    with held(page, "/api/undo"):
        page.keyboard.press("Control+z")
        page.wait_for_timeout(READ_MS)
        page.keyboard.press("Control+z")
    expect(message(page, "Undone: cup is called mug again.")).to_be_visible()
    knows(page, cat=3, mug=3)
    assert sum(url.endswith("/api/undo") for url in sent) == 2


def test_a_held_key_undoes_once_a_redo_and_what_was_there_before_the_visit_is_left_alone(
    page: Page,
) -> None:
    for label, new in (("mug", "cup"), ("cat", "kitten")):
        rename(page, label, new)
    page.keyboard.down("Control")
    for _ in range(10):
        page.keyboard.down("z")
        page.wait_for_timeout(READ_MS / 5)
    page.keyboard.up("z")
    page.keyboard.press("Shift+Z")
    page.keyboard.up("Control")
    expect(message(page, "Undone: kitten is called cat again.")).to_be_visible()
    knows(page, cat=3, cup=3)
    page.keyboard.press("Control+z")
    expect(message(page, "Undone: cup is called mug again.")).to_be_visible()
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("Control+z")
    expect(message(page, "nothing left to undo of this visit")).to_be_visible()
    knows(page, cat=3, mug=3)


def test_a_double_click_in_the_history_undoes_what_the_button_says_and_no_more(page: Page) -> None:
    rename(page, "mug", "cup")
    page.get_by_role("link", name="History").click()
    expect(page.locator("#undo")).to_have_text("Undo: rename mug → cup")
    page.locator("#undo").dblclick()
    expect(page.locator("#undo")).to_have_text("Undo: learn cat (3)")
    page.wait_for_timeout(READ_MS)
    expect(page.locator("#steps").get_by_text("undone", exact=True)).to_have_count(1)


def test_a_name_typed_in_a_dialog_is_not_dropped_without_a_question(
    memory: Path, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), forgiven=("422",))
    press = page.keyboard.press
    open_photos(page, "mug", 3).first.get_by_role("checkbox").check()
    page.locator("#photos-move").click()
    dialog = page.locator("#move-dialog")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(dialog).to_contain_text("Type a name, or choose a thing above.")
    page.keyboard.type("unknown")
    press("Enter")
    expect(dialog).to_contain_text("'unknown' cannot be a label")
    page.locator("#move-into").fill("teapot")
    press("Escape")  # the list of names, or the dialog
    if not page.locator("#move-discard").is_visible():
        press("Escape")
    expect(dialog).to_contain_text("Discard \u201cteapot\u201d, which you typed?")
    assert found_by_axe(page) == []
    page.locator("#move-into").press("s")
    expect(page.locator("#move-discard")).to_be_hidden()
    dialog.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Discard").click()
    expect(dialog).to_be_hidden()
    page.locator("#photos-move").click()
    press("Escape")  # nothing was typed
    expect(dialog).to_be_hidden()
    press("Escape")
    knows(page, mug=3, cat=3)


# Merging.


def test_merging_shows_the_photos_of_both_and_the_nearest_first(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    with Recognizer(memory) as recognizer:
        recognizer.learn("zebra mug", photographs("coffee", 2, seed=5))
    page = visit(serve(memory), forgiven=GONE)
    card(page, "mug").get_by_role("button", name="Merge mug into another thing").click()
    dialog = page.get_by_role("dialog", name="Merge mug into…")
    rows = dialog.locator(".choice")
    expect(rows).to_have_count(4)
    expect(rows.first).to_have_text("zebra mug2 photos · looks most like it")
    expect(rows.first.get_by_role("radio")).to_be_checked()
    expect(rows.first.get_by_role("radio")).to_be_focused()
    expect(rows.first.locator("img")).to_have_count(2)
    expect(dialog.locator("#merge-from img")).to_have_count(3)
    expect(page.locator("#merge-filter-label")).to_be_hidden()
    painted(page)
    assert found_by_axe(page) == []
    shot(page, "merge")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#merge-button")).not_to_have_text("Merge into zebra mug")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#merge-button")).to_have_text("Merge into zebra mug")
    page.keyboard.press("Enter")
    merged = message(page, "mug is now part of zebra mug.")
    knows(page, **{"astronaut": 3, "cat": 4, "rocket": 1, "zebra mug": 5})
    merged.get_by_role("button", name="Undo").click()
    expect(message(page, "Undone: mug and zebra mug are two things again.")).to_be_visible()


# Many things.


@pytest.mark.parametrize("size", [{}, PHONE, {"viewport": ZOOMED}])
def test_from_fifty_things_on_they_are_a_list_with_the_latest_first(
    size: dict[str, object], tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    write_many(tmp_path / "many.cbcl", 49)
    page = visit(serve(tmp_path / "many.cbcl"), **size)
    names = page.locator("#cards h3")
    expect(names).to_have_count(49)
    expect(names.first).to_have_text("thing 000")
    expect(page.locator("#cards.compact")).to_have_count(0)
    page.locator("#filter").fill("04")
    expect(names).to_have_count(10)
    drop(page, *photographs("rocket", 2))
    looked_at(page, 2)
    page.locator("#name").fill("brand new")
    page.keyboard.press("Enter")
    expect(names).to_have_count(50)
    expect(names.first).to_have_text("brand new")
    expect(page.locator("#filter")).to_have_value("")
    expect(card(page, "brand new")).to_be_in_viewport()
    expect(card(page, "brand new")).to_have_class(re.compile("fresh"))
    expect(status(page, "brand new")).to_have_text("recognized 2 of 2")
    cbcl("rename", tmp_path / "many.cbcl", "thing 030", "thing 30")
    expect(names.first).to_have_text("thing 30")
    assert fits(page)
    assert found_by_axe(page) == []
    if not size:
        shot(page, "many-things")
    card(page, "thing 30").get_by_role("button", name="Merge thing 30 into").click()
    expect(page.locator("#merge-list .choice")).to_have_count(49)
    page.locator("#merge-filter").fill("BRAND")
    expect(page.locator("#merge-list .choice")).to_have_count(1)
    expect(page.locator("#merge-button")).to_have_text("Merge into brand new")
    expect(page.locator("#merge-button")).to_be_in_viewport()
    assert found_by_axe(page) == []
    page.locator("#merge-filter").fill("nothing of the kind")
    expect(page.locator("#merge-button")).to_be_disabled()
    page.locator("#merge-filter").press("Enter")
    expect(page.locator("#merge-dialog")).to_be_visible()
    assert fits(page)


# Renaming.


def edit(page: Page, label: str) -> Locator:
    card(page, label).get_by_role("button", name=f"Rename {label}").click()
    return page.get_by_role("textbox", name=f"New name for {label}")


def test_a_name_is_kept_by_enter_by_a_tick_and_by_leaving_the_field(tab: Page) -> None:
    edit(tab, "mug").fill("cup")
    tab.keyboard.press("Enter")
    expect(card(tab, "cup").get_by_role("button", name="Rename cup")).to_be_focused()
    edit(tab, "cup").fill("beaker")
    assert found_by_axe(tab) == []
    tab.get_by_role("button", name="Save name").click()
    expect(card(tab, "beaker")).to_be_visible()
    edit(tab, "beaker").fill("pot")
    tab.locator("#name").click()
    expect(card(tab, "pot")).to_be_visible()
    expect(tab.locator("#name")).to_be_focused()
    edit(tab, "pot").fill("never")
    tab.keyboard.press("Escape")
    expect(card(tab, "pot").get_by_role("button", name="Rename pot")).to_be_focused()
    edit(tab, "pot").fill("  ")
    tab.keyboard.press("Enter")
    knows(tab, cat=3, pot=3)
    tab.locator("#cards h3", has_text="pot").dblclick()
    tab.keyboard.press("Control+a")
    tab.keyboard.type("mug")
    tab.keyboard.press("Enter")
    knows(tab, cat=3, mug=3)
    tab.keyboard.press("Control+z")
    expect(message(tab, "Undone: mug is called pot again.")).to_be_visible()


def test_a_name_that_is_refused_stays_where_it_was_typed(
    memory: Path, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), forgiven=("422", "a dialog: "))
    field = edit(page, "mug")
    field.fill("unknown")
    page.locator("#name").click()
    expect(message(page, "'unknown' cannot be a label")).to_be_visible()
    expect(field).to_have_value("unknown")
    expect(field).to_have_attribute("aria-invalid", "true")
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    page.evaluate("location.reload()")
    page.wait_for_timeout(300)
    expect(field).to_have_value("unknown")  # the browser has asked, and we stayed
    assert asked == ["beforeunload"]
    cbcl("forget", memory, "mug")
    lost = "mug has changed elsewhere, so it was not renamed to \u201cunknown\u201d"
    expect(message(page, lost)).to_be_visible()
    knows(page, cat=3)


def test_a_name_that_is_replaced_can_be_had_back(tab: Page) -> None:
    tab.locator("#name").fill("teap")
    card(tab, "mug").get_by_role("button", name="Add photos of mug").click()
    expect(tab.locator("#name")).to_have_value("mug")
    replaced = message(tab, "Next: photos of mug. You had typed \u201cteap\u201d.")
    replaced.get_by_role("button", name="Undo").click()
    expect(tab.locator("#name")).to_have_value("teap")


def test_a_name_that_another_thing_has_or_nearly_is_asked_about(tab: Page) -> None:
    field = edit(tab, "mug")
    field.fill("Cat")
    tab.keyboard.press("Enter")
    asked = card(tab, "mug").get_by_role("alert")
    expect(asked).to_contain_text("I know cat already.")
    assert found_by_axe(tab) == []
    asked.get_by_role("button", name="Keep \u201cCat\u201d as another thing").click()
    knows(tab, Cat=3, cat=3)
    edit(tab, "Cat").fill("cat")
    tab.keyboard.press("Enter")
    asked = card(tab, "Cat").get_by_role("alert")
    expect(asked.get_by_role("button")).to_have_text(["Merge into cat", "Cancel"])
    asked.get_by_role("button", name="Merge into cat").click()
    knows(tab, cat=6)
    edit(tab, "cat").fill("Cat")  # its own name, in other letters
    tab.keyboard.press("Enter")
    knows(tab, Cat=6)


def test_what_is_seen_now_is_asked_about_by_its_spelling_as_well(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee"))
    expect(answer(page)).to_have_text("mug")
    page.locator("#name").fill("Mug")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Use mug", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page, "mug")).to_contain_text("4 photos")
    knows(page, mug=4, cat=3)


def test_cup_and_cup_are_one_thing_unless_someone_says_otherwise(
    tab: Page, photographs: Photographs
) -> None:
    name = tab.locator("#name")
    drop(tab, *photographs("coffee", 1, seed=3))
    looked_at(tab, 1)
    name.fill(" MUG ")
    tab.keyboard.press("Enter")
    question = tab.locator("#name-form").get_by_role("alert").filter(has_text="I know mug already")
    expect(question.get_by_role("button", name="Use mug")).to_be_focused()
    assert found_by_axe(tab) == []
    tab.keyboard.press("Escape")
    expect(question).to_be_hidden()
    expect(name).to_be_focused()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")
    expect(message(tab, "Learned 1 photo of mug.")).to_be_visible()
    knows(tab, mug=4, cat=3)
    drop(tab, *photographs("rocket", 1))
    looked_at(tab, 1)
    name.fill("Mug")
    tab.keyboard.press("Enter")
    question.get_by_role("button", name="Keep \u201cMug\u201d as another thing").click()
    knows(tab, Mug=1, mug=4, cat=3)


# At 200 %, and on a phone.


@pytest.mark.parametrize("size", [{"viewport": ZOOMED}, PHONE])
def test_the_dialogs_fit_small_windows(
    size: dict[str, object], memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    mix_up(memory, photographs)
    page = visit(serve(memory), **size)
    open_photos(page, "cat", 4).first.get_by_role("checkbox").check()
    expect(page.locator("#photos-move")).to_be_in_viewport()
    photos(page).first.locator(".enlarge").click()
    expect(page.locator("#viewer-image")).to_be_in_viewport(ratio=0.9)
    expect(page.locator("#viewer-remove")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.locator("#photos-move").click()
    expect(page.locator("#move-offers li")).to_have_count(4)
    expect(page.get_by_role("button", name="Move", exact=True)).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    card(page, "cat").get_by_role("button", name="Merge cat into another thing").click()
    expect(page.locator("#merge-button")).to_be_in_viewport()
    assert fits(page)
