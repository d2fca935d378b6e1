"""Pictures from files, bytes, arrays and camera frames: bounded, checked, RGB and upright."""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import time
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import PREFIXES, TiffImageFile

from cbcl.errors import PictureError, Subject, first_line, reason
from cbcl.vision.decoding_budget import BUDGET, MAX_DECODED_BYTES
from cbcl.vision.finding import RemotePicture, is_url, read_remote
from cbcl.vision.heic import is_heic, open_heic

Source: TypeAlias = str | os.PathLike[str] | bytes | NDArray[Any] | Image.Image
Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, 3), RGB
Floats: TypeAlias = NDArray[np.float32]

MAX_PICTURE_BYTES = 200_000_000  # of an encoded picture
MAX_SCANNED_PIXELS = 2_000_000_000  # pixels of a JPEG times its scans, which are usually ten
MAX_SEGMENTS = 10_000  # of a JPEG
MAX_TIFF_NUMBERS = 100_000  # of one tag: each is a strip or tile, and a Python object
MAX_SLOW_PIXELS = 100_000  # and bytes, for decoders in Python
MAX_READS = 200_000  # by a decoder; a PNG of 100 MB needs 40,000
MAX_DECODING_SECONDS = 20.0
BAND_PIXELS = 500_000  # converted together
WIDE_BAND_BYTES = 28 * BAND_PIXELS  # to convert a band of 1 bit, 16 bits or floats
ORDINARY_BYTES = 10_000_000  # of an encoded picture, not counted: photos are smaller
FRACTION_TOLERANCE = 1e-3  # beyond 0 and 1, for rounding

# Formats that Pillow reads by itself, in memory, without running another program.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
KINDS = {  # of files sent by mistake or cut off, by their first bytes
    b"%PDF": "it is a PDF file",
    b"PK\3\4": "it is a ZIP file, or a document",
    b"\x1a\x45\xdf\xa3": "it is a video",
    b"\xff\xd8": "it is a damaged JPEG file",
    b"\x89PNG": "it is a damaged PNG file",
    b"SQLite format 3\0": "it is a memory, or another database",
}
STILL_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1")  # of ISO media files
KEEP_DECODERS = ("WEBP", "AVIF")  # formats whose pictures keep their decoder; a copy does not
SEGMENT = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")  # marker of a segment with a length
START_OF_SCAN = b"\xff\xda"
END_OF_PICTURE = b"\xff\xd9"
TURNED = range(2, 9)  # orientations of a picture that is not stored upright
# Tags of TIFF and EXIF.
ORIENTATION = 0x0112
BITS_PER_SAMPLE = 0x0102
STRIP_HEIGHT = 0x0116
TILE_WIDTH = 0x0142
TILE_HEIGHT = 0x0143
TIFF_BYTE_ORDERS = {prefix: "<" if prefix[:2] == b"II" else ">" for prefix in PREFIXES}
TIFF_BYTES = (1, 2, 6, 7)  # types of values that stay bytes, such as colour profiles


def name_of(source: object, number: int) -> str:
    """Return a name for a source in messages: its path, or its number in the list, from 1."""
    if isinstance(source, str | os.PathLike):
        return str(source)
    ordinal = number + 1
    return f"picture {ordinal}"


def as_path(source: str | os.PathLike[str]) -> Path | RemotePicture:
    """Return the path of a local file, or the address of a remote one."""
    if isinstance(source, RemotePicture):
        return source
    return RemotePicture(str(source)) if is_url(source) else Path(source)


