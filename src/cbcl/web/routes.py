"""The addresses under /api: what each takes and gives, for the code and for its description."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from cbcl import __version__
from cbcl.errors import CBCLError
from cbcl.web import schemas
from cbcl.web.errors import STATUSES, RequestRefused
from cbcl.web.service import TeachingService
from cbcl.web.uploads import on_disk, read_form, save_file

JSON = "application/json"
API = 1  # changes when a program written for it would break
PIECE = 1 << 18  # bytes
MAX_TRANSFERS = 4  # memories being sent or received at a time

router = APIRouter(prefix="/api")


def _room(request: Request) -> TeachingService:
    room: TeachingService = request.app.state.classroom
    return room


Room = Annotated[TeachingService, Depends(_room)]
Number = Annotated[int, InPath(ge=0, lt=1 << 63, description="An example's number")]


def _fails(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """What else may be answered."""
    told: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        entry = told.setdefault(STATUSES[kind], {"model": schemas.Failed, "description": ""})
        entry["description"] = ", ".join(filter(None, [entry["description"], kind]))
    return told


def _form(required: list[str], **fields: str) -> dict[str, Any]:
    """How a form is described: a field is text, or files."""
    one = {
        "text": {"type": "string"},
        "texts": {"type": "array", "items": {"type": "string"}},
        "file": {"type": "string", "format": "binary"},
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
    }
    shape: dict[str, Any] = {
        "type": "object",
        "properties": {name: one[kind] for name, kind in fields.items()},
    }
    if required:
        shape["required"] = required
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": shape}}}
    }


@contextmanager
def _transfer(request: Request) -> Iterator[Path]:
    """A place for a memory that is sent or received."""
    state = request.app.state
    if state.transfers >= MAX_TRANSFERS:
        raise RequestRefused(
            "busy", "several memories are being sent already: try again in 5 s.", retry_after=5
        )
    state.transfers += 1
    try:
        with on_disk():
            place = TemporaryDirectory(prefix="cbcl-", ignore_cleanup_errors=True)
        with place as folder:
            yield Path(folder, "memory.cbcl")
    finally:
        state.transfers -= 1


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await run_in_threadpool(file.read, PIECE):
        yield piece


class _Download(StreamingResponse):
    """A file that is sent; what it needs is let go when all of it is, or nobody is left to be sent it."""

    def __init__(self, file: BinaryIO, needs: ExitStack, **options: Any) -> None:
        super().__init__(_pieces(file), **options)
        self._needs = needs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._needs:
            await super().__call__(scope, receive, send)


PICTURES = _fails(
    "picture", "argument", "memory", "backbone", "size", "slow", "busy", "rate", "seen"
)
CHANGES = _fails("label", "argument", "memory", "busy")


@router.get("/version", tags=["server"])
def version() -> schemas.Version:
    """Which cbcl this is, and which version of the API."""
    return schemas.Version(cbcl=__version__, api=API)


@router.get("/health", tags=["server"], responses=_fails("memory"))
def health(room: Room) -> schemas.Health:
    """Whether the server can see and learn, and what it waits for."""
    return room.health()


@router.get("/labels", tags=["things"], response_model=schemas.Labels, responses=_fails("memory"))
def labels(room: Room) -> Response:
    """All that is known, in the order of the labels."""
    return Response(room.labels(), media_type=JSON)


@router.get("/examples", tags=["things"], responses=_fails("label", "argument", "memory"))
def examples(room: Room, label: Annotated[str, Query(examples=["mug"])]) -> schemas.Examples:
    """The examples of one label that are kept, in the order learned."""
    return room.examples(label)


@router.post(
    "/examples",
    tags=["teaching"],
    responses={**PICTURES, **_fails("picture", "label", "argument")},
    openapi_extra=_form(["label"], label="text", pictures="files", seen="texts"),
)
async def learn(room: Room, request: Request) -> schemas.Learned:
    """Learn a label from pictures, sent now or looked at before; those that cannot be read are left out and told."""
    form = await read_form(request, files="pictures", words=["label", "seen"])
    return await room.learn(form.word("label"), form.files, form.words.get("seen", []))


@router.get(
    "/examples/{number}/thumbnail",
    tags=["things"],
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, **_fails("missing", "argument", "memory")},
)
def thumbnail(room: Room, number: Number, request: Request) -> Response:
    """A small picture of an example."""
    jpeg = room.thumbnail(number)
    # Not kept for good: at the same address there may be another memory tomorrow, and what is forgotten is to be gone.
    headers = {"ETag": f'"{sha256(jpeg).hexdigest()[:32]}"', "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(jpeg, media_type="image/jpeg", headers=headers)


@router.delete(
    "/examples/{number}",
    tags=["teaching"],
    responses=_fails("missing", "argument", "memory", "busy"),
)
async def unlearn(room: Room, number: Number) -> schemas.Removed:
    """Take one example back; the last takes its label along."""
    return await room.unlearn(number)


@router.post(
    "/recognize",
    tags=["asking"],
    responses=PICTURES,
    openapi_extra=_form([], picture="file", seen="text"),
)
async def recognize(room: Room, request: Request) -> schemas.Answer:
    """What one picture shows: a label or unknown, how sure, what else, and why."""
    form = await read_form(request, files="picture", words=["seen"])
    return await room.recognize(form.files, form.words.get("seen", []))


@router.post(
    "/recognize-many",
    tags=["asking"],
    responses=PICTURES,
    openapi_extra=_form([], pictures="files", seen="texts"),
)
async def recognize_many(room: Room, request: Request) -> schemas.Answers:
    """What many pictures show, and which of them a person should be asked about first."""
    form = await read_form(request, files="pictures", words=["seen"])
    return await room.recognize_many(form.files, form.words.get("seen", []))


@router.post("/forget", tags=["teaching"], responses=CHANGES)
async def forget(room: Room, asked: schemas.Forget) -> schemas.Changed:
    """Forget a label; the others are as if it had never been learned."""
    return await room.forget(asked.label, for_good=asked.for_good)


@router.post("/rename", tags=["teaching"], responses=CHANGES)
async def rename(room: Room, asked: schemas.Rename) -> schemas.Changed:
    """Call a label something else."""
    return await room.rename(asked.label, asked.new)


@router.post("/merge", tags=["teaching"], responses=CHANGES)
async def merge(room: Room, asked: schemas.Merge) -> schemas.Changed:
    """Make one label part of another."""
    return await room.merge(asked.label, asked.into)


@router.post("/undo", tags=["teaching"], responses=_fails("memory", "busy"))
async def undo(room: Room) -> schemas.Changed:
    """Take back the latest step that was not taken back yet, up to twenty."""
    return await room.undo()


@router.get("/history", tags=["things"], responses=_fails("memory"))
def history(room: Room) -> schemas.History:
    """What was done, the latest first."""
    return room.history()


@router.get(
    "/advice", tags=["asking"], response_model=schemas.Advice, responses=_fails("memory", "busy")
)
async def advice(room: Room) -> Response:
    """Which labels look alike, and of which more examples would help."""
    return Response(await room.advise(), media_type=JSON)


@router.get(
    "/scores", tags=["asking"], response_model=schemas.Scores, responses=_fails("memory", "busy")
)
async def scores(room: Room) -> Response:
    """Each kept example held out and asked about: who is taken for whom."""
    return Response(await room.examine(), media_type=JSON)


@router.get(
    "/export",
    tags=["memory"],
    response_class=Response,
    responses={200: {"content": {"application/vnd.sqlite3": {}}}, **_fails("memory", "busy")},
)
async def export(room: Room, request: Request) -> Response:
    """The memory file as it is now: whole, consistent, to be opened by cbcl anywhere."""
    with ExitStack() as needs:
        path = needs.enter_context(_transfer(request))
        await room.save_copy(path)
        file = needs.enter_context(await run_in_threadpool(path.open, "rb"))
        headers = {
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(room.name)}",
        }
        return _Download(
            file, needs.pop_all(), media_type="application/vnd.sqlite3", headers=headers
        )


@router.post(
    "/import",
    tags=["memory"],
    responses=_fails("argument", "memory", "backbone", "size", "slow", "busy"),
    openapi_extra=_form(["memory"], memory="file"),
)
async def import_(room: Room, request: Request) -> schemas.Adopted:
    """Learn all that another memory knows, in one step that can be undone."""
    with _transfer(request) as path:
        name = await save_file(request, files="memory", path=path)
        try:
            return await room.adopt(path)
        except CBCLError as error:  # told with the name it was sent under
            raise type(error)(str(error).replace(str(path), name)) from error


@router.get(
    "/events",
    tags=["server"],
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, **_fails("memory", "busy")},
)
async def events(room: Room) -> Response:
    """A stream that tells the revision, at once and whenever the memory changes: event `changed`, data `revision`."""
    return StreamingResponse(await room.events.subscribe(), media_type="text/event-stream")
