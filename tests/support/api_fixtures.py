"""Pages on a memory, and what they are taught with: fixtures for the tests of the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cbcl import Recognizer, load_backbone
from cbcl.vision.backbones.base import Backbone
from cbcl.web.app import create_app
from support.api import HERE, OpenPage, Page, Photos, TestClient
from support.photos import encoded, views


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return cast(Backbone, load_backbone("efficientnet-lite0@2views"))


@pytest.fixture(scope="module")
def photos() -> Photos:
    return {
        name: [encoded(pixels) for pixels in views(name, 5)]
        for name in ("chelsea", "coffee", "rocket")
    }


@pytest.fixture
def open_page(tmp_path: Path, backbone: Backbone) -> Iterator[OpenPage]:
    """Opens a page on a memory: as others see it with client=, policy=."""
    opened: list[TestClient] = []
    recognizers: list[Recognizer] = []

    def page(memory: Path = tmp_path / "things.cbcl", **options: Any) -> Page:
        recognizer = options.pop("recognizer", None) or Recognizer(
            memory, options.pop("through", backbone)
        )
        recognizers.append(recognizer)
        who = {
            "base_url": options.pop("base_url", HERE),
            "client": (options.pop("client", "127.0.0.1"), 5000),
        }
        client = TestClient(create_app(recognizer, **options), raise_server_exceptions=False, **who)
        client.__enter__()
        opened.append(client)
        return Page(client, memory)

    yield page
    for client in opened:
        client.__exit__()
    for recognizer in recognizers:
        recognizer.close()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory, backbone: Backbone, photos: Photos) -> bytes:
    """A memory in which two things were learned, from three photos each."""
    memory = tmp_path_factory.mktemp("lessons") / "things.cbcl"
    with Recognizer(memory, backbone) as recognizer:
        for name in ("chelsea", "coffee"):
            recognizer.learn(name, photos[name][:3])
    return memory.read_bytes()


@pytest.fixture
def taught(open_page: OpenPage, lessons: bytes, tmp_path: Path) -> Page:
    (tmp_path / "things.cbcl").write_bytes(lessons)
    return open_page()
