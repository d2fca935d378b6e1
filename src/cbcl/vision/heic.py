"""HEIC photos, as phones write them: their size by the header, and their pixels.

A photo is a file of boxes (ISO 14496-12). Its box `meta` lists items (ISO 23008-12): pieces, which
are encoded pictures, and grids, which combine pieces. The decoder limits a piece to the size that
it states, but a grid may be larger than the photo states: so the sizes of grids are read, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from PIL import Image

from cbcl.errors import PictureError, Subject

BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")
PIECE = b"hvc1"
GRID = b"grid"
# Bytes for a pixel during decoding, measured: planes, bytes of all pixels, the picture itself.
USUAL_BYTES = 7.5  # 8 bits, and fewer pixels for colour, as phones write them
OTHER_BYTES = 10.0
TRANSPARENT_BYTES = 16.0


class HeicPhoto(NamedTuple):
    """A photo that is not decoded yet."""

    size: tuple[int, int]  # of the photo or, if larger, of a grid
    decoding_bytes: int
    decode: Callable[[], Image.Image]  # upright


def is_heic(data: bytes) -> bool:
    """Tell whether bytes are a HEIC photo; an AVIF may begin nearly the same way."""
    is_brand = data[4:8] == b"ftyp" and data[8:12] in BRANDS
    return is_brand and b"avif" not in data[16 : int.from_bytes(data[:4], "big")]


def open_heic(data: bytes, name: Subject) -> HeicPhoto:
    """Read the header of a photo; the decoder may raise any exception about it."""
    try:
        from pi_heif import open_heif
    except ImportError:
        problem = "is a HEIC photo, which needs the extra heic"
        other = "save it as JPEG (on an iPhone: Settings, Camera, Formats, Most Compatible)"
        raise PictureError(name, problem, f'pip install "cbcl[heic]", or {other}') from None
    try:
        canvases = _grid_sizes(memoryview(data), name)
    except (IndexError, KeyError, ValueError, struct.error):
        raise PictureError(name, "is broken: its header is not that of a HEIC photo") from None
    photo = open_heif(data)
    width, height = max([photo.size, *canvases], key=lambda size: size[0] * size[1])
    count = width * height * _bytes_per_pixel(photo.mode, photo.info)
    return HeicPhoto((width, height), int(count), photo.to_pillow)


def _bytes_per_pixel(mode: str, info: dict[str, Any]) -> float:
    if mode not in ("L", "RGB"):
        return TRANSPARENT_BYTES
    is_usual = info.get("chroma") == 420 and info.get("bit_depth") == 8
    return USUAL_BYTES if is_usual else OTHER_BYTES


def _grid_sizes(data: memoryview, name: Subject) -> list[tuple[int, int]]:
    """Return width and height of each grid; refuse grids of anything but pieces."""
    meta = _only(_only(data)[b"meta"][4:])
    kinds = _read_kinds(meta[b"iinf"])
    parts = _read_parts(meta[b"iref"]) if b"iref" in meta else {}
    places = _read_places(meta[b"iloc"])
    sizes = []
    rare = PictureError(name, "is a HEIC of a rare kind, which is not read", "save it as JPEG")
    if kinds.get(_read_number(meta[b"pitm"], 4, is_long=meta[b"pitm"][0] > 0)) not in (PIECE, GRID):
        raise rare
    for grid in (item for item, kind in kinds.items() if kind == GRID):
        in_meta, start = places[grid]
        if in_meta is None or any(kinds.get(part) != PIECE for part in parts.get(grid, ())):
            raise rare
        content = (meta[b"idat"] if in_meta else data)[start:]
        width, height = struct.unpack_from(">2I" if content[1] & 1 else ">2H", content, 4)
        sizes.append((width, height))
    return sizes


def _boxes(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield kind and content of consecutive boxes."""
    place = 0
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        start = place + 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, start)
            start += 8
        end = place + length if length else len(data)
        if end < start:
            raise ValueError("a box ends before it begins")
        yield kind, data[start:end]
        place = end


def _only(data: memoryview) -> dict[bytes, memoryview]:
    """Return the boxes that this module reads by their kind; each may be there once."""
    found: dict[bytes, memoryview] = {}
    for kind, content in _boxes(data):
        if kind in found:
            raise ValueError(f"there are two boxes {kind!r}")
        if kind in (b"meta", b"iinf", b"iref", b"iloc", b"pitm", b"idat"):
            found[kind] = content
    return found


def _read_number(data: memoryview, place: int, *, is_long: bool) -> int:
    (number,) = struct.unpack_from(">I" if is_long else ">H", data, place)
    return int(number)


def _read_kinds(iinf: memoryview) -> dict[int, bytes]:
    """Return the kind of each item."""
    kinds: dict[int, bytes] = {}
    for kind, entry in _boxes(iinf[8 if iinf[0] else 6 :]):
        if kind == b"infe" and entry[0] >= 2:
            is_long = entry[0] > 2
            start = 10 if is_long else 8
            text = str(entry[start:], "utf-8")  # as the library takes for granted
            kinds[_read_number(entry, 4, is_long=is_long)] = text[:4].encode()
    return kinds


def _read_parts(iref: memoryview) -> dict[int, tuple[int, ...]]:
    """Return the parts of each item that has any."""
    size, letter = (4, "I") if iref[0] else (2, "H")
    parts: dict[int, tuple[int, ...]] = {}
    for kind, content in _boxes(iref[4:]):
        if kind == b"dimg":
            whole, count = struct.unpack_from(f">{letter}H", content)
            own = struct.unpack_from(f">{count}{letter}", content, size + 2)
            parts[whole] = (*parts.get(whole, ()), *own)
    return parts


def _read_places(iloc: memoryview) -> dict[int, tuple[bool | None, int]]:
    """Return for each item whether its content is in the box `idat`, and where it begins.

    None: it is in another item, or in several places.
    """
    version = iloc[0]
    sizes = [iloc[4] >> 4, iloc[4] & 15, iloc[5] >> 4, iloc[5] & 15]
    offset_size, length_size, base_size, index_size = sizes
    count = _read_number(iloc, 6, is_long=version > 1)
    place = 10 if version > 1 else 8
    places: dict[int, tuple[bool | None, int]] = {}
    for _ in range(count):
        item = _read_number(iloc, place, is_long=version > 1)
        place += 4 if version > 1 else 2
        method = iloc[place + 1] & 15 if version else 0
        place += 4 if version else 2
        base = int.from_bytes(iloc[place : place + base_size], "big")
        n_extents = _read_number(iloc, place + base_size, is_long=False)
        place += base_size + 2
        extent = place + (index_size if version else 0)
        start = int.from_bytes(iloc[extent : extent + offset_size], "big")
        is_plain = n_extents == 1 and method < 2
        places[item] = (method == 1 if is_plain else None), base + start
        place += n_extents * (extent - place + offset_size + length_size)
    return places
