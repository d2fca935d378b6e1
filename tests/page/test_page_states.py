"""The page in every state, to whoever looks; and that all that answers says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model
from playwright.sync_api import expect
from support.browser import ELSEWHERE, Browsers, drop, shot
from support.page_actions import (
    DESK,
    PHONE,
    Open,
    Photographs,
    Serve,
    answer,
    card,
    cbcl,
    fits,
    found_by_axe,
    knows,
    looked_at,
    message,
    name_field,
    name_them,
    rename,
    tiles,
    told_in_tray,
)

from cbcl import Recognizer, load_backbone
from cbcl.vision.backbones.combined import Views
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import load

pytest_plugins = ["support.page_fixtures"]
pytestmark = pytest.mark.browser

# Every state that is not as one would like it.


def test_a_camera_that_is_refused_or_not_there_is_told(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(memory)
    for browser, text, name in (
        (browsers.refused(), "The camera is blocked.", "camera-refused"),
        (browsers.without_camera(), "There is no camera here.", "no-camera"),
    ):
        page = visit(server, browser)
        page.get_by_role("button", name="Turn on camera").click()
        expect(page.get_by_text(text)).to_be_visible()
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        shot(page, name)
        assert found_by_axe(page) == []
        drop(page, *photographs("coffee", 1, seed=1))
        expect(answer(page)).to_have_text("mug")  # it works all the same


def test_at_an_address_of_another_machine_there_is_a_token_and_no_live_camera(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    server = serve(memory, "--host", "0.0.0.0", "--http")
    assert "?token=" in server.address
    page = visit(server.elsewhere(), forgiven=("untrustworthy",), **PHONE)
    assert page.url.rstrip("/") == server.elsewhere().partition("/?")[0]
    (cookie,) = page.context.cookies()
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Strict"
    assert page.evaluate("document.cookie") == ""
    expect(page.get_by_text("No live camera at this address.")).to_be_visible()
    shot(page, "insecure")
    assert found_by_axe(page) == []
    page.get_by_label("Take a photo").set_input_files(photographs("coffee", 1, seed=1))
    expect(answer(page)).to_have_text("mug")
    page.reload()
    knows(page, mug=3, cat=3)

    stranger = browsers.without_camera().new_context().new_page()
    assert stranger.goto(page.url).status == 401  # type: ignore[union-attr]
    expect(stranger.get_by_role("heading")).to_have_text("This page needs its token")
    stranger.context.close()
    assert ELSEWHERE in page.url


def test_a_backbone_that_is_not_here_is_told_and_what_is_known_is_shown(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    memory, network = tmp_path / "robot.cbcl", own_network(tmp_path)
    with Recognizer(memory, str(network)) as recognizer:
        recognizer.learn("mug", photographs("coffee", 2))
    network.unlink()
    page = visit(serve(memory), forgiven=("503",))
    expect(page.locator("#banner")).to_contain_text("I cannot look at photos now.")
    expect(page.locator("#banner")).to_contain_text("own.onnx")
    expect(page.locator("#banner")).not_to_contain_text(str(tmp_path))
    knows(page, mug=2)
    shot(page, "backbone-missing")
    assert found_by_axe(page) == []
    rename(page, "mug", "cup")
    drop(page, *photographs("coffee", 1))
    expect(tiles(page)).to_have_count(1)


def own_network(folder: Path) -> Path:
    """A backbone in a file of one's own: the colours of a picture of 8 x 8."""
    side = 8
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["pictures", "shape"], ["vectors"])],
        "own",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 3, side, side])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", 3 * side * side])],
        [numpy_helper.from_array(np.array([-1, 3 * side * side]), "shape")],
    )
    path = folder / "own.onnx"
    save_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    how = {"size": side, "mean": [0, 0, 0], "scale": [1, 1, 1]}
    path.with_suffix(".json").write_text(json.dumps(how))
    return path


