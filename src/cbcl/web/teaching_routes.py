"""Routes under /api that teach: each is one change of the memory, which undo can revert."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from fastapi import Request

from cbcl.errors import PictureError
from cbcl.recognition.labels import as_label
from cbcl.recognition.learning import LearningResult
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web import schemas
from cbcl.web.errors import ApiError
from cbcl.web.limits import MAX_PICTURES_BYTES, RouteLimits
from cbcl.web.route_parts import (
    PICTURE_ERRORS,
    PICTURES,
    Number,
    Service,
    describe_errors,
    describe_form,
    describe_step,
    make_router,
)
from cbcl.web.service import TeachingService
from cbcl.web.uploads import UploadForm, read_form

LEARN_ERRORS = {**PICTURE_ERRORS, **describe_errors("picture", "label", "argument")}
CHANGE_ERRORS = describe_errors("label", "argument", "memory")

router = make_router("teaching")


@router.post(
    "/examples",
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
    return await _learn(service, as_label(form.text("label")), form)


@router.post("/learn-many", responses=LEARN_ERRORS)
@RouteLimits()
async def learn_many(service: Service, body: schemas.LearnManyRequest) -> schemas.LearnResponse:
    """Learn several labels in one change, from the digests of pictures that were sent before."""
    service.changes.check()
    digests = [digest for thing in body.things for digest in thing.seen]
    pictures = iter(service.embedding.cache.get(digests))
    things: dict[str, list[EmbeddedPicture]] = {}
    for thing in body.things:
        things.setdefault(thing.label, []).extend(islice(pictures, len(thing.seen)))
    learned, revision = await service.change(lambda memory: memory.learn_many(things))
    service.metrics.examples_learned.inc(len(digests))
    return _learned(learned, [], revision)


@router.post(
    "/negatives",
    responses=LEARN_ERRORS,
    openapi_extra=describe_form(PICTURES, pictures="files", seen="texts"),
)
@RouteLimits(body=MAX_PICTURES_BYTES, pictures=True)
async def learn_negatives(service: Service, request: Request) -> schemas.LearnResponse:
    """Learn pictures of none of the labels: what looks like them is unknown.

    Takes and skips pictures as learning a label does; in the response, the label is empty.
    """
    form = await read_form(request, files="pictures", fields=["seen"])
    return await _learn(service, None, form)


@router.delete("/negatives", responses=describe_errors("label", "memory"))
@RouteLimits()
async def forget_negatives(service: Service) -> schemas.ChangeResponse:
    """Forget all pictures that were taught as none of these."""
    _, revision = await service.change(lambda memory: memory.forget(None))
    return _changed(revision, "forget", "none of these")


@router.delete("/examples/{number}", responses=describe_errors("missing", "argument", "memory"))
@RouteLimits()
async def unlearn(service: Service, number: Number) -> schemas.UnlearnResponse:
    """Remove an example from its label; the last one takes the label along."""
    with service.missing_without(number):
        removed, revision = await service.change(lambda memory: memory.unlearn(number))
    (label,) = removed
    return schemas.UnlearnResponse(label=label, revision=revision)


@router.post("/forget", responses=CHANGE_ERRORS)
@RouteLimits()
async def forget(service: Service, body: schemas.ForgetRequest) -> schemas.ChangeResponse:
    """Forget a label; the others are as if it had never been learned."""
    _, revision = await service.change(
        lambda memory: memory.forget(body.label, for_good=body.for_good), erases=body.for_good
    )
    for_good = " for good" if body.for_good else ""
    return _changed(revision, "forget", f"{as_label(body.label)}{for_good}")


@router.post("/rename", responses=CHANGE_ERRORS)
@RouteLimits()
async def rename(service: Service, body: schemas.RenameRequest) -> schemas.ChangeResponse:
    """Rename a label."""
    known, revision = await service.change(lambda memory: memory.rename(body.label, body.new))
    label, new = as_label(body.label), as_label(body.new)
    response = _changed(revision, "rename", f"{label} → {new}")
    response.spelled_alike = {} if known is None else {new: known}
    return response


@router.post("/merge", responses=CHANGE_ERRORS)
@RouteLimits()
async def merge(service: Service, body: schemas.MergeRequest) -> schemas.ChangeResponse:
    """Merge a label into another."""
    _, revision = await service.change(lambda memory: memory.merge(body.label, body.into))
    return _changed(revision, "merge", f"{as_label(body.label)} → {as_label(body.into)}")


@router.post("/unlearn", responses=describe_errors("missing", "argument", "memory"))
@RouteLimits()
async def unlearn_many(
    service: Service, body: schemas.UnlearnRequest
) -> schemas.UnlearnManyResponse:
    """Remove several examples from their labels, in one change."""
    with service.missing_without(*body.examples):
        removed, revision = await service.change(lambda memory: memory.unlearn(body.examples))
    return schemas.UnlearnManyResponse(removed=removed, revision=revision)


@router.post("/move", responses=CHANGE_ERRORS)
@RouteLimits()
async def move(service: Service, body: schemas.MoveRequest) -> schemas.MoveResponse:
    """Move examples to another label, known or new, in one change; no picture is needed.

    A label that loses its last example is forgotten.
    """
    into = None if body.into is None else as_label(body.into)
    moved, revision = await service.change(lambda memory: memory.move(body.examples, into))
    return schemas.MoveResponse.model_validate({**moved._asdict(), "revision": revision})


@router.put("/strangers", responses=describe_errors("argument", "memory"))
@RouteLimits()
async def expect_strangers(
    service: Service, body: schemas.StrangersRequest
) -> schemas.ChangeResponse:
    """Say how often something unknown is to be expected; nothing is learned anew.

    Refused by a memory that learns by the vote.
    """
    _, revision = await service.change(lambda memory: memory.expect_strangers(body.strangers))
    return _changed(revision, "strangers", body.strangers)


@router.post("/undo", responses=describe_errors("memory"))
@RouteLimits()
async def undo(service: Service) -> schemas.ChangeResponse:
    """Revert the latest change that is not reverted yet, up to twenty."""
    step, revision = await service.change(lambda memory: memory.undo())
    response = _changed(revision, "undo", describe_step(step))
    response.undone = schemas.UndoneStep(action=step.action, text=step.summary, labels=step.labels)
    return response


async def _learn(
    service: TeachingService, label: str | None, form: UploadForm
) -> schemas.LearnResponse:
    """Learn pictures, None: of no label; those that cannot be read are skipped and reported."""
    service.changes.check()
    _, pictures = await service.embedding.embed(form)
    embedded: list[EmbeddedPicture] = []
    skipped: list[schemas.SkippedPicture] = []
    for name, _, result in pictures:
        if isinstance(result, PictureError):
            skipped.append(schemas.SkippedPicture(picture=name, message=result.about(name)))
        else:
            embedded.append(result)
    if not embedded:
        raise ApiError("picture", skipped[0].message)
    learned, revision = await service.change(lambda memory: memory.learn(label, embedded))
    service.metrics.examples_learned.inc(len(embedded))
    return _learned(learned, skipped, revision)


def _learned(
    learned: LearningResult, skipped: Sequence[schemas.SkippedPicture], revision: int
) -> schemas.LearnResponse:
    fields = {"learned": learned.pictures, "problems": skipped, "revision": revision}
    return schemas.LearnResponse.model_validate({**learned._asdict(), **fields})


def _changed(revision: int, action: str, subject: str) -> schemas.ChangeResponse:
    done = schemas.ChangeSummary(action=action, text=f"{action} {subject}")
    return schemas.ChangeResponse(revision=revision, done=done)
