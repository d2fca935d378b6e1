"""What stands in a memory's rows: numbers to bytes and back, checked both ways.

m centroids, d features. All numbers are little-endian.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import LabelError, MemoryFileError
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.concepts import Concepts
from cbcl.method.confidence import Spread

FLOAT32 = np.dtype("<f4")
INT64 = np.dtype("<i8")
MAX_LETTERS = 200  # of a label
MOST = 1 << 31  # of anything that is counted
MAX_JPEG = 1_000_000  # bytes of a small picture
TURNS = {
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}  # of the direction of writing
ENDS = " \t\r\n\u00a0" + "".join(sorted(TURNS))  # that are not part of a label


@dataclass(frozen=True)
class MemoryInfo:
    """What a memory is of, from its first day."""

    backbone: str
    fingerprint: str
    dimension: int
    private: bool  # no thumbnails, and no trace of its pictures elsewhere
    made: str  # by which version

    def as_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()


class Settings(NamedTuple):
    """What learning goes on with."""

    radius: float = inf
    n_voters: int = 1
    max_centroids: int | None = None


def as_settings(radius: object, n_voters: object, max_centroids: object, what: str) -> Settings:
    """Settings that somebody else may have made."""
    if (
        not isinstance(radius, float)
        or not radius >= 0.0
        or type(n_voters) is not int
        or not 0 < n_voters < MOST
        or (
            max_centroids is not None
            and (type(max_centroids) is not int or not 0 < max_centroids < MOST)
        )
    ):
        raise MemoryFileError(
            f"{what} goes on with impossible numbers: this was not written by cbcl."
        )
    return Settings(radius, n_voters, max_centroids)


def as_spread(n: object, total: object, squares: object, what: str) -> Spread:
    """A spread that somebody else may have made."""
    numbers = [
        number for number in (total, squares) if isinstance(number, float) and 0.0 <= number < inf
    ]
    if type(n) is not int or not 0 <= n < MOST or len(numbers) < 2:
        raise MemoryFileError(f"{what} has impossible distances: this was not written by cbcl.")
    return Spread(n, *numbers)


class StoredClass(NamedTuple):
    """What is known of a class."""

    concepts: Concepts
    spread: Spread


class StoredExample(NamedTuple):
    """An example of a class: a small picture, for people, and the vector of the picture it was made from."""

    centroid: int  # the nearest
    jpeg: bytes
    vector: Float32s
    rank: int = 0  # among those of its centroid: 0 is the nearest
    number: int = 0  # its own for good, whatever becomes of its class; 0: it was not written yet


def as_label(label: object) -> str:
    """A label as it is kept: any text on one line, in Unicode's composed form, since systems differ in theirs.

    >>> as_label(" café / key ")
    'café / key'
    """
    text = unicodedata.normalize("NFC", label).strip(ENDS) if isinstance(label, str) else ""
    kinds = {unicodedata.category(letter) for letter in text}
    if (
        len(text) > MAX_LETTERS
        or kinds & {"Cc", "Cs", "Zl", "Zp"}
        or TURNS & set(text)
        or not kinds - {"Cf", "Mn", "Zs"}
    ):
        raise LabelError(
            f"{label!r} cannot be a label: give a text of 1 to {MAX_LETTERS} letters on one line, without marks that "
            "control how it is shown."
        )
    if text.casefold() == "unknown":
        raise LabelError(f"{label!r} cannot be a label: it is what is answered when nothing fits.")
    return text


def checksum(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts' lengths and bytes."""
    whole = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(pack("<q", len(data)))
        whole.update(data)
    return whole.digest()


def read_about(value: bytes, path: Path) -> MemoryInfo:
    try:
        about = MemoryInfo(**json.loads(value))
        texts = (about.backbone, about.fingerprint, about.made)
        if (
            type(about.dimension) is not int
            or not 0 < about.dimension < 1 << 24
            or type(about.private) is not bool
        ):
            raise ValueError
        if not all(isinstance(text, str) for text in texts):
            raise ValueError
    except (TypeError, ValueError, RecursionError):
        raise MemoryFileError(
            f"{path} is damaged: what it says about itself makes no sense."
        ) from None
    return about


