"""Application: routes, errors and middleware around the teaching service of one memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from cbcl import __version__
from cbcl.errors import CBCLError
from cbcl.recognition.recognizer import Recognizer
from cbcl.vision.backbones import DEFAULT
from cbcl.web import routes, static_files
from cbcl.web.errors import as_api_error
from cbcl.web.events import EVENTS_PATH
from cbcl.web.metrics import Metrics
from cbcl.web.rate_limit import Capacity
from cbcl.web.request_body import BodyRegistry
from cbcl.web.request_log import RequestLog, RequestLogMiddleware
from cbcl.web.security import AccessPolicy, SecurityMiddleware
from cbcl.web.service import MAX_EXPORTS, TeachingService

DESCRIPTION = """Teach labels from a few pictures each, and recognize what other pictures show.

Errors have the body `{"error": {"kind", "message"}}`: kinds are stable, messages are for people.
`429` comes with the seconds to wait, as `Retry-After` and as `retry_after`."""


def create_app(
    recognizer: Recognizer,
    *,
    policy: AccessPolicy | None = None,
    log: RequestLog | None = None,
    backbone: str = DEFAULT,
    private: bool = False,
) -> FastAPI:
    """Return the application that serves a memory; the recognizer stays the caller's to close.

    `backbone` and `private` are those given to the recognizer: they are shown until there is a
    memory. `app.state.on_start` is called in the event loop when the server starts.
    """
    metrics = Metrics()
    service = TeachingService(recognizer, metrics, backbone=backbone, private=private)

    app = FastAPI(
        title="cbcl",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=lambda route: route.name.strip("_"),
    )
    app.state.service, app.state.metrics = service, metrics
    app.state.bodies = BodyRegistry()
    app.state.exports = Capacity(MAX_EXPORTS, "several memories are being exported", retry_after=5)
    app.state.on_start = lambda: None
    for error_type in (CBCLError, RequestValidationError, HTTPException):
        app.add_exception_handler(error_type, _handle_error)
    app.include_router(static_files.router)
    app.include_router(routes.router)
    app.add_middleware(
        SecurityMiddleware,
        policy=policy or AccessPolicy(),
        metrics=metrics,
        bodies=app.state.bodies,
    )
    app.add_middleware(RequestLogMiddleware, log=log or RequestLog(), metrics=metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: TeachingService = app.state.service
    warming_up = asyncio.create_task(service.embedding.warm_up())
    app.state.on_start()
    yield
    warming_up.cancel()
    await asyncio.to_thread(service.close)


def begin_stop(app: FastAPI) -> None:
    """End what would keep a server from stopping: event streams, and waiting for slow senders."""
    app.state.service.notifier.close()
    app.state.bodies.stop()


async def _handle_error(request: Request, error: Exception) -> Response:
    api_error = as_api_error(error)
    if api_error.kind == "method":
        api_error.headers = {"Allow": _allowed_methods(request)}
    request.app.state.metrics.count_error(api_error.kind)
    return api_error.response()


def _allowed_methods(request: Request) -> str:
    """Return all methods of an address; the framework names those of its first route only."""
    routers = (request.app, static_files.router, routes.router)
    methods: set[str] = set()
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    if "GET" in methods and request.url.path != EVENTS_PATH:
        methods.add("HEAD")  # see SecurityMiddleware
    return ", ".join(sorted(methods))
