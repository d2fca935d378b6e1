"""Routes under /api for whole memories: export, import, and those of a folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from cbcl.errors import CBCLError, encodable
from cbcl.recognition.memory_files import copy_memory
from cbcl.recognition.recognizer import Recognizer
from cbcl.web import schemas
from cbcl.web.connections import client_address
from cbcl.web.errors import ApiError
from cbcl.web.limits import MAX_MEMORY_BYTES, Capacity, RouteLimits
from cbcl.web.route_parts import (
    Served,
    Service,
    describe_binary,
    describe_errors,
    describe_form,
    make_router,
)
from cbcl.web.served_memory import ServedMemory
from cbcl.web.service import TeachingService
from cbcl.web.uploads import report_disk_errors, save_file

MEMORY_TYPE = "application/vnd.sqlite3"
DOWNLOAD_CHUNK_BYTES = 1 << 18
MEMORY_ERRORS = describe_errors("missing", "argument", "memory", "backbone")

router = make_router("memory")


@contextmanager
def _temporary_memory() -> Iterator[Path]:
    """Provide a path for a memory that is exported or imported."""
    with report_disk_errors():
        folder = TemporaryDirectory(prefix="cbcl-", ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name, "memory.cbcl")


@asynccontextmanager
async def _uploaded_memory(request: Request) -> AsyncIterator[Path]:
    """Save the memory of a form; errors are about the name that it was sent under."""
    with _temporary_memory() as path:
        name = await save_file(request, field="memory", path=path)
        try:
            yield path
        except CBCLError as error:
            if error.subject != path:
                raise
            raise ApiError(error.kind, error.about(name)) from error


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


@router.get("/export", **describe_binary(MEMORY_TYPE, "memory", "busy"))
@RouteLimits()
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
    responses=describe_errors("argument", "memory", "backbone"),
    openapi_extra=describe_form({"required": ["memory"]}, memory="file"),
)
@RouteLimits(body=MAX_MEMORY_BYTES, on_disk=True)
async def import_(service: Service, request: Request) -> schemas.ImportResponse:
    """Learn everything that another memory knows, in one change that can be undone."""
    async with _uploaded_memory(request) as path:
        result, revision = await service.change(lambda memory: memory.adopt(path))
    return schemas.ImportResponse(added=result.added, joined=result.joined, revision=revision)


@router.get("/memories", responses=describe_errors("memory"))
@RouteLimits()
def memories(served: Served) -> schemas.MemoriesResponse:
    """List the memories that can be opened here, the one changed latest first."""
    return served.describe()


@router.post("/memories", responses=MEMORY_ERRORS)
@RouteLimits()
async def new_memory(
    served: Served, body: schemas.MemoryNameRequest
) -> schemas.MemoryOpenedResponse:
    """Open a new memory for everybody; its file is made by the first thing learned."""
    return await _open(served, await run_in_threadpool(served.folder.find_free, body.name))


@router.post("/memories/open", responses=MEMORY_ERRORS)
@RouteLimits()
async def open_memory(
    served: Served, body: schemas.MemoryNameRequest
) -> schemas.MemoryOpenedResponse:
    """Open another memory for everybody; requests under way on the one before are finished."""
    return await _open(served, await run_in_threadpool(served.folder.find, body.name))


async def _open(served: ServedMemory, path: Path) -> schemas.MemoryOpenedResponse:
    service = await served.open(path)
    snapshot = await run_in_threadpool(service.snapshot)
    return schemas.MemoryOpenedResponse(memory=service.name, revision=snapshot.revision)


@router.post("/memories/duplicate", responses=MEMORY_ERRORS)
@RouteLimits()
async def duplicate_memory(
    served: Served, service: Service, body: schemas.DuplicateRequest
) -> schemas.DuplicateResponse:
    """Copy a memory, without its history; the one that is open stays open."""
    new = await run_in_threadpool(served.folder.find_free, body.new)
    source = await run_in_threadpool(served.folder.find, body.name)
    await service.exports.run(copy_memory, source, new)
    return schemas.DuplicateResponse(memory=new.name)


@router.post(
    "/memories/restore",
    responses=describe_errors("argument", "memory", "backbone"),
    openapi_extra=describe_form({"required": ["memory"]}, memory="file"),
)
@RouteLimits(body=MAX_MEMORY_BYTES, on_disk=True)
async def restore_memory(service: Service, request: Request) -> schemas.RestoreResponse:
    """Put a copy of a memory in place of the one that is open, which is kept beside it."""
    async with _uploaded_memory(request) as path:
        return await _restore(service, path, move=False)


@router.post("/memories/undo-restore", responses=describe_errors("memory", "backbone"))
@RouteLimits()
async def undo_restore(service: Service) -> schemas.RestoreResponse:
    """Put the memory back that the latest restore has replaced; the restored one is kept."""
    if service.replaced is None:
        message = "nothing was restored since this memory was opened: there is no undo."
        raise ApiError("memory", message)
    return await _restore(service, service.replaced, move=True)


async def _restore(service: TeachingService, path: Path, *, move: bool) -> schemas.RestoreResponse:
    """Put another memory in place of this one, which is kept beside it."""
    kept = _name_replaced(service.path)

    def replace(memory: Recognizer) -> bool:
        memory.restore(path, kept=kept, move=move)
        return kept.exists()

    was_there, revision = await service.change(replace, erases=True)
    service.replaced = kept if was_there else None
    return schemas.RestoreResponse(
        kept=encodable(kept.name) if was_there else None, revision=revision
    )


def _name_replaced(path: Path) -> Path:
    """Return the path that a memory is kept at when another takes its place."""
    time = datetime.now().astimezone().strftime("%Y-%m-%d %H.%M.%S")
    for number in count(1):
        nth = "" if number == 1 else f" {number}"
        kept = path.with_name(f"{path.stem} (replaced {time}{nth}){path.suffix}")
        if not os.path.lexists(kept):
            break
    return kept
