"""The application: the classroom of one memory behind its addresses, guarded and watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from cbcl import __version__
from cbcl.errors import CBCLError
from cbcl.recognition.recognizer import Recognizer
from cbcl.vision.backbones import DEFAULT
from cbcl.web import routes, static_files
from cbcl.web.errors import refusal_of
from cbcl.web.metrics import Metrics
from cbcl.web.request_body import Bodies
from cbcl.web.request_log import RequestLog, RequestLogMiddleware
from cbcl.web.security import AccessPolicy, SecurityMiddleware
from cbcl.web.service import TeachingService

DESCRIPTION = """Teach a machine new things from a few pictures each, and ask it what others show.

What is refused has the body `{"error": {"kind", "message"}}`; the kinds are stable, the messages are for people.
`429` comes with a time to wait, as `Retry-After` and as `retry_after`."""


def create_app(
    recognizer: Recognizer,
    *,
    door: AccessPolicy | None = None,
    log: RequestLog | None = None,
    backbone: str = DEFAULT,
    private: bool = False,
) -> FastAPI:
    """A server of one memory, which it neither opens nor closes.

    `backbone` and `private` are what the recognizer was given: they are told as long as there is no memory.
    """
    counted = Metrics()
    classroom = TeachingService(recognizer, counted, backbone=backbone, private=private)
    app = FastAPI(
        title="cbcl",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_life,
        generate_unique_id_function=lambda route: route.name.strip("_"),
    )
    app.state.classroom, app.state.metrics = classroom, counted
    app.state.bodies, app.state.transfers = Bodies(), 0
    for kind in (CBCLError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refuse)
    app.include_router(static_files.router)
    app.include_router(routes.router)
    app.add_middleware(
        SecurityMiddleware, door=door or AccessPolicy(), metrics=counted, bodies=app.state.bodies
    )
    app.add_middleware(RequestLogMiddleware, log=log or RequestLog(), metrics=counted)
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    classroom: TeachingService = app.state.classroom
    warming = asyncio.create_task(classroom.warm_up())
    yield
    warming.cancel()
    await asyncio.to_thread(classroom.close)


async def _refuse(request: Request, error: Exception) -> Response:
    state = request.app.state
    refusal = refusal_of(error, state.classroom.discretion)
    state.metrics.refused(refusal.kind)
    return refusal.response()
