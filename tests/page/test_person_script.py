"""A person's script: what an eager person does to the page leaves the answers as good as before.

Three things are taught by holding Snap for three seconds at each of three views; Yes is pressed
twenty times; a folder is dropped twice; the memory's own backup is added. The same photos, each
shown once, are the measure: other photos and strangers must be answered as well. `pytest -s` shows
the numbers.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect
from support.browser import drop
from support.page_actions import (
    Open,
    Photographs,
    Serve,
    answer,
    card,
    looked_at,
    message,
    name_field,
    tiles,
)
from support.scripted_camera import SCRIPTED_CAMERA, show, turn_on

from cbcl import Recognizer

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

THINGS = {"cup": "coffee", "cat": "chelsea", "rocket": "rocket"}
FOLDER = ("pilot", "astronaut")  # a thing whose photos come in a folder
STRANGERS = ("moon", "brick", "coins", "retina")
HOLD_MS = 3000
SWAY = 20  # pixels of 256, of a hand that holds a thing before the camera
PRESSES = 20
ASKED = 20  # other photos of each thing
MAX_LOST = 2  # of a hundred photos: the margin of the laws on copies


class Outcome(NamedTuple):
    """How the photos that were never shown are answered, and what the memory holds."""

    right: int
    wrong: int
    asked: int
    found: int  # strangers that are called unknown
    strangers: int
    photos: dict[str, int]
    steps: int


def ask(memory: Path, photographs: Photographs) -> Outcome:
    """Ask about other photos of the things, and about strangers."""
    names = {**THINGS, FOLDER[0]: FOLDER[1]}
    right = wrong = 0
    strange = [photo for name in STRANGERS for photo in photographs(name, 10, seed=7)]
    with Recognizer(memory) as recognizer:
        for label, name in names.items():
            said = [one.label for one in recognizer.recognize_many(photographs(name, ASKED, 7))]
            right += said.count(label)
            wrong += len(said) - said.count(label) - said.count(None)
        found = sum(one.label is None for one in recognizer.recognize_many(strange))
        labels, steps = recognizer.labels(), len(recognizer.history())
    return Outcome(right, wrong, ASKED * len(names), found, len(strange), labels, steps)


def snap_once(page: Page) -> None:
    before = tiles(page).count()
    page.keyboard.press("Space")
    expect(tiles(page)).to_have_count(before + 1)


def hold_for_long(page: Page) -> None:
    page.keyboard.down("Space")
    page.wait_for_timeout(HOLD_MS)
    page.keyboard.up("Space")


def teach(page: Page, photographs: Photographs, snap: Callable[[Page], None], yes: int) -> int:
    """Teach the things with the camera, by keyboard alone; say yes so often to one more view.

    Returned is the number of photos that were named.
    """
    named = 0
    turn_on(page, photographs("coffee", 1)[0])
    for label, name in THINGS.items():
        for photo in photographs(name, 3):
            show(page, photo, SWAY)
            snap(page)
        named += tiles(page).count()
        looked_at(page, tiles(page).count())
        page.keyboard.press("n")
        page.keyboard.type(label)
        page.keyboard.press("Enter")
        expect(card(page, label)).to_be_visible()
        expect(tiles(page)).to_have_count(0)
    show(page, photographs("coffee", 1, seed=5)[0], SWAY)
    expect(answer(page)).to_have_text("cup")
    for number in range(1, yes + 1):
        expect(page.get_by_role("button", name="Yes, cup", exact=True)).to_be_visible()
        page.keyboard.press("y")
        expect(page.locator("#confirmed")).to_have_text(f"{number} confirmed")
    page.get_by_role("button", name="Turn off camera").click()
    return named


def learn_folder(page: Page, folder: Path) -> None:
    drop(page, folder)
    looked_at(page, 3)
    page.get_by_role("button", name="Learn all 3 photos").click()
    expect(tiles(page)).to_have_count(0)
    expect(card(page, FOLDER[0])).to_contain_text("3 photos")


def insist_on_folder(page: Page, folder: Path) -> None:
    """Drop a folder again, and name all of it, though the page says that it knows these photos."""
    drop(page, folder)
    looked_at(page, 3)
    expect(page.get_by_text("I know 3 of these photos already")).to_be_visible()
    page.get_by_role("button", name="All", exact=True).click()
    name_field(page).fill(FOLDER[0])
    page.keyboard.press("Enter")
    expect(tiles(page)).to_have_count(0)


def add_own_backup(page: Page, folder: Path) -> None:
    page.get_by_role("button", name="Menu").click()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download this memory").click()
    backup = folder / "backup.cbcl"
    downloading.value.save_as(backup)
    page.locator("#import-file").set_input_files(backup)
    expect(message(page, "More of: cat, cup, pilot")).to_be_visible()


def test_an_eager_person_is_answered_as_well_as_one_who_snaps_once(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    folder = tmp_path / FOLDER[0]
    folder.mkdir()
    for photo in photographs(FOLDER[1], 3):
        shutil.copy(photo, folder)
    calm = visit(serve(tmp_path / "calm.cbcl"), script=SCRIPTED_CAMERA)
    snapped = teach(calm, photographs, snap_once, yes=1)
    learn_folder(calm, folder)

    eager = visit(serve(tmp_path / "eager.cbcl"), script=SCRIPTED_CAMERA)
    recorded = teach(eager, photographs, hold_for_long, yes=PRESSES)
    learn_folder(eager, folder)
    insist_on_folder(eager, folder)
    known = ask(tmp_path / "eager.cbcl", photographs)
    add_own_backup(eager, tmp_path)

    once = ask(tmp_path / "calm.cbcl", photographs)
    often = ask(tmp_path / "eager.cbcl", photographs)
    numbers = {
        f"{snapped} snaps, each thing once": once,
        f"{recorded} photos of {len(THINGS) * 3} recordings, an eager person": known,
        "and the backup added": often,
    }
    for what, outcome in numbers.items():
        sys.stdout.write(f"\n{what}: {outcome}")
    assert often.right >= once.right - MAX_LOST * once.asked // 100
    assert often.wrong <= once.wrong + MAX_LOST * once.asked // 100
    assert often.found >= once.found - MAX_LOST * once.strangers // 100
    assert (often.right, often.wrong, often.found) == (known.right, known.wrong, known.found)
    assert often.photos == known.photos  # one's own backup adds nothing
    assert often.photos["pilot"] == 3  # nor does the same folder again
