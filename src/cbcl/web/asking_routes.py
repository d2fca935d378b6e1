"""Routes under /api that ask: recognitions, each of one snapshot, and reports on the memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from fastapi import Request, Response

from cbcl.errors import LabelError, PictureError
from cbcl.recognition.answer import Answer
from cbcl.recognition.labels import as_label
from cbcl.recognition.snapshot import Snapshot
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.web import schemas
from cbcl.web.embedding import RequestPicture
from cbcl.web.errors import ApiError
from cbcl.web.limits import MAX_PICTURE_BYTES, MAX_PICTURES_BYTES, MAX_TEXT_BYTES, RouteLimits
from cbcl.web.route_parts import (
    PICTURE_ERRORS,
    PICTURES,
    LabelQuery,
    Service,
    describe_binary,
    describe_errors,
    describe_form,
    make_router,
)
from cbcl.web.service import TeachingService
from cbcl.web.static_files import thumbnail_response
from cbcl.web.uploads import UploadForm, read_form

ONE_PICTURE = {"oneOf": [{"required": ["picture"]}, {"required": ["seen"]}]}

router = make_router("asking")


@router.post(
    "/recognize",
    responses=PICTURE_ERRORS,
    openapi_extra=describe_form(ONE_PICTURE, picture="file", seen="text"),
)
@RouteLimits("view", body=MAX_PICTURE_BYTES + MAX_TEXT_BYTES, pictures=True)
async def recognize(service: Service, request: Request) -> schemas.RecognizeResponse:
    """Recognize a picture: label or unknown, confidence, ranking and evidence."""
    form = await read_form(request, files="picture", fields=["seen"])
    response = await service.embedding.queue.run(_recognize, service, form)
    service.publish_recognition(response)
    return response


@router.post(
    "/suspects",
    responses={**PICTURE_ERRORS, **describe_errors("label")},
    openapi_extra=describe_form(ONE_PICTURE, picture="file", seen="text"),
)
@RouteLimits(body=MAX_PICTURE_BYTES + MAX_TEXT_BYTES, pictures=True)
async def suspects(service: Service, request: Request) -> schemas.SuspectsResponse:
    """List the examples that may be why the answer about a picture is wrong: three at most.

    Each comes with the answer had it not been learned, the most decisive first.
    """
    form = await read_form(request, files="picture", fields=["seen"])
    embedding = service.embedding
    snapshot, _, embedded = await embedding.queue.run(embedding.embed_one, form)
    return await service.reports.run(_find_suspects, snapshot, embedded)


@router.post(
    "/recognize-many",
    responses=PICTURE_ERRORS,
    openapi_extra=describe_form(PICTURES, pictures="files", seen="texts"),
)
@RouteLimits("view", body=MAX_PICTURES_BYTES, pictures=True)
async def recognize_many(service: Service, request: Request) -> schemas.RecognizeManyResponse:
    """Recognize up to 100 pictures, and order them by how much a person's answer would help."""
    form = await read_form(request, files="pictures", fields=["seen"])
    snapshot, pictures = await service.embedding.embed(form)
    response = await service.embedding.queue.run_part(_recognize_all, snapshot, pictures)
    for answer in response.answers:
        if isinstance(answer, schemas.RecognizeResponse):
            service.publish_recognition(answer)
    return response


@router.post("/group", responses=describe_errors("argument", "memory", "backbone", "busy", "rate"))
@RouteLimits("view")
async def group(service: Service, body: schemas.GroupRequest) -> schemas.GroupsResponse:
    """Group pictures that were sent before, and that look alike, to be named together."""
    return await service.embedding.queue.run(_group, service, body.seen)


@router.get("/advice", response_model=schemas.AdviceResponse, responses=describe_errors("memory"))
@RouteLimits("view")
async def advice(service: Service) -> Response:
    """List labels that look alike, and labels for which more examples would help."""
    return await service.report(_advise)


@router.get("/scores", response_model=schemas.ScoresResponse, responses=describe_errors("memory"))
@RouteLimits("view")
async def scores(service: Service) -> Response:
    """Return the confusion matrix of a leave-one-out test on the examples."""
    return await service.report(_score)


@router.get(
    "/self-test", response_model=schemas.SelfTestResponse, responses=describe_errors("memory")
)
@RouteLimits("view")
async def self_test(service: Service) -> Response:
    """Return how many examples of each label are recognized by what the others teach.

    The same test as for the scores; with many labels it takes seconds, once after a change.
    """
    return await service.report(_test_examples)


@router.get("/unknown", response_model=schemas.UnknownResponse, responses=describe_errors("memory"))
@RouteLimits("view")
async def unknown(service: Service) -> Response:
    """Return what decides between known and unknown, and what each setting would change."""
    return await service.report(_report_unknown)


@router.get(
    "/seen/{digest}/thumbnail",
    **describe_binary("image/jpeg", "missing", "seen", "argument"),
)
@RouteLimits("view")
def seen_thumbnail(service: Service, digest: str, request: Request) -> Response:
    """Return the thumbnail of a picture sent before: browsers cannot draw every format."""
    (picture,) = service.embedding.cache.get([digest])
    jpeg = picture.thumbnail()
    if not jpeg:  # a private memory makes none
        raise ApiError("missing", "there is no thumbnail of this picture.")
    return thumbnail_response(jpeg, request)


@router.get("/similar", responses=describe_errors("label", "argument", "memory"))
@RouteLimits("view")
def similar(service: Service, label: LabelQuery) -> schemas.SimilarResponse:
    """List the labels that look most like one, the closest first: sixteen at most."""
    snapshot = service.snapshot()
    if not snapshot.revision:
        raise LabelError(repr(label), "is not known")
    return schemas.SimilarResponse(
        label=as_label(label), similar=snapshot.similar(label), revision=snapshot.revision
    )


