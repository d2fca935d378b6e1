"""Pictures from files, bytes, arrays and camera frames: bounded, checked, RGB and upright."""

from __future__ import annotations

import io
import os
import stat
import time
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from cbcl.errors import PictureError, Subject, first_line, reason

Source: TypeAlias = str | os.PathLike[str] | bytes | NDArray[Any] | Image.Image
Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, 3), RGB
Floats: TypeAlias = NDArray[np.float32]

MAX_PICTURE_BYTES = 200_000_000  # of a file
MAX_PIXELS = 100_000_000  # to be decoded; a JPEG may have more, since its decoder can scale down
MAX_SCANS = 200  # of a progressive JPEG; cameras write about ten, each as costly as all pixels
MAX_DECODING_SECONDS = 20.0
FRACTION_TOLERANCE = 1e-3  # by which a fraction may miss 0 or 1

# Formats that Pillow reads by itself, in memory, without running another program.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "ICO", "TGA")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


def name_of(source: object, number: int) -> str:
    """Return a name for a source in messages: its path, or its place in the list given."""
    return str(source) if isinstance(source, str | os.PathLike) else f"picture {number + 1}"


def read(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file of at most `MAX_PICTURE_BYTES`."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe may never end
            raise PictureError(path, "is not a file")
        with path.open("rb") as file:
            data = file.read(MAX_PICTURE_BYTES + 1)
    except FileNotFoundError:
        raise PictureError(path, "does not exist") from None
    except (OSError, ValueError) as error:
        raise PictureError(path, f"cannot be read: {reason(error)}") from error
    if len(data) > MAX_PICTURE_BYTES:
        problem = f"has more than {MAX_PICTURE_BYTES // 1_000_000} MB"
        raise PictureError(path, problem, "make it smaller")
    return data


def load(source: Source, name: Subject, at_least: int) -> Image.Image:
    """Return a picture in RGB, upright; errors call it by its path if it has one, else by `name`.

    The decoder scales a large JPEG down, to no less than `at_least` pixels a side.
    """
    if isinstance(source, str | os.PathLike):
        return _decode(read(source), Path(source), at_least)
    if isinstance(source, bytes):
        return _decode(source, name, at_least)
    if isinstance(source, np.ndarray):
        return _from_array(source, name)
    if isinstance(source, Image.Image):
        try:
            source.load()
            return _as_rgb(_upright(source), name)
        except (OSError, SyntaxError, ValueError) as error:  # its file is broken, or closed
            raise PictureError(name, f"is broken: {reason(error)}") from error
    problem = f"is of type {type(source).__name__}"
    raise PictureError(name, problem, "give a file, bytes, an array or a PIL picture")


class _TimedBytes(io.BytesIO):
    """Bytes that can be read for a limited time; a decoder reads them in chunks."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.end = time.monotonic() + MAX_DECODING_SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() > self.end:
            raise TimeoutError(f"takes more than {MAX_DECODING_SECONDS:.0f} seconds to decode")
        return super().read(size)


def _decode(data: bytes, name: Subject, at_least: int) -> Image.Image:
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        advice = "save it as JPEG (on an iPhone: Settings, Camera, Formats, Most Compatible)"
        raise PictureError(name, "is a HEIC photo, which cannot be read here", advice)
    try:
        image = Image.open(_TimedBytes(data), formats=_formats())
        image.draft("RGB", (at_least, at_least))
        _check_cost(image, data, name)
        image.load()
        return _as_rgb(_upright(image), name)
    except PictureError:
        raise
    except UnidentifiedImageError:
        problem = f"is not a picture, or of a format that cannot be read here: {_kind(data)}"
        raise PictureError(name, problem) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureError(name, "has far too many pixels", "make it smaller") from None
    except Exception as error:  # a decoder may raise anything about a broken file
        raise PictureError(name, f"is broken: {first_line(error)}") from error


def _check_cost(image: Image.Image, data: bytes, name: Subject) -> None:
    if image.info.get("progressive") and data.count(b"\xff\xda") > MAX_SCANS:
        problem = f"is a JPEG of more than {MAX_SCANS} scans, which no camera writes"
        raise PictureError(name, problem, "save it again")
    width, height = image.size
    if width * height > MAX_PIXELS:
        problem = f"has {width} x {height} pixels, more than {MAX_PIXELS // 1_000_000} million"
        raise PictureError(name, problem, "make it smaller")


@cache
def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]  # not every build of Pillow has all


def _kind(data: bytes) -> str:
    if not data:
        return "it is empty"
    is_text = b"\0" not in data[:1000] and data[:1000].isascii()
    return "it is text" if is_text else f"it begins with {data[:8]!r}"


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # invalid metadata: the picture stays as it is
        return image


def _as_rgb(image: Image.Image, name: Subject) -> Image.Image:
    if 0 in image.size:
        raise PictureError(name, "has no pixels")
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(_to_16_bits(np.asarray(image)), name)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _to_16_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Clip integers to 16 bits; scale floats above 1, which are of 16 bits, to fractions."""
    if values.dtype.kind != "f":
        return np.asarray(values.clip(0, 65535), dtype=np.uint16)
    largest = float(np.nanmax(values, initial=0.0))
    return np.asarray(values / 65535.0 if largest > 1.0 else values)


def _from_array(array: NDArray[Any], name: Subject) -> Image.Image:
    """Convert an array of (height, width) or (height, width, 1, 3 or 4), grey, RGB or RGBA.

    Its values are 8 or 16 bits without sign, booleans, or fractions from 0 to 1.
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