def write_stored(label: str, stored: StoredClass) -> tuple[bytes, bytes, bytes, bytes]:
    """Centroids, counts, spread, checksum."""
    blobs = (
        stored.concepts.centroids.astype(FLOAT32, copy=False).tobytes(),
        stored.concepts.counts.astype(INT64, copy=False).tobytes(),
        pack("<qdd", stored.spread.n, stored.spread.total, stored.spread.squares),
    )
    return *blobs, checksum(label, *blobs)


def read_stored(row: tuple[Any, ...], label: str, about: MemoryInfo, what: str) -> StoredClass:
    centroids, counts, spread, found = row
    if checksum(label, centroids, counts, spread) != found:
        raise MemoryFileError(
            f"{what} is damaged: forget it and learn it again, or restore a copy of the file."
        )
    m = len(counts) // INT64.itemsize
    sizes = (m * about.dimension * FLOAT32.itemsize, m * INT64.itemsize, 24)
    if m < 1 or (len(centroids), len(counts), len(spread)) != sizes:
        raise MemoryFileError(f"{what} has the wrong size: this file was not written by cbcl.")
    concepts = Concepts(
        read_only(
            np.frombuffer(centroids, FLOAT32)
            .astype(np.float32, copy=False)
            .reshape(m, about.dimension)
        ),
        read_only(np.frombuffer(counts, INT64).astype(np.int64, copy=False)),
    )
    counted = int(concepts.counts.min()) > 0 and float(concepts.counts.sum(dtype=np.float64)) < MOST
    if not counted or not np.isfinite(concepts.centroids).all():
        raise MemoryFileError(
            f"{what} holds impossible numbers: this file was not written by cbcl."
        )
    n, total, squares = unpack("<qdd", spread)
    return StoredClass(concepts, as_spread(n, total, squares, what))


def write_step(
    time: str, action: str, about: Mapping[str, object], settings: Settings
) -> tuple[Any, ...]:
    """Time, action, about, the settings, checksum."""
    text = json.dumps(about)
    return time, action, text, *settings, _step_checksum(time, action, text, settings)


def read_step(row: Sequence[Any], what: str) -> tuple[str, str, dict[str, Any], Settings]:
    time, action, text, radius, n_voters, max_centroids, found = row
    settings = as_settings(radius, n_voters, max_centroids, what)
    about = json.loads(text)
    if _step_checksum(time, action, text, settings) != found or not isinstance(about, dict):
        raise MemoryFileError(
            f"{what} is damaged: its history is not what was written. Restore a copy of the file."
        )
    return time, action, about, settings


def _step_checksum(time: str, action: str, text: str, settings: Settings) -> bytes:
    numbers = pack("<dqq", settings.radius, settings.n_voters, settings.max_centroids or 0)
    return checksum(time, action, text, numbers)


def write_picture(thumbnail: StoredExample) -> tuple[bytes, bytes, bytes]:
    """Its JPEG, its vector, checksum."""
    vector = thumbnail.vector.astype(FLOAT32, copy=False).tobytes()
    return thumbnail.jpeg, vector, checksum(thumbnail.jpeg, vector)


def read_thumbnail(row: tuple[Any, ...], about: MemoryInfo, what: str) -> StoredExample:
    """Of picture, centroid, rank, JPEG, vector, checksum."""
    number, centroid, rank, jpeg, blob, found = row
    if checksum(jpeg, blob) != found or len(blob) != about.dimension * FLOAT32.itemsize:
        raise MemoryFileError(
            f"{what} is damaged: forget the class and learn it again, or restore a copy of the file."
        )
    vector = read_only(np.frombuffer(blob, FLOAT32).astype(np.float32, copy=False))
    if not np.isfinite(vector).all() or centroid < 0 or rank < 0 or len(jpeg) > MAX_JPEG:
        raise MemoryFileError(f"{what} is impossible: this file was not written by cbcl.")
    return StoredExample(centroid, jpeg, vector, rank, number)
