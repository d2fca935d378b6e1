"""Rows of a memory file, as bytes: packed and unpacked, checked both ways.

m centroids, d features. All numbers are little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack
from typing import Any

import numpy as np

from cbcl.heads.discriminant.blob import pack_sketches, pack_statistics, unpack_statistics
from cbcl.memory.rows import (
    ANY_PLACE,
    DAMAGE,
    MAX_DIMENSION,
    ClassRow,
    ExamplePlaces,
    MemoryInfo,
    Settings,
    StoredClass,
    StoredExample,
    StoredStatistics,
    are_all,
    as_settings,
    check_picture,
    check_place,
    check_settings,
    check_vote,
    damaged,
    damaged_class,
    invalid,
    show_label,
    tells_a_step,
)
from cbcl.method.arrays import read_only
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Spread
from cbcl.method.discriminant.measured import unpack_measured
from cbcl.method.discriminant.open_set import DEFAULT_STRANGERS

FLOAT32 = np.dtype("<f4")
INT64 = np.dtype("<i8")
SPREAD = "<qdd"  # n, total, squares


def checksum(*parts: bytes | str) -> bytes:
    """Return the SHA-256 of the parts' lengths and bytes."""
    whole = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(pack("<q", len(data)))
        whole.update(data)
    return whole.digest()


def unpack_info(value: bytes, path: Path) -> MemoryInfo:
    try:
        about = MemoryInfo(**json.loads(value))
        texts = (about.backbone, about.fingerprint, about.made)
        if not all(isinstance(text, str) for text in texts) or type(about.private) is not bool:
            raise ValueError
        if type(about.dimension) is not int or not 0 < about.dimension < MAX_DIMENSION:
            raise ValueError
        if about.measured is not None:
            unpack_measured(about.measured, about.dimension)
    except DAMAGE:
        raise damaged(path, "its description is invalid") from None
    return about


def pack_class(label: str, stored: ClassRow) -> tuple[bytes | None, ...]:
    """Return centroids, counts, spread, sketches, statistics, checksum.

    ValueError: they could not be read again.
    """
    if isinstance(stored, StoredStatistics):
        kept = stored.statistics
        blobs = (b"", b"", b"", pack_sketches(kept.sketches), pack_statistics(kept))
        return *blobs, checksum(label, *blobs)
    check_vote(stored)
    vote = (
        stored.concepts.centroids.astype(FLOAT32, copy=False).tobytes(),
        stored.concepts.counts.astype(INT64, copy=False).tobytes(),
        pack(SPREAD, stored.spread.n, stored.spread.total, stored.spread.squares),
    )
    return *vote, None, None, checksum(label, *vote)


def unpack_class(row: Sequence[Any], label: str, about: MemoryInfo, path: Path) -> ClassRow:
    """Read centroids, counts, spread, sketches, statistics, checksum."""
    *blobs, expected = row
    kept = [blob for blob in blobs if blob is not None]
    if not are_all(bytes, *kept) or checksum(label, *kept) != expected or None in blobs[:3]:
        raise damaged_class(path, "what is known of", label)
    *vote, sketches, statistics = blobs
    if sketches is None and statistics is None:
        return _unpack_vote(vote, label, about, path)
    try:
        if any(vote) or sketches is None or statistics is None:
            raise ValueError("it is of the vote, too")
        return StoredStatistics(unpack_statistics(statistics, sketches, about.dimension))
    except ValueError:
        raise invalid(path, f"data of {show_label(label)!r}") from None


def _unpack_vote(blobs: Sequence[bytes], label: str, about: MemoryInfo, path: Path) -> StoredClass:
    centroids, counts, spread = blobs
    m = len(counts) // INT64.itemsize
    sizes = (m * about.dimension * FLOAT32.itemsize, m * INT64.itemsize, 24)
    if m < 1 or (len(centroids), len(counts), len(spread)) != sizes:
        raise invalid(path, f"data of {label!r}")
    matrix = np.frombuffer(centroids, FLOAT32).astype(np.float32, copy=False)
    concepts = Concepts(
        read_only(matrix.reshape(m, about.dimension)),
        read_only(np.frombuffer(counts, INT64).astype(np.int64, copy=False)),
    )
    stored = StoredClass(concepts, Spread(*unpack(SPREAD, spread)))
    try:
        check_vote(stored)
    except ValueError:
        raise invalid(path, f"numbers for {label!r}") from None
    return stored


def pack_step(
    time: str, action: str, about: Mapping[str, object], settings: Settings
) -> tuple[Any, ...]:
    """Return time, action, about, the settings, checksum.

    ValueError: they could not be read again.
    """
    text = json.dumps(about)
    check_settings(*settings)
    if not tells_a_step(about):
        raise ValueError(f"{text} does not tell a step")
    return time, action, text, *settings, step_checksum(time, action, text, settings)


def unpack_step(row: Sequence[Any], path: Path) -> tuple[str, str, dict[str, Any], Settings]:
    """Read time, action, about, the settings, checksum."""
    time, action, text, radius, n_voters, max_centroids, head, strangers, expected = row
    settings = as_settings(radius, n_voters, max_centroids, head, strangers, path)
    try:
        about = json.loads(text)
        if step_checksum(time, action, text, settings) != expected or not tells_a_step(about):
            raise ValueError
    except DAMAGE:
        raise damaged(path, "its history is not what was written") from None
    return time, action, about, settings


def step_checksum(time: str, action: str, text: str, settings: Settings) -> bytes:
    numbers = pack("<dqq", settings.radius, settings.n_voters, settings.max_centroids or 0)
    # Settings of later formats are left out where they are as before.
    head = () if settings.head == "vote" else (settings.head,)
    strangers = () if settings.strangers == DEFAULT_STRANGERS else (settings.strangers,)
    return checksum(time, action, text, numbers, *head, *strangers)


def pack_picture(example: StoredExample, about: MemoryInfo) -> tuple[bytes, bytes, bytes]:
    """Return JPEG, vector, checksum; ValueError: they could not be read again."""
    check_picture(example.jpeg, example.vector, about)
    vector = example.vector.astype(FLOAT32, copy=False).tobytes()
    return example.jpeg, vector, checksum(example.jpeg, vector)


def unpack_example(
    row: Sequence[Any],
    label: str,
    about: MemoryInfo,
    path: Path,
    places: ExamplePlaces = ANY_PLACE,
) -> StoredExample:
    """Read picture, centroid, rank, JPEG, vector, checksum."""
    number, centroid, rank, jpeg, blob, expected = row
    if (
        not are_all(bytes, jpeg, blob)
        or checksum(jpeg, blob) != expected
        or len(blob) % FLOAT32.itemsize
    ):
        raise damaged_class(path, "a thumbnail of", label)
    vector = read_only(np.frombuffer(blob, FLOAT32).astype(np.float32, copy=False))
    example = StoredExample(centroid, jpeg, vector, rank, number)
    try:
        check_picture(jpeg, vector, about)
        check_place(example, places)
    except ValueError:
        raise invalid(path, f"thumbnails of {show_label(label)!r}") from None
    return example
