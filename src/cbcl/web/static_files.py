"""Static files: the page, its parts in few pieces, compressed; the API documentation; metrics."""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from cbcl import __version__
from cbcl.export.words import DEFAULT_LANGUAGE, choose_language, page_in
from cbcl.web.bundles import bundle_page, link_bundles
from cbcl.web.errors import NOT_FOUND, ApiError
from cbcl.web.limits import RouteLimits
from cbcl.web.monitoring import Metrics
from cbcl.web.security import access_of
from cbcl.web.tokens import Role

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
STATIC = Path(__file__).parent / "static"
PAGES = ("index.html", "docs.html")
GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)  # and not q=0
VERSION = '<span id="version">cbcl'  # in the page, behind which it is written

router = APIRouter(include_in_schema=False)


class Asset(NamedTuple):
    """A file to be sent, and the same compressed if it is text."""

    content: bytes
    compressed: bytes | None
    media_type: str
    tag: str

    def response(
        self, request: Request, *, vary: str = "", cache_control: str = "no-cache"
    ) -> Response:
        """Return the file in an encoding that the client takes, or 304 if it has that already."""
        accepted = request.headers.get("accept-encoding", "")
        zipped = self.compressed is not None and GZIP.search(accepted) is not None
        tag = f'"{self.tag}-gzip"' if zipped else f'"{self.tag}"'
        headers = {"ETag": tag, "Cache-Control": cache_control}
        if self.compressed is not None:
            headers["Vary"] = f"Accept-Encoding{vary}"
        known = request.headers.get("if-none-match", "").split(",")
        if tag in {each.strip().removeprefix("W/") for each in known}:
            return Response(status_code=304, headers=headers)
        if zipped:
            headers["Content-Encoding"] = "gzip"
        content = self.compressed if zipped else self.content
        return Response(content, media_type=self.media_type, headers=headers)


@router.get("/")
@RouteLimits("view")
def index(request: Request) -> Response:
    language = choose_language(request.headers.get("accept-language", ""))
    page = _index(language, access_of(request.scope).role)
    return page.response(request, vary=", Accept-Language, Cookie")


@router.get("/api/docs")
@RouteLimits("view")
def docs(request: Request) -> Response:
    return _asset("docs.html").response(request)


@router.get("/static/icon.svg")
@router.get("/static/icon-192.png")
@router.get("/static/icon-512.png")
@RouteLimits("anyone")
def icon(request: Request) -> Response:
    """Return an icon, also to a phone that shows the page before it has the token."""
    return _asset(PurePosixPath(request.url.path).name).response(request)


@router.get("/static/{name:path}")
@RouteLimits("view")
def static(name: str, request: Request) -> Response:
    return _asset(name).response(request)


@router.get("/metrics")
@RouteLimits()
def metrics(request: Request) -> Response:
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=CONTENT_TYPE_LATEST)


def prepare() -> None:
    """Make what a page loads before it is asked for."""
    for name in _files():
        if name.startswith("bundle/"):
            _asset(name)
    _index(DEFAULT_LANGUAGE, "full")


def thumbnail_response(jpeg: bytes, request: Request) -> Response:
    """Return a thumbnail, or 304 to a client that has it already.

    Revalidated each time: what is forgotten must be gone, and another memory may be served here.
    """
    return _as_asset(jpeg, ".jpg").response(request, cache_control="private, no-cache")


@cache
def _index(language: str, role: Role) -> Asset:
    page = page_in(language).decode().replace(VERSION, f"{VERSION} {__version__}", 1)
    if role == "view":
        page = page.replace("<html ", '<html data-access="view" ', 1)
    return _as_asset(link_bundles("index.html", page).encode(), ".html")


@cache
def _asset(name: str) -> Asset:
    content = _files().get(name)
    if content is None:
        raise ApiError("missing", NOT_FOUND)
    if name in PAGES:
        content = link_bundles(name, content.decode()).encode()
    return _as_asset(content, PurePosixPath(name).suffix)


@cache
def _files() -> dict[str, bytes]:
    """Return all files and bundles by name, so that no name leads elsewhere."""
    files = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in STATIC.rglob("*")
        if path.suffix in MEDIA_TYPES
    }
    texts = {name: data.decode() for name, data in files.items() if name.endswith(("js", "css"))}
    for page in PAGES:
        bundles = bundle_page(page, files[page].decode(), texts)
        files |= {name: text.encode() for name, text in bundles.items()}
    return files


def _as_asset(content: bytes, suffix: str) -> Asset:
    compressed = None if suffix in (".jpg", ".png") else gzip.compress(content, mtime=0)
    return Asset(content, compressed, MEDIA_TYPES[suffix], sha256(content).hexdigest()[:32])
