"""Static files: the page, its parts and the API documentation; and the metrics."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath

from fastapi import APIRouter, Request, Response

from cbcl.web.errors import NOT_FOUND, ApiError
from cbcl.web.metrics import MEDIA_TYPE, Metrics

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> Response:
    return _send_file("index.html", request)


@router.get("/api/docs")
def docs(request: Request) -> Response:
    return _send_file("docs.html", request)


@router.get("/static/{name:path}")
def static(name: str, request: Request) -> Response:
    return _send_file(name, request)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=MEDIA_TYPE)


def cached_response(data: bytes, request: Request, media_type: str, cache: str) -> Response:
    """Return data with an ETag, or 304 to a client that has it already."""
    headers = {"ETag": f'"{sha256(data).hexdigest()[:32]}"', "Cache-Control": cache}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


def _send_file(name: str, request: Request) -> Response:
    """Send a file of the page, looked up among those there are, so that no name leads elsewhere."""
    found = files("cbcl.web").joinpath("static")
    for part in name.split("/"):
        entries = {entry.name: entry for entry in found.iterdir()} if found.is_dir() else {}
        if part not in entries:
            raise ApiError("missing", NOT_FOUND)
        found = entries[part]
    media_type = MEDIA_TYPES.get(PurePosixPath(name).suffix)
    if media_type is None or not found.is_file():
        raise ApiError("missing", NOT_FOUND)
    return cached_response(found.read_bytes(), request, media_type, "no-cache")
