"""Shared parts of routes: the memory they serve, and the OpenAPI description of each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter

from cbcl.recognition.recognizer import Step
from cbcl.web import schemas
from cbcl.web.errors import STATUSES
from cbcl.web.limits import MAX_PICTURES
from cbcl.web.served_memory import ServedMemory
from cbcl.web.service import TeachingService

MEMORY_HEADER = "CBCL-Memory"  # percent-encoded name of the memory that a request is meant for


def kept(name: str) -> Any:
    """Return the dependency of a route on what the application keeps in its state."""

    async def find(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(find)


Served = Annotated[ServedMemory, kept("served")]


async def _service(request: Request, served: Served) -> AsyncIterator[TeachingService]:
    """Provide the service of the memory that is open, unless the request is meant for another."""
    memory = request.headers.get(MEMORY_HEADER)
    async with served.use(None if memory is None else unquote(memory)) as service:
        yield service


Service = Annotated[TeachingService, Depends(_service)]
Number = Annotated[int, PathParameter(ge=0, lt=1 << 63, description="Number of an example")]
LabelQuery = Annotated[str, Query(json_schema_extra={**schemas.LABEL_RULES})]


def describe_step(step: Step) -> str:
    """Return what was done, and to what."""
    return f"{step.action} {step.summary}".strip()


def describe_errors(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Describe error responses, by their status."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in dict.fromkeys(STATUSES[kind] for kind in kinds):
        description = ", ".join(kind for kind in kinds if STATUSES[kind] == status)
        described[status] = {"model": schemas.ErrorResponse, "description": description}
    return described


def describe_form(least: dict[str, Any], **fields: str) -> dict[str, Any]:
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


def describe_binary(media_type: str, *kinds: str) -> dict[str, Any]:
    """Describe a response that is not JSON."""
    responses = {200: {"content": {media_type: {}}}, **describe_errors(*kinds)}
    return {"response_class": Response, "responses": responses}


PICTURES = {"anyOf": [{"required": ["pictures"]}, {"required": ["seen"]}]}  # of a form
PICTURE_ERRORS = describe_errors(
    "picture", "argument", "memory", "backbone", "busy", "rate", "seen"
)


def make_router(*tags: str) -> APIRouter:
    """Return a router of the API, whose routes may all be refused for some reasons."""
    refusals = describe_errors("token", "origin", "slow", "size", "busy")
    return APIRouter(prefix="/api", tags=[*tags], responses=refusals)
