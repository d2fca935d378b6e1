"""Routes under /api: request, response and errors of each, also for the OpenAPI description."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path as PathParameter
from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from cbcl import __version__
from cbcl.web import schemas
from cbcl.web.limits import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES_BYTES,
    MAX_TEXT_BYTES,
    RouteLimits,
)
from cbcl.web.route_parts import (
    Served,
    Service,
    describe_binary,
    describe_errors,
    describe_form,
    make_router,
)
from cbcl.web.security import access_of
from cbcl.web.static_files import cached_response
from cbcl.web.uploads import read_form

JSON_TYPE = "application/json"
API_VERSION = 1  # changes when a program written for it would break

Number = Annotated[int, PathParameter(ge=0, lt=1 << 63, description="Number of an example")]
PICTURES = {"anyOf": [{"required": ["pictures"]}, {"required": ["seen"]}]}
ONE_PICTURE = {"oneOf": [{"required": ["picture"]}, {"required": ["seen"]}]}
PICTURE_ERRORS = describe_errors(
    "picture", "argument", "memory", "backbone", "busy", "rate", "seen"
)
LEARN_ERRORS = {**PICTURE_ERRORS, **describe_errors("picture", "label", "argument")}
CHANGE_ERRORS = describe_errors("label", "argument", "memory")

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


@router.get(
    "/labels",
    tags=["things"],
    response_model=schemas.LabelsResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
def labels(service: Service) -> Response:
    """List all labels, sorted."""
    return Response(service.labels(), media_type=JSON_TYPE)


@router.get("/examples", tags=["things"], responses=describe_errors("label", "argument", "memory"))
@RouteLimits("view")
def examples(
    service: Service, label: Annotated[str, Query(json_schema_extra={**schemas.LABEL_RULES})]
) -> schemas.ExamplesResponse:
    """List the examples of a label that have a thumbnail, in the order learned."""
    return service.examples(label)


@router.post(
    "/examples",
    tags=["teaching"],
    responses=LEARN_ERRORS,
    openapi_extra=describe_form(
        {"required": ["label"], **PICTURES}, label="label", pictures="files", seen="texts"
    ),
)
@RouteLimits(body=MAX_PICTURES_BYTES, pictures=True)
async def learn(service: Service, request: Request) -> schemas.LearnResponse:
    """Learn a label from files, or from the digests of pictures that were sent before.

    Pictures that cannot be read are skipped and listed as problems.
    """
    form = await read_form(request, files="pictures", fields=["label", "seen"])
    return await service.learn(form.text("label"), form.files, form.texts("seen"))


@router.post("/learn-many", tags=["teaching"], responses=LEARN_ERRORS)
@RouteLimits()
async def learn_many(service: Service, body: schemas.LearnManyRequest) -> schemas.LearnResponse:
    """Learn several labels in one change, from the digests of pictures that were sent before."""
    things: dict[str, list[str]] = {}
    for thing in body.things:
        things.setdefault(thing.label, []).extend(thing.seen)
    return await service.learn_many(things)


@router.get("/negatives", tags=["things"], responses=describe_errors("memory"))
@RouteLimits("view")
def negatives(service: Service) -> schemas.ExamplesResponse:
    """List the pictures taught as none of these that have a thumbnail, in the order learned."""
    return service.negatives()


@router.post(
    "/negatives",
    tags=["teaching"],
    responses=LEARN_ERRORS,
    openapi_extra=describe_form(PICTURES, pictures="files", seen="texts"),
)
@RouteLimits(body=MAX_PICTURES_BYTES, pictures=True)
async def learn_negatives(service: Service, request: Request) -> schemas.LearnResponse:
    """Learn pictures of none of the labels: what looks like them is unknown.

    Takes and skips pictures as learning a label does; in the response, the label is empty.
    """
    form = await read_form(request, files="pictures", fields=["seen"])
    return await service.learn(None, form.files, form.texts("seen"))


@router.delete("/negatives", tags=["teaching"], responses=describe_errors("label", "memory"))
@RouteLimits()
async def forget_negatives(service: Service) -> schemas.ChangeResponse:
    """Forget all pictures that were taught as none of these."""
    return await service.forget_negatives()


@router.get(
    "/examples/{number}/thumbnail",
    tags=["things"],
    **describe_binary("image/jpeg", "missing", "argument", "memory"),
)
@RouteLimits("view")
def thumbnail(service: Service, number: Number, request: Request) -> Response:
    """Return the thumbnail of an example."""
    # Revalidated each time: what is forgotten must be gone, and another memory may be served here.
    jpeg = service.thumbnail(number)
    return cached_response(jpeg, request, "image/jpeg", "private, no-cache")


@router.delete(
    "/examples/{number}",
    tags=["teaching"],
    responses=describe_errors("missing", "argument", "memory"),
)
@RouteLimits()
async def unlearn(service: Service, number: Number) -> schemas.UnlearnResponse:
    """Remove an example from its label; the last one takes the label along."""
    return await service.unlearn(number)


@router.post(
    "/recognize",
    tags=["asking"],
    responses=PICTURE_ERRORS,
    openapi_extra=describe_form(ONE_PICTURE, picture="file", seen="text"),
)
@RouteLimits("view", body=MAX_PICTURE_BYTES + MAX_TEXT_BYTES, pictures=True)
async def recognize(service: Service, request: Request) -> schemas.RecognizeResponse:
    """Recognize a picture: label or unknown, confidence, ranking and evidence."""
    form = await read_form(request, files="picture", fields=["seen"])
    return await service.recognize(form.files, form.texts("seen"))


@router.post(
    "/suspects",
    tags=["asking"],
    responses={**PICTURE_ERRORS, **describe_errors("label")},
    openapi_extra=describe_form(ONE_PICTURE, picture="file", seen="text"),
)
@RouteLimits(body=MAX_PICTURE_BYTES + MAX_TEXT_BYTES, pictures=True)
async def suspects(service: Service, request: Request) -> schemas.SuspectsResponse:
    """List the examples that may be why the answer about a picture is wrong: three at most.

    Each comes with the answer had it not been learned, the most decisive first.
    """
    form = await read_form(request, files="picture", fields=["seen"])
    return await service.suspects(form.files, form.texts("seen"))


@router.post(
    "/recognize-many",
    tags=["asking"],
    responses=PICTURE_ERRORS,
    openapi_extra=describe_form(PICTURES, pictures="files", seen="texts"),
)
@RouteLimits("view", body=MAX_PICTURES_BYTES, pictures=True)
async def recognize_many(service: Service, request: Request) -> schemas.RecognizeManyResponse:
    """Recognize up to 100 pictures, and order them by how much a person's answer would help."""
    form = await read_form(request, files="pictures", fields=["seen"])
    return await service.recognize_many(form.files, form.texts("seen"))


