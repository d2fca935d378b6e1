"""Mutations of bytes: bits, numbers, pieces moved; and of files in chunks, made whole again."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence

HEAD_BYTES = 100  # where formats keep sizes
NUMBERS = [0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 257, 1000, 16383, 16384, 32767, 32768]
NUMBERS += [65535, 65536, 100_000, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return data after one to four changes; parts may come from others of its kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = rng.choice(CHANGES)
        data = change(data, rng.choice(others), rng)
    return data


def _place(data: bytes, rng: random.Random) -> int:
    end = len(data) if rng.random() < 0.5 else min(len(data), HEAD_BYTES)
    return rng.randrange(end) if end else 0


def _flip(data: bytes, _other: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 10)) if data else 0):
        changed[_place(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set(data: bytes, _: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.randbytes(rng.choice((1, 1, 2, 8))) + data[place + 1 :]


def _set_number(data: bytes, _: bytes, rng: random.Random) -> bytes:
    size, order = rng.choice((1, 2, 2, 3, 4, 4, 8)), rng.choice(("little", "big"))
    number = (rng.choice(NUMBERS) + rng.choice((0, 0, -1, 1))) % (1 << 8 * size)
    place = _place(data, rng)
    return data[:place] + number.to_bytes(size, order) + data[place + size :]  # type: ignore[arg-type]


def _insert(data: bytes, _: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.randbytes(rng.randint(1, 20)) + data[place:]


def _remove(data: bytes, _: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    return data[:place] + data[place + rng.choice((1, 2, 4, 40)) :]


def _repeat(data: bytes, _: bytes, rng: random.Random) -> bytes:
    start, size = _place(data, rng), rng.choice((1, 2, 4, 12, 100))
    count = rng.choice((2, 2, 10, 300))
    return data[:start] + data[start : start + size] * count + data[start + size :]


def _truncate(data: bytes, _: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _concatenate(data: bytes, other: bytes, _: random.Random) -> bytes:
    return data + other


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _copy_within(data: bytes, _: bytes, rng: random.Random) -> bytes:
    source, target, size = _place(data, rng), _place(data, rng), rng.choice((1, 2, 4, 16))
    return data[:target] + data[source : source + size] + data[target + size :]


CHANGES: list[Callable[[bytes, bytes, random.Random], bytes]] = [
    _flip,
    _set,
    _set_number,
    _set_number,
    _insert,
    _remove,
    _repeat,
    _truncate,
    _concatenate,
    _splice,
    _copy_within,
]


def rearranged(kind: str, data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a file in chunks with some of them mutated, moved or another's; lengths are right."""
    split = SPLITTERS.get(kind)
    head, chunks = split(data) if split is not None else (data, [])
    if split is None or not chunks:
        return mutated(data, others, rng)
    foreign = split(rng.choice(others))[1] or chunks
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(chunks)) if chunks else 0
        match rng.randrange(6):
            case 0:
                del chunks[place : place + 1]
            case 1:
                chunks[place:place] = chunks[place : place + 1] * rng.choice((1, 1, 2, 500))
            case 2:
                chunks.insert(place, rng.choice(foreign))
            case 3:
                rng.shuffle(chunks)
            case _ if chunks:
                parts = [chunk[1] for chunk in foreign]
                chunks[place] = (chunks[place][0], mutated(chunks[place][1], parts, rng))
    return JOINERS[kind](head, chunks)


Chunks = list[tuple[bytes, bytes]]  # name or marker, and content


def _split_png(data: bytes) -> tuple[bytes, Chunks]:
    chunks, place = Chunks(), 8
    while place + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, place)
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += 12 + size
    return PNG_SIGNATURE, chunks


def _join_png(head: bytes, chunks: Chunks) -> bytes:
    wholes = [name + content for name, content in chunks]
    return head + b"".join(
        struct.pack(">I", len(whole) - 4) + whole + struct.pack(">I", zlib.crc32(whole))
        for whole in wholes
    )


def _split_riff(data: bytes) -> tuple[bytes, Chunks]:
    chunks, place = Chunks(), 12
    while place + 8 <= len(data):
        (size,) = struct.unpack_from("<I", data, place + 4)
        chunks.append((data[place : place + 4], data[place + 8 : place + 8 + size]))
        place += 8 + size + size % 2
    return data[8:12], chunks


