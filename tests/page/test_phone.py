"""The page on a phone: loaded with few requests, with a live camera, and to look only."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Page, Response, expect
from support.browser import Browsers, shot
from support.page_actions import (
    PHONE,
    Open,
    Photographs,
    Serve,
    answer,
    card,
    fits,
    found_by_axe,
    knows,
    looked_at,
    message,
)

pytestmark = pytest.mark.browser
pytest_plugins = ["support.page_fixtures"]

GONE = ("net::ERR_",)  # what a browser says of a server that is not there
MAX_MS_TO_CARDS = 500
MAX_REQUESTS = 12  # to start; the photos of the cards are not counted


def test_the_page_starts_with_few_requests_and_compressed(
    memory: Path, serve: Serve, browsers: Browsers
) -> None:
    server = serve(memory)
    responses: list[Response] = []
    with browsers.without_camera().new_context() as context:
        page = context.new_page()
        page.on("response", lambda response: responses.append(response))
        page.goto(server.address)
        expect(card(page, "mug")).to_be_visible()
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
        page.wait_for_timeout(1000)  # for what would come later
        parts = [response for response in responses if not response.url.endswith("/thumbnail")]
        urls = [response.url for response in parts]
        assert 6 <= len(parts) <= MAX_REQUESTS, urls
        ahead = [url for url in urls if url.endswith(("/api/labels", "/api/health"))]
        assert len(ahead) == 2, urls  # what is loaded ahead is not asked for again
        for response in parts:
            if response.request.resource_type in ("document", "script", "stylesheet"):
                assert response.header_value("content-encoding") == "gzip", response.url


CARDS_PAINTED = """
let done;
window.painted = new Promise((resolve) => (done = resolve));
new MutationObserver((_, observer) => {
  const photo = document.querySelector("#cards > li .thumb");
  if (!photo?.checkVisibility({ visibilityProperty: true })) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => done(performance.now())));
}).observe(document, { attributes: true, childList: true, subtree: true });
"""


@pytest.mark.long
@pytest.mark.skipif(
    os.getloadavg()[0] > (os.cpu_count() or 1), reason="this machine is busy with other work"
)
def test_cards_are_on_the_screen_half_a_second_after_the_first_byte(
    memory: Path, serve: Serve, browsers: Browsers
) -> None:
    server = serve(memory)
    taken: list[float] = []
    for _ in range(5):
        with browsers.without_camera().new_context() as context:  # nothing is cached
            context.add_init_script(CARDS_PAINTED)
            page = context.new_page()
            page.goto(server.address)
            first = "performance.getEntriesByType('navigation')[0].responseStart"
            taken.append(page.evaluate(f"window.painted.then((time) => time - {first})"))
    sys.stdout.write(f"\nfirst byte to cards, ms: {sorted(map(round, taken))}\n")
    assert median(taken) < MAX_MS_TO_CARDS


def open_dialog(page: Page) -> None:
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Open on a phone…").click()
    expect(page.get_by_role("dialog", name="Open on a phone")).to_be_visible()


def link(page: Page, role: str) -> str:
    """The link that the page would copy."""
    read = "(role) => fetch('/api/access').then((r) => r.json()).then((a) => a.links[role])"
    return str(page.evaluate(read, role))


def test_a_page_of_this_computer_alone_says_what_to_start(tab: Page) -> None:
    open_dialog(tab)
    expect(tab.locator("#phone-command")).to_have_text("cbcl teach shop.cbcl --host 0.0.0.0")
    expect(tab.locator("#phone-links")).to_be_hidden()
    assert found_by_axe(tab) == []
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()


def test_other_devices_get_a_code_and_are_told_of_the_warning(
    memory: Path, serve: Serve, visit: Open
) -> None:
    server = serve(memory, "--host", "0.0.0.0")
    page = visit(server, ignore_https_errors=True, forgiven=GONE)
    assert page.url.startswith("https://")
    open_dialog(page)
    code = page.get_by_role("img", name="QR code of the link")
    width = "async (image) => (await image.decode(), image.naturalWidth)"
    assert code.evaluate(width) > 100
    first = code.get_attribute("src")
    expect(page.locator("#phone-note")).to_contain_text("can see and change the memory")
    page.get_by_label("Look only").check()
    expect(page.locator("#phone-note")).to_contain_text("change nothing")
    assert code.get_attribute("src") != first
    assert code.evaluate(width) > 100
    expect(page.get_by_role("img", name="Safari\u2019s warning")).to_be_visible()
    expect(page.get_by_role("img", name="Chrome\u2019s warning")).to_be_visible()
    shot(page, "phone-dialog")
    page.get_by_text("Is it really this computer?").click()
    printed = page.locator("#phone-fingerprint").text_content() or ""
    assert re.fullmatch(r"[0-9A-F]{2}( [0-9A-F]{2}){31}", printed)
    page.get_by_text("Never be warned again").click()
    expect(page.get_by_role("link", name="this computer\u2019s authority")).to_be_visible()
    assert found_by_axe(page) == []
    server.stop()
    assert printed in server.said


def test_over_plain_http_it_says_that_there_is_no_live_camera(
    memory: Path, serve: Serve, visit: Open
) -> None:
    page = visit(serve(memory, "--host", "0.0.0.0", "--http"), forgiven=("untrustworthy",))
    open_dialog(page)
    expect(page.get_by_text("This server speaks plain http")).to_be_visible()
    expect(page.get_by_text("Your phone will warn you")).to_be_hidden()
    page.get_by_role("button", name="Copy the link").click()
    expect(message(page, link(page, "full"))).to_be_visible()  # to be copied by hand


def test_a_phone_has_a_live_camera_and_finds_its_token_again(
    memory: Path, serve: Serve, visit: Open, browsers: Browsers
) -> None:
    server = serve(memory, "--host", "0.0.0.0")
    page = visit(server, browsers.showing("coffee"), GONE, ignore_https_errors=True, **PHONE)
    assert page.evaluate("isSecureContext")
    expect(page.locator("#camera")).to_have_attribute("data-state", "on")
    expect(answer(page)).to_have_text("mug")
    manifest = page.context.new_cdp_session(page).send("Page.getAppManifest")
    assert manifest["url"].endswith("/manifest.webmanifest")
    assert manifest["errors"] == []
    assert "?token=" in manifest["data"]  # for phones whose home screen has cookies of its own
    (cookie,) = page.context.cookies()
    assert cookie.get("secure")
    assert cookie.get("expires", 0) > 1e9  # it is kept when the browser is closed
    server.stop()
    server.start()
    page.goto(page.url)  # as a home screen opens it, without the token
    knows(page, mug=3, cat=3)
    open_dialog(page)
    assert fits(page)
    assert found_by_axe(page) == []


def test_who_may_look_only_can_ask_and_is_offered_nothing_else(
    memory: Path, serve: Serve, visit: Open, browsers: Browsers, photographs: Photographs
) -> None:
    server = serve(memory, "--host", "0.0.0.0")
    owner = visit(server, ignore_https_errors=True)
    options = {"ignore_https_errors": True, **PHONE}
    page = visit(link(owner, "view"), browsers.showing("coffee"), **options)
    expect(page.locator("#look-only")).to_be_visible()
    expect(answer(page)).to_have_text("mug")
    shot(page, "look-only")
    assert fits(page)
    assert found_by_axe(page) == []
    page.locator("#pick").set_input_files(photographs("chelsea", 1, seed=2))
    expect(looked_at(page, 1)).to_contain_text("cat")
    for name in (
        "Snap",
        "Teach",
        "Yes, mug",
        "Rename mug",
        "Forget mug",
        "None of these",
        "That was wrong",
    ):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_hidden()
    card(page, "mug").get_by_role("heading").dblclick()  # which renames, for others
    expect(page.get_by_role("textbox", name=re.compile("name for mug"))).to_be_hidden()
    for key in ("y", "Control+z", "n", "Space", "6"):  # the last: the memories
        page.keyboard.press(key)
    expect(looked_at(page, 1)).to_contain_text("cat")
    knows(page, mug=3, cat=3)
    expect(page.locator(".toast")).to_have_count(0)
    card(page, "mug").get_by_role("button").first.click()
    expect(page.get_by_role("dialog", name="mug")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("checkbox")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Menu").click()
    menu = page.locator("#menu")
    expect(menu.get_by_role("link", name="API")).to_be_visible()
    for name in ("Download this memory", "Add another memory…", "Open on a phone…"):
        expect(menu.get_by_text(name)).to_be_hidden()
    page.evaluate("location.hash = 'scores'")
    expect(page.get_by_role("radio", name="Sometimes")).to_be_disabled()


def test_new_links_lock_out_every_other_device_at_once(
    memory: Path, serve: Serve, visit: Open
) -> None:
    server = serve(memory, "--host", "0.0.0.0")
    owner = visit(server, ignore_https_errors=True)
    other = visit(server, ignore_https_errors=True, forgiven=("401",))
    before = link(owner, "full")
    open_dialog(owner)
    owner.get_by_role("button", name="Make new links").click()
    expect(owner.get_by_text("Every other device must scan the new code.")).to_be_visible()
    owner.get_by_role("button", name="Cancel").click()
    assert link(owner, "full") == before
    owner.get_by_role("button", name="Make new links").click()
    owner.locator("#phone-renew-yes").click()
    expect(message(owner, "These are new links.")).to_be_visible()
    assert link(owner, "full") != before
    expect(other.get_by_text("This page needs its token.")).to_be_visible()
    other.goto(link(owner, "full"))
    knows(other, mug=3, cat=3)
    owner.keyboard.press("Escape")
    expect(card(owner, "mug")).to_be_visible()
    owner.reload()
    knows(owner, mug=3, cat=3)
