"""Thumbnails: for each centroid a few small pictures of those nearest to it, for people to look at."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from cbcl.errors import PictureError
from cbcl.memory.records import Thumbnail
from cbcl.method.arrays import Float32s
from cbcl.method.concepts import Concepts
from cbcl.method.search import Index, in_blocks, nearest
from cbcl.vision.pictures import load, name_of

SIDE = 128  # pixels
QUALITY = 80  # of the JPEG
PER_CENTROID = 3


class Shown(NamedTuple):
    """A picture that may be shown for a centroid: one already small, or one to be made small."""

    picture: Thumbnail | Any
    vector: Float32s


def select(shown: Sequence[Shown], concepts: Concepts) -> list[Thumbnail]:
    """Of the pictures of a class, those nearest to each of its centroids, the nearest first."""
    if not shown:
        return []
    vectors = np.stack([one.vector for one in shown])
    centroids, distances = np.empty(len(shown), dtype=np.int64), np.empty(len(shown))
    for rows, found in in_blocks(vectors, Index([concepts]), 1, nearest):
        centroids[rows], distances[rows] = found.indices[:, 0], found.distances[:, 0]
    kept: list[Thumbnail] = []
    taken = np.zeros(len(concepts.counts), dtype=np.int64)
    for i in np.argsort(distances, kind="stable").tolist():
        centroid = int(centroids[i])
        if taken[centroid] == PER_CENTROID:
            continue
        picture = shown[i].picture
        with suppress(PictureError):  # a file that is gone already has been seen all the same
            jpeg = picture.jpeg if isinstance(picture, Thumbnail) else thumbnail_of(picture)
            kept.append(Thumbnail(centroid, jpeg, shown[i].vector))
            taken[centroid] += 1
    return kept


def thumbnail_of(source: Any) -> bytes:
    """A small JPEG of a picture, without what a camera writes about it."""
    picture = load(source, name_of(source, 0), SIDE).copy()
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=QUALITY, exif=b"", icc_profile=None)
    return file.getvalue()
