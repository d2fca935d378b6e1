"""The page in Firefox, where that is here: taught, asked, corrected, renamed, undone, presented."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace

import axe_playwright_python  # type: ignore[import-untyped]
import pytest
from support.browser import serious
from support.firefox import FirefoxPage, firefox
from support.page_actions import Photographs, Serve

pytest_plugins = ["support.page_fixtures"]
pytestmark = [pytest.mark.browser, pytest.mark.long]

ENTER = "\ue007"
VIEWS = ("teach", "test", "scores", "history", "memories")
TILES = "document.querySelectorAll('#pictures > li').length"
ANSWER = "document.querySelector('#answer-label').textContent"
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


def knows(page: FirefoxPage, **things: int) -> None:
    """Wait until the cards say so many photos of each thing, and there are no others."""
    said = "[...document.querySelectorAll('#cards > li')].map((card) => card.innerText)"
    page.until(f"{said}.length === {len(things)}")
    for label, count in things.items():
        page.until(f"{said}.some((words) => /^{label}\\s+{count} photo/m.test(words))")


def choose(page: FirefoxPage, photos: list[Path]) -> None:
    page.choose("#pick", photos)
    page.until(f"{TILES} === {len(photos)}")
    page.until("!document.querySelector('#pictures').textContent.includes('…')")


def teach(page: FirefoxPage, label: str, photos: list[Path]) -> None:
    choose(page, photos)
    page.type("#name", label + ENTER)
    page.until(f"{TILES} === 0")


def click_words(page: FirefoxPage, words: str) -> None:
    """Click on the button in sight that says this."""
    seen = "[...document.querySelectorAll('button')].filter((each) => each.checkVisibility())"
    found = f"{seen}.find((each) => each.innerText === '{words}')"
    page.until(found)
    page.evaluate(f"{found}.click();")


def found_by_axe(page: FirefoxPage) -> list[str]:
    found = page.evaluate(f"{AXE}; return JSON.stringify(await axe.run(document));")
    return serious(SimpleNamespace(response=json.loads(found)))


def shot(page: FirefoxPage, name: str) -> None:
    folder = os.environ.get("CBCL_SCREENSHOTS")
    if folder:
        picture = page.command("WebDriver:TakeScreenshot", full=False)["value"]
        (Path(folder) / f"{name}.png").write_bytes(b64decode(picture))


def test_the_page_works_in_firefox(tmp_path: Path, serve: Serve, photographs: Photographs) -> None:
    server = serve(tmp_path / "shop.cbcl")
    with firefox(tmp_path / "profile") as page:
        page.open(server.address)
        page.until("document.querySelector('#connection').dataset.state === 'connected'")
        teach(page, "mug", photographs("coffee", 3))
        teach(page, "cat", photographs("chelsea", 3))
        knows(page, mug=3, cat=3)

        choose(page, photographs("coffee", 1, seed=5))
        page.until(f"{ANSWER} === 'mug'")
        page.until("[...document.querySelectorAll('#reasons img')].every((each) => each.complete)")
        shot(page, "firefox-answer")
        click_words(page, "Yes, mug")
        page.until(f"{TILES} === 0")
        knows(page, mug=4, cat=3)

        choose(page, photographs("rocket", 1))
        page.open(server.address)  # what waits to be named waits still
        page.until(f"{TILES} === 1")
        page.until(f"{ANSWER} === 'I don\\u2019t know this'")
        page.type("#name", "rocket" + ENTER)
        knows(page, mug=4, cat=3, rocket=1)
        click_words(page, "Undo")
        knows(page, mug=4, cat=3)
        page.until(f"{TILES} === 1")

        page.click('button[title="Rename cat"]')
        page.type('input[aria-label="New name for cat"]', "kitten" + ENTER)
        page.until("document.querySelector('#cards').innerText.includes('kitten')")
        for view in VIEWS:
            page.evaluate(f"location.hash = '{view}';")
            page.until(f"document.querySelector('nav [aria-current]').hash === '#{view}'")
            page.until("document.querySelector('#wait')?.hidden ?? true")
            shot(page, f"firefox-{view}")
            assert found_by_axe(page) == []
        assert page.errors(server.address) == []
