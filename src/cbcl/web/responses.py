"""Responses made of what the library returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cbcl.errors import PictureError
from cbcl.recognition.answer import Answer, Example
from cbcl.web import schemas
from cbcl.web.embedding import RequestPicture

if TYPE_CHECKING:
    from cbcl.memory.transaction import Step
    from cbcl.recognition.self_test import SelfTestResult
    from cbcl.recognition.suggestions import Suggestions


def change_response(revision: int, action: str, subject: str) -> schemas.ChangeResponse:
    done = schemas.ChangeSummary(action=action, text=f"{action} {subject}")
    return schemas.ChangeResponse(revision=revision, done=done)


def step_to_undo(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.can_be_undone), None)


def describe_step(step: Step) -> str:
    """Return what was done, and to what."""
    return f"{step.action} {step.summary}".strip()


def history_response(steps: Sequence[Step], revision: int) -> schemas.HistoryResponse:
    next_step = step_to_undo(steps)
    entries = [
        schemas.HistoryEntry(
            step=step.step,
            time=step.time,
            action=step.action,
            text=step.summary,
            undone=step.undone,
            next=step is next_step,
        )
        for step in steps
    ]
    return schemas.HistoryResponse(revision=revision, steps=entries)


def examples_response(
    label: str, number: int, kept: Sequence[Example], revision: int
) -> schemas.ExamplesResponse:
    entries = [schemas.ExampleEntry(example=one.number, concept=one.concept) for one in kept]
    return schemas.ExamplesResponse(label=label, examples=number, kept=entries, revision=revision)


def recognize_response(
    picture: RequestPicture, answer: Answer | None, revision: int
) -> schemas.RecognizeResponse:
    """Return the response for a picture; without an answer, the memory is empty."""
    return schemas.RecognizeResponse(
        picture=picture.name,
        seen=picture.digest,
        label=answer.label if answer else None,
        confidence=answer.confidence if answer else None,
        strangeness=answer.strangeness if answer else None,
        ranking=[schemas.RankingEntry(**guess._asdict()) for guess in answer.ranking]
        if answer
        else [],
        evidence=_evidence(answer) if answer else [],
        revision=revision,
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


def unreadable_picture(picture: RequestPicture, error: PictureError) -> schemas.UnreadablePicture:
    detail = schemas.ErrorDetail(kind="picture", message=error.about(picture.name))
    return schemas.UnreadablePicture(picture=picture.name, error=detail)


def skipped_picture(picture: RequestPicture, error: PictureError) -> schemas.SkippedPicture:
    return schemas.SkippedPicture(picture=picture.name, message=error.about(picture.name))


def advice_response(suggestions: Suggestions, revision: int) -> schemas.AdviceResponse:
    return schemas.AdviceResponse(
        revision=revision,
        alike=[schemas.SimilarityEntry(**pair._asdict()) for pair in suggestions.alike],
        more=[schemas.WantedEntry(**label._asdict()) for label in suggestions.more],
    )


def scores_response(result: SelfTestResult, revision: int) -> schemas.ScoresResponse:
    return schemas.ScoresResponse(
        revision=revision,
        labels=[*result.labels],
        matrix=np.asarray(result.matrix).tolist(),
        asked=result.asked,
        right=result.right,
        unknown=result.unknown,
        wrong=[schemas.WrongAnswerEntry(**miss._asdict()) for miss in result.wrong],
        problem=result.problem,
    )
