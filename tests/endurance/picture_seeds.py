"""Small valid pictures of every format, in all their modes and variants, to be mutated."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, features
from support.crafted_pictures import png_chunk, tiff_of_tiles

ORIENTATION = 0x0112
SIZE = (24, 20)
REFUSED = "others"
ADAM7 = (  # the passes of an interlaced PNG: left, top, steps across and down
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


@cache
def seeds() -> dict[str, list[bytes]]:
    """Return pictures by format; "others" are of formats that cbcl refuses, or no pictures."""
    made = {
        "JPEG": _jpegs(),
        "MPO": _mpos(),
        "PNG": _pngs(),
        "WebP": _webps(),
        "GIF": _gifs(),
        "BMP": _bmps(),
        "TIFF": _tiffs(),
        "PPM": _ppms(),
        REFUSED: _others(),
    }
    return made | ({"AVIF": _avifs()} if features.check("avif") else {})


def image(mode: str) -> Image.Image:
    """Return a picture with edges and noise, which all parts of a coder have to do with."""
    rng = np.random.default_rng(1)
    across, down = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    planes = np.stack([across * 10, down * 12, (across // 6 % 2) * 200], axis=-1)
    colours = (planes + rng.integers(0, 20, planes.shape)).clip(0, 255).astype(np.uint8)
    if mode == "I;16":
        return Image.fromarray(colours[..., 0].astype(np.uint16) * 257)
    if mode == "I":
        return Image.fromarray(colours[..., 0].astype(np.int32) * 200)
    if mode == "F":
        return Image.fromarray(colours[..., 0].astype(np.float32) / 255)
    rgb = Image.fromarray(colours)
    if mode in ("RGBA", "LA"):
        rgb.putalpha(Image.fromarray(colours[..., 2]))
    return rgb.quantize(30) if mode == "P" else rgb.convert(mode)


def encode(picture: Image.Image | str, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    (image(picture) if isinstance(picture, str) else picture).save(file, kind, **options)
    return file.getvalue()


def _exif(orientation: int = 6) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[0x010F] = "maker"
    exif.get_ifd(0x8769)[0x9003] = "2024:01:01 00:00:00"
    return exif


def _several(mode: str) -> dict[str, Any]:
    rest = [image(mode).rotate(90), image(mode).rotate(180)]
    return {"save_all": True, "append_images": rest}


def _jpegs() -> list[bytes]:
    profile = b"\0\0\0\x80ADBE\x02\x10\0\0mntrRGB XYZ " + bytes(108)
    return [
        encode("RGB", "JPEG"),
        encode("L", "JPEG"),
        encode("CMYK", "JPEG"),
        *(encode("RGB", "JPEG", subsampling=kind) for kind in (0, 1, 2)),
        *(encode(mode, "JPEG", progressive=True) for mode in ("RGB", "L", "CMYK")),
        encode("RGB", "JPEG", optimize=True, quality=100),
        encode("RGB", "JPEG", restart_marker_blocks=1),
        encode("RGB", "JPEG", exif=_exif(), icc_profile=profile, comment=b"a comment"),
        encode("L", "JPEG", progressive=True, exif=_exif(8), dpi=(72, 72)),
        encode("RGB", "JPEG", keep_rgb=True),
    ]


def _mpos() -> list[bytes]:
    return [encode("RGB", "MPO", **_several("RGB")), encode("L", "MPO", **_several("L"))]


def _png_by_hand(depth: int, colour: int, *, interlaced: bool) -> bytes:
    """Pillow writes neither interlaced pictures nor colours of 16 bits."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    rows = bytearray()
    for left, top, across, down in passes:
        width, height = len(range(left, SIZE[0], across)), len(range(top, SIZE[1], down))
        line = (width * channels * depth + 7) // 8
        for row in range(height if width else 0):
            rows += bytes([row % 5]) + bytes((row * 7 + n) % 256 for n in range(line))
    head = struct.pack(">IIBBBBB", *SIZE, depth, colour, 0, 0, interlaced)
    palette = png_chunk(b"PLTE", bytes(range(256)) * 3) if colour == 3 else b""
    content = png_chunk(b"IDAT", zlib.compress(bytes(rows)))
    start = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head)
    return start + palette + content + png_chunk(b"IEND", b"")


def _pngs() -> list[bytes]:
    by_hand = [(1, 0), (8, 0), (16, 0), (8, 2), (16, 2), (4, 3), (8, 3), (8, 4), (16, 4), (16, 6)]
    return [
        *(encode(mode, "PNG") for mode in ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")),
        encode("P", "PNG", transparency=3),
        encode("P", "PNG", transparency=bytes(range(30)), bits=8),
        encode("RGB", "PNG", transparency=(10, 20, 30)),
        encode("L", "PNG", transparency=9, exif=_exif(), icc_profile=b"profile", dpi=(72, 72)),
        encode("RGB", "PNG", **_several("RGB"), duration=50),
        *(_png_by_hand(*kind, interlaced=False) for kind in by_hand),
        *(_png_by_hand(*kind, interlaced=True) for kind in by_hand),
    ]


def _webps() -> list[bytes]:
    return [
        encode("RGB", "WebP"),
        encode("RGB", "WebP", lossless=True),
        encode("RGBA", "WebP"),
        encode("RGBA", "WebP", lossless=True, exact=True),
        encode("L", "WebP", exif=_exif(), icc_profile=b"profile", xmp=b"<xmp/>"),
        encode("RGB", "WebP", **_several("RGB"), duration=50),
        encode("RGBA", "WebP", **_several("RGBA"), lossless=True, kmax=1),
        encode("P", "WebP", lossless=True),
    ]


def _gifs() -> list[bytes]:
    return [
        *(encode(mode, "GIF", interlace=turn) for mode in ("1", "L", "P") for turn in (0, 1)),
        encode("P", "GIF", transparency=3, comment=b"a comment"),
        encode("P", "GIF", **_several("P"), duration=50, loop=0),
        encode("RGBA", "GIF", **_several("RGBA"), disposal=2),
    ]


def bmp(
    bits: int, compression: int, pixels: bytes, size: tuple[int, int] = SIZE, extra: bytes = b""
) -> bytes:
    """Return a BMP with pixels as given; `extra` are masks, or the palette."""
    head = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(pixels), 0, 0, 0, 0)
    start = 14 + len(head) + len(extra)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + head + extra + pixels