@router.post(
    "/group",
    tags=["asking"],
    responses=describe_errors("argument", "memory", "backbone", "busy", "rate"),
)
@RouteLimits("view")
async def group(service: Service, body: schemas.GroupRequest) -> schemas.GroupsResponse:
    """Group pictures that were sent before, and that look alike, to be named together."""
    return await service.group(body.seen)


@router.post("/forget", tags=["teaching"], responses=CHANGE_ERRORS)
@RouteLimits()
async def forget(service: Service, body: schemas.ForgetRequest) -> schemas.ChangeResponse:
    """Forget a label; the others are as if it had never been learned."""
    return await service.forget(body.label, for_good=body.for_good)


@router.post("/rename", tags=["teaching"], responses=CHANGE_ERRORS)
@RouteLimits()
async def rename(service: Service, body: schemas.RenameRequest) -> schemas.ChangeResponse:
    """Rename a label."""
    return await service.rename(body.label, body.new)


@router.post("/merge", tags=["teaching"], responses=CHANGE_ERRORS)
@RouteLimits()
async def merge(service: Service, body: schemas.MergeRequest) -> schemas.ChangeResponse:
    """Merge a label into another."""
    return await service.merge(body.label, body.into)


@router.post(
    "/unlearn", tags=["teaching"], responses=describe_errors("missing", "argument", "memory")
)
@RouteLimits()
async def unlearn_many(
    service: Service, body: schemas.UnlearnRequest
) -> schemas.UnlearnManyResponse:
    """Remove several examples from their labels, in one change."""
    return await service.unlearn_many(body.examples)