def _join_riff(head: bytes, chunks: Chunks) -> bytes:
    content = head + b"".join(
        name + struct.pack("<I", len(part)) + part + bytes(len(part) % 2) for name, part in chunks
    )
    return b"RIFF" + struct.pack("<I", len(content)) + content


def _split_jpeg(data: bytes) -> tuple[bytes, Chunks]:
    """Split into segments; the coded pixels after a scan's head belong to it."""
    chunks, place = Chunks(), 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        (size,) = struct.unpack_from(">H", data, place + 2)
        end = place + 2 + size
        if data[place + 1] == 0xDA:
            while end + 1 < len(data) and not (data[end] == 0xFF and data[end + 1] not in RESTARTS):
                end += 1
        chunks.append((data[place : place + 2], data[place + 4 : end]))
        place = end
    return data[:2], chunks


RESTARTS = (0, *range(0xD0, 0xD8))


def _join_jpeg(head: bytes, chunks: Chunks) -> bytes:
    parts = []
    for marker, content in chunks:
        size = 2 + len(content)
        if marker == b"\xff\xda" and content:
            size = 6 + 2 * content[0]  # of the scan's head alone
        parts.append(marker + struct.pack(">H", min(size, 65535)) + content)
    return head + b"".join(parts) + b"\xff\xd9"


def _split_boxes(data: bytes) -> tuple[bytes, Chunks]:
    chunks, place = Chunks(), 0
    while place + 8 <= len(data):
        size = max(8, struct.unpack_from(">I", data, place)[0])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + size]))
        place += size
    return b"", chunks


def _join_boxes(head: bytes, chunks: Chunks) -> bytes:
    return head + b"".join(struct.pack(">I", 8 + len(part)) + name + part for name, part in chunks)


def _split_gif(data: bytes) -> tuple[bytes, Chunks]:
    flags = data[10] if len(data) > 10 else 0
    place = 13 + (3 << (flags & 7) + 1 if flags & 128 else 0)
    head, chunks = data[:place], Chunks()
    while place < len(data) and data[place] in b"!,":
        start = place
        place += 2
        if data[start] == ord(","):
            flags = data[start + 9] if start + 9 < len(data) else 0
            place = start + 11 + (3 << (flags & 7) + 1 if flags & 128 else 0)
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
        chunks.append((data[start : start + 1], data[start + 1 : place]))
    return head, chunks


def _join_gif(head: bytes, chunks: Chunks) -> bytes:
    return head + b"".join(name + content for name, content in chunks) + b";"


def _split_tiff(data: bytes) -> tuple[bytes, Chunks]:
    """Split off the entries of the first directory, little-endian, and what is around them."""
    if data[:4] != b"II*\0" or len(data) < 8:
        return data, []
    (place,) = struct.unpack_from("<I", data, 4)
    count = int.from_bytes(data[place : place + 2], "little")
    entries = [data[start : start + 12] for start in range(place + 2, place + 2 + 12 * count, 12)]
    return data, [(entry[:2], entry[2:]) for entry in entries if len(entry) == 12]


def _join_tiff(head: bytes, chunks: Chunks) -> bytes:
    """Append the directory, so that all places in the file stay the same."""
    directory = struct.pack("<H", len(chunks) % 65536)
    directory += b"".join((name + content)[:12].ljust(12, b"\0") for name, content in chunks)
    return head[:4] + struct.pack("<I", len(head)) + head[8:] + directory + bytes(4)


SPLITTERS: dict[str, Callable[[bytes], tuple[bytes, Chunks]]] = {
    "PNG": _split_png,
    "WebP": _split_riff,
    "JPEG": _split_jpeg,
    "MPO": _split_jpeg,
    "AVIF": _split_boxes,
    "GIF": _split_gif,
    "TIFF": _split_tiff,
}
JOINERS: dict[str, Callable[[bytes, Chunks], bytes]] = {
    "PNG": _join_png,
    "WebP": _join_riff,
    "JPEG": _join_jpeg,
    "MPO": _join_jpeg,
    "AVIF": _join_boxes,
    "GIF": _join_gif,
    "TIFF": _join_tiff,
}
