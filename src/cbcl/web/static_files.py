"""Static files of the page and of the API description, and the metrics for Prometheus."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath

from fastapi import APIRouter, Request, Response

from cbcl.web.errors import RequestRefused
from cbcl.web.metrics import MEDIA_TYPE, Metrics

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> Response:
    return _asset("index.html", request)


@router.get("/api/docs")
def docs(request: Request) -> Response:
    return _asset("docs.html", request)


@router.get("/static/{name}")
@router.get("/static/{folder}/{name}")
def static(name: str, request: Request, folder: str = "") -> Response:
    return _asset(name, request, folder)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=MEDIA_TYPE)


def _asset(name: str, request: Request, folder: str = "") -> Response:
    """Return a file of the page; only listed names are served, so no path leads elsewhere."""
    page = files("cbcl.web").joinpath("static")
    folders = {"": page, "css": page.joinpath("css"), "js": page.joinpath("js")}
    listed = folders[folder].iterdir() if folder in folders else iter(())
    found = next((file for file in listed if file.name == name and file.is_file()), None)
    kind = TYPES.get(PurePosixPath(name).suffix)
    if found is None or kind is None:
        raise RequestRefused(
            "missing", "there is nothing at this address: /api/docs says what there is."
        )
    data = found.read_bytes()
    headers = {"ETag": f'"{sha256(data).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)
