"""Inbox: a folder of uncertain frames with their answers, kept until a person names them."""

from __future__ import annotations

import json
import re
from collections import deque
from pathlib import Path

import numpy as np

from cbcl.errors import PictureError, reason
from cbcl.files import write_atomically
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.directions import as_directions
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.watch.frames import ProblemLog, WatchedFrame
from cbcl.watch.watcher import Sighting

MAX_NAME = 60  # letters of the source in the name of a file
SUFFIXES = (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


class Inbox:
    """A folder of at most `limit` frames; the oldest make room for new ones.

    The answer to `NAME.jpg` is in the hidden file `.NAME.jpg.json`; only files with such a file
    beside them are ever removed. A near-copy of a recent frame is not kept: the cosine of the two
    is at least `copy_cosine`.
    """

    def __init__(
        self, folder: Path, problems: ProblemLog, *, limit: int, copy_cosine: float
    ) -> None:
        self._folder = folder
        self._problems = problems
        self._limit = limit
        self._copy_cosine = copy_cosine
        self._kept: deque[Float32s] = deque(maxlen=limit)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PictureError(folder, f"cannot be made a folder ({reason(error)})") from error

    def put(self, frame: WatchedFrame, sighting: Sighting, picture: EmbeddedPicture) -> None:
        """Keep a frame unless it is a near-copy; report a failure to write."""
        direction = as_directions(picture.vector[None])[0]
        direction /= float(np.linalg.norm(direction)) or 1.0
        if any(float(kept @ direction) >= self._copy_cosine for kept in self._kept):
            return
        photo = self._folder / _file_name(sighting)
        try:
            answer = json.dumps(sighting.as_dict(), ensure_ascii=False)
            write_atomically(_answer_file(photo), answer.encode())
            write_atomically(photo, frame.data)
            self._make_room()
        except OSError as error:
            problem = PictureError(self._folder, f"cannot be written to ({reason(error)})")
            self._problems.report(str(self._folder), problem)
            return
        self._problems.resolve(str(self._folder))
        self._kept.append(direction)

    def _make_room(self) -> None:
        """Remove the oldest frames above the limit, and answers whose photos are gone."""
        photos = []
        for answer in sorted(self._folder.glob(".*.json")):
            photo = answer.with_name(answer.name[1:].removesuffix(".json"))
            if photo.exists():
                photos.append(photo)
            else:
                answer.unlink(missing_ok=True)
        for photo in photos[: -self._limit]:
            photo.unlink(missing_ok=True)
            _answer_file(photo).unlink(missing_ok=True)


def _answer_file(photo: Path) -> Path:
    return photo.with_name(f".{photo.name}.json")


def _file_name(sighting: Sighting) -> str:
    """Return a name that sorts by time and has the source: 20261116T152050.123-door.jpg."""
    time = re.sub(r"[-:]|\+.*", "", sighting.time)
    source = re.sub(r"[^\w.-]+", "_", re.split(r"[\\/]", sighting.source.rstrip("/"))[-1])
    name = f"{time}-{source[-MAX_NAME:]}"
    return name if Path(name).suffix.lower() in SUFFIXES else f"{name}.jpg"
