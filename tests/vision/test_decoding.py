"""Whatever comes in is a picture, upright and in RGB, or one clear sentence."""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.crafted_pictures import png_chunk
from support.decoded import UPRIGHT, corners, refusal
from support.photos import encoded, photo

from cbcl.errors import PictureError
from cbcl.vision import decoding
from cbcl.vision.decoding import load

FLAG = Image.fromarray(
    np.kron(
        np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [250, 250, 250]]], np.uint8),
        np.ones((32, 32, 1), np.uint8),
    )
)


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,  # stored turned this way, shown turned back
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_upright_however_the_camera_was_held(orientation: int) -> None:
    stored = FLAG.transpose(TURNS[orientation]) if orientation > 1 else FLAG
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert corners(load(encoded(stored, quality=95, exif=exif), "flag", 32)) == UPRIGHT


@pytest.mark.parametrize(
    "kind", ["JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "BigTIFF", "PPM"]
)
def test_formats_that_are_read(kind: str) -> None:
    options = {"big_tiff": True} if kind == "BigTIFF" else {}
    image = load(encoded(FLAG, kind.removeprefix("Big"), **options), "flag", 32)
    assert image.mode == "RGB"
    assert corners(image) == UPRIGHT


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("L", "JPEG"),
        ("CMYK", "JPEG"),
        ("1", "PNG"),
        ("P", "PNG"),
        ("LA", "PNG"),
        ("RGBA", "PNG"),
        ("I;16", "PNG"),
        ("F", "TIFF"),
    ],
)
def test_any_mode_becomes_rgb_and_looks_the_same(mode: str, kind: str) -> None:
    grey = photo("chelsea").convert("L")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    elif mode == "F":
        image = Image.fromarray(np.asarray(grey).astype(np.float32) / 255)
    else:
        image = photo("chelsea").convert(mode)
    got = load(encoded(image, kind), "cat", 300)
    assert got.mode == "RGB"
    wanted = np.asarray(
        grey if mode in ("L", "I;16", "F", "LA") else image.convert("RGB").convert("L"), dtype=int
    )
    assert np.abs(np.asarray(got.convert("L"), dtype=int) - wanted).mean() < 8


@pytest.mark.parametrize(
    ("mode", "colour", "options"),
    [("RGBA", (255, 0, 0, 0), {}), ("RGB", (0, 0, 0), {"transparency": (0, 0, 0)})],
)
def test_what_is_transparent_is_white(mode: str, colour: Any, options: dict[str, Any]) -> None:
    data = encoded(Image.new(mode, (20, 20), colour), "PNG", **options)
    assert np.asarray(load(data, "clear", 10)).min() == 255


@pytest.mark.parametrize("kind", ["GIF", "MPO", "PNG", "TIFF", "WEBP"])
def test_an_animation_is_its_first_picture(kind: str) -> None:
    data = encoded(FLAG, kind, save_all=True, append_images=[Image.new("RGB", FLAG.size)])
    assert corners(load(data, "flag", 32)) == UPRIGHT


def test_a_large_jpeg_is_scaled_down_by_its_decoder_but_never_below_what_is_needed() -> None:
    data = encoded(photo("astronaut").resize((2000, 1600)))
    assert load(data, "large", 336).size == (500, 400)
    assert load(data, "large", 401).size == (1000, 800)


