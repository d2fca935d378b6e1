"""What stands in a memory's rows: numbers to bytes and back, checked both ways.

m centroids, d features. All numbers are little-endian.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import LabelError, MemoryFileError
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.certainty import Spread
from cbcl.method.concepts import Concepts

FLOAT32 = np.dtype("<f4")
INT64 = np.dtype("<i8")
MOST_LETTERS = 200  # of a label


@dataclass(frozen=True)
class About:
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


class Stored(NamedTuple):
    """What is known of a class."""

    concepts: Concepts
    spread: Spread


class Thumbnail(NamedTuple):
    """A small picture, for people, and the vector of the picture it was made from."""

    centroid: int
    jpeg: bytes
    vector: Float32s


def as_label(label: object) -> str:
    """A label as it is kept: any text on one line, in Unicode's composed form, since systems differ in theirs.

    >>> as_label(" café / key ")
    'café / key'
    """
    text = unicodedata.normalize("NFC", label).strip() if isinstance(label, str) else ""
    if not text or len(text) > MOST_LETTERS or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise LabelError(f"{label!r} cannot be a label: give a text of 1 to {MOST_LETTERS} letters on one line.")
    return text


def checksum(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts' lengths and bytes."""
    whole = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(pack("<q", len(data)))
        whole.update(data)
    return whole.digest()


def read_about(value: bytes, path: Path) -> About:
    try:
        about = About(**json.loads(value))
        if not (
            0 < about.dimension < 1 << 24 and isinstance(about.backbone, str) and isinstance(about.fingerprint, str)
        ):
            raise ValueError
    except (TypeError, ValueError):
        raise MemoryFileError(f"{path} is damaged: what it says about itself makes no sense.") from None
    return about


def write_stored(label: str, stored: Stored) -> tuple[bytes, bytes, bytes, bytes]:
    """Centroids, counts, spread, checksum."""
    blobs = (
        stored.concepts.centroids.astype(FLOAT32, copy=False).tobytes(),
        stored.concepts.counts.astype(INT64, copy=False).tobytes(),
        pack("<qdd", stored.spread.n, stored.spread.total, stored.spread.squares),
    )
    return *blobs, checksum(label, *blobs)


def read_stored(row: tuple[Any, ...], label: str, about: About, what: str) -> Stored:
    centroids, counts, spread, found = row
    if checksum(label, centroids, counts, spread) != found:
        raise MemoryFileError(f"{what} is damaged: forget it and learn it again, or restore a copy of the file.")
    m = len(counts) // INT64.itemsize
    sizes = (m * about.dimension * FLOAT32.itemsize, m * INT64.itemsize, 24)
    if m < 1 or (len(centroids), len(counts), len(spread)) != sizes:
        raise MemoryFileError(f"{what} has the wrong size: this file was not written by cbcl.")
    concepts = Concepts(
        read_only(np.frombuffer(centroids, FLOAT32).astype(np.float32, copy=False).reshape(m, about.dimension)),
        read_only(np.frombuffer(counts, INT64).astype(np.int64, copy=False)),
    )
    if not np.isfinite(concepts.centroids).all() or concepts.counts.min() < 1:
        raise MemoryFileError(f"{what} holds impossible numbers: this file was not written by cbcl.")
    return Stored(concepts, Spread(*unpack("<qdd", spread)))


def write_thumbnail(thumbnail: Thumbnail) -> tuple[int, bytes, bytes, bytes]:
    vector = thumbnail.vector.astype(FLOAT32, copy=False).tobytes()
    return thumbnail.centroid, thumbnail.jpeg, vector, checksum(thumbnail.jpeg, vector)


def read_thumbnail(row: tuple[Any, ...], about: About, what: str) -> Thumbnail:
    centroid, jpeg, vector, found = row
    if checksum(jpeg, vector) != found or len(vector) != about.dimension * FLOAT32.itemsize:
        raise MemoryFileError(f"{what} is damaged: forget the class and learn it again, or restore a copy of the file.")
    return Thumbnail(centroid, jpeg, read_only(np.frombuffer(vector, FLOAT32).astype(np.float32, copy=False)))
