"""Numbers that were measured for a backbone, as JSON: packed and unpacked, checked both ways.

d features. A memory keeps them where no table that comes with cbcl has them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, NamedTuple

import numpy as np

from cbcl.method.discriminant.coding import encode
from cbcl.method.discriminant.open_set import Cosines

NUMBERS = (*Cosines._fields[:-1], "copy", "alike")  # those without the centre
KEYS = {*NUMBERS, "scale", "centre"}
MAX_LENGTH = 1.01  # of a mean of directions, as it is coded


class Measured(NamedTuple):
    """Numbers of the directions that a backbone gives; `cosines` is None if it was not measured."""

    cosines: Cosines | None
    copy: float  # cosine of two pictures of which one is a near-copy of the other, at least
    alike: float  # on average, of pictures that look alike enough to be named together


def pack_measured(cosines: Cosines, copy: float, alike: float) -> dict[str, Any]:
    """Return numbers of four digits, and the centre as codes of eight bits and their scale."""
    coded = encode(np.atleast_2d(np.asarray(cosines.centre)))
    *numbers, _ = cosines
    named = zip(NUMBERS, (*numbers, copy, alike), strict=True)
    packed: dict[str, Any] = {name: round(float(value), 4) for name, value in named}
    centre = b64encode(coded.codes.tobytes()).decode()
    return {**packed, "scale": float(f"{coded.scales[0]:.5g}"), "centre": centre}


def unpack_measured(row: object, dimension: int) -> Measured:
    """Read what `pack_measured` gives, whoever wrote it; ValueError or TypeError: it is not so."""
    if not isinstance(row, dict) or row.keys() != KEYS:
        raise ValueError("its keys are not those that are measured")
    numbers = [row[name] for name in (*NUMBERS, "scale")]
    if not all(type(value) in (int, float) and -1.0 <= value <= 1.0 for value in numbers):
        raise ValueError("its numbers are not from -1 to 1")
    same, deviation, class_deviation, other, other_deviation, copy, alike, scale = numbers
    positive = (same, deviation, other_deviation, copy, scale)
    if min(positive) <= 0.0 or class_deviation < 0.0:
        raise ValueError("a number that must be positive is not")
    codes = np.frombuffer(b64decode(row["centre"], validate=True), dtype=np.int8)
    centre = codes * np.float32(scale)
    if len(centre) != dimension or not np.linalg.norm(centre) <= MAX_LENGTH:
        raise ValueError(f"its centre is not the mean of directions of {dimension} numbers")
    cosines = Cosines(same, deviation, class_deviation, other, other_deviation, centre)
    return Measured(cosines, copy, alike)
