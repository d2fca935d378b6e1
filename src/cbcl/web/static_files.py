"""The page, its parts and its documentation, as they lie in the package; and the figures for Prometheus."""

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
def static(name: str, request: Request) -> Response:
    return _asset(name, request)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    counted: Metrics = request.app.state.metrics
    return Response(counted.text(), media_type=MEDIA_TYPE)


def _asset(name: str, request: Request) -> Response:
    """A file of the page, if it is one: it is looked for among what there is, so no name leads elsewhere."""
    folder = files("cbcl.web").joinpath("static")
    found = next((one for one in folder.iterdir() if one.name == name and one.is_file()), None)
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