@router.post("/move", tags=["teaching"], responses=CHANGE_ERRORS)
@RouteLimits()
async def move(service: Service, body: schemas.MoveRequest) -> schemas.MoveResponse:
    """Move examples to another label, known or new, in one change; no picture is needed.

    A label that loses its last example is forgotten.
    """
    return await service.move(body.examples, body.into)


@router.put("/strangers", tags=["teaching"], responses=describe_errors("argument", "memory"))
@RouteLimits()
async def expect_strangers(
    service: Service, body: schemas.StrangersRequest
) -> schemas.ChangeResponse:
    """Say how often something unknown is to be expected; nothing is learned anew.

    Refused by a memory that learns by the vote.
    """
    return await service.expect_strangers(body.strangers)


@router.post("/undo", tags=["teaching"], responses=describe_errors("memory"))
@RouteLimits()
async def undo(service: Service) -> schemas.ChangeResponse:
    """Revert the latest change that is not reverted yet, up to twenty."""
    return await service.undo()


@router.get("/history", tags=["things"], responses=describe_errors("memory"))
@RouteLimits("view")
def history(service: Service) -> schemas.HistoryResponse:
    """List the changes, latest first."""
    return service.history()


@router.get(
    "/advice",
    tags=["asking"],
    response_model=schemas.AdviceResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
async def advice(service: Service) -> Response:
    """List labels that look alike, and labels for which more examples would help."""
    return Response(await service.advise(), media_type=JSON_TYPE)


@router.get(
    "/scores",
    tags=["asking"],
    response_model=schemas.ScoresResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
async def scores(service: Service) -> Response:
    """Return the confusion matrix of a leave-one-out test on the examples."""
    return Response(await service.examine(), media_type=JSON_TYPE)


@router.get(
    "/self-test",
    tags=["asking"],
    response_model=schemas.SelfTestResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
async def self_test(service: Service) -> Response:
    """Return how many examples of each label are recognized by what the others teach.

    The same test as for the scores; with many labels it takes seconds, once after a change.
    """
    return Response(await service.self_test(), media_type=JSON_TYPE)


@router.get(
    "/unknown",
    tags=["asking"],
    response_model=schemas.UnknownResponse,
    responses=describe_errors("memory"),
)
@RouteLimits("view")
async def unknown(service: Service) -> Response:
    """Return what decides between known and unknown, and what each setting would change."""
    return Response(await service.unknown(), media_type=JSON_TYPE)


@router.get(
    "/seen/{digest}/thumbnail",
    tags=["asking"],
    **describe_binary("image/jpeg", "missing", "seen", "argument"),
)
@RouteLimits("view")
def seen_thumbnail(service: Service, digest: str, request: Request) -> Response:
    """Return the thumbnail of a picture sent before: browsers cannot draw every format."""
    jpeg = service.seen_thumbnail(digest)
    return cached_response(jpeg, request, "image/jpeg", "private, no-cache")


@router.get("/similar", tags=["asking"], responses=describe_errors("label", "argument", "memory"))
@RouteLimits("view")
def similar(
    service: Service, label: Annotated[str, Query(json_schema_extra={**schemas.LABEL_RULES})]
) -> schemas.SimilarResponse:
    """List the labels that look most like one, the closest first: sixteen at most."""
    return service.similar(label)


EVENTS = describe_binary("text/event-stream", "memory")
EVENTS["responses"][200]["content"]["text/event-stream"]["example"] = (
    'event: changed\ndata: {"revision": 9}\n\n'
    'event: opened\ndata: {"memory": "shop.cbcl", "revision": 4}\n\n'
    'event: recognized\ndata: {"label":"mug","confidence":0.97,"revision":9}\n\n'
)


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
