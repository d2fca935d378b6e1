"""The page in a real browser: teach, ask, correct and undo; camera, photos, keyboard, phone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Browsers, drop, painted, paste, shot
from support.page_actions import (
    PHONE,
    UNKNOWN,
    Open,
    Photographs,
    Serve,
    accept_sure,
    answer,
    card,
    cbcl,
    fits,
    found_by_axe,
    held,
    knows,
    looked_at,
    message,
    name_field,
    name_them,
    rename,
    settled,
    snap,
    tiles,
    told_in_tray,
)
from support.photos import encoded, photo

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

GONE = (r"net::ERR_",)  # what a browser says of a server that is not there
# A live answer may name an example that is taken back before the browser has asked for its picture:
# a letter takes its place.
TAKEN_BACK = (r"404 .*/api/examples/\d+/thumbnail",)

# Teaching, asking, correcting.


def test_a_story_from_the_first_thing_to_a_server_started_again(
    tmp_path: Path, browsers: Browsers, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(tmp_path / "shop.cbcl")
    page = visit(server, browsers.showing("coffee"), forgiven=(*GONE, "410"))
    expect(answer(page)).to_have_text("I know nothing yet: show me something")
    snap(page, 3)
    name_them(page, "mug")
    few = "Learned 1 photo of mug. 2 photos were nearly the same as ones I have."
    expect(message(page, few)).to_be_visible()
    expect(answer(page)).to_have_text("mug")

    drop(page, *photographs("chelsea", 3))
    looked_at(page, 3)
    with held(page, "/api/examples"):
        name_field(page).fill("cat")
        page.keyboard.press("Enter")
        expect(page.locator("#teach-button")).to_have_text("Learning 3…")
        shot(page, "learning")
    knows(page, mug=1, cat=3)

    drop(page, *photographs("chelsea", 1, seed=2))
    expect(looked_at(page, 1)).to_contain_text("cat")
    expect(answer(page)).to_have_text("mug")  # the camera's
    expect(page.locator("#reasons")).to_contain_text("Looks like these")
    shot(page, "camera")

    page.get_by_role("button", name="Turn off camera").click()
    drop(page, *photographs("rocket", 1))
    expect(answer(page)).to_have_text(UNKNOWN)
    shot(page, "unknown")
    page.get_by_role("button", name="Something else…").click()
    page.keyboard.type("rocket")
    page.keyboard.press("Enter")
    knows(page, mug=1, cat=3, rocket=1)

    rename(page, "mug", "cup")
    card(page, "cat").get_by_role("button", name="Forget cat").click()
    knows(page, cup=1, rocket=1)
    message(page, "Forgot cat.").get_by_role("button", name="Undo").click()
    knows(page, cup=1, cat=3, rocket=1)

    server.stop()
    assert "knows 3 things" in server.said
    expect(page.locator("#connection")).to_have_text("Server not reachable")
    expect(page.locator("#banner")).to_contain_text("cbcl teach shop.cbcl")
    shot(page, "server-gone")
    assert found_by_axe(page) == []
    server.start()
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator("#banner")).to_be_hidden()
    expect(looked_at(page, 1)).to_contain_text("cat")  # what waited to be named waits still
    name_them(page, "cat")
    knows(page, cup=1, cat=4, rocket=1)
    page.reload()
    knows(page, cup=1, cat=4, rocket=1)
    with Recognizer(server.memory) as recognizer:
        assert recognizer.labels() == {"cat": 4, "cup": 1, "rocket": 1}
        assert recognizer.recognize(photographs("coffee", 1, seed=1)[0]).label == "cup"


def test_pictures_come_by_dropping_picking_and_pasting(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "shop.cbcl"))
    shot(page, "empty")
    one, two, three = photographs("coffee", 3)
    drop(page, one)
    page.locator("#pick").set_input_files(two)
    paste(page, three)
    looked_at(page, 3)
    expect(answer(page)).to_have_text("I know nothing yet: show me something")
    name_them(page, "mug")
    folder = tmp_path / "cats"
    folder.mkdir()
    for path in photographs("chelsea", 2):
        shutil.copy(path, folder)
    drop(page, folder)
    looked_at(page, 2)
    name_them(page, "cat")
    knows(page, mug=3, cat=2)


def test_a_wrong_answer_is_corrected_with_one_click(
    memory: Path, tmp_path: Path, serve: Serve, visit: Open
) -> None:
    spoon, beside = tmp_path / "spoon.jpg", tmp_path / "beside.jpg"
    spoon.write_bytes(encoded(photo("coffee").crop((300, 200, 440, 340))))
    beside.write_bytes(encoded(photo("coffee").crop((200, 90, 480, 370))))
    with Recognizer(memory) as recognizer:
        recognizer.learn("spoon", [spoon])
    page = visit(serve(memory))
    drop(page, beside)
    expect(answer(page)).to_have_text("mug")  # but the spoon was meant
    chips = page.locator("#correction").get_by_role("group", name="No, it\u2019s")
    chips.get_by_role("button", name="spoon").hover()
    shot(page, "correction")
    chips.get_by_role("button", name="spoon").click()
    expect(message(page, "Learned 1 photo of spoon.")).to_be_visible()
    knows(page, mug=3, cat=3, spoon=2)
    drop(page, beside)
    expect(answer(page)).to_have_text("spoon")
    expect(page.locator("#reasons")).to_contain_text("Looks like these")
    page.get_by_role("button", name="Yes, spoon", exact=True).click()
    expect(message(page, "Thanks. Nothing new to learn from it.")).to_be_visible()
    knows(page, mug=3, cat=3, spoon=2)


def test_what_is_none_of_the_things_is_taught_listed_and_taken_back(
    tab: Page, photographs: Photographs
) -> None:
    drop(tab, *photographs("coffee", 1, seed=2))
    expect(answer(tab)).to_have_text("mug")
    tab.get_by_role("button", name="None of these", exact=True).click()
    learned = message(tab, "Got it: this is none of the things I know.")
    expect(learned).to_be_visible()
    knows(tab, **{"mug": 3, "cat": 3, "none of these": 1})
    expect(tab.locator("#things-count")).to_have_text("2")
    drop(tab, *photographs("coffee", 1, seed=2))
    expect(answer(tab)).to_have_text(UNKNOWN)
    expect(tab.locator("#reasons")).to_have_text("Closest I know: mug")
    shot(tab, "none-of-these")
    card(tab, "none of these").get_by_role("button", name="See all photos").click()
    dialog = tab.get_by_role("dialog", name="None of these")
    expect(dialog.get_by_role("img")).to_have_count(1)
    dialog.get_by_role("button", name=re.compile("Remove photo .* of none of these")).click()
    knows(tab, mug=3, cat=3)
    removed = message(tab, "Removed 1 photo of none of these.")
    removed.get_by_role("button", name="Undo").click()
    knows(tab, **{"mug": 3, "cat": 3, "none of these": 1})
    card(tab, "none of these").get_by_role("button", name="Forget all").click()
    knows(tab, mug=3, cat=3)
    expect(answer(tab)).to_have_text("mug")
    message(tab, "Forgot none of these.").get_by_role("button", name="Undo").click()
    expect(answer(tab)).to_have_text(UNKNOWN)
    assert found_by_axe(tab) == []


def test_the_next_likeliest_is_shown_as_speaking_against_an_answer(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    files = photographs("coffee", 12, seed=3)
    with Recognizer(memory) as recognizer:
        recognizer.learn("cup", photographs("coffee", 2, seed=5))
        answers = recognizer.recognize_many(files)
    close = next(
        file
        for file, said in zip(files, answers, strict=True)
        if said.label and said.ranking[1].confidence >= 0.05
    )
    page = visit(serve(memory))
    drop(page, close)
    expect(page.locator("#reasons > li")).to_have_count(2)
    expect(page.locator("#reasons")).to_contain_text("Looks like these")
    expect(page.locator("#reasons")).to_contain_text(re.compile("Not these: (cup|mug)"))
    shot(page, "why")


def test_a_memory_of_the_vote_has_no_none_of_these(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(tmp_path / "vote.cbcl", head="vote") as recognizer:
        recognizer.learn("mug", photographs("coffee", 3))
    page = visit(serve(tmp_path / "vote.cbcl"))
    drop(page, *photographs("coffee", 1, seed=1))
    expect(answer(page)).to_have_text("mug")
    expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_visible()
    expect(page.locator("#none-of-these")).to_be_hidden()
    expect(page.locator("#reasons img")).to_have_count(3)


def test_a_live_answer_stands_still_while_it_is_judged(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee"))
    expect(answer(page)).to_have_text("mug")
    page.get_by_role("button", name="cat", exact=True).hover()
    expect(page.get_by_text("Paused while you choose")).to_be_visible()
    page.get_by_role("button", name="cat", exact=True).click()
    expect(card(page, "cat")).to_contain_text("4 photos")
    page.mouse.move(700, 700)
    expect(page.get_by_text("Paused while you choose")).to_be_hidden()


def test_among_cameras_one_is_chosen_and_mirrored_for_the_eye_only(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.with_two_cameras())
    choice = page.get_by_role("combobox", name="Camera")
    expect(choice.locator("option")).to_have_count(2)
    choice.select_option(index=1)
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
    expect(choice).to_have_value(choice.locator("option").nth(1).get_attribute("value") or "")
    mirror = page.get_by_role("button", name="Mirror the view")
    before = mirror.get_attribute("aria-pressed")
    mirror.click()
    expect(mirror).to_have_attribute("aria-pressed", "false" if before == "true" else "true")


# Changing what is known, and taking it back.


def test_things_are_renamed_merged_and_forgotten_and_all_is_taken_back(tab: Page) -> None:
    rename(tab, "mug", "cup")
    card(tab, "cup").get_by_role("button", name="Merge cup into another").click()
    tab.get_by_role("dialog").get_by_role("radio", name="cat").check()
    tab.get_by_role("dialog").get_by_role("button", name="Merge into cat").click()
    knows(tab, cat=6)
    card(tab, "cat").get_by_role("button", name="Forget cat").click()
    knows(tab)
    tab.get_by_role("link", name="History").click()
    undo = tab.locator("#history").get_by_role("button", name=re.compile("^Undo"))
    expect(undo).to_have_text("Undo: forget cat")
    expect(tab.locator("#steps > li")).to_have_count(5)
    shot(tab, "history")
    undo.click()
    expect(undo).to_have_text("Undo: merge cup → cat")
    undo.click()
    expect(undo).to_have_text("Undo: rename mug → cup")
    undo.click()
    expect(tab.locator("#steps").get_by_text("undone", exact=True)).to_have_count(3)
    tab.get_by_role("link", name="Teach").click()
    knows(tab, mug=3, cat=3)


def test_one_example_is_taken_out_and_put_back(tab: Page) -> None:
    tab.get_by_role("button", name="See all photos of mug").click()
    pictures = tab.get_by_role("dialog").get_by_role("img")
    expect(pictures).to_have_count(3)
    tab.get_by_role("button", name=re.compile("Remove photo .* of mug")).first.click()
    expect(pictures).to_have_count(2)
    message(tab, "Removed 1 photo of mug.").get_by_role("button", name="Undo").click()
    expect(pictures).to_have_count(3)
    tab.keyboard.press("Escape")
    knows(tab, mug=3, cat=3)


def test_a_name_that_cannot_be_is_refused_in_a_sentence(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory), forgiven=("422",))
    card(page, "mug").get_by_role("button", name="Rename mug").click()
    page.get_by_role("textbox", name="New name for mug").fill("unknown")
    page.keyboard.press("Enter")
    expect(message(page, "'unknown' cannot be a label")).to_be_visible()
    page.keyboard.press("Escape")
    drop(page, *photographs("rocket", 1))
    field = name_field(page)
    field.fill("unknown")
    page.keyboard.press("Enter")
    expect(page.locator("#tray")).to_contain_text("'unknown' cannot be a label")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_value("unknown")
    expect(field).to_be_focused()
    field.press("Control+a")
    page.keyboard.type("Mug")
    expect(page.get_by_role("option")).to_have_text(["mug"])
    page.keyboard.press("Enter")  # what was typed, not what is offered
    page.get_by_role("button", name="Keep \u201cMug\u201d as another thing").click()
    expect(card(page, "Mug")).to_be_visible()
    expect(page.get_by_role("option")).to_have_count(0)
    knows(page, Mug=1, cat=3, mug=3)


def test_a_message_offers_to_undo_only_the_last_step(tab: Page, memory: Path) -> None:
    undo = tab.get_by_role("region", name="Messages").get_by_role("button", name="Undo")
    card(tab, "mug").get_by_role("button", name="Forget mug").click()
    rename(tab, "cat", "kitten")  # at once, while the cards are still being put in order
    expect(undo).to_have_count(1)
    undo.click()
    knows(tab, cat=3)
    cbcl("rename", memory, "cat", "lion")
    knows(tab, lion=3)
    expect(undo).to_have_count(0)


def test_pages_follow_each_other_and_the_command_line(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(memory)
    one, other = visit(server), visit(server)
    drop(one, *photographs("rocket", 2))
    looked_at(one, 2)
    name_them(one, "rocket")
    knows(other, mug=3, cat=3, rocket=2)
    rename(other, "rocket", "ship")
    knows(one, mug=3, cat=3, ship=2)
    cbcl("rename", memory, "mug", "cup")
    knows(one, cup=3, cat=3, ship=2)
    knows(other, cup=3, cat=3, ship=2)


def test_what_others_do_does_not_disturb_who_is_typing_a_name(tab: Page, memory: Path) -> None:
    card(tab, "mug").get_by_role("button", name="Rename mug").click()
    field = tab.get_by_role("textbox", name="New name for mug")
    field.fill("cu")
    cbcl("rename", memory, "cat", "zebra")  # which is now after the mug
    expect(card(tab, "zebra")).to_be_visible()
    expect(field).to_be_focused()
    tab.keyboard.type("p")
    tab.keyboard.press("Enter")
    knows(tab, cup=3, zebra=3)


# What it asks, and how well it does.


def test_it_asks_whether_two_are_the_same_and_nothing_else(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(memory) as recognizer:
        recognizer.learn("cup", photographs("coffee", 2, seed=5))
        recognizer.learn("rocket", photographs("rocket", 1))
    page = visit(serve(memory))
    alike = page.locator(".question")
    expect(alike).to_have_text(re.compile("look alike: (cup and mug|mug and cup)"))
    shot(page, "questions")
    alike.get_by_role("button", name="Yes, merge").click()
    expect(alike).to_have_count(0)
    knows(page, cat=3, mug=5, rocket=1)


def test_forty_photos_are_sorted_by_what_is_worth_asking_and_sure_ones_named_together(
    tab: Page, memory: Path, photographs: Photographs
) -> None:
    names = ("coffee", "chelsea", "rocket", "astronaut", "moon")
    files = [path for name in names for path in photographs(name, 8, seed=2)]
    with held(tab, "/api/recognize-many"):
        drop(tab, *files)
        expect(tab.locator("#progress-text")).to_have_text("0 of 40 looked at")
        shot(tab, "looking")
    shown = [re.split(": ", str(told))[0] for told in told_in_tray(tab, 40)]
    with Recognizer(memory) as recognizer:
        inward = files[::-1]  # the latest first, as they are put in
        seen = recognizer.look(inward)
        order = recognizer.snapshot().worth_asking(seen, recognizer.recognize_many(seen))
    assert shown == [inward[i].name for i in order]
    expect(tab.locator("#selection")).to_contain_text("0 selected")
    groups = tab.get_by_role("list", name="Photos that look alike")
    expect(groups).to_contain_text("look like cat")
    shot(tab, "groups")
    known = tiles(tab).filter(has_text="known already").count()
    groups.get_by_role("button", name="Remove them").click()
    expect(tiles(tab)).to_have_count(40 - known)
    for label in ("cat", "mug"):
        accept_sure(tab, label)
        expect(card(tab, label)).not_to_contain_text(re.compile(r"\b3 photos"))
    settled(tab)
    left = tiles(tab).count()
    for tile in (
        tiles(tab).filter(has=tab.get_by_role("checkbox", name=re.compile("^rocket-"))).all()
    ):
        tile.locator("label").click()
    shot(tab, "tray")
    name_field(tab).fill("rocket")
    tab.keyboard.press("Enter")
    expect(tiles(tab)).to_have_count(left - 8)
    with Recognizer(memory) as recognizer:
        learned = recognizer.labels()
    assert {label: number > 3 for label, number in learned.items()} == dict.fromkeys(
        ("cat", "mug", "rocket"), True
    )
    knows(tab, **learned)


def test_the_scores_are_those_of_the_library_and_add_up(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    with Recognizer(memory) as recognizer:
        recognizer.learn("cup", photographs("coffee", 4, seed=5))  # not to be told from a mug
        recognizer.learn("rocket", photographs("rocket", 4))
        wanted = recognizer.snapshot().examine()
    page = visit(serve(memory))
    page.get_by_role("link", name="Scores").click()
    table = page.get_by_role("region", name="Confusion matrix")
    expect(table).to_be_visible()
    rows = [
        [int(cell) for cell in row.locator("td").all_inner_texts()]
        for row in table.locator("tbody tr").all()
    ]
    assert table.locator("tbody th").all_inner_texts() == [*wanted.labels]
    assert rows == np.asarray(wanted.matrix).tolist()
    assert [sum(row) for row in rows] == [3, 4, 3, 4]
    shown = page.locator(".figures").inner_text().split()
    assert shown[:2] == ["tested", "14"]
    assert str(wanted.right) in shown
    shot(page, "scores")


# Carrying a memory.


def test_a_memory_is_downloaded_and_learned_from_elsewhere(
    memory: Path, tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory))
    page.get_by_role("button", name="Menu").click()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download this memory").click()
    copy = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(copy.with_name("copy.cbcl"))
    assert copy.name == "shop.cbcl"
    assert re.search(r"mug\W+3\b", cbcl("show", copy.with_name("copy.cbcl")))

    other = tmp_path / "other.cbcl"
    with Recognizer(other) as recognizer:
        recognizer.learn("mug", photographs("coffee", 2, seed=7))
        recognizer.learn("rocket", photographs("rocket", 2))
    there = visit(serve(other))
    there.get_by_role("button", name="Menu").click()
    with there.expect_file_chooser() as choosing:
        there.get_by_role("button", name="Add another memory…").click()
    choosing.value.set_files(copy.with_name("copy.cbcl"))
    knows(there, cat=3, mug=5, rocket=2)
    message(there, "New: cat. More of: mug.").get_by_role("button", name="Undo").click()
    knows(there, mug=2, rocket=2)


# Without a mouse, and on a phone.


def tab_to(page: Page, wanted: Locator) -> None:
    """Go on with the tabulator until it is reached."""
    for _ in range(80):
        if wanted.count() == 1 and wanted.evaluate("node => node === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"the tabulator does not lead to {wanted}.")


def test_everything_can_be_done_with_the_keyboard_alone(
    tmp_path: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(tmp_path / "shop.cbcl"), browsers.showing("coffee"))
    press = page.keyboard.press
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
    tab_to(page, page.get_by_role("button", name="Turn off camera"))
    press("Enter")
    tab_to(page, page.get_by_role("button", name="Turn on camera"))
    press("Enter")
    tab_to(page, page.get_by_role("button", name="Snap"))
    press("Space")
    press("Enter")
    press("Space")
    looked_at(page, 3)
    tab_to(page, name_field(page))
    page.keyboard.type("mug")
    press("Enter")
    expect(card(page, "mug")).to_contain_text("1 photo")  # three that are nearly the same
    tab_to(page, card(page, "mug").get_by_role("button", name="Rename mug"))
    press("Enter")
    page.keyboard.type("cup")
    press("Enter")
    expect(card(page, "cup")).to_be_visible()
    tab_to(page, card(page, "cup").get_by_role("button", name="See all photos of cup"))
    press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    tab_to(page, card(page, "cup").get_by_role("button", name="Forget cup"))
    press("Space")
    expect(card(page, "cup")).to_have_count(0)
    tab_to(page, message(page, "Forgot cup.").get_by_role("button", name="Undo"))
    press("Enter")
    expect(card(page, "cup")).to_contain_text("1 photo")


def test_keys_do_what_their_list_says_unless_they_are_turned_off(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee"), forgiven=TAKEN_BACK)
    press = page.keyboard.press
    expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_visible()
    press("y")
    expect(card(page, "mug")).to_contain_text("4 photos")
    painted(page)
    press("Control+z")
    knows(page, mug=3, cat=3)
    press("x")
    expect(page.get_by_role("combobox", name="Name what I see now")).to_be_focused()
    press("Escape")
    press("Space")
    expect(tiles(page)).to_have_count(1)
    press("n")
    expect(page.locator("#name")).to_be_focused()
    press("Escape")
    press("4")
    expect(page.get_by_role("heading", name="Scores")).to_be_visible()
    press("5")
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    press("1")
    press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    shot(page, "keys")
    page.get_by_role("checkbox", name="Use these shortcuts").uncheck()
    press("Escape")
    press("5")
    expect(page.get_by_role("heading", name="History")).to_be_hidden()


def test_a_phone_is_enough(tmp_path: Path, browsers: Browsers, serve: Serve, visit: Open) -> None:
    page = visit(serve(tmp_path / "shop.cbcl"), browsers.showing("coffee"), **PHONE)
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
    for number in range(3):
        page.get_by_role("button", name="Snap").tap()
        expect(tiles(page)).to_have_count(number + 1)
    name_field(page).tap()
    page.keyboard.type("mug")
    page.get_by_role("button", name="Teach 3 photos").tap()
    expect(card(page, "mug")).to_contain_text("1 photo")
    expect(answer(page)).to_have_text("mug")
    expect(page.get_by_role("button", name="Yes, mug", exact=True)).to_be_visible()
    assert fits(page)
    page.evaluate("scrollTo(0, 0)")
    shot(page, "phone")
    card(page, "mug").get_by_role("button", name="See all photos of mug").tap()
    expect(page.get_by_role("dialog").get_by_role("img")).to_have_count(1)
    page.get_by_role("dialog").get_by_role("button", name="Close").tap()
    card(page, "mug").scroll_into_view_if_needed()
    shot(page, "phone-things")
    for view in ("Scores", "History", "Teach"):
        page.get_by_role("link", name=view).tap()
        expect(page.get_by_role("link", name=view)).to_have_attribute("aria-current", "page")
        assert fits(page), view
    card(page, "mug").get_by_role("button", name="Forget mug").tap()
    message(page, "Forgot mug.").get_by_role("button", name="Undo").tap()
    knows(page, mug=1)
