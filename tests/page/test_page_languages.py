"""The page in each of its languages, chosen by the browser: on a phone, a laptop, for everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import drop, shot
from support.page_actions import (
    PHONE,
    Open,
    Photographs,
    Serve,
    answer,
    fits,
    found_by_axe,
    looked_at,
)

from cbcl.export.words import languages

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

LAPTOP = {"viewport": {"width": 1280, "height": 720}}
VIEWS = ("teach", "present", "test", "scores", "history", "memories")


@pytest.mark.parametrize(
    "language",
    [  # of one that is written from right to left always
        pytest.param(name, marks=[] if name == "ar" else [pytest.mark.long])
        for name in sorted(languages())
    ],
)
def test_every_view_speaks_the_language_fits_and_keeps_nobody_out(
    language: str, memory: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server, words = serve(memory), languages()[language]
    found: dict[str, list[str]] = {}
    for name, size in (("laptop", LAPTOP), ("phone", PHONE)):
        page = visit(server, locale=language, **size)
        assert page.evaluate("document.documentElement.lang") == language
        direction = page.evaluate("getComputedStyle(document.body).direction")
        assert direction == ("rtl" if language == "ar" else "ltr")
        expect(page.locator("#nav-teach")).to_have_text(str(words["views.teach"]))
        drop(page, *photographs("rocket", 1))
        looked_at(page, 1)
        expect(answer(page)).to_have_text(str(words["answer.unknown"]))
        for view in VIEWS:
            page.evaluate("view => { location.hash = view; }", view)
            expect(page.locator(f"#{view}")).to_be_visible()
            assert fits(page), f"{view} on a {name}"
            if name == "laptop":
                found[view] = found_by_axe(page)
            shot(page, f"{language}-{name}-{view}")
            page.keyboard.press("Escape")
    assert found == {view: [] for view in VIEWS}
