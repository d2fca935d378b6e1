"""Routes under /api: request, response and errors of each, also for the OpenAPI description."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from cbcl import __version__
from cbcl.errors import CBCLError
from cbcl.web import schemas
from cbcl.web.connections import client_address
from cbcl.web.errors import STATUSES, ApiError
from cbcl.web.rate_limit import Capacity
from cbcl.web.request_body import MAX_PICTURES
from cbcl.web.service import TeachingService
from cbcl.web.static_files import cached_response
from cbcl.web.uploads import read_form, report_disk_errors, save_file

JSON_TYPE = "application/json"
MEMORY_TYPE = "application/vnd.sqlite3"
API_VERSION = 1  # changes when a program written for it would break
DOWNLOAD_CHUNK_BYTES = 1 << 18


def _service(request: Request) -> TeachingService:
    service: TeachingService = request.app.state.service
    return service


Service = Annotated[TeachingService, Depends(_service)]
Number = Annotated[int, PathParameter(ge=0, lt=1 << 63, description="Number of an example")]


def _errors(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Describe error responses, by their status."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in dict.fromkeys(STATUSES[kind] for kind in kinds):
        description = ", ".join(kind for kind in kinds if STATUSES[kind] == status)
        described[status] = {"model": schemas.ErrorResponse, "description": description}
    return described


router = APIRouter(prefix="/api", responses=_errors("token", "origin", "slow", "size", "busy"))


def _form(least: dict[str, Any], **fields: str) -> dict[str, Any]:
    """Describe a multipart form, whose fields are label, text, texts, file or files."""
    types: dict[str, dict[str, Any]] = {
        "label": {"type": "string", **schemas.LABEL_RULES},
        "text": {"type": "string"},
        "file": {"type": "string", "format": "binary"},
    }
    for name in ("text", "file"):
        types[f"{name}s"] = {"type": "array", "items": types[name], "maxItems": MAX_PICTURES}
    schema = {
        "type": "object",
        "properties": {name: types[kind] for name, kind in fields.items()},
        "additionalProperties": False,
        **least,
    }
    content = {"multipart/form-data": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _binary(media_type: str, *kinds: str) -> dict[str, Any]:
    """Describe a response that is not JSON."""
    responses = {200: {"content": {media_type: {}}}, **_errors(*kinds)}
    return {"response_class": Response, "responses": responses}


@contextmanager
def _temporary_memory() -> Iterator[Path]:
    """Provide a path for a memory that is exported or imported."""
    with report_disk_errors():
        folder = TemporaryDirectory(prefix="cbcl-", ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name, "memory.cbcl")


async def _read_chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await run_in_threadpool(file.read, DOWNLOAD_CHUNK_BYTES):
        yield chunk


class _Download(StreamingResponse):
    """A file to send; its resources are released when it is sent, or the client is gone."""

    def __init__(self, file: BinaryIO, resources: ExitStack, **options: Any) -> None:
        super().__init__(_read_chunks(file), **options)
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._resources:
            await super().__call__(scope, receive, send)


PICTURES = {"anyOf": [{"required": ["pictures"]}, {"required": ["seen"]}]}
ONE_PICTURE = {"oneOf": [{"required": ["picture"]}, {"required": ["seen"]}]}
PICTURE_ERRORS = _errors("picture", "argument", "memory", "backbone", "busy", "rate", "seen")
LEARN_ERRORS = {**PICTURE_ERRORS, **_errors("picture", "label", "argument")}
CHANGE_ERRORS = _errors("label", "argument", "memory")


@router.get("/version", tags=["server"])
def version() -> schemas.VersionResponse:
    """Return the versions of cbcl and of the API."""
    return schemas.VersionResponse(cbcl=__version__, api=API_VERSION)


@router.get("/health", tags=["server"], responses=_errors("memory"))
def health(service: Service) -> schemas.HealthResponse:
    """Return the state of the memory, of the backbone and of the change queue."""
    return service.health()


@router.get(
    "/labels",
    tags=["things"],
    response_model=schemas.LabelsResponse,
    responses=_errors("memory"),
)
def labels(service: Service) -> Response:
    """List all labels, sorted."""
    return Response(service.labels(), media_type=JSON_TYPE)


@router.get("/examples", tags=["things"], responses=_errors("label", "argument", "memory"))
def examples(
    service: Service, label: Annotated[str, Query(json_schema_extra={**schemas.LABEL_RULES})]
) -> schemas.ExamplesResponse:
    """List the examples of a label that have a thumbnail, in the order learned."""
    return service.examples(label)


@router.post(
    "/examples",
    tags=["teaching"],
    responses=LEARN_ERRORS,
    openapi_extra=_form(
        {"required": ["label"], **PICTURES}, label="label", pictures="files", seen="texts"
    ),
)
async def learn(service: Service, request: Request) -> schemas.LearnResponse:
    """Learn a label from files, or from the digests of pictures that were sent before.

    Pictures that cannot be read are skipped and listed as problems.
    """
    form = await read_form(request, files="pictures", fields=["label", "seen"])
    return await service.learn(form.text("label"), form.files, form.texts("seen"))


@router.get("/negatives", tags=["things"], responses=_errors("memory"))
def negatives(service: Service) -> schemas.ExamplesResponse:
    """List the pictures taught as none of these that have a thumbnail, in the order learned."""
    return service.negatives()


@router.post(
    "/negatives",
    tags=["teaching"],
    responses=LEARN_ERRORS,
    openapi_extra=_form(PICTURES, pictures="files", seen="texts"),
)
async def learn_negatives(service: Service, request: Request) -> schemas.LearnResponse:
    """Learn pictures of none of the labels: what looks like them is unknown.

    Takes and skips pictures as learning a label does; in the response, the label is empty.
    """
    form = await read_form(request, files="pictures", fields=["seen"])
    return await service.learn(None, form.files, form.texts("seen"))


@router.delete("/negatives", tags=["teaching"], responses=_errors("label", "memory"))
async def forget_negatives(service: Service) -> schemas.ChangeResponse:
    """Forget all pictures that were taught as none of these."""
    return await service.forget_negatives()


@router.get(
    "/examples/{number}/thumbnail",
    tags=["things"],
    **_binary("image/jpeg", "missing", "argument", "memory"),
)
def thumbnail(service: Service, number: Number, request: Request) -> Response:
    """Return the thumbnail of an example."""
    # Revalidated each time: what is forgotten must be gone, and another memory may be served here.
    jpeg = service.thumbnail(number)
    return cached_response(jpeg, request, "image/jpeg", "private, no-cache")


@router.delete(
    "/examples/{number}",
    tags=["teaching"],
    responses=_errors("missing", "argument", "memory"),
)
async def unlearn(service: Service, number: Number) -> schemas.UnlearnResponse:
    """Remove an example from its label; the last one takes the label along."""
    return await service.unlearn(number)


@router.post(
    "/recognize",
    tags=["asking"],
    responses=PICTURE_ERRORS,
    openapi_extra=_form(ONE_PICTURE, picture="file", seen="text"),
)
async def recognize(service: Service, request: Request) -> schemas.RecognizeResponse:
    """Recognize a picture: label or unknown, confidence, ranking and evidence."""
    form = await read_form(request, files="picture", fields=["seen"])
    return await service.recognize(form.files, form.texts("seen"))


@router.post(
    "/recognize-many",
    tags=["asking"],
    responses=PICTURE_ERRORS,
    openapi_extra=_form(PICTURES, pictures="files", seen="texts"),
)
async def recognize_many(service: Service, request: Request) -> schemas.RecognizeManyResponse:
    """Recognize up to 100 pictures, and order them by how much a person's answer would help."""
    form = await read_form(request, files="pictures", fields=["seen"])
    return await service.recognize_many(form.files, form.texts("seen"))


