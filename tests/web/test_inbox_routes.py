"""The inbox of `cbcl watch` over the API: only its own photos, by name, are read or removed."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from support.api import OpenPage, Page, refused

from cbcl.errors import PictureError
from cbcl.web.inbox import PhotoInbox

pytest_plugins = ["support.api_fixtures"]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "to-name"
    folder.mkdir()
    for name in ("1-door.jpg", "2 ü.jpg"):
        (folder / name).write_bytes(name.encode())
        (folder / f".{name}.json").write_text("{}")
    (folder / ".gone.jpg.json").write_text("{}")
    (folder / "mine.jpg").write_bytes(b"not of the inbox")
    return folder


def test_photos_are_listed_read_and_removed_by_their_names(
    open_page: OpenPage, inbox: Path
) -> None:
    page = open_page(inbox=inbox)
    assert page.get("/api/inbox").json() == {
        "photos": ["2 ü.jpg", "1-door.jpg"],
        "watched": True,
    }
    answer = page.get(f"/api/inbox/{quote('2 ü.jpg')}")
    assert answer.content == "2 ü.jpg".encode()
    assert answer.headers["content-type"] == "application/octet-stream"
    left = page.http.delete(f"/api/inbox/{quote('2 ü.jpg')}").json()
    assert left == {"photos": ["1-door.jpg"], "watched": True}
    assert {path.name for path in inbox.iterdir()} == {
        "1-door.jpg",
        ".1-door.jpg.json",
        ".gone.jpg.json",
        "mine.jpg",
    }


@pytest.mark.parametrize(
    "name", ["mine.jpg", "gone.jpg", ".1-door.jpg.json", "%2e%2e%2fsecret.jpg", "%00"]
)
def test_what_is_not_listed_is_neither_read_nor_removed(
    open_page: OpenPage, inbox: Path, name: str
) -> None:
    (inbox.parent / "secret.jpg").write_bytes(b"of nobody's business")
    (inbox.parent / ".secret.jpg.json").write_text("{}")
    page = open_page(inbox=inbox)
    before = sorted(inbox.rglob("*"))
    refused(page.get(f"/api/inbox/{name}"), "missing")
    refused(page.http.delete(f"/api/inbox/{name}"), "missing")
    assert sorted(inbox.rglob("*")) == before
    assert (inbox.parent / "secret.jpg").exists()


def test_without_an_inbox_there_are_no_photos(page: Page) -> None:
    assert page.get("/api/inbox").json() == {"photos": [], "watched": False}
    refused(page.get("/api/inbox/1.jpg"), "missing")


def test_an_inbox_that_is_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="is not a folder: give the one of cbcl watch --inbox"):
        PhotoInbox(tmp_path / "nowhere")
