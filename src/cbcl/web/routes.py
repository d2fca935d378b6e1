"""Routes under /api for the server, and for what a memory knows."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from cbcl import __version__
from cbcl.errors import LabelError
from cbcl.recognition.answer import Example
from cbcl.recognition.labels import as_label
from cbcl.recognition.recognizer import Step
from cbcl.recognition.snapshot import MAX_SHOWN, Snapshot
from cbcl.web import schemas
from cbcl.web.limits import RouteLimits
from cbcl.web.route_parts import (
    LabelQuery,
    Number,
    Served,
    Service,
    describe_binary,
    describe_errors,
    describe_step,
    make_router,
)
from cbcl.web.security import access_of
from cbcl.web.service import TeachingService
from cbcl.web.static_files import thumbnail_response

API_VERSION = 1  # changes when a program written for it would break

EVENTS = describe_binary("text/event-stream", "memory")
EVENTS["responses"][200]["content"]["text/event-stream"]["example"] = (
    'event: changed\ndata: {"revision": 9}\n\n'
    'event: opened\ndata: {"memory": "shop.cbcl", "revision": 4}\n\n'
    'event: recognized\ndata: {"label":"mug","confidence":0.97,"revision":9}\n\n'
)

router = make_router()


@router.get("/version", tags=["server"])
@RouteLimits("view")
def version() -> schemas.VersionResponse:
    """Return the versions of cbcl and of the API."""
    return schemas.VersionResponse(cbcl=__version__, api=API_VERSION)


@router.get("/openapi.json", include_in_schema=False)
@RouteLimits("view")
def openapi(request: Request) -> JSONResponse:
    """Return the OpenAPI description of this API."""
    return JSONResponse(request.app.openapi())


@router.get("/health", tags=["server"], responses=describe_errors("memory"))
@RouteLimits("view")
def health(service: Service) -> schemas.HealthResponse:
    """Return the state of the memory, of the backbone and of the change queue."""
    return service.health()


@router.get("/events", tags=["server"], **EVENTS)
@RouteLimits("view", lasts=True)
async def events(served: Served, request: Request) -> Response:
    """Stream the memory's revision, at once and after every change: event `changed`.

    Where another memory is opened, or another file takes its place: event `opened` before it.

    And label (null: unknown), confidence and revision of the answer for each picture that anybody
    has recognized here: event `recognized`. A slow reader misses the older of these.
    """
    stream = await served.events(access_of(request.scope).is_valid)
    return StreamingResponse(stream, media_type="text/event-stream")


@router.get(
    "/labels",
    tags=["things"],
    response_model=schemas.LabelsResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
def labels(service: Service) -> Response:
    """List all labels, sorted."""
    return service.response(_list_labels)


@router.get("/examples", tags=["things"], responses=describe_errors("label", "argument", "memory"))
@RouteLimits("view")
def examples(service: Service, label: LabelQuery) -> schemas.ExamplesResponse:
    """List the examples of a label that have a thumbnail, in the order learned."""
    snapshot = service.snapshot()
    if not snapshot.revision:
        raise LabelError(repr(label), "is not known")
    kept = snapshot.examples(label)
    label = as_label(label)
    return _list_examples(label, snapshot.labels()[label], kept, snapshot.revision)


@router.get("/negatives", tags=["things"], responses=describe_errors("memory"))
@RouteLimits("view")
def negatives(service: Service) -> schemas.ExamplesResponse:
    """List the pictures taught as none of these that have a thumbnail, in the order learned."""
    snapshot = service.snapshot()
    return _list_examples("", snapshot.n_negatives(), snapshot.negatives(), snapshot.revision)


@router.get(
    "/examples/{number}/thumbnail",
    tags=["things"],
    **describe_binary("image/jpeg", "missing", "argument", "memory"),
)
@RouteLimits("view")
def thumbnail(service: Service, number: Number, request: Request) -> Response:
    """Return the thumbnail of an example."""
    with service.missing_without(number):
        jpeg = service.snapshot().thumbnail(number)
    return thumbnail_response(jpeg, request)


@router.get("/history", tags=["things"], responses=describe_errors("memory"))
@RouteLimits("view")
def history(service: Service) -> schemas.HistoryResponse:
    """List the changes, latest first."""
    revision = service.snapshot().revision
    steps = service.history()
    next_step = _step_to_undo(steps)
    entries = [
        schemas.HistoryEntry(**step._asdict(), text=step.summary, next=step is next_step)
        for step in steps
    ]
    return schemas.HistoryResponse(revision=revision, steps=entries)


def _list_labels(service: TeachingService, snapshot: Snapshot) -> schemas.LabelsResponse:
    step = _step_to_undo(service.history())
    undo = step and schemas.ChangeSummary(action=step.action, text=describe_step(step))
    settings = snapshot.settings if snapshot.revision else None
    expects = settings is not None and "strangers" in snapshot.abilities
    return schemas.LabelsResponse(
        revision=snapshot.revision,
        private=service.is_private(snapshot),
        labels=[schemas.LabelEntry(**label._asdict()) for label in snapshot.things()],
        undo=undo,
        head=settings.head if settings else None,
        abilities=sorted(snapshot.abilities),
        negatives=_summarize_negatives(snapshot),
        strangers=settings.strangers if settings and expects else None,
    )


def _summarize_negatives(snapshot: Snapshot) -> schemas.NegativesEntry | None:
    number = snapshot.n_negatives()
    if not number:
        return None
    kept = [example.number for example in snapshot.negatives()]
    return schemas.NegativesEntry(examples=number, kept=len(kept), shown=kept[:MAX_SHOWN])


def _list_examples(
    label: str, examples: int, kept: Sequence[Example], revision: int
) -> schemas.ExamplesResponse:
    entries = [schemas.ExampleEntry(example=one.number, concept=one.place) for one in kept]
    return schemas.ExamplesResponse(label=label, examples=examples, kept=entries, revision=revision)


def _step_to_undo(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.can_be_undone), None)