def _find_suspects(snapshot: Snapshot, embedded: EmbeddedPicture) -> schemas.SuspectsResponse:
    entries = [
        schemas.SuspectEntry(
            example=example.number,
            label=answer.label if answer else None,
            confidence=answer.confidence if answer else None,
        )
        for example, answer in (snapshot.suspects(embedded) if snapshot.labels() else [])
    ]
    return schemas.SuspectsResponse(suspects=entries, revision=snapshot.revision)


def _recognize(service: TeachingService, form: UploadForm) -> schemas.RecognizeResponse:
    snapshot, picture, embedded = service.embedding.embed_one(form)
    answer = snapshot.recognize(embedded) if snapshot.labels() else None
    return _recognized(picture, answer, snapshot.revision)


def _recognize_all(
    snapshot: Snapshot, pictures: Sequence[RequestPicture]
) -> schemas.RecognizeManyResponse:
    embedded = {
        index: picture.result
        for index, picture in enumerate(pictures)
        if isinstance(picture.result, EmbeddedPicture)
    }
    answers: list[Answer] = []
    order: Sequence[int] = range(len(embedded))
    if embedded and snapshot.labels():
        answers = snapshot.recognize_many([*embedded.values()])
        order = snapshot.worth_asking([*embedded.values()], answers)
    remaining = iter(answers)
    results: list[schemas.RecognizeResponse | schemas.UnreadablePicture] = []
    for picture in pictures:
        if isinstance(picture.result, PictureError):
            results.append(_unreadable(picture.name, picture.result))
        else:
            results.append(_recognized(picture, next(remaining, None), snapshot.revision))
    indices = [*embedded]
    return schemas.RecognizeManyResponse(
        answers=results,
        order=[indices[position] for position in order],
        revision=snapshot.revision,
    )


def _recognized(
    picture: RequestPicture, answer: Answer | None, revision: int
) -> schemas.RecognizeResponse:
    """Return the response for a picture; without an answer, the memory is empty."""
    ranking = answer.ranking if answer else ()
    return schemas.RecognizeResponse(
        picture=picture.name,
        seen=picture.digest,
        label=answer.label if answer else None,
        confidence=answer.confidence if answer else None,
        strangeness=answer.strangeness if answer else None,
        ranking=[schemas.RankingEntry(**guess._asdict()) for guess in ranking],
        evidence=_evidence(answer) if answer else [],
        revision=revision,
        taught=answer.taught if answer else None,
    )


def _evidence(answer: Answer) -> list[schemas.EvidenceEntry]:
    return [
        schemas.EvidenceEntry(
            label=reason.label,
            share=share,
            weight=reason.weight,
            distance=reason.distance,
            pictures=reason.pictures,
            examples=[example.number for example in reason.examples],
            against=reason.label != answer.ranking[0].label,
        )
        for reason, share in zip(answer.evidence, answer.shares, strict=True)
    ]


def _unreadable(name: str, error: PictureError) -> schemas.UnreadablePicture:
    message = error.about(name)
    problem = error.about("").strip().removesuffix(".")
    detail = schemas.ErrorDetail(kind="picture", message=message, problem=problem)
    return schemas.UnreadablePicture(picture=name, error=detail)


def _group(service: TeachingService, digests: Sequence[str]) -> schemas.GroupsResponse:
    """Group pictures that look alike; those that are no longer cached are in no group."""
    known = service.embedding.cache.find(digests)
    names = [*known]
    groups = service.snapshot().group_alike([*known.values()])
    return schemas.GroupsResponse(groups=[[names[row] for row in rows] for rows in groups])


def _advise(_: TeachingService, snapshot: Snapshot) -> schemas.AdviceResponse:
    fields = {"revision": snapshot.revision, **snapshot.advise()._asdict()}
    return schemas.AdviceResponse.model_validate(fields, from_attributes=True)


def _test_examples(_: TeachingService, snapshot: Snapshot) -> schemas.SelfTestResponse:
    result = snapshot.examine()
    wrong: dict[str, list[schemas.WrongAnswerEntry]] = {label: [] for label in result.labels}
    for miss in result.wrong:
        wrong[miss.label].append(schemas.WrongAnswerEntry(**miss._asdict()))
    tested = result.matrix.sum(axis=1).tolist()
    recognized = np.diagonal(result.matrix).tolist()
    entries = [
        schemas.TestedEntry(label=label, tested=number, recognized=right, wrong=wrong[label])
        for label, number, right in zip(result.labels, tested, recognized, strict=True)
    ]
    return schemas.SelfTestResponse(revision=snapshot.revision, labels=entries)


def _score(_: TeachingService, snapshot: Snapshot) -> schemas.ScoresResponse:
    result = snapshot.examine()
    fields = {
        **result._asdict(),
        "revision": snapshot.revision,
        "matrix": result.matrix.tolist(),
        "asked": result.asked,
        "right": result.right,
        "unknown": result.unknown,
    }
    return schemas.ScoresResponse.model_validate(fields, from_attributes=True)


def _report_unknown(_: TeachingService, snapshot: Snapshot) -> schemas.UnknownResponse:
    report = snapshot.unknown()
    if report is None:
        return schemas.UnknownResponse(revision=snapshot.revision, report=None)
    distributions = {
        name: {"mean": mean, "deviation": deviation}
        for name, (mean, deviation) in (("known", report.known), ("strange", report.strange))
    }
    fields = {**report._asdict(), **distributions}
    entry = schemas.UnknownEntry.model_validate(fields, from_attributes=True)
    return schemas.UnknownResponse(revision=snapshot.revision, report=entry)
