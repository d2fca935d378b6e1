"""Examples: small pictures of what was learned, for people to look at, and to take one back."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from cbcl.errors import PictureError
from cbcl.memory.rows import StoredExample
from cbcl.method.arrays import Float32s
from cbcl.method.concepts import Concepts
from cbcl.method.search import Index, nearest
from cbcl.vision.decoding import load, name_of

SIDE = 128  # pixels
QUALITY = 80  # of the JPEG
PER_CENTROID = 3  # of the nearest are always kept
FIRST = 100  # of a class are kept, whatever they are near to


@dataclass(frozen=True)
class EmbeddedPicture:
    """A picture that was looked at: all that is needed to learn it or to recognize it."""

    vector: Float32s
    jpeg: bytes  # small; empty: there is no picture to show, or none may be kept
    fingerprint: str  # of the backbone that saw it


class ExampleCandidate(NamedTuple):
    """A picture that may be shown for a centroid: one already small, or one to be made small."""

    picture: StoredExample | Any
    vector: Float32s


def select(shown: Sequence[ExampleCandidate], concepts: Concepts) -> list[StoredExample]:
    """Of the pictures of a class, those to keep, in the order given, which is that of learning.

    These are its first, and those nearest to each of its centroids.
    """
    if not shown:
        return []
    vectors = np.stack([one.vector for one in shown])
    centroids, distances = (column[:, 0] for column in nearest(vectors, Index([concepts]), 1))
    kept: dict[int, StoredExample] = {}
    taken = np.zeros(len(concepts.counts), dtype=np.int64)
    for i in np.argsort(distances, kind="stable").tolist():
        centroid = int(centroids[i])
        if i >= FIRST and taken[centroid] >= PER_CENTROID:
            continue
        picture, vector = shown[i]
        with suppress(PictureError):  # a file that is gone already has been seen all the same
            old = isinstance(picture, StoredExample)
            jpeg, number = (picture.jpeg, picture.number) if old else (thumbnail_of(picture), 0)
            kept[i] = StoredExample(centroid, jpeg, vector, int(taken[centroid]), number)
            taken[centroid] += 1
    return [kept[i] for i in sorted(kept)]


def thumbnail_of(source: Any) -> bytes:
    """A small JPEG of a picture, without what a camera writes about it."""
    if isinstance(source, EmbeddedPicture):
        if not source.jpeg:
            raise PictureError("of a picture that was looked at, nothing small was made.")
        return source.jpeg
    picture = load(source, name_of(source, 0), SIDE)
    share = SIDE / max(picture.size)
    if share < 1.0:
        width, height = (max(1, round(share * side)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=QUALITY, exif=b"", icc_profile=None)
    return file.getvalue()