def test_a_private_memory_shows_letters_in_place_of_pictures(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    page = visit(serve(tmp_path / "diary.cbcl", "--private"))
    for label, name in {"mug": "coffee", "cat": "chelsea"}.items():
        drop(page, *photographs(name, 2))
        looked_at(page, 2)
        name_them(page, label)
    drop(page, *photographs("coffee", 1, seed=1))
    expect(answer(page)).to_have_text("mug")
    expect(page.get_by_text("This memory is private: it keeps no photos")).to_be_visible()
    assert page.locator("img[src*=thumbnail]").count() == 0
    shot(page, "private")
    assert found_by_axe(page) == []
    page.get_by_role("button", name="See all photos of mug").click()
    expect(page.get_by_role("dialog")).to_contain_text("keeps no photos")


def test_pictures_that_cannot_be_read_are_told_and_the_others_are_learned(
    memory: Path, tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    good = photographs("coffee", 2, seed=1)
    (tmp_path / "huge.jpg").write_bytes(good[0].read_bytes() + bytes(26_000_000))
    (tmp_path / "torn.jpg").write_bytes(good[0].read_bytes()[:3000])
    (tmp_path / "letter.jpg").write_text("Dear reader,")
    with (tmp_path / "film.tif").open("wb") as file:
        file.truncate(70_000_000)
    page = visit(serve(memory), forgiven=("413",))
    drop(
        page,
        *good,
        *(tmp_path / name for name in ("huge.jpg", "torn.jpg", "letter.jpg", "film.tif")),
    )
    looked_at(page, 2)
    problems = page.get_by_role("list", name="Photos that cannot be used")
    expect(problems.get_by_role("listitem")).to_have_count(4)
    expect(problems).to_contain_text("huge.jpg has more than 25 MB: make it smaller.")
    expect(problems).to_contain_text("torn.jpg")
    expect(problems).to_contain_text("letter.jpg is not a picture")
    expect(problems).to_contain_text("film.tif has 70 MB")
    shot(page, "huge-photo")
    name_field(page).fill("mug")
    page.keyboard.press("Enter")
    expect(card(page, "mug")).to_contain_text("5 photos")


NASTY = (
    '<img src=x onerror="document.title=1">',
    '"><script>document.title=1</script>',
    "مرحبا بالعالم",
    "☕️ 🐈‍⬛ 👩🏽‍🚀",
    "W" * 200,
    "${document.title=1}{{7*7}}'--",
)


def test_whatever_a_thing_is_called_is_shown_as_text(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    memory, photos = tmp_path / "<b>shop.cbcl", ("coffee", "chelsea", "rocket", "moon", "coins")
    with Recognizer(memory) as recognizer:
        for label, name in zip(NASTY, photos, strict=False):
            recognizer.learn(label, photographs(name, 1))
    page = visit(serve(memory))
    drop(page, *photographs("astronaut", 1))
    looked_at(page, 1)
    name_field(page).fill(NASTY[-1])  # it is typed in one way
    page.keyboard.press("Enter")
    expect(tiles(page)).to_have_count(0)
    for label in NASTY:
        expect(page.locator("#cards h3").filter(has_text=label)).to_have_count(1)
    drop(page, *photographs("coffee", 1, seed=1))
    expect(answer(page)).to_have_text(NASTY[0])
    expect(page.locator("#chips")).to_contain_text("مرحبا بالعالم")
    page.locator("#cards .faces").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#cards").get_by_role("button", name=re.compile("^Merge")).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    for size in (DESK, PHONE["viewport"]):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for view in ("Scores", "History", "Teach"):
            page.get_by_role("link", name=view).click()
            expect(page.get_by_role("link", name=view)).to_have_attribute("aria-current", "page")
            assert fits(page), (view, size)
    expect(page).to_have_title("<b>shop.cbcl: cbcl")
    assert page.locator("b, #cards script, img[src=x]").count() == 0


# How it looks, to whoever looks.


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out(
    scheme: str,
    memory: Path,
    tmp_path: Path,
    browsers: Browsers,
    serve: Serve,
    visit: Open,
    photographs: Photographs,
) -> None:
    found: dict[str, list[str]] = {}
    how = {
        "color_scheme": scheme,
        "reduced_motion": "reduce",
    }  # what is half faded in has no contrast yet
    empty = visit(serve(tmp_path / "new.cbcl"), **how)
    found["empty"] = found_by_axe(empty)
    with Recognizer(memory) as recognizer:
        recognizer.learn("cup", photographs("coffee", 2, seed=5))
    server = serve(memory)
    page = visit(server, **how)
    (tmp_path / "letter.jpg").write_text("Dear reader,")
    drop(
        page, *photographs("chelsea", 4, seed=1), *photographs("rocket", 2), tmp_path / "letter.jpg"
    )
    looked_at(page, 6)
    expect(page.locator(".question").first).to_be_visible()
    found["teach"] = found_by_axe(page)
    if scheme == "dark":
        shot(page, "dark")
    card(page, "mug").get_by_role("button", name="Rename mug").click()
    found["renaming"] = found_by_axe(page)
    page.keyboard.press("Escape")
    card(page, "mug").get_by_role("button", name="Forget mug").click()
    message(page, "Forgot mug.").hover()  # a message that is rested on stays
    found["message"] = found_by_axe(page)
    message(page, "Forgot mug.").get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="See all photos of mug").click()
    expect(page.get_by_role("dialog").get_by_role("img")).to_have_count(3)
    found["examples"] = found_by_axe(page)
    page.keyboard.press("Escape")
    card(page, "cup").get_by_role("button", name="Merge cup into another").click()
    found["merge"] = found_by_axe(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Menu").click()
    found["menu"] = found_by_axe(page)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    found["keys"] = found_by_axe(page)
    page.keyboard.press("Escape")
    for view in ("scores", "history"):
        page.goto(f"{server.address}#{view}")
        expect(page.locator(f"#{view} :is(table, #steps li)").first).to_be_visible()
        found[view] = found_by_axe(page)
    page.goto(f"{server.address}api/docs")
    expect(page.get_by_text("/api/recognize-many").first).to_be_visible()
    found["docs"] = found_by_axe(page)
    if scheme == "light":
        shot(page, "api")
    cbcl("forget", memory, "cup")  # which looks the same as the mug
    live = visit(server, browsers.showing("coffee"), **how, **PHONE)
    expect(live.locator("#yes")).to_be_visible()
    found["phone"] = found_by_axe(live)
    assert {state: wrong for state, wrong in found.items() if wrong} == {}


def test_pictures_that_did_not_come_are_loaded_when_the_server_is_back(
    memory: Path, serve: Serve, visit: Open
) -> None:
    server = serve(memory)
    page = visit(server, forgiven=("ERR_", "Failed to load"))
    page.route("**/thumbnail*", lambda route: route.abort())
    page.reload()
    letters = card(page, "mug").locator(".letter")
    expect(letters).to_have_count(3)
    server.stop()
    expect(page.locator("#connection")).to_have_text("Server not reachable")
    page.unroute("**/thumbnail*")
    server.start()
    expect(letters).to_have_count(0)
    expect(card(page, "mug").locator("img")).to_have_count(3)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("size", [{}, PHONE])
def test_nothing_jumps_when_it_is_first_painted(
    known: bool,
    size: dict[str, Any],
    memory: Path,
    tmp_path: Path,
    browsers: Browsers,
    serve: Serve,
    visit: Open,
) -> None:
    page = visit(
        serve(memory if known else tmp_path / "new.cbcl"), browsers.showing("coffee"), **size
    )
    expect(answer(page)).to_have_text("mug" if known else "I know nothing yet: show me something")
    knows(page, **({"mug": 3, "cat": 3} if known else {}))
    assert page.evaluate("window.shifted") < 0.05


def test_who_wants_no_motion_sees_none(
    memory: Path, browsers: Browsers, serve: Serve, visit: Open
) -> None:
    server = serve(memory)
    moving = """() => new Promise((done) => {
      const seen = new Set();
      const note = () => document.getAnimations().forEach((one) => {
        const name = one.animationName ?? one.transitionProperty;
        if (one.effect.getComputedTiming().endTime > 20) seen.add(name);
      });
      document.addEventListener("animationstart", note);
      document.addEventListener("transitionrun", note);
      document.getElementById("snap").click();
      requestAnimationFrame(() => requestAnimationFrame(() => (note(), done([...seen]))));
    })"""
    for motion in ("no-preference", "reduce"):
        page = visit(server, browsers.showing("coffee"), reduced_motion=motion)
        expect(answer(page)).to_have_text("mug")
        moved = page.evaluate(moving)
        assert bool(moved) == (motion == "no-preference"), moved


# The page, the command line, Python and the exported graph say the same.

TAUGHT = ("astronaut", "camera", "chelsea", "coffee", "coins", "moon", "retina", "rocket")
STRANGE = ("brick", "hubble_deep_field")


def test_the_page_the_command_line_python_and_onnx_agree_on_200_photos(
    tmp_path: Path, serve: Serve, visit: Open, photographs: Photographs
) -> None:
    memory = tmp_path / "things.cbcl"
    files = [path for name in (*TAUGHT, *STRANGE) for path in photographs(name, 20, seed=3)]
    with Recognizer(memory) as recognizer:
        recognizer.learn_many({name: photographs(name, 3) for name in TAUGHT})
        said = recognizer.recognize_many(files)
    python = {
        path.name: told(one.label, one.confidence) for path, one in zip(files, said, strict=True)
    }
    assert {one.label for one in said} >= {*TAUGHT, None}

    page = visit(serve(memory))
    drop(page, *files)
    seen = dict(one.split(": ", 1) for one in told_in_tray(page, 200))
    copies = {name for name, words in seen.items() if words.endswith(" known already")}
    assert len(copies) < 100
    for name in copies:  # near-copies of what was taught: their percentage is of no use
        seen[name] = seen[name].replace("known already", python[name].split()[-1])
    assert seen == python

    lines = [json.loads(line) for line in cbcl("recognize", memory, *files, "--json").splitlines()]
    assert {
        Path(one["photo"]).name: told(one["label"], one["confidence"]) for one in lines
    } == python

    cbcl("export", memory, "--onnx", tmp_path / "things.onnx")
    assert by_graph(tmp_path / "things.onnx", files) == python


def told(label: str | None, confidence: float) -> str:
    return f"{label or 'unknown'} {confidence:.0%}"


def by_graph(model: Path, files: list[Path]) -> dict[str, str]:
    """What the exported graph says of files, prepared as its metadata asks for."""
    backbone = load_backbone()
    assert isinstance(backbone, Views)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    answers = {}
    for file in files:
        picture = load(file, file.name, backbone.at_least)
        crops = {
            place.name: part.preprocessing.crop(picture)[np.newaxis]
            for place, part in zip(session.get_inputs(), backbone.parts, strict=True)
            if isinstance(part, Network)
        }
        label, confidence = session.run(["label", "confidence"], crops)
        answers[file.name] = told(label[0], confidence[0])
    return answers
