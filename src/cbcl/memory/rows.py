"""Rows of a memory file: values to bytes and back, checked both ways.

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
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from cbcl.errors import LabelError, MemoryFileError
from cbcl.memory.statistics_blob import (
    MAX_COUNT,
    pack_sketches,
    pack_statistics,
    unpack_statistics,
)
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.concepts import Concepts
from cbcl.method.confidence import Spread
from cbcl.method.statistics import ClassStatistics

FLOAT32 = np.dtype("<f4")
INT64 = np.dtype("<i8")
SPREAD = "<qdd"  # n, total, squares
HEADS = ("vote", "discriminant")
NEGATIVES = ""  # label of the pictures that were taught as none of the labels
MAX_LETTERS = 200  # of a label
MAX_DIMENSION = 1 << 24
MAX_JPEG = 1 << 16  # bytes of a thumbnail: of 128 pixels a side, none has a quarter of that
DIRECTION_MARKS = {*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
STRIPPED = " \t\r\n\u00a0" + "".join(sorted(DIRECTION_MARKS))  # from the ends of a label
FORBIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories of letters that no label has
DAMAGE = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)  # if not checked
INVISIBLE = {"Cf", "Mn", "Zs"}  # categories of letters that no label has alone


@dataclass(frozen=True)
class MemoryInfo:
    """Constants of a memory, written when it is made."""

    backbone: str
    fingerprint: str
    dimension: int
    private: bool  # no thumbnails, and no trace of its pictures elsewhere
    made: str  # by which version

    def as_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()


class Settings(NamedTuple):
    """Settings of a memory, for the next pictures to be learned and for the vote."""

    radius: float = inf
    n_voters: int = 1
    max_centroids: int | None = None
    head: str = "vote"  # or "discriminant"


class StoredClass(NamedTuple):
    """A class as the vote stores it."""

    concepts: Concepts
    spread: Spread


class StoredStatistics(NamedTuple):
    """A class, or the negatives, as the discriminant stores it."""

    statistics: ClassStatistics


ClassRow: TypeAlias = StoredClass | StoredStatistics


class StoredExample(NamedTuple):
    """An example of a class: a thumbnail, for people, and the vector of the whole picture.

    The discriminant keeps vectors in the statistics, and none here.
    """

    centroid: int  # the nearest; for the discriminant, how many views of its class are older
    jpeg: bytes
    vector: Float32s  # (d,) or (0,)
    rank: int = 0  # among those of its centroid: 0 is the nearest
    number: int = 0  # permanent, even when its class is rewritten; 0: not written yet


class ExamplePlaces(NamedTuple):
    """Places in a class that its examples can have."""

    size: int = MAX_COUNT  # centroids, or views
    need_vectors: bool = False  # as those of the vote do


ANY_PLACE = ExamplePlaces()  # of a class of which nothing is known


def as_settings(
    radius: object, n_voters: object, max_centroids: object, head: object, path: Path
) -> Settings:
    """Check settings that somebody else may have written."""
    try:
        return _check_settings(radius, n_voters, max_centroids, head)
    except ValueError:
        raise _invalid(path, "settings") from None


def _check_settings(
    radius: object, n_voters: object, max_centroids: object, head: object
) -> Settings:
    if not isinstance(head, str) or head not in HEADS:
        raise ValueError(f"there is no head {head!r}")
    if max_centroids is not None and not _is_count(max_centroids):
        raise ValueError(f"max_centroids={max_centroids!r} is not a number below {MAX_COUNT}")
    if not _is_count(n_voters):
        raise ValueError(f"n_voters={n_voters!r} is not a number below {MAX_COUNT}")
    if not isinstance(radius, float) or not radius >= 0.0:
        raise ValueError(f"radius={radius!r} is not a distance")
    return Settings(radius, n_voters, max_centroids, head)


def as_spread(n: object, total: object, squares: object, path: Path) -> Spread:
    """Check a spread that somebody else may have written."""
    try:
        return _check_spread(n, total, squares)
    except ValueError:
        raise _invalid(path, "distances") from None


def _check_spread(n: object, total: object, squares: object) -> Spread:
    sums = [value for value in (total, squares) if isinstance(value, float) and 0.0 <= value < inf]
    if type(n) is not int or not 0 <= n < MAX_COUNT or len(sums) < 2:
        raise ValueError(f"the distances of {n} pictures cannot add up to {total} and {squares}")
    return Spread(n, *sums)


def _are(kind: type, *values: object) -> bool:
    """Tell whether all values are of a type: a few wrong bits make them of any other."""
    return all(isinstance(value, kind) for value in values)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value < MAX_COUNT


def _invalid(path: Path, data: str) -> MemoryFileError:
    return MemoryFileError(path, f"contains invalid {data} and was not written by cbcl")


def damaged(path: Path, problem: str) -> MemoryFileError:
    """Return the error for a file that is not what was written."""
    return MemoryFileError(path, f"is damaged, since {problem}", "restore a copy of the file")


def damaged_class(path: Path, part: str, label: str) -> MemoryFileError:
    """Return the error for a part of a class that is not what was written."""
    name = show_label(label)
    advice = f"forget {name!r} and learn it again, or restore a copy of the file"
    return MemoryFileError(path, f"cannot be used, since {part} {name!r} is damaged", advice)


def show_label(label: str) -> str:
    """Return a label as people read it: that of the negatives is empty."""
    return "none of these" if label == NEGATIVES else label


def as_label(label: object) -> str:
    """Return a label as it is kept: one line of text, in Unicode's composed form.

    >>> as_label(" café / key ")
    'café / key'
    """
    text = unicodedata.normalize("NFC", label).strip(STRIPPED) if isinstance(label, str) else ""
    categories = {unicodedata.category(letter) for letter in text}
    unfit = categories & FORBIDDEN or DIRECTION_MARKS & set(text) or not categories - INVISIBLE
    if unfit or len(text) > MAX_LETTERS:
        advice = (
            f"give a text of 1 to {MAX_LETTERS} letters on one line, without marks that control"
            " how it is shown"
        )
        raise LabelError(repr(label), "cannot be a label", advice)
    if text.casefold() == "unknown":
        advice = "it is the answer when nothing fits"
        raise LabelError(repr(label), "cannot be a label", advice)
    return text


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
    _check_vote(stored)
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
    if not _are(bytes, *kept) or checksum(label, *kept) != expected or None in blobs[:3]:
        raise damaged_class(path, "what is known of", label)
    *vote, sketches, statistics = blobs
    if sketches is None and statistics is None:
        return _unpack_vote(vote, label, about, path)
    try:
        if any(vote) or sketches is None or statistics is None:
            raise ValueError("it is of the vote, too")
        return StoredStatistics(unpack_statistics(statistics, sketches, about.dimension))
    except ValueError:
        raise _invalid(path, f"data of {show_label(label)!r}") from None


def _unpack_vote(blobs: Sequence[bytes], label: str, about: MemoryInfo, path: Path) -> StoredClass:
    centroids, counts, spread = blobs
    m = len(counts) // INT64.itemsize
    sizes = (m * about.dimension * FLOAT32.itemsize, m * INT64.itemsize, 24)
    if m < 1 or (len(centroids), len(counts), len(spread)) != sizes:
        raise _invalid(path, f"data of {label!r}")
    matrix = np.frombuffer(centroids, FLOAT32).astype(np.float32, copy=False)
    concepts = Concepts(
        read_only(matrix.reshape(m, about.dimension)),
        read_only(np.frombuffer(counts, INT64).astype(np.int64, copy=False)),
    )
    stored = StoredClass(concepts, Spread(*unpack(SPREAD, spread)))
    try:
        _check_vote(stored)
    except ValueError:
        raise _invalid(path, f"numbers for {label!r}") from None
    return stored


def _check_vote(stored: StoredClass) -> None:
    """Raise ValueError for a class that no learning gives."""
    counts, spread = stored.concepts.counts, stored.spread
    total = float(counts.sum(dtype=np.float64))
    if not len(counts) or counts.min() < 1 or total >= MAX_COUNT:
        raise ValueError(f"{len(counts)} centroids cannot be of {total:.0f} pictures")
    if not np.isfinite(stored.concepts.centroids).all():
        raise ValueError("a centroid is not finite")
    _check_spread(spread.n, spread.total, spread.squares)


def check_head(stored: ClassRow, settings: Settings, label: str, path: Path) -> ClassRow:
    """Return a class that is of the head of its memory."""
    if isinstance(stored, StoredStatistics) != (settings.head == "discriminant"):
        raise _invalid(path, f"data of {show_label(label)!r}")
    return stored


def pack_step(
    time: str, action: str, about: Mapping[str, object], settings: Settings
) -> tuple[Any, ...]:
    """Return time, action, about, the settings, checksum.

    ValueError: they could not be read again.
    """
    text = json.dumps(about)
    _check_settings(*settings)
    if not _tells_a_step(about):
        raise ValueError(f"{text} does not tell a step")
    return time, action, text, *settings, _step_checksum(time, action, text, settings)


def unpack_step(row: Sequence[Any], path: Path) -> tuple[str, str, dict[str, Any], Settings]:
    """Read time, action, about, the settings, checksum."""
    time, action, text, radius, n_voters, max_centroids, head, expected = row
    settings = as_settings(radius, n_voters, max_centroids, head, path)
    try:
        about = json.loads(text)
        if _step_checksum(time, action, text, settings) != expected or not _tells_a_step(about):
            raise ValueError
    except DAMAGE:
        raise damaged(path, "its history is not what was written") from None
    return time, action, about, settings


def _tells_a_step(about: object) -> bool:
    """Tell whether a line of history has texts, lists of texts, and counts of pictures only."""
    if not isinstance(about, Mapping):
        return False
    pictures, labels = about.get("pictures", {}), about.get("labels", [])
    others = (value for key, value in about.items() if key not in ("pictures", "labels"))
    return (
        isinstance(pictures, dict)
        and isinstance(labels, list)
        and _are(int, *pictures.values())
        and _are(str, *labels, *others)
    )


def _step_checksum(time: str, action: str, text: str, settings: Settings) -> bytes:
    numbers = pack("<dqq", settings.radius, settings.n_voters, settings.max_centroids or 0)
    head = () if settings.head == "vote" else (settings.head,)  # as before there were two
    return checksum(time, action, text, numbers, *head)


def pack_picture(example: StoredExample, about: MemoryInfo) -> tuple[bytes, bytes, bytes]:
    """Return JPEG, vector, checksum; ValueError: they could not be read again."""
    _check_picture(example.jpeg, example.vector, about)
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
        not _are(bytes, jpeg, blob)
        or checksum(jpeg, blob) != expected
        or len(blob) % FLOAT32.itemsize
    ):
        raise damaged_class(path, "a thumbnail of", label)
    vector = read_only(np.frombuffer(blob, FLOAT32).astype(np.float32, copy=False))
    example = StoredExample(centroid, jpeg, vector, rank, number)
    try:
        _check_picture(jpeg, vector, about)
        check_place(example, places)
    except ValueError:
        raise _invalid(path, f"thumbnails of {show_label(label)!r}") from None
    return example


def _check_picture(jpeg: bytes, vector: Float32s, about: MemoryInfo) -> None:
    if len(jpeg) > MAX_JPEG:
        raise ValueError(f"a thumbnail of {len(jpeg)} bytes is larger than {MAX_JPEG}")
    if len(vector) not in (0, about.dimension) or not np.isfinite(vector).all():
        raise ValueError(f"the vector of a thumbnail has not {about.dimension} finite numbers")


def check_place(example: StoredExample, places: ExamplePlaces) -> None:
    """Raise ValueError for an example of none of the centroids, or views, of its class."""
    if not 0 <= example.centroid < places.size or not 0 <= example.rank < MAX_COUNT:
        raise ValueError(f"a thumbnail is at place {example.centroid} of {places.size}")
    if places.need_vectors and not len(example.vector):
        raise ValueError("a thumbnail has no vector")


def places_of(stored: ClassRow) -> ExamplePlaces:
    """Return the places that examples of a class can have."""
    if isinstance(stored, StoredStatistics):
        return ExamplePlaces(stored.statistics.n)
    return ExamplePlaces(len(stored.concepts.counts), need_vectors=True)
