"""The app in a real browser, from a plain static server: Python's answers, also without a network.

It takes ONNX Runtime for browsers: `CBCL_RUNTIME=onnxruntime-web-1.30.0.tgz pytest tests/export`,
or what `cbcl export --runtime npm` has kept; without it these tests are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from support.app import real_runtime, static_server
from support.browser import Browsers, Visit, shot
from support.page_actions import Photographs, found_by_axe
from support.photos import NAMES, encoded, photo, views

from cbcl import Answer, Recognizer
from cbcl.export.app import export_app

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

DESK = {"width": 1280, "height": 720}
PHONE = {"width": 390, "height": 844}
CONFIDENCE_TOLERANCE = 0.01
LOADED = "Show me something"

# Asks the modules of the app about files, so that confidences are not rounded for people.
ASK = """async (input) => {
  const { openModel } = await import("./js/model.js");
  const { photoPixels } = await import("./js/pixels.js");
  const app = await (await fetch("app.json")).json();
  window.testModel ??= await openModel(app, () => {});
  const answers = [];
  for (const file of input.files) {
    const answer = await window.testModel.recognize(await photoPixels(file, app.at_least));
    answers.push([answer.label, answer.confidence]);
  }
  return answers;
}"""
ADD_INPUT = """() => {
  const input = document.createElement("input");
  Object.assign(input, { type: "file", multiple: true, id: "asked" });
  input.setAttribute("aria-label", "asked");
  document.body.append(input);
}"""

Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "shop.cbcl"
    with Recognizer(path) as recognizer:
        recognizer.learn_many({name: views(name, 4) for name in NAMES[:3]})
    return path


@pytest.fixture(scope="module")
def folder(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runtime = real_runtime()
    target = tmp_path_factory.mktemp("apps") / "app"
    with Recognizer(memory) as recognizer:
        export_app(target, "shop", recognizer.snapshot().portable(thumbnails=True), runtime)
    return target


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with static_server(folder) as url:
        yield url


@pytest.fixture
def visit(browsers: Browsers) -> Iterator[Opened]:
    """Open the app; in the end there was no error, and no request to any other place."""
    visits = []

    def open_page(address: str, browser: Any = None, **options: Any) -> Page:
        used = browser or browsers.without_camera()
        context = used.new_context(**{"viewport": DESK, **options})
        visits.append((context, Visit(context, address, ())))
        page: Page = context.new_page()
        page.goto(address)
        expect(page.locator("#pick")).to_be_enabled()
        return page

    yield open_page
    for context, _ in visits:
        context.close()
    assert [wrong for _, visit in visits for wrong in visit.wrong] == []


def ask(page: Page, photos: list[Path]) -> list[tuple[str | None, float]]:
    """Answers of the app about photos."""
    if not page.locator("#asked").count():
        page.evaluate(ADD_INPUT)
    asked = page.locator("#asked")
    asked.set_input_files(photos)
    return [(label, confidence) for label, confidence in asked.evaluate(ASK)]


def assert_same(said: list[tuple[str | None, float]], answers: list[Answer]) -> None:
    assert [label for label, _ in said] == [answer.label for answer in answers]
    confidences = [answer.confidence for answer in answers]
    np.testing.assert_allclose(
        [number for _, number in said], confidences, atol=CONFIDENCE_TOLERANCE
    )


def written(folder: Path, count: int) -> list[Path]:
    """Photographs as files: many sizes, upright and not, JPEG and PNG, with and without colours."""
    folder.mkdir()
    paths = []
    rng = np.random.default_rng(0)
    for number in range(count):
        name = NAMES[number % len(NAMES)]
        (pixels,) = views(name, 1, seed=1000 + number)
        width, height = rng.integers(120, 257, size=2)
        kind = "PNG" if number % 7 == 0 else "JPEG"
        path = folder / f"{number:03}-{name}.{kind.lower()}"
        path.write_bytes(encoded(pixels[:height, :width], kind))
        paths.append(path)
    return paths


def unusual(folder: Path) -> list[Path]:
    """Photos that a decoder can get wrong: large, turned, grey, transparent, progressive."""
    folder.mkdir()
    image = photo("coffee")
    large = image.resize((2400, 1600), Image.Resampling.BICUBIC)
    turned = large.rotate(90, expand=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    see_through = image.convert("RGBA")
    see_through.putalpha(Image.linear_gradient("L").resize(image.size))
    made = {
        "large.jpg": encoded(large, quality=90),
        "half.jpg": encoded(large.resize((1100, 740))),
        "turned.jpg": encoded(turned, exif=exif),
        "grey.jpg": encoded(image.convert("L")),
        "progressive.jpg": encoded(image, progressive=True),
        "whole_colours.jpg": encoded(image, subsampling=0),
        "transparent.png": encoded(see_through, "PNG"),
        "picture.webp": encoded(image, "WEBP", lossless=True),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in made]


@pytest.mark.slow
def test_it_answers_as_python_does_about_200_photos(
    memory: Path, address: str, visit: Opened, tmp_path: Path
) -> None:
    photos = written(tmp_path / "photos", 200)
    with Recognizer(memory) as recognizer:
        answers = recognizer.recognize_many(photos)
    assert {answer.label for answer in answers} == {None, *NAMES[:3]}
    page = visit(address)
    said = [one for start in range(0, 200, 20) for one in ask(page, photos[start : start + 20])]
    assert_same(said, answers)


def test_large_turned_and_transparent_photos_are_read_as_in_python(
    memory: Path, address: str, visit: Opened, tmp_path: Path
) -> None:
    photos = unusual(tmp_path / "photos")
    with Recognizer(memory) as recognizer:
        answers = recognizer.recognize_many(photos)
    assert_same(ask(visit(address), photos), answers)


def test_photos_are_answered_with_the_examples_they_are_like(
    address: str, visit: Opened, photographs: Photographs, tmp_path: Path
) -> None:
    photos = [photographs(name, 1, seed=7)[0] for name in NAMES]
    broken = tmp_path / "notes.jpg"
    broken.write_text("no picture")
    page = visit(address)
    page.set_input_files("#pick", [*photos, broken])
    rows = page.locator("#photo-list li")
    expect(rows.nth(4)).to_have_attribute("data-kind", "broken")
    expect(rows.nth(4)).to_contain_text("notes.jpg is not a photo that this browser can read.")
    expect(rows.nth(0)).to_contain_text(NAMES[0])
    expect(rows.nth(3)).to_contain_text("unknown")
    expect(page.locator("#answer-label")).to_have_text(NAMES[0])
    expect(page.locator("#why")).to_contain_text("Looks like these")
    expect(page.locator("#reasons li:first-child img")).to_have_count(3)
    assert page.locator("#reasons img").first.evaluate("(image) => image.naturalWidth") > 0
    rows.nth(3).get_by_role("button").click()
    expect(page.locator("#answer")).to_have_attribute("data-kind", "unknown")
    expect(page.locator("#why")).to_contain_text("Closest I know")
    assert found_by_axe(page) == []
    shot(page, "app-photos")
    page.get_by_role("button", name="Back to the camera").click()
    expect(page.locator("#answer-label")).to_have_text(LOADED)
    page.get_by_role("button", name="Remove all").click()
    expect(rows).to_have_count(0)


def test_the_camera_is_answered_live(address: str, visit: Opened, browsers: Browsers) -> None:
    page = visit(address, browsers.showing("coffee"), permissions=["camera"], viewport=PHONE)
    assert found_by_axe(page) == []
    page.get_by_role("button", name="Turn on camera").click()
    expect(page.locator("#answer-label")).to_have_text("coffee")
    expect(page.locator("#answer-said")).to_have_text(re.compile("coffee, .* sure"))
    assert found_by_axe(page) == []
    shot(page, "app-phone")
    page.get_by_role("button", name="Turn off camera").click()
    expect(page.locator("#answer-label")).to_have_text(LOADED)


def test_it_works_without_a_network_after_the_first_load(
    folder: Path, visit: Opened, tmp_path: Path
) -> None:
    with static_server(folder) as address:
        page = visit(address)
        expect(page.locator("#offline")).to_have_text("It works without a network from now on.")
    page.context.set_offline(True)
    page.reload()
    expect(page.locator("#pick")).to_be_enabled()
    page.set_input_files("#pick", written(tmp_path / "photos", 1))
    expect(page.locator("#answer-label")).to_have_text(NAMES[0])


def test_a_new_app_at_the_same_address_takes_the_place_of_the_old(
    memory: Path, visit: Opened, tmp_path: Path
) -> None:
    runtime = real_runtime()
    target = tmp_path / "app"
    with Recognizer(memory) as recognizer:
        model = recognizer.snapshot().portable()
    export_app(target, "old", model, runtime)
    with static_server(target) as address:
        page = visit(address)
        expect(page.locator("#offline")).not_to_be_empty()
        export_app(target, "new", model, runtime)
        page.reload()  # the old one, while the new one is fetched
        page.evaluate("async () => (await navigator.serviceWorker.getRegistration()).update()")
        page.wait_for_timeout(2000)
        page.reload()
        expect(page.locator("#app-name")).to_have_text("new")


def test_it_speaks_the_first_language_of_the_browser_that_it_knows(
    address: str, visit: Opened
) -> None:
    page = visit(address, locale="en-GB")
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.documentElement.dir") == "ltr"
    expect(page.locator("#labels-button")).to_have_text("I know 3 things")
    page.locator("#labels-button").click()
    expect(page.locator("#label-list li")).to_have_text([*NAMES[:3]])


def test_an_app_that_cannot_start_says_so(memory: Path, browsers: Browsers, tmp_path: Path) -> None:
    with Recognizer(memory) as recognizer:
        model = recognizer.snapshot().portable()._replace(graph=b"no graph")
    export_app(tmp_path / "app", "shop", model, real_runtime())
    with static_server(tmp_path / "app") as address:
        page = browsers.without_camera().new_page()
        page.goto(address)
        expect(page.locator("#answer-label")).to_have_text("I cannot start here.")
        expect(page.locator("#answer-note")).not_to_be_empty()
        page.close()