@router.post("/forget", tags=["teaching"], responses=CHANGE_ERRORS)
async def forget(service: Service, body: schemas.ForgetRequest) -> schemas.ChangeResponse:
    """Forget a label; the others are as if it had never been learned."""
    return await service.forget(body.label, for_good=body.for_good)


@router.post("/rename", tags=["teaching"], responses=CHANGE_ERRORS)
async def rename(service: Service, body: schemas.RenameRequest) -> schemas.ChangeResponse:
    """Rename a label."""
    return await service.rename(body.label, body.new)


@router.post("/merge", tags=["teaching"], responses=CHANGE_ERRORS)
async def merge(service: Service, body: schemas.MergeRequest) -> schemas.ChangeResponse:
    """Merge a label into another."""
    return await service.merge(body.label, body.into)


@router.post("/undo", tags=["teaching"], responses=_errors("memory"))
async def undo(service: Service) -> schemas.ChangeResponse:
    """Revert the latest change that is not reverted yet, up to twenty."""
    return await service.undo()


@router.get("/history", tags=["things"], responses=_errors("memory"))
def history(service: Service) -> schemas.HistoryResponse:
    """List the changes, latest first."""
    return service.history()


@router.get(
    "/advice",
    tags=["asking"],
    response_model=schemas.AdviceResponse,
    responses=_errors("memory"),
)
async def advice(service: Service) -> Response:
    """List labels that look alike, and labels for which more examples would help."""
    return Response(await service.advise(), media_type=JSON_TYPE)


