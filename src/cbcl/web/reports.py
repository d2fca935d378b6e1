"""Reports: responses about a whole memory, as JSON, each made once for a revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from pydantic import BaseModel

from cbcl.recognition.snapshot import MAX_SHOWN, Snapshot
from cbcl.web import schemas

if TYPE_CHECKING:
    from cbcl.recognition.recognizer import Step

Report: TypeAlias = Callable[[Snapshot], BaseModel]


class ResponseCache:
    """One response, kept until the memory changes."""

    def __init__(self, current: Callable[[], Snapshot], compute: Report) -> None:
        self._current = current
        self._compute = compute
        self._lock = Lock()
        self._cached: tuple[Snapshot, str] | None = None

    def __call__(self) -> str:
        with self._lock:
            snapshot = self._current()
            if self._cached is None or self._cached[0] is not snapshot:
                self._cached = snapshot, self._compute(snapshot).model_dump_json()
            return self._cached[1]

    def clear(self) -> None:
        with self._lock:
            self._cached = None


def step_to_undo(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.can_be_undone), None)


def describe_step(step: Step) -> str:
    """Return what was done, and to what."""
    return f"{step.action} {step.summary}".strip()


def list_labels(
    snapshot: Snapshot, steps: Sequence[Step], *, private: bool
) -> schemas.LabelsResponse:
    step = step_to_undo(steps)
    undo = step and schemas.ChangeSummary(action=step.action, text=describe_step(step))
    settings = snapshot.settings if snapshot.revision else None
    expects = settings is not None and "strangers" in snapshot.abilities
    return schemas.LabelsResponse(
        revision=snapshot.revision,
        private=private,
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


def advise(snapshot: Snapshot) -> schemas.AdviceResponse:
    suggestions = snapshot.advise()
    return schemas.AdviceResponse(
        revision=snapshot.revision,
        alike=[schemas.SimilarityEntry(**pair._asdict()) for pair in suggestions.alike],
        more=[schemas.WantedEntry(**label._asdict()) for label in suggestions.more],
    )


def self_test(snapshot: Snapshot) -> schemas.SelfTestResponse:
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


def score(snapshot: Snapshot) -> schemas.ScoresResponse:
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


def report_unknown(snapshot: Snapshot) -> schemas.UnknownResponse:
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


REPORTS: tuple[Report, ...] = (advise, score, self_test, report_unknown)  # which take long
