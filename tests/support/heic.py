"""HEIC photos, put together box by box from one encoded tile: no encoder is at hand where we test.

The tile has 512 x 512 pixels, as those of phones: red, green, blue and white, read as a page is.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from itertools import accumulate

TILE_SIDE = 512
# Of HEVC, written by x265 from our own picture: its parameter sets, and its only slice.
PARAMETERS = b64decode(
    "AQNwAAAAkAAAAAAAWvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAWroCQGEAAQArQgEBA3AAAAMAkAAA"
    "AwAAAwBaoAQCAIBZbqSSmubgIaDAgAAADIAAAAMAhGIAAQAHRAHBcrBiQA=="
)
SLICE = b64decode(
    "AAACgSgBrxMQd3D69WceLOaocNP//ixUf/0fZ4fplgrSeb2Q7muztmBFLaUAAApKP6t+JSX/74jf/y2ZBMeT+z2kNAAL"
    "oAAAAwA1IKMCKW0oAABGgACW2GIejSb6m2vF0JjZ4QAOIVuhD02/t8XdKH5pGn1KnYKLIlLQPHQak4btLV2C6dE98J8Y"
    "Ad4A7AHlkwAAxwAHMAAMHvcvdJvqba8XQmNnhACzmYtcDuOnMFWK8FERp9Sp2CiyJS0Dx0Gud6ufZIlZ7ABBvdH6cdLu"
    "IMWNDAAG5jBsjSOg3ua+qeskAOCy0YIG81Qb78IAALKU0zmBnH82ozNbOPLfa/DcAAADAAAKeIcAAAMAAAMAADMSz8OB"
    "b8wKvF0JjZ4QBCy32NmvZgqxXgoiNPqVOwUWRKWgeOg3svV0TMCUvYAIN7o/TjpdxBixoYAA3MYNkaR0G9zX2p1kgBwW"
    "WjBA3mqDffhAABZSmmcwM4/m1GaQ137/9LgAAAMAAAMAAvoJl0zM//+sQjR/gZy//VhU5iCuiFssUxYvHH/9//iRs3/y"
    "Xed9u2+ZRrH7WseTUIiA8wBwAAADAAADAAAqF2nDXrZWgPHbgL8RN3UynQAOQ2UVDD4mEuZLaDgCKwcldF30QV/7r4GG"
    "NUWZ+T1+aI80T9Zi2AAAAwAAAwMGAAADAAADAAFvj0i5hyfFyqDB7pGpNBAkBQBxIHpYQO6YuW0HAEVg5K6Lvogr/3Xw"
    "MMaos2NL/SDbX0T9Zi2AAAADAABhwAAAAwAAAwAFZbsbPetlaA8duAvxE3dTKdABW1tB7pL9VaLaDgCKwcldF30QV/7r"
    "4GGNUWbur9p2wL6J+sxbAAADAAADAPWA"
)
# Numbers of the items; the tiles are counted from TILES.
GRID = 1
EXIF = 2
TILES = 3


def heic(
    columns: int = 1,
    rows: int = 1,
    *,
    turns: int = 0,
    stated: tuple[int, int] | None = None,
    exif: bytes = b"",
) -> bytes:
    """Return a photo of so many tiles, to be shown after so many quarter turns to the left.

    `stated` is the size that it says it has, if that is not its own.
    """
    size = columns * TILE_SIDE, rows * TILE_SIDE
    tiles = range(TILES, TILES + columns * rows)
    kinds = {GRID: b"grid", EXIF: b"Exif"} | dict.fromkeys(tiles, b"hvc1")
    content = [struct.pack(">4B2I", 0, 1, rows - 1, columns - 1, *size), bytes(4) + exif, SLICE]
    head = _box(b"ftyp", b"heic", b"\0\0\0\0", b"mif1heic")
    boxes = [
        _box(b"hdlr", struct.pack(">II4s13x", 0, 0, b"pict")),
        _box(b"pitm", struct.pack(">IH", 0, GRID)),
        _box(
            b"iinf", struct.pack(">IH", 0, len(kinds)), *(_entry(*item) for item in kinds.items())
        ),
        _box(
            b"iref",
            bytes(4),
            _box(b"dimg", struct.pack(f">{2 + len(tiles)}H", GRID, len(tiles), *tiles)),
            _box(b"cdsc", struct.pack(">3H", EXIF, 1, GRID)),
        ),
        _box(b"iprp", _properties(stated or size, turns), _used(tiles)),
    ]
    before = len(_meta(boxes, kinds, [0, 0, 0], content))
    starts = [*accumulate(map(len, content[:-1]), initial=len(head) + before + 8)]
    return head + _meta(boxes, kinds, starts, content) + _box(b"mdat", *content)


def _properties(size: tuple[int, int], turns: int) -> bytes:
    return _box(
        b"ipco",
        _box(b"hvcC", PARAMETERS),
        _box(b"ispe", struct.pack(">3I", 0, TILE_SIDE, TILE_SIDE)),
        _box(b"ispe", struct.pack(">3I", 0, *size)),
        _box(b"irot", bytes([turns])),
    )


def _used(tiles: range) -> bytes:
    """Return which item has which of the properties; those with 0x80 must be understood."""
    own = [struct.pack(">H3B", tile, 2, 0x81, 2) for tile in tiles]
    grid = struct.pack(">H3B", GRID, 2, 3, 0x84)
    return _box(b"ipma", struct.pack(">II", 0, 1 + len(own)), grid, *own)


def _entry(item: int, kind: bytes) -> bytes:
    return _box(b"infe", struct.pack(">IHH4sB", 2 << 24, item, 0, kind, 0))


def _meta(
    boxes: list[bytes], kinds: dict[int, bytes], starts: list[int], content: list[bytes]
) -> bytes:
    """Return the box with all boxes, and where the content of each item is: the tiles share one."""
    places = []
    for number, item in enumerate(kinds):
        part = min(number, 2)
        places.append(struct.pack(">3H2I", item, 0, 1, starts[part], len(content[part])))
    head = struct.pack(">IBBH", 0, 0x44, 0, len(places))
    return _box(b"meta", bytes(4), *boxes, _box(b"iloc", head, *places))


def _box(kind: bytes, *content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, content)), kind) + b"".join(content)
