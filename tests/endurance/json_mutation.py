"""Mutations of JSON: other values, other keys, other shapes; the text is JSON still, mostly."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    1 << 31,
    1 << 63,
    -(1 << 63),
    10**400,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "inf",
    "nan",
    "a" * 5000,
    "\x00",
    "\ud800",
    "\u202e\x1b[31m",
    "../../etc/passwd",
    [],
    {},
    [[]],
    [None],
    {"": None},
]


def mutate_json(text: bytes, rng: random.Random) -> bytes:
    """Return a JSON text with one to three of its values changed."""
    value = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _change(value, rng)
    written = json.dumps(value).encode()
    chance = rng.random()
    if chance < 0.02:
        depth = rng.choice((50, 990, 20_000))
        written = written.replace(b"null", b"[" * depth + b"]" * depth, 1)
    if chance > 0.97:
        written = rng.choice(
            (written[:-2], b"\xef\xbb\xbf" + written, written.decode().encode("utf-16"))
        )
    return written


def odd_value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def _change(value: Any, rng: random.Random) -> Any:
    """Change something in a value; the deeper it is, the more likely."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        near = [value + 1, -value, 2 * value] if isinstance(value, int) else [value]
        return odd_value(rng) if rng.random() < 0.7 else rng.choice(near)
    keys: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))]
    key = rng.choice(keys)
    match rng.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice(("x", "", "\ud800", *map(str, keys)))] = odd_value(rng)
        case 1 | 2 if isinstance(value, list):
            value.insert(key, copy.deepcopy(value[key]) if rng.random() < 0.5 else odd_value(rng))
        case _:
            value[key] = _change(value[key], rng)
    return value