def read(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file of at most `MAX_PICTURE_BYTES`."""
    path = as_path(path)
    if isinstance(path, RemotePicture):
        data = read_remote(path, MAX_PICTURE_BYTES + 1)
        _check_size(data, path)
        return data
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe may never end
            raise PictureError(path, "is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_PICTURE_BYTES + 1)
    except FileNotFoundError:
        raise PictureError(path, "does not exist") from None
    except (OSError, ValueError) as error:
        raise PictureError(path, f"cannot be read: {reason(error)}") from error
    _check_size(data, path)
    return data


def _check_size(data: bytes, name: Subject) -> None:
    if len(data) > MAX_PICTURE_BYTES:
        megabytes = MAX_PICTURE_BYTES // 1_000_000
        problem = f"has more than {megabytes} MB"
        raise PictureError(name, problem, "make it smaller")


def load(source: Source, name: Subject, at_least: int) -> Image.Image:
    """Return a picture in RGB, upright; errors have its path if it has one, else `name`.

    The decoder scales a large JPEG down to `at_least` pixels a side or more.
    """
    if isinstance(source, str | os.PathLike):
        return _decode(read(source), as_path(source), at_least)
    if isinstance(source, bytes):
        _check_size(source, name)
        return _decode(source, name, at_least)
    if isinstance(source, np.ndarray):
        return _from_array(source, name)
    if isinstance(source, Image.Image):
        try:
            source.load()
            return _as_rgb(_upright(source) if _is_turned(source) else source, name)
        except (OSError, SyntaxError, ValueError) as error:  # its file is broken, or closed
            raise PictureError(name, f"is broken: {reason(error)}") from error
    problem = f"is of type {type(source).__name__}"
    raise PictureError(name, problem, "give a file, bytes, an array or a PIL picture")


class _TimedBytes(io.BytesIO):
    """Bytes that a decoder can read for a limited time, and in a limited number of chunks."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0
        self.end = time.monotonic() + MAX_DECODING_SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > MAX_READS:
            raise TimeoutError(f"is divided into more than {MAX_READS} pieces")
        if time.monotonic() > self.end:
            raise TimeoutError(f"takes more than {MAX_DECODING_SECONDS:.0f} seconds to decode")
        return super().read(size)


def _decode(data: bytes, name: Subject, at_least: int) -> Image.Image:
    try:
        if is_heic(data):
            return _decode_heic(data, name)
        if data[:4] in TIFF_BYTE_ORDERS:
            _check_directory(data, name)
        image: Image.Image = Image.open(_TimedBytes(data), formats=_formats())
        full_size = image.size
        image.draft("RGB", (at_least, at_least))
        _check_codec(image, data, name)
        several = isinstance(image, JpegImageFile) and _has_scans(image, data, full_size, name)
        with BUDGET.share():
            own = max(0, len(data) - ORDINARY_BYTES)
            expected = own + _decoding_bytes(image, full_size, several)
            _take(expected, 0, image.size, name)
            image.load()
            is_turned = _is_turned(image)
            _take(own + 2 * _stored_bytes(image) if is_turned else 0, expected, image.size, name)
            image = image.copy() if image.format in KEEP_DECODERS else image
            image = _upright(image) if is_turned else image
            return _as_rgb(image, name)
    except PictureError:
        raise
    except UnidentifiedImageError:
        problem = f"is not a picture, or its format cannot be read here: {_kind(data)}"
        raise PictureError(name, problem) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureError(name, "has far too many pixels", "make it smaller") from None
    except Exception as error:  # a decoder may raise anything about a broken file
        if "truncated" in str(error).lower():
            raise PictureError(name, "is incomplete", "copy it again") from error
        raise PictureError(name, f"is broken: {first_line(error)}") from error


def _decode_heic(data: bytes, name: Subject) -> Image.Image:
    photo = open_heic(data, name)
    with BUDGET.share():
        _take(max(0, len(data) - ORDINARY_BYTES) + photo.decoding_bytes, 0, photo.size, name)
        return _as_rgb(photo.decode(), name)


def _check_directory(data: bytes, name: Subject) -> None:
    """Refuse a TIFF with too many numbers in its first directory before it is opened."""
    order = TIFF_BYTE_ORDERS[data[:4]]
    is_big = data[2] == 43  # Pillow's test for a BigTIFF
    (place,) = struct.unpack_from(f"{order}Q" if is_big else f"{order}I", data, 8 if is_big else 4)
    head, entry = (f"{order}Q", f"{order}HHQ8x") if is_big else (f"{order}H", f"{order}HHI4x")
    (count,) = struct.unpack_from(head, data, place)
    place += struct.calcsize(head)
    end = place + count * struct.calcsize(entry)
    if count > MAX_TIFF_NUMBERS or end > len(data):
        raise PictureError(name, "is broken: its directory is longer than the file")
    for _, kind, numbers in struct.iter_unpack(entry, data[place:end]):
        if numbers > MAX_TIFF_NUMBERS and kind not in TIFF_BYTES:
            problem = f"is a TIFF of more than {MAX_TIFF_NUMBERS} strips or tiles"
            raise PictureError(name, problem, "save it as PNG or JPEG")


def _check_codec(image: Image.Image, data: bytes, name: Subject) -> None:
    """Refuse large pictures that Pillow decodes in Python: plain PPM, BMP with run lengths."""
    is_small = max(len(data), image.width * image.height) <= MAX_SLOW_PIXELS
    if not is_small and any(codec in Image.DECODERS for codec, *_ in getattr(image, "tile", ())):
        problem = f"is a {image.format} of a rare kind, which takes too long to decode"
        raise PictureError(name, problem, "save it as PNG or JPEG")


def _has_scans(image: JpegImageFile, data: bytes, size: tuple[int, int], name: Subject) -> bool:
    """Tell whether a JPEG has several scans, each a pass over all pixels; refuse too many.

    Where the first scan of a sequential JPEG has all colours, the decoder reads no other.
    """
    scans = 0
    place = 0
    for _ in range(MAX_SEGMENTS):
        marker = SEGMENT.search(data, place)
        if marker is None or marker[0] == END_OF_PICTURE:  # another picture may follow
            return True
        place = marker.end()
        if marker[0] == START_OF_SCAN:
            scans += 1
            has_all_colours = data[place + 2 : place + 3] == bytes([len(image.layer)])
            if scans == 1 and has_all_colours and not image.info.get("progressive"):
                return False
            if scans * size[0] * size[1] > MAX_SCANNED_PIXELS:
                problem = f"is a JPEG of too many scans for {size[0]} x {size[1]} pixels"
                raise PictureError(name, problem, "save it again")
        place += int.from_bytes(data[place : place + 2], "big")
    problem = f"is a JPEG of more than {MAX_SEGMENTS} segments, which no camera writes"
    raise PictureError(name, problem, "save it again")


def _take(count: int, taken: int, size: tuple[int, int], name: Subject) -> None:
    """Take what a picture needs, beyond the bytes already taken, from the budget."""
    if count > MAX_DECODED_BYTES:
        width, height = size
        most = MAX_DECODED_BYTES // 1_000_000
        problem = f"has {width} x {height} pixels, which take more than {most} MB to decode"
        raise PictureError(name, problem, "make it smaller, or save it as JPEG")
    if count > taken:
        BUDGET.take(count - taken)


def _decoding_bytes(image: Image.Image, full_size: tuple[int, int], several: bool) -> int:
    """Return the peak of memory while a picture is decoded and converted, from its header."""
    pixels = image.width * image.height
    if image.format in KEEP_DECODERS:  # two canvases or planes, the bytes of one, the picture
        return 16 * pixels
    if isinstance(image, JpegImageFile):  # with several scans, all coefficients
        areas = [across * down for _, across, down, _ in image.layer]
        coefficients = 2 * full_size[0] * full_size[1] * sum(areas) // max(areas)
        return 8 * pixels + (coefficients if several else 0)
    converted = 0 if _is_rgb(image) else 4 * pixels
    scaled = WIDE_BAND_BYTES if image.mode[0] in "1IF" else 0
    return _stored_bytes(image) + converted + scaled + _strip_bytes(image)


def _stored_bytes(image: Image.Image) -> int:
    narrow = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
    return narrow.get(image.mode, 4) * image.width * image.height


def _strip_bytes(image: Image.Image) -> int:
    """Return the bytes of a strip or tile of a TIFF, which are unpacked together."""
    if not isinstance(image, TiffImageFile):
        return 0
    tags = image.tag_v2
    width = int(tags.get(TILE_WIDTH, image.width))
    height = int(tags.get(TILE_HEIGHT, min(tags.get(STRIP_HEIGHT, image.height), image.height)))
    return width * height * -(-sum(tags.get(BITS_PER_SAMPLE, (1,))) // 8)


@cache
def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]  # some builds of Pillow lack one


def _kind(data: bytes) -> str:
    if not data:
        return "it is empty"
    for start, kind in KINDS.items():
        if data.startswith(start):
            return kind
    if data[4:8] == b"ftyp" and data[8:12] not in STILL_BRANDS:
        return "it is a video"
    is_text = b"\0" not in data[:1000] and data[:1000].isascii()
    return "it is text" if is_text else "its format is unknown"


def _is_turned(image: Image.Image) -> bool:
    try:
        return image.getexif().get(ORIENTATION) in TURNED
    except Exception:  # invalid metadata: the picture stays as it is
        return False


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # as above
        return image


def _is_rgb(image: Image.Image) -> bool:
    return image.mode == "RGB" and "transparency" not in image.info


def _as_rgb(image: Image.Image, name: Subject) -> Image.Image:
    """Convert a picture band by band: no intermediate step holds all of its pixels."""
    if 0 in image.size:
        raise PictureError(name, "has no pixels")
    if _is_rgb(image):
        return image
    rows = max(1, BAND_PIXELS // image.width)
    boxes = [
        (0, top, image.width, min(top + rows, image.height)) for top in range(0, image.height, rows)
    ]
    is_16_bits = image.mode == "F" and any(_largest(image.crop(box)) > 1.0 for box in boxes)
    if len(boxes) == 1:
        return _band_as_rgb(image, is_16_bits, name)
    converted = Image.new("RGB", image.size)
    for box in boxes:
        converted.paste(_band_as_rgb(image.crop(box), is_16_bits, name), box)
    return converted


def _band_as_rgb(image: Image.Image, is_16_bits: bool, name: Subject) -> Image.Image:
    if image.mode == "F":  # floats above 1 stand for 16 bits
        values = np.asarray(image)
        return _from_array(values / 65535.0 if is_16_bits else values, name)
    if image.mode.startswith("I"):
        values = np.asarray(image)
        return _from_array(np.asarray(values.clip(0, 65535), dtype=np.uint16), name)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _largest(image: Image.Image) -> float:
    return float(np.nanmax(np.asarray(image), initial=0.0))


def _from_array(array: NDArray[Any], name: Subject) -> Image.Image:
    """Convert an array of (height, width) or (height, width, 1, 3 or 4), grey, RGB or RGBA.

    Its values are unsigned, of 8 or 16 bits, booleans, or fractions from 0 to 1.
    """
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not is_picture or 0 in array.shape:
        advice = "give (height, width), or that and 3 or 4 colours"
        raise PictureError(name, f"is an array of shape {array.shape}", advice)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        array = (array.astype(np.uint32) * 255 + 32767) // 65535
    elif array.dtype == np.bool_:
        array = array * np.uint8(255)
    elif array.dtype.kind == "f":
        if not (np.min(array) >= -FRACTION_TOLERANCE and np.max(array) <= 1 + FRACTION_TOLERANCE):
            raise PictureError(name, "holds fractions, which must be from 0 to 1")
        array = np.rint(np.clip(array, 0.0, 1.0) * 255.0)
    elif array.dtype != np.uint8:
        advice = "give bytes (uint8), uint16, or fractions from 0 to 1"
        raise PictureError(name, f"is an array of {array.dtype}", advice)
    return _as_rgb(Image.fromarray(np.ascontiguousarray(array, dtype=np.uint8)), name)
