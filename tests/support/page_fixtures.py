"""Fixtures of the page's tests: browsers, photographs, memories, servers, opened pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cbcl import Recognizer
from support.browser import Browsers, Server, Visit, opened, painted
from support.page_actions import DESK, Open, Photographs, Serve
from support.photos import encoded, views


@pytest.fixture(scope="session")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    with opened(tmp_path_factory.mktemp("films")) as several:
        yield several


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Photographs:
    """Files with views of a photograph; the same seed gives the same."""
    folder = tmp_path_factory.mktemp("photographs")

    def made(name: str, count: int, seed: int = 0) -> list[Path]:
        paths = [folder / f"{name}-{seed}-{number:02}.jpg" for number in range(count)]
        if not all(path.exists() for path in paths):
            for path, pixels in zip(paths, views(name, count, seed), strict=True):
                path.write_bytes(encoded(pixels))
        return paths

    return made


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, photographs: Photographs) -> Path:
    """A memory that knows a mug and a cat, to be copied."""
    path = tmp_path_factory.mktemp("shop") / "shop.cbcl"
    with Recognizer(path) as recognizer:
        recognizer.learn("mug", photographs("coffee", 3))
        recognizer.learn("cat", photographs("chelsea", 3))
    return path


@pytest.fixture
def memory(shop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shop, tmp_path))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; in the end they are stopped, and must leave quietly."""
    servers: list[Server] = []

    def start(memory: Path, *options: str) -> Server:
        servers.append(Server(memory, *options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def visit(browsers: Browsers, serve: Serve) -> Iterator[Open]:  # noqa: ARG001 (stopped last)
    """Open the page; in the end there was no error, and no request to any other place."""
    visits = []

    def open_page(
        where: Server | str,
        browser: Any = None,
        forgiven: tuple[str, ...] = (),
        script: str = "",
        **options: Any,
    ) -> Page:
        address = where.address if isinstance(where, Server) else where
        context = (browser or browsers.without_camera()).new_context(
            **{"viewport": DESK, **options}
        )
        visits.append((context, Visit(context, re.match(r"https?://[^/]+/", address)[0], forgiven)))  # type: ignore[index]
        context.add_init_script(script)
        page: Page = context.new_page()
        page.goto(address)
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
        painted(page)  # else a thing may be forgotten before its pictures have come
        return page

    yield open_page
    for context, _ in visits:
        context.close()
    assert [wrong for _, visit in visits for wrong in visit.wrong] == []


@pytest.fixture
def tab(memory: Path, serve: Serve, visit: Open) -> Page:
    """A tab with the page on a memory that knows a mug and a cat, without a camera."""
    return visit(serve(memory))
