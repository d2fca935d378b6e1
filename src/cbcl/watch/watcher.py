"""The watch: from frames to answers, and on to the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from cbcl.errors import MemoryFileError, PictureError
from cbcl.recognition.answer import Answer
from cbcl.recognition.recognizer import Recognizer
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.watch.frames import ProblemLog, WatchedFrame

RETRY_SECONDS = 1.0  # between two tries to read the memory


class Sighting(NamedTuple):
    """An answer to be told: about a new photo, or a changed one of a camera."""

    time: str  # UTC
    source: str  # path of the photo, or name of the camera
    answer: Answer

    def as_dict(self) -> dict[str, Any]:
        """Return time, source, label (None: unknown), confidence and more, for JSON."""
        fields = self.answer.as_dict()
        del fields["photo"]
        return {"time": self.time, "source": self.source, **fields}


class Agreement:
    """The latest answer that `frames` frames in a row gave.

    >>> agreement = Agreement(2)
    >>> [agreement.changes_to(label) for label in ["cup", "key", "key", "cup", "key", None, None]]
    [False, False, True, False, False, False, True]
    """

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._label: str | None = None  # of the latest frames; None: unknown
        self._count = 0
        self._agreed: tuple[str | None] | None = None  # None: nothing yet

    def changes_to(self, label: str | None) -> bool:
        """Count one more frame; tell whether it changes the answer agreed on."""
        self._count = self._count + 1 if label == self._label else 1
        self._label = label
        if self._count < self._frames or self._agreed == (label,):
            return False
        self._agreed = (label,)
        return True


@dataclass(kw_only=True)
class Watcher:
    """Watcher of frames: every function of `tell` gets the answers.

    With an agreement, an answer is told when it changes; without one, always. `keep` gets the
    frames with uncertain answers: unknown, or with a confidence below `min_confidence`; the latter
    do not count for the agreement. `announce` gets the labels, at the start and when they change.
    """

    recognizer: Recognizer
    problems: ProblemLog
    tell: Collection[Callable[[Sighting], None]]
    agreement: Agreement | None = None
    min_confidence: float = 0.5
    keep: Callable[[WatchedFrame, Sighting, EmbeddedPicture], None] | None = None
    announce: Callable[[Collection[str]], None] | None = None
    _labels: Collection[str] | None = field(default=None, init=False)  # None: not announced yet

    def watch(self, frames: Iterable[WatchedFrame]) -> None:
        """Answer all frames; report broken ones."""
        self._announce_labels()
        for frame in frames:
            try:
                picture, answer = self._recognize(frame)
            except PictureError as error:
                self.problems.report(frame.source, error.about(frame.source))
                continue
            self.problems.resolve(frame.source)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._take(frame, picture, Sighting(now, frame.source, answer))

    def _take(self, frame: WatchedFrame, picture: EmbeddedPicture, sighting: Sighting) -> None:
        answer = sighting.answer
        is_doubtful = answer.label is not None and answer.confidence < self.min_confidence
        if self.keep is not None and (is_doubtful or answer.label is None):
            self.keep(frame, sighting, picture)
        if self.agreement is not None and (
            is_doubtful or not self.agreement.changes_to(answer.label)
        ):
            return
        for tell in self.tell:
            tell(sighting)

    def _recognize(self, frame: WatchedFrame) -> tuple[EmbeddedPicture, Answer]:
        """Return picture and answer; while the memory cannot be read, wait for it."""
        memory = str(self.recognizer.path)
        while True:
            try:
                self._announce_labels()
                picture = self.recognizer.look([frame.data])[0]
                answer = self.recognizer.recognize(picture)
            except MemoryFileError as error:
                self.problems.report(memory, f"{error} Waiting for it.")
                time.sleep(RETRY_SECONDS)
                continue
            self.problems.resolve(memory)
            return picture, answer

    def _announce_labels(self) -> None:
        if self.announce is None:
            return
        labels = [*self.recognizer.labels()]
        if labels != self._labels:
            self._labels = labels
            self.announce(labels)
