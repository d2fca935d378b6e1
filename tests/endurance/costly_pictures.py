"""The worst pictures of each format: as large, and as long to decode, as the limits allow."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, features
from support.crafted_pictures import (
    FAKE_END,
    LARGEST,
    bmp_of_run_lengths,
    in_three_colours,
    jpeg_of_scans,
    picture,
    png_chunk,
    png_of_chunks,
    tiff,
    tiff_of_tiles,
)
from support.photos import encoded

from cbcl.errors import PictureError
from cbcl.vision.extraction import embed_pictures
from cbcl.vision.preprocessing import Preprocessing
from cbcl_study.backbones.pixels import PixelVectors
from endurance.picture_seeds import bmp
from endurance.pictures import LIMITS
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import Batch, Input, measure, wants_memory
from endurance.writes import fork

SMALL, LARGE = 32, 2048  # pixels a side that a backbone asks for: a JPEG is scaled down for few


class CostlyPicture(NamedTuple):
    """A picture that costs much, and how it is read."""

    kind: str  # its format
    name: str
    make: Callable[[], bytes]
    side: int = SMALL


def _noise(side: int, deviation: float) -> Image.Image:
    values = np.random.default_rng(0).normal(128, deviation, (side, side))
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def _scans(side: int, count: int, deviation: float) -> bytes:
    return jpeg_of_scans(count, image=_noise(side, deviation), progressive=True, quality=60)


def _png_bombs(name: bytes, content: bytes, count: int) -> bytes:
    """A PNG with chunks of text, or a colour profile, that unpack to 100 MB each."""
    packed = zlib.compress(bytes(100_000_000), 9)
    data = encoded(Image.new("RGB", (8, 8)), "PNG")
    return data[:33] + png_chunk(name, content + packed) * count + data[33:]


def _png_of_pieces(count: int) -> bytes:
    """A PNG of noise whose pixels come a byte at a time."""
    side = 400
    pixels = _noise(side, 60).tobytes()
    lines = b"".join(b"\0" + pixels[n : n + side] for n in range(0, len(pixels), side))
    packed = zlib.compress(lines, 0)
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    pieces = [png_chunk(b"IDAT", packed[n : n + 1]) for n in range(count)]
    rest = png_chunk(b"IDAT", packed[count:]) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(pieces) + rest


def _tiff_of_tags(count: int) -> bytes:
    pixels = bytes(64)
    fields = [
        (256, 4, 1, 8),
        (257, 4, 1, 8),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (279, 4, 1, 64),
    ]
    return tiff(fields + [(30_000 + n % 30_000, 3, 1, n % 65536) for n in range(count)], pixels)


def _gif_of_comments(count: int) -> bytes:
    data = encoded(Image.new("P", (8, 8)), "GIF")
    place = 13 + (3 << (data[10] & 7) + 1 if data[10] & 128 else 0)
    return data[:place] + b"!\xfe\x01a\0" * count + data[place:]


def _animated(kind: str, side: int, frames: int) -> bytes:
    colours = [Image.new("RGB", (side, side), (n, 0, 0)) for n in range(frames)]
    return encoded(colours[0], kind, save_all=True, append_images=colours[1:])


def _largest(name: str) -> bytes:
    mode, megapixels, kind, options = LARGEST[name]
    return picture(mode, megapixels, kind, **options)


def _ppm_of_comments(count: int) -> bytes:
    return b"P6 " + b"#\n" * count + b"9 9 255\n" + bytes(243)


def _plain_ppm(size: int) -> bytes:
    return b"P3 9 9 255\n" + b"#\n" * ((size - 600) // 2) + b"1 " * 243


def _wide_webp(mode: str) -> bytes:
    return encoded(Image.new(mode, (16_000, 6_200)), "WebP", lossless=True, method=0)


# The worst of each format first: CI tries only these.
COSTLY: list[CostlyPicture] = [
    CostlyPicture("WebP", "RGBA, 24 megapixels", partial(_largest, "RGBA WebP")),
    CostlyPicture("JPEG", "480 scans of 4 megapixels, 120 MB", partial(_scans, 2000, 480, 8)),
    CostlyPicture("PNG", "RGB, 97 megapixels", partial(_largest, "PNG")),
    CostlyPicture("GIF", "77 megapixels", partial(_largest, "GIF")),
    CostlyPicture("BMP", "1 bit a pixel, 77 megapixels", lambda: picture("1", 77, "BMP")),
    CostlyPicture("TIFF", "100,000 tiles of one pixel", partial(tiff_of_tiles, 100_000, 1, 1)),
    CostlyPicture("PPM", "66,000 comments", partial(_ppm_of_comments, 66_000)),
    CostlyPicture("AVIF", "RGBA, 24 megapixels", partial(_largest, "RGBA AVIF")),
    CostlyPicture("others", "200 MB of nothing", lambda: bytes(200_000_000)),
    CostlyPicture("WebP", "16,000 x 6,200, RGBA", partial(_wide_webp, "RGBA")),
    CostlyPicture("WebP", "16,000 x 6,200, RGB", partial(_wide_webp, "RGB")),
    CostlyPicture("WebP", "RGB, 24 megapixels", partial(_largest, "WebP")),
    CostlyPicture("WebP", "300 frames", partial(_animated, "WebP", 500, 300)),
    CostlyPicture("JPEG", "progressive, 89 megapixels", partial(_largest, "progressive JPEG")),
    CostlyPicture("JPEG", "48 megapixels, unscaled", partial(picture, "RGB", 48, "JPEG"), LARGE),
    CostlyPicture("JPEG", "11 scans of 88 megapixels", partial(_scans, 9400, 11, 20)),
    CostlyPicture("JPEG", "7,900 scans of 500 x 500", partial(_scans, 500, 7900, 8)),
    CostlyPicture("JPEG", "480 empty scans", partial(_scans, 2000, 480, 0)),
    CostlyPicture("JPEG", "three colours, 480 scans", lambda: in_three_colours(jpeg_of_scans(480))),
    CostlyPicture(
        "JPEG", "9,900 segments", lambda: jpeg_of_scans(1, FAKE_END * 9900, progressive=True)
    ),
    CostlyPicture("MPO", "200 photos", partial(_animated, "MPO", 500, 200)),
    CostlyPicture("PNG", "turned, 48 megapixels", partial(_largest, "turned PNG")),
    CostlyPicture("PNG", "RGBA, 48 megapixels", partial(_largest, "RGBA PNG")),
    CostlyPicture("PNG", "16 bits, 62 megapixels", partial(_largest, "PNG of 16 bits")),
    CostlyPicture("PNG", "66,000 chunks", partial(png_of_chunks, 66_000)),
    CostlyPicture("PNG", "66,000 pieces", partial(_png_of_pieces, 66_000)),
    CostlyPicture("PNG", "texts of 100 MB", partial(_png_bombs, b"zTXt", b"a\0\0", 5)),
    CostlyPicture("PNG", "profiles of 100 MB", partial(_png_bombs, b"iCCP", b"a\0\0", 5)),
    CostlyPicture("GIF", "40,000 comments", partial(_gif_of_comments, 40_000)),
    CostlyPicture("GIF", "300 frames", partial(_animated, "GIF", 500, 300)),
    CostlyPicture("BMP", "run lengths, 316 x 316", partial(bmp_of_run_lengths, 316)),
    CostlyPicture("BMP", "run lengths, 400 x 400", partial(bmp_of_run_lengths, 400)),
    CostlyPicture("BMP", "RGB, 198 MB", partial(bmp, 24, 0, bytes(198_000_000), (11_000, 6_000))),
    CostlyPicture("TIFF", "RGB in one strip", partial(_largest, "TIFF in one strip")),
    CostlyPicture("TIFF", "floats, 46 megapixels", partial(_largest, "TIFF of floats")),
    CostlyPicture("TIFF", "60,000 tags", partial(_tiff_of_tags, 60_000)),
    *(
        CostlyPicture(
            "TIFF", f"{kind}, 77 megapixels", partial(picture, "L", 77, "TIFF", **options)
        )
        for kind, options in {
            "LZW": {"compression": "tiff_lzw"},
            "deflate": {"compression": "tiff_deflate"},
            "JPEG": {"compression": "jpeg"},
        }.items()
    ),
    CostlyPicture("PPM", "plain, 100 kB of comments", partial(_plain_ppm, 100_000)),
    CostlyPicture("PPM", "plain, 1 MB of comments", partial(_plain_ppm, 1_000_000)),
    CostlyPicture("PPM", "RGB, 198 MB", lambda: b"P6 11000 6000 255\n" + bytes(198_000_000)),
    CostlyPicture("PPM", "1 bit a pixel", lambda: b"P4 12000 6400\n" + bytes(9_600_000)),
    CostlyPicture("AVIF", "RGB, 24 megapixels", partial(_largest, "AVIF")),
    CostlyPicture("others", "an icon of 256 x 256", lambda: encoded(_noise(256, 60), "ICO")),
]


class CostlyReader:
    """Reads a file all the way to its vector and its thumbnail."""

    def __init__(self, path: Path, side: int) -> None:
        self.path = path
        self.backbone = PixelVectors(Preprocessing(side, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))

    def inputs(self, batch: Batch) -> Iterator[Input]:
        warnings.simplefilter("ignore")
        yield Input(batch.kind, b"")  # to send the file itself would take memory

    def examine(self, _: Batch, given: Input) -> str:
        (result,) = embed_pictures(self.backbone, [self.path], thumbnails=[0])
        if not isinstance(result, PictureError):
            return "read"
        if wants_memory(result.__cause__):
            raise AssertionError(f"{given.name} asks for more memory than there is: {result}")
        return "refused"


def _write(costly: CostlyPicture, path: Path) -> None:
    path.write_bytes(costly.make())


def read_costly_pictures(attack: Attack) -> Outcome:
    """Measure the picture that costs most of each format; for the record, which that was."""
    outcome, path = Outcome(), attack.folder / "picture"
    worst: dict[str, str] = {}
    there = [costly for costly in COSTLY if costly.kind != "AVIF" or features.check("avif")]
    for costly in there[: attack.count]:
        # In another process, so that the one that is measured has no memory of it.
        if fork(partial(_write, costly, path)):
            raise OSError(f"{costly.kind}, {costly.name} cannot be made")
        name = f"{costly.kind}, {costly.name}"
        result = measure(CostlyReader(path, costly.side), Batch(name, 0, 1), LIMITS)
        outcome.tried += 1
        outcome.found += result.found
        for unit, value in (("peak MB", result.megabytes), ("seconds", result.seconds)):
            key = f"{costly.kind}: {unit}"
            if value > outcome.figures.get(key, -1.0):
                outcome.figures[key] = round(value, 2)
                worst[key] = f"{costly.name}, {'/'.join(result.tally)}"
        attack.progress(outcome.tried)
    outcome.remarks += [f"{key} {outcome.figures[key]:g} ({name})" for key, name in worst.items()]
    return outcome


TRIALS: tuple[Trial, ...] = (
    Trial("costliest pictures", "files", 9, len(COSTLY), read_costly_pictures),
)