@router.get(
    "/scores",
    tags=["asking"],
    response_model=schemas.ScoresResponse,
    responses=_errors("memory"),
)
async def scores(service: Service) -> Response:
    """Return the confusion matrix of a leave-one-out test on the examples."""
    return Response(await service.examine(), media_type=JSON_TYPE)


@router.get("/export", tags=["memory"], **_binary(MEMORY_TYPE, "memory", "busy"))
async def export(service: Service, request: Request) -> Response:
    """Return a consistent copy of the memory file, for cbcl on any machine."""
    with ExitStack() as resources:
        exports: Capacity = request.app.state.exports
        resources.enter_context(exports.reserve(client_address(request.scope)))
        path = resources.enter_context(_temporary_memory())
        await service.save_copy(path)
        file = resources.enter_context(await run_in_threadpool(path.open, "rb"))
        headers = {
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(service.name)}",
        }
        return _Download(file, resources.pop_all(), media_type=MEMORY_TYPE, headers=headers)


@router.post(
    "/import",
    tags=["memory"],
    responses=_errors("argument", "memory", "backbone"),
    openapi_extra=_form({"required": ["memory"]}, memory="file"),
)
async def import_(service: Service, request: Request) -> schemas.ImportResponse:
    """Learn everything that another memory knows, in one change that can be undone."""
    with _temporary_memory() as path:
        name = await save_file(request, field="memory", path=path)
        try:
            return await service.adopt(path)
        except CBCLError as error:
            if error.subject != path:
                raise
            raise ApiError(error.kind, error.about(name)) from error


EVENTS = _binary("text/event-stream", "memory")
EVENTS["responses"][200]["content"]["text/event-stream"]["example"] = (
    'event: changed\ndata: {"revision": 9}\n\n'
    'event: recognized\ndata: {"label":"mug","confidence":0.97,"revision":9}\n\n'
)


@router.get("/events", tags=["server"], **EVENTS)
async def events(service: Service) -> Response:
    """Stream the memory's revision, at once and after every change: event `changed`.

    And label (null: unknown), confidence and revision of the answer for each picture that anybody
    has recognized here: event `recognized`. A slow reader misses the older of these.
    """
    return StreamingResponse(await service.notifier.subscribe(), media_type="text/event-stream")
