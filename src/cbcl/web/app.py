"""Application: routes, errors and middleware around the teaching service of one memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from cbcl import __version__
from cbcl.errors import CBCLError
from cbcl.recognition.recognizer import Recognizer
from cbcl.web import access, asking_routes, memory_routes, routes, static_files, teaching_routes
from cbcl.web.errors import as_api_error
from cbcl.web.events import EVENTS_PATH
from cbcl.web.inbox import PhotoInbox
from cbcl.web.inbox import router as inbox_router
from cbcl.web.limits import Capacity, RouteTable
from cbcl.web.monitoring import Metrics, RequestLogMiddleware
from cbcl.web.request_body import BodyRegistry
from cbcl.web.security import AccessPolicy, SecurityMiddleware
from cbcl.web.served_memory import ServedMemory
from cbcl.web.service import MAX_EXPORTS

DESCRIPTION = """Teach labels from a few pictures each, and recognize what other pictures show.

Errors have the body `{"error": {"kind", "message"}}`: kinds are stable, messages are for people.
`429` comes with the seconds to wait, as `Retry-After` and as `retry_after`.

A request with the header `CBCL-Memory` (the percent-encoded name of a memory) is refused with the
kind `switched` if another memory was opened in its place."""

ROUTERS = (
    static_files.router,
    access.router,
    inbox_router,
    routes.router,
    teaching_routes.router,
    asking_routes.router,
    memory_routes.router,
)


def create_app(
    recognizer: Recognizer,
    *,
    policy: AccessPolicy | None = None,
    several: bool = False,
    inbox: Path | None = None,
    log: bool = False,
) -> FastAPI:
    """Return the application that serves a memory; it closes the recognizer in the end.

    With `several`, other memories of its folder can be opened in its place. `inbox` is a folder of
    `cbcl watch`, whose photos the page shows. With `log`, all requests are logged.
    `app.state.on_start` is called in the event loop when the server starts.
    """
    metrics = Metrics()

    app = FastAPI(
        title="cbcl",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,  # a route of ours, with its limits
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=lambda route: route.name.strip("_"),
    )
    app.state.served = ServedMemory(recognizer, metrics, several=several)
    app.state.metrics = metrics
    app.state.bodies = BodyRegistry()
    app.state.exports = Capacity(MAX_EXPORTS, "several memories are being exported", retry_after=5)
    app.state.inbox = PhotoInbox(inbox)
    app.state.on_start = lambda: None
    for error_type in (CBCLError, RequestValidationError, HTTPException):
        app.add_exception_handler(error_type, _handle_error)
    for router in ROUTERS:
        app.include_router(router)
    app.state.policy = policy or AccessPolicy()
    app.add_middleware(
        SecurityMiddleware,
        policy=app.state.policy,
        metrics=metrics,
        bodies=app.state.bodies,
        routes=RouteTable(route for router in ROUTERS for route in router.routes),
    )
    app.add_middleware(RequestLogMiddleware, metrics=metrics, log_all=log)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    served: ServedMemory = app.state.served
    served.start()
    _build_routes(app)
    await run_in_threadpool(static_files.prepare)  # which also makes the first of its threads
    app.state.on_start()
    yield
    await served.close()


def _build_routes(app: FastAPI) -> None:
    """Build the routes of the API: else newer frameworks do it while the first page waits."""
    scope = {"type": "http", "method": "GET", "path": "/api/health", "headers": []}
    for route in app.routes:
        route.matches(scope)


def begin_stop(app: FastAPI) -> None:
    """End what would keep a server from stopping: event streams, and waiting for slow senders."""
    app.state.served.stop()
    app.state.bodies.stop()


async def _handle_error(request: Request, error: Exception) -> Response:
    api_error = as_api_error(error)
    if api_error.kind == "method":
        api_error.headers = {"Allow": _allowed_methods(request)}
    request.app.state.metrics.count_error(api_error.kind)
    return api_error.response()


def _allowed_methods(request: Request) -> str:
    """Return all methods of an address; the framework names those of its first route only."""
    methods: set[str] = set()
    for route in (route for router in (request.app, *ROUTERS) for route in router.routes):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    if "GET" in methods and request.url.path != EVENTS_PATH:
        methods.add("HEAD")  # see SecurityMiddleware
    return ", ".join(sorted(methods))
