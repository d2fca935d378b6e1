"""The views beside teaching: present, test, memories; in a real browser."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Browsers, drop, painted, shot
from support.page_actions import (
    PHONE,
    UNKNOWN,
    Open,
    Photographs,
    Serve,
    cbcl,
    fits,
    found_by_axe,
    knows,
    looked_at,
    message,
    name_them,
)

from cbcl import Recognizer
from cbcl.export.words import languages

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

SPEAKER = """
window.spoken = [];
window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
const speaker = {
  cancel() {},
  speak(words) { window.spoken.push(`${words.lang}: ${words.text}`); },
};
Object.defineProperty(window, "speechSynthesis", { value: speaker });
"""


def presented(page: Page) -> Any:
    return page.locator("#present-label")


def letters(page: Page) -> float:
    """The size of the letters of the answer, in pixels, if all of it is seen."""
    script = """(label) => {
      const [box, text] = [label.parentElement, label];
      const within = text.scrollWidth <= box.clientWidth && text.scrollHeight <= box.clientHeight;
      return within ? parseFloat(getComputedStyle(text).fontSize) : 0;
    }"""
    return float(presented(page).evaluate(script))


def test_the_answer_is_presented_in_letters_as_large_as_the_screen(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee", "chelsea"))
    page.get_by_role("link", name="Present").click()
    expect(presented(page)).to_have_text("mug")
    expect(page.locator("#present-sure")).to_contain_text("% sure")
    assert letters(page) > 200
    expect(presented(page)).to_have_text("cat")  # the camera goes on
    assert found_by_axe(page) == []
    page.keyboard.press("n")  # keys of the page beneath mean nothing here
    page.keyboard.press(" ")
    page.keyboard.press("Escape")
    expect(page.locator("#present")).to_be_hidden()
    expect(page.locator("#camera")).to_be_visible()
    expect(page.locator("#pictures > li")).to_have_count(0)
    expect(page.get_by_role("link", name="Present")).to_be_focused()


@pytest.mark.parametrize(
    "size", [{"width": 390, "height": 844}, {"width": 844, "height": 390}], ids=str
)
def test_a_phone_presents_in_both_directions_and_any_name_is_seen_whole(
    size: dict[str, int], memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory), browsers.showing("coffee"), viewport=size)
    page.goto(f"{page.url}#present")
    expect(presented(page)).to_have_text("mug")
    short = letters(page)
    assert short > 60
    for name in ("an old coffee mug with a blue rim and no handle", "w" * 120, "كوب"):
        rename(page, name)
        expect(presented(page)).to_have_text(name)
        assert letters(page) >= 12
        assert fits(page)
        rename(page, "mug", name)
        expect(presented(page)).to_have_text("mug")
    page.set_viewport_size({"width": 1280, "height": 800})
    shot(page, "present")


def rename(page: Page, new: str, label: str = "mug") -> None:
    script = """([label, name]) => fetch("/api/rename", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ label, new: name }),
    })"""
    page.evaluate(script, [label, new])


def test_the_voice_says_what_is_new_in_the_language_of_the_page(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    server = serve(memory)
    page = visit(server, browsers.showing("coffee", "chelsea", "rocket"))
    page.context.add_init_script(SPEAKER)
    page.goto(f"{server.address}#present")
    page.reload()
    expect(presented(page)).to_have_text("mug")
    assert page.evaluate("window.spoken") == []
    page.get_by_role("button", name="Voice").click()
    expect(presented(page)).to_have_text(UNKNOWN)
    expect(presented(page)).to_have_text("mug")
    expect(presented(page)).to_have_text("cat")
    spoken = page.evaluate("window.spoken")
    assert {"en: mug", "en: cat"} >= {*spoken[1:]}
    page.reload()
    expect(page.get_by_role("button", name="Voice")).to_have_attribute("aria-pressed", "true")


def test_without_a_camera_it_can_be_turned_on_there(tab: Page) -> None:
    tab.keyboard.press("2")
    expect(presented(tab)).to_have_text("Show me something")
    expect(tab.get_by_role("button", name="Turn on camera")).to_be_visible()
    assert found_by_axe(tab) == []


@pytest.fixture
def album(tmp_path: Path, photographs: Photographs) -> Path:
    """Folders with photos that were never taught, and one that was."""
    album = tmp_path / "album"
    for folder, name, count in (("Mug", "coffee", 4), ("cat", "chelsea", 3), ("moon", "rocket", 2)):
        (album / folder).mkdir(parents=True)
        for photo in photographs(name, count, 1):
            shutil.copy(photo, album / folder)
    shutil.copy(photographs("coffee", 3)[0], album / "Mug" / "old.jpg")
    return album


def table_of(page: Page) -> list[list[str]]:
    rows = page.get_by_role("table", name="Thing by thing").get_by_role("row")
    cells = rows.evaluate_all("rows => rows.map((row) => [...row.cells].map((c) => c.innerText))")
    return [[text.strip() for text in row] for row in cells]


def test_photos_in_folders_are_tested_and_nothing_is_learned(
    tab: Page, album: Path, tmp_path: Path
) -> None:
    before = tab.evaluate("fetch('/api/labels').then((answer) => answer.json())")
    tab.get_by_role("link", name="Test").click()
    assert found_by_axe(tab) == []
    drop(tab, album)
    rows = tab.get_by_role("table", name="Thing by thing").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(tab.locator("#test-wait")).to_be_hidden()
    _, cat, moon, mug = table_of(tab)
    assert [row[0] for row in (cat, moon, mug)] == ["cat", "moon (not taught)", "mug"]
    for _, photos, right, wrong, unknown in (cat, moon, mug):
        assert int(photos) == int(right) + int(wrong) + int(unknown)
    assert int(mug[2]) >= 2
    left_out = tab.locator("#test section").filter(has_text="Left out: I was taught")
    expect(left_out).to_contain_text("Mug/old.jpg")
    tested = sum(int(row[1]) for row in (cat, moon, mug))
    assert tested + left_out.get_by_role("listitem").count() == 10
    assert tab.evaluate("fetch('/api/labels').then((answer) => answer.json())") == before
    assert found_by_axe(tab) == []
    shot(tab, "test")
    with tab.expect_download() as saving:
        tab.get_by_role("button", name="Save as a table (CSV)").click()
    assert saving.value.suggested_filename == "shop test.csv"
    saving.value.save_as(tmp_path / "test.csv")
    with (tmp_path / "test.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = [*csv.DictReader(file)]
    assert len(lines) == tested
    assert sum(line["result"] == "right" for line in lines) == sum(
        int(row[2]) for row in (cat, moon, mug)
    )
    assert {line["truth"] for line in lines} == {"Mug", "cat", "moon"}
    tab.get_by_role("button", name="Start over").click()
    expect(tab.locator("#test-empty")).to_be_visible()


def test_of_other_photos_it_asks_and_the_keyboard_is_enough(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory), **PHONE)
    page.goto(f"{page.url}#test")
    page.locator("#test-pick").set_input_files(photographs("coffee", 3, 1))
    right = page.get_by_role("button", name="Right about")
    expect(right).to_have_count(3)
    assert found_by_axe(page) == []
    assert fits(page)
    right.first.focus()
    page.keyboard.press("Enter")
    expect(right).to_have_count(2)
    expect(right.first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("c")  # cat
    expect(right).to_have_count(1)
    expect(page.locator("#test .misses").first).to_contain_text("It is cat, I say mug")
    assert table_of(page)[1:] == [["cat", "1", "0", "1", "0"], ["mug", "1", "1", "0", "0"]]
    assert fits(page)


def test_what_is_taught_meanwhile_is_no_longer_tested(tab: Page, memory: Path, album: Path) -> None:
    tab.keyboard.press("3")
    drop(tab, album / "moon")
    rows = tab.get_by_role("table", name="Thing by thing").get_by_role("row")
    expect(rows).to_have_count(2)
    cbcl("learn", memory, album / "moon", "--quiet")
    expect(tab.locator("#test")).to_contain_text("I was taught these 2 photos")
    expect(rows).to_have_count(0)


@pytest.fixture
def folder(memory: Path, photographs: Photographs) -> Path:
    """A folder of two memories."""
    with Recognizer(memory.with_name("space.cbcl")) as recognizer:
        recognizer.learn("rocket", photographs("rocket", 3))
    memory.touch()  # it is the latest
    return memory.parent


def name_of(page: Page) -> Locator:
    return page.locator("#memory-name")


def listed(page: Page, name: str) -> Locator:
    return page.locator("#memory-list > li").filter(has=page.get_by_text(name, exact=True))


def test_memories_are_made_opened_and_copied_and_all_pages_follow(
    folder: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(folder)
    page, other = visit(server, forgiven=("422",)), visit(server)
    expect(name_of(other)).to_have_text("shop.cbcl")
    page.get_by_role("link", name="Memories").click()
    expect(listed(page, "shop")).to_contain_text("2 things")
    assert found_by_axe(page) == []
    shot(page, "memories")
    page.get_by_role("button", name="Open space.cbcl").click()
    for each in (page, other):
        expect(name_of(each)).to_have_text("space.cbcl")
    knows(other, rocket=3)
    painted(other)
    expect(listed(page, "space")).to_have_attribute("aria-current", "true")
    page.get_by_role("textbox", name="Name of a new memory").fill("../evil")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="cannot have /")).to_be_visible()
    page.get_by_role("textbox", name="Name of a new memory").fill("garage")
    page.keyboard.press("Enter")
    expect(name_of(other)).to_have_text("garage.cbcl")
    knows(other)
    drop(other, *photographs("coffee", 2))
    looked_at(other, 2)
    name_them(other, "mug")
    expect(listed(page, "garage")).to_contain_text("1 thing")
    page.get_by_role("button", name="Duplicate garage.cbcl").click()
    expect(listed(page, "garage copy")).to_be_visible()
    page.get_by_role("button", name="Duplicate garage.cbcl").click()
    expect(listed(page, "garage copy 2")).to_be_visible()
    expect(name_of(page)).to_have_text("garage.cbcl")
    with Recognizer(folder / "garage copy 2.cbcl") as recognizer:
        assert recognizer.labels().keys() == {"mug"}


def test_what_is_taught_says_which_memory_it_is_meant_for(
    folder: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(folder))
    drop(page, *photographs("camera", 2))
    looked_at(page, 2)
    with page.expect_request("**/api/examples") as teaching:
        name_them(page, "camera")
    assert teaching.value.headers["cbcl-memory"] == "shop.cbcl"


def test_a_backup_replaces_the_memory_after_a_question_and_is_taken_back(
    folder: Path, serve: Serve, visit: Open
) -> None:
    page = visit(serve(folder / "shop.cbcl"))
    page.keyboard.press("6")
    expect(page.locator("#memories-alone")).to_contain_text("cbcl teach")
    expect(page.locator("#memory-form")).to_be_hidden()
    expect(page.get_by_role("button", name="Duplicate")).to_have_count(0)
    restore = page.locator("#memory-restore-file")
    restore.set_input_files(folder / "space.cbcl")
    question = page.get_by_role("dialog", name="Replace shop.cbcl with space.cbcl?")
    assert found_by_axe(page) == []
    question.get_by_role("button", name="Cancel").click()
    expect(listed(page, "shop")).to_contain_text("2 things")
    restore.set_input_files(folder / "space.cbcl")
    question.get_by_role("button", name="Replace").click()
    expect(listed(page, "shop")).to_contain_text("1 thing")
    message(page, "The memory before is kept as shop (replaced").get_by_role(
        "button", name="Undo"
    ).click()
    expect(listed(page, "shop")).to_contain_text("2 things")
    page.keyboard.press("1")
    knows(page, cat=3, mug=3)
    restored = [*folder.glob("shop (replaced *.cbcl")]
    assert len(restored) == 1
    with Recognizer(restored[0]) as recognizer:
        assert recognizer.labels() == {"rocket": 3}


def test_a_file_that_is_no_memory_is_told_before_it_is_sent_and_before_any_question(
    folder: Path, serve: Serve, visit: Open, photographs: Photographs, tmp_path: Path
) -> None:
    database, empty = tmp_path / "notes.cbcl", tmp_path / "empty.cbcl"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE notes (note TEXT)")
    empty.touch()
    wrong = {
        photographs("rocket", 1)[0]: "errors.no_memory",
        database: "errors.no_memory",
        empty: "errors.empty",
    }
    server = serve(folder / "shop.cbcl")
    sent: list[str] = []
    for language, words in languages().items():
        page = visit(server, locale=language)
        page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
        page.keyboard.press("6")
        for field in ("#memory-restore-file", "#memory-add-file"):
            for path, key in wrong.items():
                page.locator(field).set_input_files(path)
                told = page.locator(".toast.alert").filter(has_text=path.name)
                expect(told).to_have_text(str(words[key]).replace("{name}", path.name))
                expect(page.get_by_role("dialog")).to_have_count(0)
                told.get_by_role("button").click()
    assert [request for request in sent if request.startswith("POST")] == []


SIZES: dict[str, dict[str, Any]] = {
    "phone": {**PHONE, "viewport": {"width": 390, "height": 844}},
    "laptop": {"viewport": {"width": 1280, "height": 720}, "color_scheme": "dark"},
    "zoomed": {"viewport": {"width": 640, "height": 360}},  # 1280 x 720 at 200 %
    "narrow": {"viewport": {"width": 360, "height": 740}},
}


@pytest.mark.parametrize("size", SIZES)
def test_every_view_is_reached_and_fits_wherever_it_is_opened(
    size: str, folder: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(folder), **SIZES[size])
    views = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(views).to_have_count(6)
    for name in ("Test", "Scores", "History", "Memories", "Teach"):
        link = page.get_by_role("link", name=name, exact=True)
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= SIZES[size]["viewport"]["width"]
        link.click()
        expect(page.locator(f"#{name.lower()}")).to_be_visible()
        if name == "Test":
            page.locator("#test-pick").set_input_files(photographs("coffee", 2, 1))
            expect(page.get_by_role("button", name="Right about").first).to_be_visible()
        if name == "Memories":
            expect(listed(page, "space")).to_be_visible()
        assert fits(page), name
        assert found_by_axe(page) == []
    page.get_by_role("link", name="Present", exact=True).click()
    assert fits(page)
    assert found_by_axe(page) == []
