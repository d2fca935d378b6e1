"""What the library says, in the shapes that are sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cbcl.errors import PictureError
from cbcl.memory.transaction import Step
from cbcl.recognition.answer import Answer
from cbcl.web import schemas
from cbcl.web.errors import PathRedactor
from cbcl.web.picture_cache import Looked

if TYPE_CHECKING:
    from cbcl.recognition.self_test import SelfTestResult
    from cbcl.recognition.suggestions import Suggestions

_NUMBERED = re.compile(r"^picture \d+\b")  # what the library calls a picture that has no name


class Asked(NamedTuple):
    """A picture that was asked about."""

    name: str
    digest: str
    looked: Looked


def named(looked: Looked, name: str) -> Looked:
    """What is wrong with a picture, told with the name it was sent under."""
    if not isinstance(looked, PictureError):
        return looked
    return PictureError(_NUMBERED.sub(lambda _: name, str(looked), count=1))


def to_undo(steps: Sequence[Step]) -> Step | None:
    """The step that undo would take back."""
    return next((step for step in steps if step.can_be_undone), None)


def in_words(step: Step) -> str:
    """What was done, to what."""
    return f"{step.action} {step.summary}".strip()


def history(steps: Sequence[Step], revision: int) -> schemas.History:
    following = to_undo(steps)
    return schemas.History(
        revision=revision,
        steps=[
            schemas.Step(
                step=step.step,
                time=step.time,
                action=step.action,
                text=step.summary,
                undone=step.undone,
                next=step is following,
            )
            for step in steps
        ],
    )


def answer(asked: Asked, given: Answer | None, revision: int) -> schemas.Answer:
    """An answer; without one, nothing is known at all."""
    return schemas.Answer(
        picture=asked.name,
        seen=asked.digest,
        label=given.label if given else None,
        confidence=given.confidence if given else None,
        strangeness=given.strangeness if given else None,
        ranking=[schemas.Guess(**guess._asdict()) for guess in given.ranking] if given else [],
        evidence=_evidence(given) if given else [],
        revision=revision,
    )


def _evidence(given: Answer) -> list[schemas.Reason]:
    return [
        schemas.Reason(
            label=reason.label,
            share=share,
            weight=reason.weight,
            distance=reason.distance,
            pictures=reason.pictures,
            examples=[example.number for example in reason.examples],
        )
        for reason, share in zip(given.evidence, given.shares, strict=True)
    ]


def unanswered(asked: Asked, discretion: PathRedactor) -> schemas.Unanswered:
    error = schemas.Error(kind="picture", message=discretion(str(asked.looked)))
    return schemas.Unanswered(picture=asked.name, error=error)


def problem(asked: Asked, discretion: PathRedactor) -> schemas.Problem:
    return schemas.Problem(picture=asked.name, message=discretion(str(asked.looked)))


def advice(given: Suggestions, revision: int) -> schemas.Advice:
    return schemas.Advice(
        revision=revision,
        alike=[
            schemas.Alike(label=one.label, other=one.other, closeness=one.closeness)
            for one in given.alike
        ],
        more=[
            schemas.Wanted(label=one.label, examples=one.examples, reason=one.reason)
            for one in given.more
        ],
    )


def scores(given: SelfTestResult, revision: int) -> schemas.Scores:
    return schemas.Scores(
        revision=revision,
        labels=[*given.labels],
        matrix=np.asarray(given.matrix).tolist(),
        asked=given.asked,
        right=given.right,
        unknown=given.unknown,
        wrong=[
            schemas.Missed(example=one.example, label=one.label, answer=one.answer)
            for one in given.wrong
        ],
        problem=given.problem,
    )
