"""Edits of bytes, chunks, opcodes and JSON: parts replaced, repeated, moved, or another file's."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

HEAD = 100  # where formats keep sizes
EDITS = (1, 1, 1, 2, 4)
SIZES = (0, 0, 1, 1, 2, 4, 8, 40, 1 << 30)  # of what is replaced; the last is all, to the end
REPEATS = (0, 2, 2, 10, 300)
NUMBERS = [0, 1, 2, 7, 127, 128, 255, 256, 1000, 16383, 32767, 65535, 100_000, 1 << 24]
NUMBERS += [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62]
ODD: list[Any] = [None, True, False, 0, -1, 1, 1 << 31, 1 << 63, -(1 << 63), 10**400, 1e308, -0.0]
ODD += [float("nan"), float("inf"), "", "inf", "nan", "a" * 5000, "\x00", "\ud800"]
ODD += ["\u202e\x1b[31m", "../../etc/passwd", [], {}, [[]], [None], {"": None}]
DEPTHS = (50, 990, 20_000)

Whole = TypeVar("Whole", bytes, list[bytes])


def edited(
    whole: Whole, others: Sequence[Whole], new: Callable[[], Whole], rng: random.Random
) -> Whole:
    """Replace a few parts by new ones, by themselves repeated, or by another's."""
    for _ in range(rng.choice(EDITS)):
        start, end = _span(whole, rng)
        match rng.randrange(4):
            case 0:
                part = whole[start : min(end, start + HEAD)] * rng.choice(REPEATS)
            case 1:
                other = rng.choice(others)
                first, last = _span(other, rng)
                part = other[first:last]
            case _:
                part = new()
        whole = whole[:start] + part + whole[end:]
    return whole


def _span(whole: Whole, rng: random.Random) -> tuple[int, int]:
    last = len(whole) if rng.random() < 0.5 else min(len(whole), HEAD)
    start = rng.randint(0, last)
    return start, start + rng.choice(SIZES)


def edited_bytes(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Edit bytes; new ones are any, or a number in any width that a reader may not expect."""

    def new() -> bytes:
        if rng.random() < 0.5:
            return rng.randbytes(rng.choice((1, 1, 2, 8)))
        width = rng.choice((1, 2, 3, 4, 8))
        number = (rng.choice(NUMBERS) + rng.choice((0, 0, -1, 1))) % (1 << 8 * width)
        return number.to_bytes(width, rng.choice(("little", "big")))

    return edited(data, others, new, rng)


def edited_json(text: bytes, rng: random.Random) -> bytes:
    """Replace, add and remove values of a JSON text; rarely one is nested very deeply."""
    value = json.loads(text)
    for _ in range(rng.choice(EDITS)):
        value = _edit(value, rng)
    written = json.dumps(value).encode()
    depth = rng.choice(DEPTHS)
    is_deep = rng.random() < 0.02
    return written.replace(b"null", b"[" * depth + b"]" * depth, 1) if is_deep else written


def _edit(value: Any, rng: random.Random) -> Any:
    """Change something in a value; the deeper it is, the more likely."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return copy.deepcopy(rng.choice(ODD))
    keys: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))]
    key = rng.choice(keys)
    match rng.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice(("x", "", "\ud800", *map(str, keys)))] = copy.deepcopy(rng.choice(ODD))
        case 1 if isinstance(value, list):
            value.insert(key, copy.deepcopy(rng.choice([value[key], *ODD])))
        case _:
            value[key] = _edit(value[key], rng)
    return value


def _png_chunk(chunk: bytes) -> bytes:
    name, content = chunk[4:8], chunk[8:-4]
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def _riff_chunk(chunk: bytes) -> bytes:
    return chunk[:4] + struct.pack("<I", len(chunk) - 8) + chunk[8:]


def _jpeg_segment(segment: bytes) -> bytes:
    has_length = segment[1] not in (0xD8, 0xD9, 0xDA)  # a scan has more behind its head
    size = struct.pack(">H", min(len(segment) - 2, 65535)) if has_length else segment[2:4]
    return segment[:2] + size + segment[4:]


def _box(box: bytes) -> bytes:
    return struct.pack(">I", len(box)) + box[4:]


JPEG = (re.compile(rb"(?=\xff[\xc0-\xcf\xd8-\xfe])"), _jpeg_segment)
CHUNKS: dict[str, tuple[re.Pattern[bytes], Callable[[bytes], bytes]]] = {  # where they begin
    "JPEG": JPEG,
    "MPO": JPEG,
    "PNG": (re.compile(rb"(?s)(?=.{4}(?:[IP][A-Z]{3}|[a-z]{2}[A-Z][A-Za-z]))"), _png_chunk),
    "WebP": (re.compile(rb"(?=VP8[ LX]|ALPH|ANIM|ANMF|EXIF|ICCP|XMP )"), _riff_chunk),
    "AVIF": (re.compile(rb"(?s)(?=.{4}(?:ftyp|meta|mdat|moov|hdlr|iinf|iloc|iprp|pitm))"), _box),
    "GIF": (re.compile(rb"(?=[!,])"), bytes),
}
LEAST_CHUNK = 12  # bytes: a shorter one is left as it is


def rearranged(kind: str, data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Edit a file in chunks and what is in them; their lengths and checksums are right."""
    if kind not in CHUNKS:
        return edited_bytes(data, others, rng)
    start, make_right = CHUNKS[kind]
    head, *chunks = start.split(data)
    _, *foreign = start.split(rng.choice(others))

    def new() -> list[bytes]:
        both = [*chunks, *foreign]
        return [edited_bytes(rng.choice(both), both, rng)]

    return head + b"".join(
        make_right(chunk) if len(chunk) >= LEAST_CHUNK else chunk
        for chunk in edited(chunks, [foreign], new, rng)
    )
