"""HEIC photos are read as others are: upright, in RGB, within the same limits; or one sentence."""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.decoded import UPRIGHT, corners, measure, refusal
from support.heic import SLICE, TILE_SIDE, heic

from cbcl.errors import PictureError
from cbcl.vision.decoding import load
from cbcl.vision.heic import is_heic

needs_extra = pytest.mark.skipif(find_spec("pi_heif") is None, reason="needs the extra heic")


@needs_extra
def test_a_photo_is_read_from_bytes_and_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "IMG_1.HEIC").write_bytes(heic())
    for source in (heic(), tmp_path / "IMG_1.HEIC"):
        image = load(source, "photo", 224)
        assert image.mode == "RGB"
        assert corners(image) == UPRIGHT


@needs_extra
@pytest.mark.parametrize("turns", range(4))
def test_a_photo_is_upright_however_the_phone_was_held(turns: int) -> None:
    image = load(heic(turns=turns), "photo", 224)
    wanted = np.rot90(np.array(UPRIGHT).reshape(2, 2, 3), turns).reshape(4, 3)
    assert corners(image) == [*map(tuple, wanted.tolist())]


@needs_extra
def test_a_photo_is_not_turned_twice() -> None:
    """Phones say it in the photo's EXIF data as well, which is only for those who copy it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    assert load(heic(2, 1, turns=3, exif=exif.tobytes()[6:]), "photo", 224).size == (512, 1024)


@needs_extra
def test_a_photo_of_many_tiles_has_all_of_them() -> None:
    image = load(heic(3, 2), "photo", 224)
    assert image.size == (3 * TILE_SIDE, 2 * TILE_SIDE)
    tile = image.crop((2 * TILE_SIDE, TILE_SIDE, 3 * TILE_SIDE, 2 * TILE_SIDE))
    assert corners(tile) == UPRIGHT


@needs_extra
def test_a_photo_of_48_megapixels_takes_no_more_than_400_mb(tmp_path: Path) -> None:
    peak, kept, errors = measure(heic(16, 12), tmp_path)
    assert errors == [""]
    assert peak < 400
    assert kept < 60


def cut(size: int) -> bytes:
    return heic()[:-size]


BAD = {
    "only its first bytes": (b"\0\0\0\x18ftypheic" + bytes(100), "is broken: its header"),
    "cut header": (cut(len(SLICE) + 100), "is broken: its header"),
    "cut pixels": (cut(300), "is broken"),
    "too large": (heic(18, 12), "9216 x 6144 pixels, which take more than 390 MB"),
    "too large, and says otherwise": (
        heic(18, 12, stated=(640, 480)),
        "9216 x 6144 pixels, which take more than 390 MB",
    ),
    "of another size": (heic(stated=(640, 640)), "is broken"),
    "other parts": (heic().replace(b"hvc1", b"grid"), "of a rare kind"),
    "a kind of item that is no text": (heic().replace(b"Exif", b"Exi\xd7"), "its header"),
    "two headers": (heic() + struct.pack(">I4s", 8, b"meta"), "is broken: its header"),
    "a box that ends before it begins": (
        heic() + struct.pack(">I4s", 3, b"free"),
        "is broken: its header",
    ),
}


@needs_extra
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_photo_is_told_in_one_sentence_with_its_name(kind: str) -> None:
    data, message = BAD[kind]
    assert message in refusal(data, "IMG_1.HEIC")


@needs_extra
def test_whatever_bytes_are_changed_it_is_a_picture_or_a_sentence() -> None:
    rng = np.random.default_rng(1)
    whole = heic(2, 2)
    for _ in range(200):
        data = bytearray(whole)
        for place in rng.integers(12, len(data), size=3):
            data[place] = rng.integers(256)
        with suppress(PictureError):
            assert load(bytes(data), "IMG_1.HEIC", 224).mode == "RGB"


def test_without_the_extra_one_is_told_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    assert refusal(heic(), "IMG_1.HEIC") == (
        'IMG_1.HEIC is a HEIC photo, which needs the extra heic: pip install "cbcl[heic]", or save'
        " it as JPEG (on an iPhone: Settings, Camera, Formats, Most Compatible)."
    )


def test_an_avif_is_none_even_if_it_begins_as_one() -> None:
    assert is_heic(b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic")
    assert not is_heic(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif")
    assert not is_heic(b"\0\0\0\x18ftypavif\0\0\0\0mif1heic")