def _bmps() -> list[bytes]:
    runs = (b"\x05\x07\x00\x03\x01\x02\x03\x00" + b"\x10\x09" + b"\0\0") * SIZE[1] + b"\0\1"
    jumps = (b"\x05\x07\x00\x02\x03\x00" + b"\0\0") * SIZE[1] + b"\0\1"
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    old = struct.pack("<IHHHH", 12, *SIZE, 1, 24)
    rows = bytes(range(72)) * SIZE[1]
    return [
        *(encode(mode, "BMP") for mode in ("1", "L", "P", "RGB", "RGBA")),
        bmp(8, 1, runs, extra=bytes(range(256)) * 4),
        bmp(8, 1, jumps, extra=bytes(range(256)) * 4),
        bmp(4, 2, runs, extra=bytes(64)),
        bmp(16, 3, bytes(range(48)) * SIZE[1], extra=masks),
        bmp(16, 0, bytes(range(48)) * SIZE[1]),
        bmp(24, 0, rows, (SIZE[0], -SIZE[1])),
        b"BM" + struct.pack("<IHHI", 26 + len(rows), 0, 0, 26) + old + rows,
    ]


def _tiffs() -> list[bytes]:
    modes = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F")
    kinds = ("tiff_lzw", "packbits", "tiff_deflate", "tiff_adobe_deflate", "jpeg", "zstd", "lzma")
    available = kinds if features.check("libtiff") else ()
    packed = []
    for kind in available:
        try:
            packed += [encode(mode, "TIFF", compression=kind) for mode in ("L", "RGB")]
        except OSError:  # this libtiff has no such codec
            continue
    faxes = [encode("1", "TIFF", compression=kind) for kind in ("group3", "group4") if available]
    return [
        *(encode(mode, "TIFF") for mode in modes),
        *packed,
        *faxes,
        encode("RGB", "TIFF", compression="tiff_lzw", tiffinfo={317: 2}),
        encode("RGB", "TIFF", tiffinfo={278: 3, ORIENTATION: 6}, strip_size=300),
        encode("RGB", "TIFF", **_several("RGB")),
        encode("RGB", "TIFF", big_tiff=True, icc_profile=b"profile"),
        tiff_of_tiles(2, 2, 16),
        tiff_of_tiles(3, 1, 16, big=True),
        encode("L", "TIFF", exif=_exif(3)),
    ]


def _ppms() -> list[bytes]:
    grey, rgb = image("L").tobytes(), image("RGB").tobytes()
    words = b" ".join(b"%d" % value for value in grey)
    head = b"%d %d" % SIZE
    return [
        b"P1\n# a comment\n" + head + b"\n" + b"1 0 1" * 160,
        b"P2 " + head + b" 255\n" + words,
        b"P3 " + head + b" 255\n" + b" ".join([words] * 3),
        b"P4 " + head + b"\n" + bytes(3 * SIZE[1]),
        b"P5 " + head + b" 255\n" + grey,
        b"P5 " + head + b" 16\n" + bytes(value % 17 for value in grey),
        b"P5 " + head + b" 65535\n" + grey * 2,
        b"P6\n#c\n" + head + b"\n255\n" + rgb,
        b"P6 " + head + b" 65535\n" + rgb * 2,
        b"Pf\n" + head + b"\n-1.0\n" + np.linspace(0, 1, len(grey), dtype="<f4").tobytes(),
        b"PyP " + head + b" 255\n" + rgb,
        b"P7\nWIDTH 24\nHEIGHT 20\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + rgb,
    ]


def _avifs() -> list[bytes]:
    return [
        encode("RGB", "AVIF", speed=10),
        encode("RGBA", "AVIF", speed=10),
        encode("L", "AVIF", speed=10, subsampling="4:0:0"),
        encode("RGB", "AVIF", speed=10, subsampling="4:4:4", quality=100, exif=_exif()),
        encode("RGB", "AVIF", speed=10, icc_profile=b"profile", xmp=b"<xmp/>"),
        encode("RGB", "AVIF", speed=10, **_several("RGB"), duration=50),
    ]


def _others() -> list[bytes]:
    kinds = ("ICO", "TGA", "PCX", "SGI", "DDS", "EPS", "PDF", "IM", "QOI", "ICNS", "JPEG2000")
    made = []
    for kind in kinds:
        Image.init()
        if kind in Image.SAVE and (kind != "JPEG2000" or features.check("jpg_2000")):
            made.append(encode("RGB", kind))
    return [
        *made,
        encode("1", "XBM"),
        b"",
        b"a text\n",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"8BPS\0\1" + bytes(40),
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
        b"PK\3\4" + bytes(40),
        b"\x1f\x8b\x08" + bytes(20),
        b"SQLite format 3\0" + bytes(84),
        b"%!PS\n%%BoundingBox: 0 0 10 10\n(%pipe%id) (r) file\n",
    ]
