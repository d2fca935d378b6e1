"""No picture takes more memory than it may, alone or with others, nor more work than a photo."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from PIL import Image
from support.crafted_pictures import (
    FAKE_END,
    LARGEST,
    bmp_of_run_lengths,
    in_three_colours,
    jpeg_of_scans,
    picture,
    png_of_chunks,
    tiff_of_tiles,
)
from support.decoded import measure
from support.photos import encoded

from cbcl.errors import PictureError
from cbcl.vision.decoding import load
from cbcl.vision.decoding_budget import MAX_DECODED_BYTES, DecodingBudget


@pytest.mark.parametrize("kind", LARGEST)
def test_the_largest_picture_that_is_read_takes_no_more_than_400_mb(
    kind: str, tmp_path: Path
) -> None:
    mode, megapixels, file_format, options = LARGEST[kind]
    peak, kept, errors = measure(picture(mode, megapixels, file_format, **options), tmp_path)
    assert errors == [""]
    assert peak < 400
    assert kept < 60


def test_the_bytes_of_the_file_itself_count(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.new("RGB", (1000, 1000)), "BMP")  # 3 MB, and 4 MB decoded
    monkeypatch.setattr("cbcl.vision.decoding.ORDINARY_BYTES", 0)
    monkeypatch.setattr("cbcl.vision.decoding.MAX_DECODED_BYTES", 8_000_000)
    assert load(data, "picture 1", 224).size == (1000, 1000)
    monkeypatch.setattr("cbcl.vision.decoding.MAX_DECODED_BYTES", 6_000_000)
    with pytest.raises(PictureError, match="1000 x 1000 pixels, which take more than 6 MB"):
        load(data, "picture 1", 224)


def test_eight_large_pictures_at_once_take_no_more_than_the_budget(tmp_path: Path) -> None:
    data = picture("RGBA", 24, "WEBP", lossless=True, method=0)
    peak, kept, errors = measure(data, tmp_path, threads=8)
    assert errors == 8 * [""]
    assert peak < 700
    assert kept < 100


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_few_bytes_that_unpack_to_gigabytes_are_refused(mode: str) -> None:
    data = encoded(Image.new(mode, (16_000, 6_200)), "WEBP", lossless=True, method=0)
    assert len(data) < 5000
    with pytest.raises(PictureError, match="16000 x 6200 pixels, which take more than 390 MB"):
        load(data, "picture 1", 224)


def test_a_picture_converted_in_bands_is_that_converted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (50, 30, 4), np.uint8)
    rgba = Image.fromarray(pixels)
    pictures = [
        encoded(rgba, "PNG"),
        encoded(rgba.convert("RGB").quantize(20), "PNG", transparency=3),
        encoded(Image.fromarray(pixels[..., 0].astype(np.uint16) * 257), "PNG"),
        encoded(Image.fromarray(pixels[..., 0].astype(np.float32) * 90), "TIFF"),
        encoded(Image.fromarray(np.eye(50, 30, dtype=np.float32) / 2), "TIFF"),
    ]
    at_once = [np.asarray(load(data, "picture", 8)) for data in pictures]
    monkeypatch.setattr("cbcl.vision.decoding.BAND_PIXELS", 100)
    for data, wanted in zip(pictures, at_once, strict=True):
        np.testing.assert_array_equal(np.asarray(load(data, "picture", 8)), wanted)


def test_one_waits_for_bytes_that_another_has_unless_it_has_some_itself() -> None:
    budget = DecodingBudget(100)
    started = Event()
    order = list[str]()

    def other() -> None:
        with budget.share():
            started.set()
            budget.take(60)
            order.append("other")

    thread = Thread(target=other)
    with budget.share():
        budget.take(50)
        thread.start()
        started.wait()
        budget.take(60)  # more than there is, but to wait would be for ever
        with budget.share():
            budget.take(5)
        assert budget.taken == 115
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
    assert budget.taken == 0


def test_before_waiting_for_bytes_those_in_use_are_given_back() -> None:
    budget = DecodingBudget(100)
    made = list[int]()

    def make_room() -> None:
        made.append(budget.taken)
        budget.give_back()

    with budget.share(make_room):
        for _ in range(3):
            budget.take(40)
        assert budget.taken == 40
    assert made == [80]


def test_a_picture_larger_than_the_budget_is_decoded_alone() -> None:
    budget = DecodingBudget(100)
    with budget.share():
        budget.take(MAX_DECODED_BYTES)
    assert budget.taken == 0


COSTLY = {
    "plain PPM": (b"P3 9 9 255\n" + b"#\n" * 500_000 + b"1 " * 243, "a PPM of a rare kind"),
    "PPM of 16 bits": (b"P6 400 400 65535\n" + bytes(960_000), "a PPM of a rare kind"),
    "comments in a header": (b"P6 " + b"#\n" * 500_000 + b"9 9 255\n" + bytes(243), "pieces"),
    "BMP of run lengths": (bmp_of_run_lengths(400), "a BMP of a rare kind"),
    "PNG of chunks": (png_of_chunks(100_000), "pieces"),
    "TIFF of tiles": (tiff_of_tiles(250_000, 1, 1), "more than 100000 strips or tiles"),
    "icon": (encoded(Image.new("RGB", (16, 16)), "ICO"), "not a picture, or its format"),
    "progressive JPEG": (jpeg_of_scans(500, progressive=True), "a JPEG of too many scans for "),
    "sequential JPEG": (in_three_colours(jpeg_of_scans(500)), "a JPEG of too many scans"),
    "JPEG with an end inside": (jpeg_of_scans(500, FAKE_END, progressive=True), "too many scans"),
    "JPEG of segments": (
        jpeg_of_scans(1, FAKE_END * 10_000, progressive=True),
        "more than 10000 segments",
    ),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_what_would_take_long_to_decode_is_refused_before(kind: str) -> None:
    data, message = COSTLY[kind]
    with pytest.raises(PictureError, match=message):
        load(data, "picture 1", 224)


def test_only_the_scans_of_a_photo_itself_are_counted() -> None:
    image = Image.new("RGB", (2000, 2000), "red")
    thumbnails = b"\xff\xda" * 10_000
    data = encoded(image, comment=thumbnails, progressive=True) + jpeg_of_scans(500)
    assert load(data, "picture 1", 224).getpixel((9, 9)) == (254, 0, 0)


def test_a_jpeg_of_one_scan_a_colour_is_expected_to_take_more_memory() -> None:
    grey = encoded(Image.new("L", (8000, 8000)))
    assert load(grey, "picture 1", 4000).size == (4000, 4000)
    with pytest.raises(PictureError, match="which take more than 390 MB"):
        load(in_three_colours(grey), "picture 1", 4000)


@pytest.mark.parametrize("kind", ["file", "bytes"])
def test_no_more_is_read_of_bytes_than_of_a_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture that would be decoded, with something after its end."""
    monkeypatch.setattr("cbcl.vision.decoding.MAX_PICTURE_BYTES", 2_000_000)
    data = encoded(np.zeros((8, 8, 3), dtype=np.uint8), "JPEG").ljust(2_000_001, b"\0")
    (tmp_path / "large.jpg").write_bytes(data)
    (tmp_path / "small.jpg").write_bytes(data[:-1])
    large, small = tmp_path / "large.jpg", tmp_path / "small.jpg"
    assert load(small if kind == "file" else data[:-1], "picture 1", 8).size == (8, 8)
    with pytest.raises(PictureError, match="has more than 2 MB"):
        load(large if kind == "file" else data, "picture 1", 8)
