"""Rows of a memory file, as values: what each may hold, whoever wrote it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from cbcl.errors import LabelError, MemoryFileError
from cbcl.heads.discriminant.blob import MAX_COUNT
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Spread
from cbcl.method.discriminant.open_set import DEFAULT_STRANGERS, PRIOR_ODDS
from cbcl.method.discriminant.statistics import ClassStatistics

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
    measured: dict[str, Any] | None = field(default=None, hash=False)  # see `unpack_measured`

    def as_dict(self) -> dict[str, Any]:
        about = asdict(self)
        if self.measured is None:  # as in older memories
            del about["measured"]
        return about

    def as_json(self) -> bytes:
        return json.dumps(self.as_dict(), sort_keys=True).encode()


class Settings(NamedTuple):
    """Settings of a memory, for the next pictures to be learned and for the vote."""

    radius: float = inf
    n_voters: int = 1
    max_centroids: int | None = None
    head: str = "vote"  # or "discriminant"
    strangers: str = DEFAULT_STRANGERS  # how often something unknown is to be expected


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
    radius: object,
    n_voters: object,
    max_centroids: object,
    head: object,
    strangers: object,
    path: Path,
) -> Settings:
    """Check settings that somebody else may have written."""
    try:
        return check_settings(radius, n_voters, max_centroids, head, strangers)
    except ValueError:
        raise invalid(path, "settings") from None


def check_settings(
    radius: object, n_voters: object, max_centroids: object, head: object, strangers: object
) -> Settings:
    if not isinstance(head, str) or head not in HEADS:
        raise ValueError(f"there is no head {head!r}")
    if max_centroids is not None and not _is_count(max_centroids):
        raise ValueError(f"max_centroids={max_centroids!r} is not a number below {MAX_COUNT}")
    if not _is_count(n_voters):
        raise ValueError(f"n_voters={n_voters!r} is not a number below {MAX_COUNT}")
    if not isinstance(radius, float) or not radius >= 0.0:
        raise ValueError(f"radius={radius!r} is not a distance")
    if not isinstance(strangers, str) or strangers not in PRIOR_ODDS:
        raise ValueError(f"strangers={strangers!r} is none of {', '.join(PRIOR_ODDS)}")
    return Settings(radius, n_voters, max_centroids, head, strangers)


def as_spread(n: object, total: object, squares: object, path: Path) -> Spread:
    """Check a spread that somebody else may have written."""
    try:
        return _check_spread(n, total, squares)
    except ValueError:
        raise invalid(path, "distances") from None


def _check_spread(n: object, total: object, squares: object) -> Spread:
    sums = [value for value in (total, squares) if isinstance(value, float) and 0.0 <= value < inf]
    if type(n) is not int or not 0 <= n < MAX_COUNT or len(sums) < 2:
        raise ValueError(f"the distances of {n} pictures cannot add up to {total} and {squares}")
    return Spread(n, *sums)


def are_all(kind: type, *values: object) -> bool:
    """Tell whether all values are of a type: a few wrong bits make them of any other."""
    return all(isinstance(value, kind) for value in values)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value < MAX_COUNT


def invalid(path: Path, data: str) -> MemoryFileError:
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


def check_vote(stored: StoredClass) -> None:
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
        raise invalid(path, f"data of {show_label(label)!r}")
    return stored


def tells_a_step(about: object) -> bool:
    """Tell whether a line of history has texts, lists of texts, and counts of pictures only."""
    if not isinstance(about, Mapping):
        return False
    pictures, labels = about.get("pictures", {}), about.get("labels", [])
    others = (value for key, value in about.items() if key not in ("pictures", "labels"))
    return (
        isinstance(pictures, dict)
        and isinstance(labels, list)
        and are_all(int, *pictures.values())
        and are_all(str, *labels, *others)
    )


def check_picture(jpeg: bytes, vector: Float32s, about: MemoryInfo) -> None:
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
