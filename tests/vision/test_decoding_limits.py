"""No picture takes more memory than it may, alone or with others, nor more work than a photo."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.photos import encoded

from cbcl.errors import PictureError
from cbcl.vision.decoding import load
from cbcl.vision.decoding_budget import MAX_DECODED_BYTES, DecodingBudget

# Looks at a file in some threads at once; prints the growth of memory in MB, and the errors.
MEASURE = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from PIL import Image
from cbcl.vision.backbones.pixels import PIXELS
from cbcl.vision.extraction import embed_pictures

def memory(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(kind))

def see(path):
    (result,) = embed_pictures(PIXELS, [path], thumbnails=[0])
    return str(result) if isinstance(result, Exception) else ""

Image.init()
start = memory("VmRSS")
with ThreadPoolExecutor(int(sys.argv[2])) as threads:
    errors = [*threads.map(see, [sys.argv[1]] * int(sys.argv[2]))]
print(json.dumps([memory("VmHWM") - start, memory("VmRSS") - start, errors]))
"""


def measure(data: bytes, folder: Path, threads: int = 1) -> tuple[float, float, list[str]]:
    (folder / "picture").write_bytes(data)
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(folder / "picture"), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, kept, errors = json.loads(done.stdout)
    return peak, kept, errors


def picture(mode: str, megapixels: float, kind: str, **options: Any) -> bytes:
    size = (12_000, int(megapixels * 1e6 / 12_000))
    if mode == "I;16":
        return encoded(Image.fromarray(np.zeros(size[::-1], np.uint16)), kind, **options)
    return encoded(Image.new(mode, size), kind, **options)


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


LARGEST: dict[str, tuple[str, float, str, dict[str, Any]]] = {
    "PNG": ("RGB", 97, "PNG", {"compress_level": 1}),
    "turned PNG": ("RGB", 48, "PNG", {"compress_level": 1, "exif": turned()}),
    "RGBA PNG": ("RGBA", 48, "PNG", {"compress_level": 1}),
    "PNG of 16 bits": ("I;16", 64, "PNG", {"compress_level": 1}),
    "TIFF in one strip": ("RGB", 55, "TIFF", {"compression": "packbits", "strip_size": 1 << 30}),
    "TIFF of floats": ("F", 48, "TIFF", {"compression": "packbits"}),
    "GIF": ("P", 77, "GIF", {}),
    "progressive JPEG": ("RGB", 89, "JPEG", {"progressive": True}),
    "WebP": ("RGB", 24, "WEBP", {"quality": 1, "method": 0}),
    "RGBA WebP": ("RGBA", 24, "WEBP", {"lossless": True, "method": 0}),
    "AVIF": ("RGB", 24, "AVIF", {"speed": 10}),
    "RGBA AVIF": ("RGBA", 24, "AVIF", {"speed": 10, "subsampling": "4:4:4"}),
}


@pytest.mark.parametrize("kind", LARGEST)
def test_the_largest_picture_that_is_read_takes_no_more_than_400_mb(
    kind: str, tmp_path: Path
) -> None:
    mode, megapixels, file_format, options = LARGEST[kind]
    peak, kept, errors = measure(picture(mode, megapixels, file_format, **options), tmp_path)
    assert errors == [""]
    assert peak < 400
    assert kept < 60


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
    budget, started, order = DecodingBudget(100), Event(), list[str]()

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


def bmp_of_run_lengths() -> bytes:
    runs = (b"\xff\x05\x91\x05" + b"\0\0") * 400
    head = struct.pack("<IiiHHIIiiII", 40, 400, 400, 1, 8, 1, len(runs), 0, 0, 256, 0) + bytes(1024)
    return (
        b"BM" + struct.pack("<IHHI", 14 + len(head) + len(runs), 0, 0, 14 + len(head)) + head + runs
    )


def png_of_chunks(count: int) -> bytes:
    data = encoded(Image.new("RGB", (8, 8)), "PNG")
    chunk = struct.pack(">I", 0) + b"juNk" + struct.pack(">I", zlib.crc32(b"juNk"))
    return data[:33] + chunk * count + data[33:]


def tiff_of_tiles(count: int) -> bytes:
    """An uncompressed TIFF of one row whose tiles have one pixel each."""
    fields = [
        (256, 4, 1, count),
        (257, 4, 1, 1),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (322, 4, 1, 1),
        (323, 4, 1, 1),
        (324, 4, count, 8 + 2 + 9 * 12 + 4),
        (325, 4, count, 8 + 2 + 9 * 12 + 4 + 4 * count),
    ]
    entries = b"".join(struct.pack("<HHII", *field) for field in fields)
    head = b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + bytes(4)
    return head + struct.pack("<I", 8) * count + struct.pack("<I", 1) * count


def jpeg_of_scans(count: int, between: bytes = b"", **options: Any) -> bytes:
    """A grey JPEG of 2,000 x 2,000 pixels whose last scan is there so many times more."""
    data = encoded(Image.new("L", (2000, 2000)), "JPEG", **options)
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + (between + scan) * count + data[-2:]


def in_three_colours(grey: bytes) -> bytes:
    """A grey JPEG as the first of three colours, each to have a scan of its own."""
    frame = grey.index(b"\xff\xc0")  # marker, length, bits, height, width, and the one colour
    colours = b"\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"
    length, sides = b"\x00\x11", grey[frame + 4 : frame + 9]
    return grey[: frame + 2] + length + sides + colours + grey[frame + 13 :]


FAKE_END = b"\xff\xfe\x00\x04\xff\xd9"  # a comment

COSTLY = {
    "plain PPM": (b"P3 9 9 255\n" + b"#\n" * 500_000 + b"1 " * 243, "a PPM of a rare kind"),
    "PPM of 16 bits": (b"P6 400 400 65535\n" + bytes(960_000), "a PPM of a rare kind"),
    "comments in a header": (b"P6 " + b"#\n" * 500_000 + b"9 9 255\n" + bytes(243), "pieces"),
    "BMP of run lengths": (bmp_of_run_lengths(), "a BMP of a rare kind"),
    "PNG of chunks": (png_of_chunks(100_000), "pieces"),
    "TIFF of tiles": (tiff_of_tiles(250_000), "more than 100000 strips or tiles"),
    "icon": (encoded(Image.new("RGB", (16, 16)), "ICO"), "not a picture, or of a format"),
    "progressive JPEG": (jpeg_of_scans(500, progressive=True), "a JPEG of too many scans"),
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
    data = encoded(np.zeros((8, 8, 3), dtype=np.uint8), "JPEG")
    for size in (2_000_000, 2_000_001):
        whole = data.ljust(size, b"\0")
        (tmp_path / "picture.jpg").write_bytes(whole)
        source = whole if kind == "bytes" else tmp_path / "picture.jpg"
        if size == 2_000_000:
            assert load(source, "picture 1", 8).size == (8, 8)
        else:
            with pytest.raises(PictureError, match="has more than 2 MB"):
                load(source, "picture 1", 8)
