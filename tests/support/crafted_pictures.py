"""Pictures made to cost as much as possible: the largest, and those that take longest to decode."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

from support.photos import encoded

FAKE_END = b"\xff\xfe\x00\x04\xff\xd9"  # a comment in a JPEG
END_OF_PICTURE = b"\xff\xd9"


def picture(mode: str, megapixels: float, kind: str, **options: Any) -> bytes:
    """Return a black picture, 12,000 pixels wide."""
    size = (12_000, int(megapixels * 1e6 / 12_000))
    if mode == "I;16":
        return encoded(Image.fromarray(np.zeros(size[::-1], np.uint16)), kind, **options)
    return encoded(Image.new(mode, size), kind, **options)


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


# All but the largest that are read: mode, megapixels, format, options.
LARGEST: dict[str, tuple[str, float, str, dict[str, Any]]] = {
    "PNG": ("RGB", 97, "PNG", {"compress_level": 1}),
    "turned PNG": ("RGB", 48, "PNG", {"compress_level": 1, "exif": turned()}),
    "RGBA PNG": ("RGBA", 48, "PNG", {"compress_level": 1}),
    "PNG of 16 bits": ("I;16", 62, "PNG", {"compress_level": 1}),
    "TIFF in one strip": ("RGB", 55, "TIFF", {"compression": "packbits", "strip_size": 1 << 30}),
    "TIFF of floats": ("F", 46, "TIFF", {"compression": "packbits"}),
    "GIF": ("P", 77, "GIF", {}),
    "progressive JPEG": ("RGB", 89, "JPEG", {"progressive": True}),
    "WebP": ("RGB", 24, "WEBP", {"quality": 1, "method": 0}),
    "RGBA WebP": ("RGBA", 24, "WEBP", {"lossless": True, "method": 0}),
    "AVIF": ("RGB", 24, "AVIF", {"speed": 10}),
    "RGBA AVIF": ("RGBA", 24, "AVIF", {"speed": 10, "subsampling": "4:4:4"}),
}


def bmp_of_run_lengths(side: int) -> bytes:
    """Return a square BMP of 256 colours, each row in runs of 255 and less."""
    row = b"\xff\x05" * (side // 255) + bytes([side % 255, 5]) + b"\0\0"
    runs = row * side
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, len(runs), 0, 0, 256, 0)
    head += bytes(1024)
    place = 14 + len(head)
    return b"BM" + struct.pack("<IHHI", place + len(runs), 0, 0, place) + head + runs


def png_chunk(name: bytes, data: bytes) -> bytes:
    whole = name + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


def png_of_chunks(count: int) -> bytes:
    """Return a small PNG with `count` empty chunks of an unknown kind."""
    data = encoded(Image.new("RGB", (8, 8)), "PNG")
    return data[:33] + png_chunk(b"juNk", b"") * count + data[33:]


def tiff(fields: list[tuple[int, int, int, int]], pixels: bytes, *, big: bool = False) -> bytes:
    """Return a little-endian TIFF; offsets among the fields count from the end of the directory."""
    form, head = ("<HHQQ", 16) if big else ("<HHII", 8)
    start = head + (8 if big else 2) + len(fields) * struct.calcsize(form) + (8 if big else 4)
    moved = [
        (tag, kind, count, value + start if tag in (273, 324, 325, 279) and count > 1 else value)
        for tag, kind, count, value in fields
    ]
    first = b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, len(fields)) if big else b"II*\0"
    first += b"" if big else struct.pack("<IH", 8, len(fields))
    entries = b"".join(struct.pack(form, *field) for field in moved)
    return first + entries + bytes(8 if big else 4) + pixels


def tiff_of_tiles(across: int, down: int, side: int, *, big: bool = False) -> bytes:
    """Return an uncompressed grey TIFF of square tiles, which all have the same pixels."""
    count = across * down
    word = "Q" if big else "I"
    size = struct.calcsize(word)
    fields = [
        (256, 4, 1, across * side),
        (257, 4, 1, down * side),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (322, 4, 1, side),
        (323, 4, 1, side),
        (324, 16 if big else 4, count, 0),
        (325, 16 if big else 4, count, size * count),
    ]
    places = struct.pack(f"<{word}", 8) * count + struct.pack(f"<{word}", side * side) * count
    return tiff(fields, places + bytes(side * side), big=big)


def jpeg_of_scans(
    count: int, between: bytes = b"", image: Image.Image | None = None, **options: Any
) -> bytes:
    """Return a JPEG, grey if not given, whose last scan is there so many times more."""
    data = encoded(image or Image.new("L", (2000, 2000)), "JPEG", **options)
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + (between + scan) * count + END_OF_PICTURE


def in_three_colours(grey: bytes) -> bytes:
    """Return a grey JPEG as the first of three colours, each to have a scan of its own."""
    frame = grey.index(b"\xff\xc0")  # marker, length, bits, height, width, and the one colour
    colours = b"\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"
    length = b"\x00\x11"
    sides = grey[frame + 4 : frame + 9]
    return grey[: frame + 2] + length + sides + colours + grey[frame + 13 :]
