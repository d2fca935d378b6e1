"""Rows of a memory file: what each may hold, whoever wrote it, or whatever damaged it."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from cbcl.errors import LabelError, MemoryFileError
from cbcl.heads.base import (
    MAX_COUNT,
    NEGATIVES,
    ExamplePlaces,
    Settings,
    StoredExample,
    find_head,
)
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.open_set import PRIOR_ODDS

HEAD_NAME = re.compile("[A-Za-z0-9_-]+")
MAX_LETTERS = 200  # of a label
MAX_DIMENSION = 1 << 24
MAX_JPEG = 1 << 16  # bytes of a thumbnail: of 128 pixels a side, none has a quarter of that
DIRECTION_MARKS = {*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
STRIPPED = " \t\r\n\u00a0" + "".join(sorted(DIRECTION_MARKS))  # from the ends of a label
FORBIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories of letters that no label has
DAMAGE = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)  # if not checked
INVISIBLE = {"Cf", "Mn", "Zs"}  # categories of letters that no label has alone

# By the names of columns; all others are checked with the checksum that covers them.
TYPES: dict[str, tuple[type, ...]] = {
    "centroid": (int,),
    "class": (int,),
    "label": (str,),
    "picture": (int,),
    "rank": (int,),
    "since": (int,),
    "undone": (int,),
    "until": (int, NoneType),
}


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


ANY_PLACE = ExamplePlaces()  # of a class of which nothing is known


def select(
    connection: sqlite3.Connection, path: Path, query: str, values: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query; a MemoryFileError where one cannot have been written."""
    rows = connection.execute(query, values)
    names = [column[0] for column in rows.description]
    types = [TYPES.get(name, (object,)) for name in names]
    for row in rows:
        if not all(map(isinstance, row, types)):
            raise damaged(path, f"a row of {', '.join(names[:3])} is not what was written")
        yield row


def as_settings(values: Iterable[Any], path: Path) -> Settings:
    """Check settings that somebody else may have written."""
    settings = Settings(*values)
    try:
        check_settings(settings)
    except ValueError:
        raise invalid(path, "settings") from None
    return settings


def check_settings(settings: Settings) -> None:
    """Raise ValueError for settings that nobody can have chosen, whichever heads are installed."""
    radius, n_voters, max_centroids, head, strangers = settings
    if not isinstance(head, str) or not HEAD_NAME.fullmatch(head):
        raise ValueError(f"there is no head {head!r}")
    if max_centroids is not None and not _is_count(max_centroids):
        raise ValueError(f"max_centroids={max_centroids!r} is not a number below {MAX_COUNT}")
    if not _is_count(n_voters):
        raise ValueError(f"n_voters={n_voters!r} is not a number below {MAX_COUNT}")
    if not isinstance(radius, float) or not radius >= 0.0:
        raise ValueError(f"radius={radius!r} is not a distance")
    if not isinstance(strangers, str) or strangers not in PRIOR_ODDS:
        raise ValueError(f"strangers={strangers!r} is none of {', '.join(PRIOR_ODDS)}")


def check_installed(head: str, path: Path) -> None:
    """Raise MemoryFileError, unless the head of a memory is installed here."""
    try:
        find_head(head)
    except ValueError:
        problem = f"learns by a head {head!r} that is not installed here"
        raise MemoryFileError(path, problem, "install the package that has it") from None


def are_all(kind: type, *values: object) -> bool:
    """Tell whether all values are of a type: a few wrong bits make them of any other."""
    return all(isinstance(value, kind) for value in values)


def _is_count(value: object) -> bool:
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
    """Raise ValueError for an example whose place its class has not."""
    if not 0 <= example.place < places.size or not 0 <= example.rank < MAX_COUNT:
        raise ValueError(f"a thumbnail is at place {example.place} of {places.size}")
    if places.need_vectors and not len(example.vector):
        raise ValueError("a thumbnail has no vector")
