"""Actions of a person on the page, and what the page then shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from support.browser import Server, serious

pytest.importorskip("playwright.sync_api", reason="the page is not tested: pip install playwright")
from playwright.sync_api import Locator, Page, Route, expect

DESK = {"width": 1280, "height": 800}
PHONE = {
    "viewport": {"width": 360, "height": 740},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
UNKNOWN = "I don\u2019t know this"

Serve: TypeAlias = Callable[..., Server]
Open: TypeAlias = Callable[..., Page]
Photographs: TypeAlias = Callable[..., list[Path]]


def cbcl(*arguments: object) -> str:
    command = [sys.executable, "-m", "cbcl", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def card(page: Page, label: str) -> Locator:
    return page.locator("#cards").get_by_role("listitem", name=label, exact=True)


def tiles(page: Page) -> Locator:
    return page.locator("#pictures > li")


def looked_at(page: Page, count: int) -> Locator:
    """The tray, once it holds so many pictures and an answer for each."""
    expect(tiles(page)).to_have_count(count)
    expect(tiles(page).filter(has_text="…")).to_have_count(0)
    return tiles(page)


def settled(page: Page) -> None:
    """Wait until the tray has the answers of the memory that the cards show."""
    expect(page.locator("#pictures")).to_have_attribute("aria-busy", "false")


def accept_sure(page: Page, label: str) -> None:
    """Accept the guesses of a label that are sure, together: these photos leave, and no others."""
    settled(page)
    yes = page.locator("#groups").get_by_role("button", name=re.compile(f"Yes, all . are {label}"))
    offered = int(re.sub(r"\D", "", str(yes.get_attribute("aria-label"))))
    before = tiles(page).count()
    yes.click()
    expect(tiles(page)).to_have_count(before - offered)


def snap(page: Page, times: int) -> None:
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
    for number in range(times):
        page.get_by_role("button", name="Snap").click()
        expect(tiles(page)).to_have_count(number + 1)


def name_field(page: Page) -> Locator:
    """The one field for names; its own name says what it would name."""
    return page.locator("#name")


def name_them(page: Page, label: str) -> None:
    name_field(page).fill(label)
    page.keyboard.press("Enter")
    expect(card(page, label)).to_be_visible()
    expect(tiles(page)).to_have_count(0)


def answer(page: Page) -> Locator:
    return page.locator("#answer-label")


def message(page: Page, text: str) -> Locator:
    return page.get_by_role("region", name="Messages").locator(".toast").filter(has_text=text)


def rename(page: Page, label: str, new: str) -> None:
    card(page, label).get_by_role("button", name=f"Rename {label}").click()
    page.get_by_role("textbox", name=f"New name for {label}").fill(new)
    page.keyboard.press("Enter")
    expect(card(page, new)).to_be_visible()
    expect(card(page, label)).to_have_count(0)


def knows(page: Page, **things: int) -> None:
    """The cards say so many photos of each thing, and there are no others."""
    for label, examples in things.items():
        expect(card(page, label)).to_contain_text(f"{examples} photo")
    expect(page.locator("#cards > li")).to_have_count(len(things))


def fits(page: Page) -> bool:
    """Whether nothing is wider than the window, now and after the next frame."""
    script = """() => new Promise((done) => {
      const fits = () => document.documentElement.scrollWidth <= Math.min(innerWidth, screen.width);
      requestAnimationFrame(() => requestAnimationFrame(() => done(fits())));
    })"""
    return bool(page.evaluate(script))


@contextmanager
def held(page: Page, address: str) -> Iterator[None]:
    """Requests to an address wait meanwhile, as on a slow day; then they go on."""
    waiting: list[Route] | None = []

    def meet(route: Route) -> None:
        if waiting is None:
            route.continue_()
        else:
            waiting.append(route)

    page.route(f"**{address}", meet)
    yield
    late = waiting or []
    waiting = None
    for route in late:
        route.continue_()


def told_in_tray(page: Page, count: int) -> list[str]:
    """The texts of the tray's tiles, once it is sorted: "coffee-2-07.jpg: mug 99%"."""
    expect(page.locator("#progress")).to_be_hidden()
    boxes = looked_at(page, count).get_by_role("checkbox")
    said: list[str] = boxes.evaluate_all(
        "nodes => nodes.map((node) => node.getAttribute('aria-label'))"
    )
    return said


def found_by_axe(page: Page) -> list[str]:
    """The violations that axe finds and that keep people out."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    return serious(Axe().run(page))
