"""Rows of a memory file, as bytes: packed and unpacked, checked both ways.

All numbers are little-endian. What the bytes of a class mean, its head knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np

from cbcl.errors import PluginError
from cbcl.heads.base import (
    Blobs,
    ClassSummary,
    ExamplePlaces,
    Head,
    Settings,
    StoredExample,
    find_head,
    head_names,
)
from cbcl.memory.rows import (
    ANY_PLACE,
    DAMAGE,
    MAX_DIMENSION,
    MemoryInfo,
    are_all,
    as_settings,
    check_picture,
    check_place,
    check_settings,
    damaged,
    damaged_class,
    invalid,
    show_label,
    tells_a_step,
)
from cbcl.method.arrays import read_only
from cbcl.method.discriminant.measured import unpack_measured

FLOAT32 = np.dtype("<f4")


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


def pack_class(label: str, known: Any, head: Head[Any]) -> tuple[bytes | None, ...]:
    """Return the columns of a class and their checksum; ValueError: it could not be read again."""
    blobs = head.pack(known)
    return *blobs, checksum(label, *_present(blobs))


def unpack_class(
    row: Sequence[Any], label: str, head: Head[Any], about: MemoryInfo, path: Path
) -> Any:
    """Read the columns of a class, and their checksum."""
    blobs = _check_blobs(row, label, path)
    try:
        return head.unpack(blobs, about.dimension)
    except ValueError:
        raise invalid(path, f"data of {show_label(label)!r}") from None


def unpack_earlier(row: Sequence[Any], label: str, about: MemoryInfo, path: Path) -> ClassSummary:
    """Read a class of a state before, when the memory may have had another head."""
    blobs = _check_blobs(row, label, path)
    for name in head_names():
        with suppress(ValueError, PluginError):
            head = find_head(name)
            return head.summarize(head.unpack(blobs, about.dimension))
    raise invalid(path, f"data of {show_label(label)!r}")


def _check_blobs(row: Sequence[Any], label: str, path: Path) -> Blobs:
    *columns, expected = row
    blobs = Blobs(*columns)
    kept = _present(blobs)
    if not are_all(bytes, *kept) or checksum(label, *kept) != expected or None in blobs[:3]:
        raise damaged_class(path, "what is known of", label)
    return blobs


def _present(blobs: Blobs) -> list[bytes]:
    return [blob for blob in blobs if blob is not None]


def pack_step(
    time: str, action: str, about: Mapping[str, object], settings: Settings
) -> tuple[Any, ...]:
    """Return time, action, about, the settings, checksum.

    ValueError: they could not be read again.
    """
    text = json.dumps(about)
    check_settings(settings)
    find_head(settings.head)
    if not tells_a_step(about):
        raise ValueError(f"{text} does not tell a step")
    return time, action, text, *settings, step_checksum(time, action, text, settings)


def unpack_step(row: Sequence[Any], path: Path) -> tuple[str, str, dict[str, Any], Settings]:
    """Read time, action, about, the settings, checksum."""
    time, action, text, *values, expected = row
    settings = as_settings(values, path)
    try:
        about = json.loads(text)
        if step_checksum(time, action, text, settings) != expected or not tells_a_step(about):
            raise ValueError
    except DAMAGE:
        raise damaged(path, "its history is not what was written") from None
    return time, action, about, settings


def step_checksum(time: str, action: str, text: str, settings: Settings) -> bytes:
    numbers = pack("<dqq", settings.radius, settings.n_voters, settings.max_centroids or 0)
    # Settings of later formats are left out where they are what these formats begin with.
    before = Settings()
    later = ((settings.head, before.head), (settings.strangers, before.strangers))
    return checksum(time, action, text, numbers, *[own for own, first in later if own != first])


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
    """Read number, place, rank, JPEG, vector, checksum."""
    number, place, rank, jpeg, blob, expected = row
    if (
        not are_all(bytes, jpeg, blob)
        or checksum(jpeg, blob) != expected
        or len(blob) % FLOAT32.itemsize
    ):
        raise damaged_class(path, "a thumbnail of", label)
    vector = read_only(np.frombuffer(blob, FLOAT32).astype(np.float32, copy=False))
    example = StoredExample(place, jpeg, vector, rank, number)
    try:
        check_picture(jpeg, vector, about)
        check_place(example, places)
    except ValueError:
        raise invalid(path, f"thumbnails of {show_label(label)!r}") from None
    return example
