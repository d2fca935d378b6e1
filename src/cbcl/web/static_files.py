"""Static files: the page, its parts in few pieces, compressed; the API documentation; metrics."""

from __future__ import annotations

import gzip
import os
import re
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from fastapi import APIRouter, Request, Response

from cbcl import __version__
from cbcl.export.words import DEFAULT_LANGUAGE, choose_language, page_in
from cbcl.web.bundles import BundleError, bundle_page, link_bundles
from cbcl.web.errors import NOT_FOUND, ApiError
from cbcl.web.limits import RouteLimits
from cbcl.web.metrics import MEDIA_TYPE, Metrics
from cbcl.web.security import access_of
from cbcl.web.tokens import Role

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
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
MAX_ASSETS = 256  # compressed and kept in RAM; there are fewer

Versions: TypeAlias = frozenset[tuple[str, int]]  # files, and when they were written

router = APIRouter(include_in_schema=False)


class Asset(NamedTuple):
    """A file to be sent, and the same compressed if it is text."""

    content: bytes
    compressed: bytes | None
    media_type: str
    tag: str

    def response(self, request: Request, vary: str = "") -> Response:
        """Return the file in an encoding that the client takes, or 304 if it has that already."""
        zipped = self.compressed is not None and _accepts_gzip(request)
        tag = f'"{self.tag}-gzip"' if zipped else f'"{self.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if self.compressed is not None:
            headers["Vary"] = f"Accept-Encoding{vary}"
        if _has_tag(request, tag):
            return Response(status_code=304, headers=headers)
        if zipped:
            headers["Content-Encoding"] = "gzip"
        content = self.compressed if zipped else self.content
        return Response(content, media_type=self.media_type, headers=headers)


@router.get("/")
@RouteLimits("view")
def index(request: Request) -> Response:
    language = choose_language(request.headers.get("accept-language", ""))
    page = _index(language, access_of(request.scope).role, _versions())
    return page.response(request, vary=", Accept-Language, Cookie")


@router.get("/api/docs")
@RouteLimits("view")
def docs(request: Request) -> Response:
    return _asset("docs.html", _versions()).response(request)


@router.get("/static/icon.svg")
@router.get("/static/icon-192.png")
@router.get("/static/icon-512.png")
@RouteLimits("anyone")
def icon(request: Request) -> Response:
    """Return an icon, also to a phone that shows the page before it has the token."""
    return _asset(PurePosixPath(request.url.path).name, _versions()).response(request)


@router.get("/static/{name:path}")
@RouteLimits("view")
def static(name: str, request: Request) -> Response:
    return _asset(name, _versions()).response(request)


@router.get("/metrics")
@RouteLimits()
def metrics(request: Request) -> Response:
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=MEDIA_TYPE)


def prepare() -> None:
    """Make what a page loads before it is asked for."""
    versions = _versions()
    for name in _bundles(versions):
        _asset(name, versions)
    _index(DEFAULT_LANGUAGE, "full", versions)


def cached_response(data: bytes, request: Request, media_type: str, cache: str) -> Response:
    """Return data with an ETag, or 304 to a client that has it already."""
    headers = {"ETag": f'"{_digest(data)}"', "Cache-Control": cache}
    if _has_tag(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


def _has_tag(request: Request, tag: str) -> bool:
    known = request.headers.get("if-none-match", "").split(",")
    return tag in {each.strip().removeprefix("W/") for each in known}


def _accepts_gzip(request: Request) -> bool:
    return GZIP.search(request.headers.get("accept-encoding", "")) is not None


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


def _versions() -> Versions:
    """Return all files there are: whoever changes one sees it at the next load."""
    folders = (STATIC, *(STATIC / name for name in ("css", "js", "words")))
    entries = (entry for folder in folders for entry in os.scandir(folder))
    return frozenset((entry.path, entry.stat().st_mtime_ns) for entry in entries)


@lru_cache(MAX_ASSETS)
def _index(language: str, role: Role, versions: Versions) -> Asset:
    page = page_in(language).decode().replace(VERSION, f"{VERSION} {__version__}", 1)
    if role == "view":
        page = page.replace("<html ", '<html data-access="view" ', 1)
    return _compress(_link(page, "index.html", versions), ".html")


@lru_cache(MAX_ASSETS)
def _asset(name: str, versions: Versions) -> Asset:
    content = _files(versions).get(name) or _bundles(versions).get(name)
    if content is None:
        raise ApiError("missing", NOT_FOUND)
    if name in PAGES:
        content = _link(content.decode(), name, versions)
    return _compress(content, PurePosixPath(name).suffix)


@lru_cache(1)
def _files(versions: Versions) -> dict[str, bytes]:
    """Return the content of all files by name, so that no name leads elsewhere."""
    paths = [Path(path) for path, _ in versions]
    return {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in paths
        if path.suffix in MEDIA_TYPES and path.is_file()
    }


@lru_cache(1)
def _bundles(versions: Versions) -> dict[str, bytes]:
    """Return the bundles of all pages by name; a page that cannot be bundled has none."""
    files = _files(versions)
    texts = {name: text.decode() for name, text in files.items() if name.endswith(("js", "css"))}
    made: dict[str, str] = {}
    for page in PAGES:
        with suppress(BundleError):  # tests/web/test_loading.py tells of it
            made |= bundle_page(page, files[page].decode(), texts)
    return {name: text.encode() for name, text in made.items()}


def _link(page: str, name: str, versions: Versions) -> bytes:
    """Return a page that loads its bundles, or each file by itself where there are none."""
    linked = link_bundles(page, name)
    bundled = linked.bundles <= {*_bundles(versions)}
    return (linked.page if bundled else page).encode()


def _compress(content: bytes, suffix: str) -> Asset:
    compressed = None if suffix == ".png" else gzip.compress(content, mtime=0)
    return Asset(content, compressed, MEDIA_TYPES[suffix], _digest(content))
