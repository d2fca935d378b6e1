"""Responses made of what the library returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cbcl.errors import PictureError
from cbcl.recognition.answer import Answer, Example
from cbcl.recognition.snapshot import MAX_SHOWN
from cbcl.web import schemas
from cbcl.web.embedding import RequestPicture

if TYPE_CHECKING:
    from cbcl.recognition.learning import LearningResult
    from cbcl.recognition.recognizer import Step
    from cbcl.recognition.snapshot import Snapshot, Suspect


def change_response(revision: int, action: str, subject: str) -> schemas.ChangeResponse:
    done = schemas.ChangeSummary(action=action, text=f"{action} {subject}")
    return schemas.ChangeResponse(revision=revision, done=done)


def undo_response(revision: int, step: Step) -> schemas.ChangeResponse:
    undone = schemas.UndoneStep(action=step.action, text=step.summary, labels=step.labels)
    response = change_response(revision, "undo", describe_step(step))
    return response.model_copy(update={"undone": undone})


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
    entries = [schemas.ExampleEntry(example=one.number, concept=one.place) for one in kept]
    return schemas.ExamplesResponse(label=label, examples=number, kept=entries, revision=revision)


def negatives_entry(snapshot: Snapshot) -> schemas.NegativesEntry | None:
    number = snapshot.n_negatives()
    if not number:
        return None
    kept = [example.number for example in snapshot.negatives()]
    return schemas.NegativesEntry(examples=number, kept=len(kept), shown=kept[:MAX_SHOWN])


def learn_response(
    learned: LearningResult, skipped: Sequence[schemas.SkippedPicture], revision: int
) -> schemas.LearnResponse:
    return schemas.LearnResponse(
        learned=learned.pictures,
        problems=[*skipped],
        revision=revision,
        copies={**learned.copies},
        moved={**learned.moved},
        gone=[*learned.gone],
        spelled_alike={**learned.spelled_alike},
    )


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


def suspects_response(suspects: Sequence[Suspect], revision: int) -> schemas.SuspectsResponse:
    entries = [
        schemas.SuspectEntry(
            example=example.number,
            label=answer.label if answer else None,
            confidence=answer.confidence if answer else None,
        )
        for example, answer in suspects
    ]
    return schemas.SuspectsResponse(suspects=entries, revision=revision)


def unreadable_picture(picture: RequestPicture, error: PictureError) -> schemas.UnreadablePicture:
    message, problem = error.about(picture.name), error.about("").strip().removesuffix(".")
    detail = schemas.ErrorDetail(kind="picture", message=message, problem=problem)
    return schemas.UnreadablePicture(picture=picture.name, error=detail)


def skipped_picture(picture: RequestPicture, error: PictureError) -> schemas.SkippedPicture:
    return schemas.SkippedPicture(picture=picture.name, message=error.about(picture.name))


def advice_response(snapshot: Snapshot) -> schemas.AdviceResponse:
    suggestions = snapshot.advise()
    return schemas.AdviceResponse(
        revision=snapshot.revision,
        alike=[schemas.SimilarityEntry(**pair._asdict()) for pair in suggestions.alike],
        more=[schemas.WantedEntry(**label._asdict()) for label in suggestions.more],
    )


def self_test_response(snapshot: Snapshot) -> schemas.SelfTestResponse:
    result = snapshot.examine()
    wrong: dict[str, list[schemas.WrongAnswerEntry]] = {}
    for miss in result.wrong:
        entry = schemas.WrongAnswerEntry(**miss._asdict())
        wrong.setdefault(miss.label, []).append(entry)
    tested = result.matrix.sum(axis=1).tolist()
    recognized = np.diagonal(result.matrix).tolist()
    entries = [
        schemas.TestedEntry(
            label=label, tested=number, recognized=right, wrong=wrong.get(label, [])
        )
        for label, number, right in zip(result.labels, tested, recognized, strict=True)
    ]
    return schemas.SelfTestResponse(revision=snapshot.revision, labels=entries)


def unknown_response(snapshot: Snapshot) -> schemas.UnknownResponse:
    report = snapshot.unknown()
    if report is None:
        return schemas.UnknownResponse(revision=snapshot.revision, report=None)
    distributions = {
        name: {"mean": mean, "deviation": deviation}
        for name, (mean, deviation) in (("known", report.known), ("strange", report.strange))
    }
    forecasts = {name: one._asdict() for name, one in report.forecasts.items()}
    fields = {**report._asdict(), **distributions, "forecasts": forecasts}
    return schemas.UnknownResponse(
        revision=snapshot.revision, report=schemas.UnknownEntry.model_validate(fields)
    )


def scores_response(snapshot: Snapshot) -> schemas.ScoresResponse:
    result = snapshot.examine()
    return schemas.ScoresResponse(
        revision=snapshot.revision,
        labels=[*result.labels],
        matrix=np.asarray(result.matrix).tolist(),
        asked=result.asked,
        right=result.right,
        unknown=result.unknown,
        wrong=[schemas.WrongAnswerEntry(**miss._asdict()) for miss in result.wrong],
        problem=result.problem,
    )
