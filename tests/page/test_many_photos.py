"""Many photos: groups, folders, photos known already, problems told once, a tray that stays."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import drop, shot
from support.heic import heic
from support.page_actions import (
    Open,
    Photographs,
    Serve,
    card,
    fits,
    found_by_axe,
    knows,
    looked_at,
    message,
    name_field,
    tiles,
)

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser


def groups(page: Page) -> Locator:
    """The rows of photos that look alike."""
    return page.locator("#groups > .lookalikes")


def name_group(page: Page, count: int, label: str) -> None:
    field = page.get_by_role("combobox", name=f"Name of these {count} photos")
    field.fill(label)
    field.press("Enter")
    expect(card(page, label)).to_be_visible()


def settled(page: Page) -> None:
    """All photos are looked at, sorted and grouped."""
    expect(page.locator("#progress")).to_be_hidden()
    expect(tiles(page).filter(has_text="…")).to_have_count(0)


def test_unknown_photos_come_in_groups_and_a_name_for_a_group_is_one_act(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "new.cbcl"))
    cups, cats = photographs("coffee", 5, seed=7), photographs("chelsea", 3, seed=7)
    rockets = photographs("rocket", 2, seed=7)
    drop(page, *cups, *cats, *rockets)
    looked_at(page, 10)
    expect(groups(page)).to_have_count(3)
    expect(groups(page).first).to_contain_text("5 look alike: name them")
    assert found_by_axe(page) == []
    shot(page, "alike")
    # What is typed elsewhere stays while a group is named.
    groups(page).nth(2).get_by_role("combobox").fill("half a na")
    name_group(page, 5, "cup")
    expect(tiles(page)).to_have_count(5)
    expect(groups(page).nth(1).get_by_role("combobox")).to_have_value("half a na")
    # One that does not belong there is left out.
    groups(page).first.get_by_role("button", name="chelsea-7-00.jpg").click()
    page.get_by_role("combobox", name="Name of these 3 photos").fill("cat")
    groups(page).first.get_by_role("button", name="Teach 2 photos").click()
    expect(card(page, "cat")).to_contain_text("2 photos")
    expect(tiles(page)).to_have_count(3)
    # Undone as one act.
    page.get_by_role("button", name="Undo").first.click()
    expect(card(page, "cat")).to_have_count(0)
    expect(tiles(page)).to_have_count(5)


# The server is half sure where it was sure.
DOUBT = """() => {
  const ask = window.fetch;
  window.fetch = async (address, options) => {
    const response = await ask(address, options);
    if (address !== "/api/recognize-many" || !response.ok) return response;
    const body = await response.json();
    for (const answer of body.answers) {
      answer.ranking[0].confidence = Math.min(answer.ranking[0].confidence, 0.5);
      answer.confidence = Math.min(answer.confidence, 0.5);
    }
    return new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } });
  };
}"""


def test_after_a_thing_is_taught_photos_that_may_show_it_are_asked_about(
    tab: Page, photographs: Photographs
) -> None:
    tab.evaluate(DOUBT)
    drop(tab, *photographs("coffee", 4, seed=5), *photographs("chelsea", 1, seed=5))
    looked_at(tab, 5)
    settled(tab)
    question = tab.locator("#groups > .maybe")
    expect(question).to_have_count(0)
    tab.get_by_role("button", name="Yes, this is mug").first.click()
    expect(tiles(tab)).to_have_count(4)
    expect(question).to_contain_text("Is this mug, too?")
    shot(tab, "is-this-too")
    assert found_by_axe(tab) == []
    # A no: it stays, and is not asked about again.
    first = question.locator("img").get_attribute("alt") or ""
    question.get_by_role("button", name="No").click()
    expect(question.locator("img")).not_to_have_attribute("alt", first)
    expect(tiles(tab)).to_have_count(4)
    # A yes: it is taught, and the next one is asked about, until there is none.
    question.get_by_role("button", name="Yes").click()
    expect(tiles(tab)).to_have_count(3)
    settled(tab)
    if question.count():  # else it is nearly the same as the one before
        question.get_by_role("button", name="Yes").click()
    expect(question).to_have_count(0)
    expect(tab.get_by_role("checkbox", name=first)).to_be_visible()


def folders_of(tmp_path: Path, photographs: Photographs, **things: int) -> Path:
    for label, count in things.items():
        folder = tmp_path / "things" / label
        folder.mkdir(parents=True)
        for path in photographs({"cup": "coffee", "cat": "chelsea"}[label], count, seed=3):
            shutil.copy(path, folder)
    return tmp_path / "things"


def test_folders_offer_their_names_and_are_learned_and_undone_as_one(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "new.cbcl"))
    drop(page, folders_of(tmp_path, photographs, cup=4, cat=3))
    looked_at(page, 7)
    offer = page.locator("#groups > .folders")
    expect(offer).to_contain_text("Use the names of the folders?")
    expect(offer.get_by_role("listitem")).to_have_text(["cat 3", "cup 4"])
    shot(page, "folders")
    assert found_by_axe(page) == []
    offer.get_by_role("button", name="Learn all 7 photos").click()
    expect(tiles(page)).to_have_count(0)
    expect(card(page, "cat")).to_contain_text("photos")
    expect(card(page, "cup")).to_contain_text("photos")
    done = message(page, "photos of 2 things.")
    done.get_by_role("button", name="Undo").click()
    expect(page.locator("#cards > li")).to_have_count(0)
    expect(offer.get_by_role("listitem")).to_have_text(["cat 3", "cup 4"])
    # Or one names them oneself.
    offer.get_by_role("button", name="No").click()
    expect(offer).to_have_count(0)
    expect(groups(page)).to_have_count(2)


def test_a_folder_dropped_twice_adds_nothing_and_says_so(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "new.cbcl"))
    folder = folders_of(tmp_path, photographs, cup=4)
    drop(page, folder / "cup")
    looked_at(page, 4)
    asked = "Do all photos show what their folder is called?"
    expect(page.locator("#groups > .folders")).to_contain_text(asked)
    page.get_by_role("button", name="Learn all 4 photos").click()
    expect(card(page, "cup")).to_be_visible()
    expect(tiles(page)).to_have_count(0)
    (learned,) = re.findall(r"\d photos?", card(page, "cup").text_content() or "")
    drop(page, folder / "cup")
    looked_at(page, 4)
    settled(page)
    expect(tiles(page).filter(has_text="known already")).to_have_count(4)
    expect(page.locator("#groups > .folders")).to_have_count(0)
    expect(page.locator("#teach-button")).to_have_text("Teach")  # none is selected
    row = page.locator("#groups > .known")
    expect(row).to_contain_text("I know 4 of these photos already: they add nothing.")
    shot(page, "known-already")
    row.get_by_role("button", name="Remove them").click()
    expect(tiles(page)).to_have_count(0)
    expect(card(page, "cup")).to_contain_text(learned)


def test_the_same_problem_is_told_once_and_dismissed_together(
    tab: Page, tmp_path: Path, photographs: Photographs
) -> None:
    for number in range(5):
        (tmp_path / f"IMG_{number}.heic").write_bytes(heic()[:300])
        (tmp_path / f"letter{number}.jpg").write_text(f"Dear reader {number},")
    drop(tab, *photographs("coffee", 2, seed=1), *sorted(tmp_path.glob("*.[hj]*")))
    looked_at(tab, 2)
    rows = tab.locator("#problems > li")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("5 files cannot be used. Each is")
    letters = rows.filter(has_text="Each is not a picture")
    letters.get_by_text("Which?").click()
    expect(letters.get_by_role("listitem")).to_have_count(5)
    shot(tab, "problems")
    assert found_by_axe(tab) == []
    letters.get_by_role("button", name="Dismiss").click()
    expect(rows).to_have_count(1)
    drop(tab, tmp_path / "letter1.jpg")
    expect(rows).to_have_count(2)
    tab.get_by_role("button", name="Dismiss all").click()
    expect(rows).to_have_count(0)


def test_heic_photos_are_taught_as_others(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    pytest.importorskip("pi_heif")
    (tmp_path / "IMG_1.HEIC").write_bytes(heic(2, 2))
    page = visit(serve(tmp_path / "new.cbcl"))
    drop(page, tmp_path / "IMG_1.HEIC", *photographs("coffee", 1))
    looked_at(page, 2)
    drawn = "image => image.decode().then(() => image.naturalWidth)"  # no browser draws HEIC itself
    picture = tiles(page).filter(has=page.get_by_role("checkbox", name="IMG_1.HEIC")).locator("img")
    assert picture.evaluate(drawn) == 128
    page.get_by_role("checkbox", name="coffee").uncheck()
    page.get_by_role("checkbox", name="IMG_1.HEIC").uncheck()
    page.get_by_role("checkbox", name="IMG_1.HEIC").check()
    assert page.locator("#subject").evaluate(drawn) == 128
    name_field(page).fill("flag")
    page.keyboard.press("Enter")
    knows(page, flag=1)


def reopened(page: Page, address: str) -> Page:
    """Another tab with the same storage, after this one is gone."""
    context = page.context
    page.close()
    other = context.new_page()
    other.goto(address)
    return other


def kept(page: Page) -> int:
    """How many photos the browser keeps."""
    count: int = page.evaluate(
        """() => new Promise((done) => {
          const opening = indexedDB.open("cbcl", 1);
          opening.onsuccess = () => {
            const all = opening.result.transaction("tray").objectStore("tray").count();
            all.onsuccess = () => (opening.result.close(), done(all.result));
          };
        })"""
    )
    return count


def all_kept(page: Page, count: int) -> None:
    for _ in range(100):
        if kept(page) == count:
            return
        page.wait_for_timeout(50)
    assert kept(page) == count


def test_the_tray_survives_reload_and_restart_until_it_is_taught(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(memory)
    page = visit(server)
    drop(page, *photographs("rocket", 3, seed=2))
    looked_at(page, 3)
    all_kept(page, 3)
    page.reload()
    names = looked_at(page, 3).get_by_role("checkbox")
    assert {(name or "").split(":")[0] for name in names.evaluate_all(LABELS)} == {
        f"rocket-2-0{number}.jpg" for number in range(3)
    }
    page = reopened(page, server.address)
    looked_at(page, 3)
    # Another tab has its own.
    other = page.context.new_page()
    other.goto(server.address)
    expect(other.locator("#connection")).to_have_attribute("data-state", "connected")
    other.wait_for_timeout(600)
    expect(tiles(other)).to_have_count(0)
    drop(other, *photographs("moon", 1))
    looked_at(other, 1)
    all_kept(other, 4)
    other = reopened(other, server.address)
    looked_at(other, 1)
    expect(tiles(page)).to_have_count(3)
    page.bring_to_front()
    page.locator("#select-all").click()
    name_field(page).fill("rocket")
    page.keyboard.press("Enter")
    expect(card(page, "rocket")).to_be_visible()
    all_kept(page, 1)
    page.reload()
    expect(card(page, "rocket")).to_be_visible()
    expect(tiles(page)).to_have_count(0)
    tiles(other).get_by_role("button", name="Remove").click()
    all_kept(other, 0)


LABELS = "nodes => nodes.map((node) => node.getAttribute('aria-label'))"
BLOCKED = """
Object.defineProperty(window, "indexedDB", { get() { throw new Error("no storage here"); } });
"""


def test_a_browser_that_keeps_nothing_is_told_and_closing_is_asked_about(
    memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(memory), forgiven=("a dialog",))
    page.add_init_script(BLOCKED)
    page.reload()
    expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
    drop(page, *photographs("rocket", 2, seed=2))
    looked_at(page, 2)
    lost = page.locator("#tray-lost")
    expect(lost).to_contain_text("This browser cannot keep 2 of these photos")
    shot(page, "not-kept")
    page.locator("#select-none").click()  # browsers ask only who has done something
    with page.expect_event("dialog") as asked:
        page.evaluate("setTimeout(() => location.reload())")
    assert asked.value.type == "beforeunload"
    expect(tiles(page)).to_have_count(2)  # the answer was to stay
    page.locator("#select-all").click()
    page.locator("#discard").click()
    expect(lost).to_be_hidden()


def test_many_photos_fit_on_a_phone(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "new.cbcl"), viewport={"width": 390, "height": 844})
    drop(page, *photographs("coffee", 9, seed=7), folders_of(tmp_path, photographs, cup=2, cat=2))
    looked_at(page, 13)
    expect(groups(page).first).to_be_visible()
    assert fits(page)
    page.locator("#groups").scroll_into_view_if_needed()
    shot(page, "many-phone")
    more = groups(page).first.get_by_role("button", name="+2")
    more.click()
    expect(groups(page).first.locator(".face-button")).to_have_count(9)
    assert fits(page)


def test_photos_of_the_inbox_come_by_themselves_and_leave_when_they_are_named(
    memory: Path, tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    inbox = tmp_path / "to-name"
    inbox.mkdir()
    for path in (*photographs("rocket", 2, seed=2), *photographs("moon", 1)):
        shutil.copy(path, inbox)
        (inbox / f".{path.name}.json").write_text("{}")
    (inbox / "mine.jpg").write_bytes(b"not of the inbox")
    page = visit(serve(memory, "--inbox", str(inbox)))
    looked_at(page, 3)
    assert kept(page) == 0  # the server keeps them
    for number in range(2):
        page.get_by_role("checkbox", name=f"rocket-2-0{number}.jpg").check()
    name_field(page).fill("rocket")
    page.keyboard.press("Enter")
    expect(card(page, "rocket")).to_be_visible()
    message(page, "Learned").get_by_role("button", name="Dismiss").click()
    expect(tiles(page)).to_have_count(1)
    page.get_by_role("button", name="Remove moon").click()
    message(page, "Removed 1 photo").get_by_role("button", name="Dismiss").click()
    for _ in range(100):
        if [path.name for path in inbox.iterdir()] == ["mine.jpg"]:
            break
        page.wait_for_timeout(50)
    assert [path.name for path in inbox.iterdir()] == ["mine.jpg"]
    page.reload()
    expect(card(page, "rocket")).to_be_visible()
    expect(tiles(page)).to_have_count(0)
