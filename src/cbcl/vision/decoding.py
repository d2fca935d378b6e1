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

from cbcl.errors import PictureError, first_line

Source: TypeAlias = str | os.PathLike[str] | bytes | NDArray[Any] | Image.Image
Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, 3), RGB
Floats: TypeAlias = NDArray[np.float32]

MAX_BYTES = 200_000_000  # of a file
MAX_PIXELS = 100_000_000  # to be decoded; a JPEG may have more, since its decoder can scale down
MAX_SCANS = 200  # of a progressive JPEG; cameras write about ten, and each costs as much as the whole picture
MAX_SECONDS = 20.0  # to decode one
ROUNDING = 1e-3  # by which a fraction may miss 0 or 1

# What Pillow reads by itself, in memory, without running another program.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "ICO", "TGA")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


def name_of(source: object, number: int) -> str:
    """What to call a source in a message."""
    return str(source) if isinstance(source, str | os.PathLike) else f"picture {number + 1}"


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, if they are not too many."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe may keep us waiting for ever
            raise PictureError(f"{path} is not a file.")
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise PictureError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise PictureError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    if len(data) > MAX_BYTES:
        raise PictureError(f"{path} has more than {MAX_BYTES // 1_000_000} MB: make it smaller.")
    return data


def load(source: Source, name: str, at_least: int) -> Image.Image:
    """A picture in RGB, upright; a large JPEG is scaled down by its decoder, to no less than `at_least` a side."""
    if isinstance(source, np.ndarray):
        return _from_array(source, name)
    if isinstance(source, Image.Image):
        try:
            source.load()
            return _as_rgb(_upright(source), name)
        except (
            OSError,
            SyntaxError,
            ValueError,
        ) as error:  # what it was opened from is broken, or closed
            raise PictureError(f"{name} is broken: {first_line(error)}.") from error
    if isinstance(source, bytes):
        return _decode(source, name, at_least)
    if isinstance(source, str | os.PathLike):
        return _decode(read(source), name, at_least)
    raise PictureError(
        f"{name} is of type {type(source).__name__}: give a file, bytes, an array or a PIL picture."
    )


class _Timed(io.BytesIO):
    """Bytes that can be read for a limited time; a decoder asks for them piece by piece."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.end = time.monotonic() + MAX_SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() > self.end:
            raise TimeoutError(f"takes more than {MAX_SECONDS:.0f} seconds to decode")
        return super().read(size)


def _decode(data: bytes, name: str, at_least: int) -> Image.Image:
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        raise PictureError(
            f"{name} is a HEIC photo, which cannot be read here: save it as JPEG "
            "(on an iPhone: Settings, Camera, Formats, Most Compatible)."
        )
    try:
        image = Image.open(_Timed(data), formats=_formats())
        if image.info.get("progressive") and data.count(b"\xff\xda") > MAX_SCANS:
            raise PictureError(
                f"{name} is a JPEG of more than {MAX_SCANS} scans: no camera makes such. Save it anew."
            )
        image.draft("RGB", (at_least, at_least))
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(
                f"{name} has {width} x {height} pixels, more than {MAX_PIXELS // 1_000_000} million: make it smaller."
            )
        image.load()
        return _as_rgb(_upright(image), name)
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError(
            f"{name} is not a picture, or of a format that cannot be read here: {_kind(data)}."
        ) from None
    except (
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):  # a warning, where those are errors
        raise PictureError(f"{name} has far too many pixels: make it smaller.") from None
    except Exception as error:  # whatever a decoder of a broken file may raise
        raise PictureError(f"{name} is broken: {first_line(error)}.") from error


@cache
def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]  # not every build of Pillow has all


def _kind(data: bytes) -> str:
    if not data:
        return "it is empty"
    return (
        "it is text"
        if b"\0" not in data[:1000] and data[:1000].isascii()
        else f"it begins with {data[:8]!r}"
    )


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # metadata that makes no sense turns nothing
        return image


def _as_rgb(image: Image.Image, name: str) -> Image.Image:
    if 0 in image.size:
        raise PictureError(f"{name} has no pixels.")
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(_sixteen_bits(np.asarray(image)), name)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _sixteen_bits(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind != "f":
        return np.asarray(values.clip(0, 65535), dtype=np.uint16)
    most = float(np.nanmax(values, initial=0.0))
    return np.asarray(values / 65535.0 if most > 1.0 else values)


def _from_array(array: NDArray[Any], name: str) -> Image.Image:
    """An array of (height, width), or of these and 1, 3 (RGB) or 4 (RGBA): bytes, 16 bits, or numbers from 0 to 1."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if (
        array.ndim not in (2, 3)
        or 0 in array.shape
        or (array.ndim == 3 and array.shape[2] not in (3, 4))
    ):
        raise PictureError(
            f"{name} is an array of shape {array.shape}: give (height, width), or that and 3 or 4 colours."
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        array = (array.astype(np.uint32) * 255 + 32767) // 65535
    elif array.dtype == np.bool_:
        array = array * np.uint8(255)
    elif array.dtype.kind == "f":
        if not (np.min(array) >= -ROUNDING and np.max(array) <= 1.0 + ROUNDING):
            raise PictureError(f"{name} holds fractions, which must be from 0 to 1.")
        array = np.rint(np.clip(array, 0.0, 1.0) * 255.0)
    elif array.dtype != np.uint8:
        raise PictureError(
            f"{name} is an array of {array.dtype}: give bytes (uint8), uint16, or fractions from 0 to 1."
        )
    return _as_rgb(Image.fromarray(np.ascontiguousarray(array, dtype=np.uint8)), name)