ARRAYS: list[Any] = [
    np.asarray(FLAG),
    np.asarray(FLAG.convert("RGBA")),
    np.asarray(FLAG).astype(np.uint16) * 257,
    np.asarray(FLAG) / 255.0,
    np.asarray(FLAG).astype(np.float32) / 255,
    np.asarray(FLAG)[:, ::-1][:, ::-1],
    (np.asarray(FLAG).astype(np.uint16) * 257).astype(">u2"),
    np.asarray(FLAG) / 250.0 * 1.0000001 - 1e-9,  # beyond 0 and 1 by rounding
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{array.shape}")
def test_arrays_are_pictures_too(array: Any) -> None:
    assert corners(load(array, "frame", 32)) == UPRIGHT


def test_grey_arrays_are_pictures_too() -> None:
    for array in (
        np.eye(16, dtype=np.bool_),
        np.eye(16),
        np.eye(16, dtype=np.uint8)[:, :, np.newaxis] * np.uint8(255),
    ):
        assert np.asarray(load(array, "frame", 8)).max() == 255


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 4, 2), np.uint8), r"shape \(4, 4, 2\)"),
        (np.zeros((0, 4, 3), np.uint8), "shape"),
        (np.zeros(4, np.uint8), "shape"),
        (np.full((4, 4), 7.0), "from 0 to 1"),
        (np.full((4, 4), np.nan), "from 0 to 1"),
        (np.zeros((4, 4), np.int64), "int64"),
    ],
)
def test_an_array_that_is_not_a_picture_is_told(array: Any, message: str) -> None:
    with pytest.raises(PictureError, match=message):
        load(array, "frame 3", 8)


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is that large."""
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(bytes(10_000)))
    return b"\x89PNG\r\n\x1a\n" + head + pixels + png_chunk(b"IEND", b"")


BAD = {
    "empty": (b"", "empty"),
    "text": (b"hello, this is not a picture at all", "it is text"),
    "text like a TIFF": (b"MMmm, II guess", "it is text"),
    "cut TIFF": (encoded(FLAG, "TIFF")[:100], "broken"),
    "binary": (bytes(range(256)) * 4, "here: its format is unknown"),
    "a video": (b"\0\0\0\x14ftypqt  " + bytes(500), "it is a video"),
    "a web video": (b"\x1a\x45\xdf\xa3" + bytes(500), "it is a video"),
    "a document": (b"%PDF-1.7\n\xe2\xe3" + bytes(500), "it is a PDF file"),
    "a spreadsheet": (b"PK\3\4" + bytes(500), "it is a ZIP file, or a document"),
    "the start of a JPEG": (b"\xff\xd8broken", "it is a damaged JPEG file"),
    "truncated": (encoded(photo("coffee"))[:9000], "incomplete: copy it again"),
    "truncated PNG": (encoded(photo("coffee"), "PNG")[:9000], "broken|incomplete"),
    "bomb": (bomb(50_000, 50_000), "pixels"),
    "small bomb": (bomb(12_000, 12_000), "12000 x 12000 pixels"),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n" + bytes(100), "not a picture"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", BAD)
def test_what_is_not_a_picture_is_told_in_one_sentence_with_its_name(kind: str) -> None:
    data, message = BAD[kind]
    assert re.search(message, refusal(data, "holiday.jpg"))


def test_decoding_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_DECODING_SECONDS", -1.0)
    with pytest.raises(PictureError, match="seconds to decode"):
        load(encoded(FLAG), "slow.jpg", 32)


def test_an_error_about_a_file_shows_no_folder_in_public(tmp_path: Path) -> None:
    (tmp_path / "note.jpg").write_text("no picture")
    for name, problem in (("note.jpg", "is not a picture"), ("nowhere.jpg", "does not exist")):
        with pytest.raises(PictureError, match=problem) as caught:
            load(tmp_path / name, "picture 1", 8)
        assert caught.value.subject == tmp_path / name
        assert caught.value.public.startswith(f"{name} ")
        assert str(tmp_path) not in caught.value.public


def test_what_is_not_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for name in ("pipe.jpg", "."):
        with pytest.raises(PictureError, match="is not a file"):
            load(tmp_path / name, name, 8)
    with pytest.raises(PictureError, match="cannot be read"):
        load(tmp_path / ("x" * 300), "x", 8)


@pytest.mark.parametrize("thing", [None, 5, [[1, 2], [3, 4]]])
def test_an_object_that_is_not_a_picture_is_told(thing: Any) -> None:
    with pytest.raises(PictureError, match="is of type"):
        load(thing, "picture 1", 8)


def test_pillow_pictures_that_are_broken_are_told() -> None:
    cut = Image.open(io.BytesIO(encoded(photo("coffee"))[:9000]))
    with pytest.raises(PictureError, match="picture 1 is broken"):
        load(cut, "picture 1", 8)
    with pytest.raises(PictureError, match="no pixels"):
        load(Image.new("RGB", (0, 0)), "picture 1", 8)


def test_a_float_picture_out_of_range_is_told_by_its_name() -> None:
    data = encoded(Image.fromarray(np.full((9, 9), -3.0, np.float32)), "TIFF")
    with pytest.raises(PictureError, match=r"scan\.tif holds fractions"):
        load(data, "scan.tif", 8)
