"""Backbones made of others by name: two views of a picture, networks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.networks import colour_model, colour_network, load_as_network
from support.photos import NAMES, encoded, photo

from cbcl import WeightsError, load_backbone
from cbcl.files import backbones_folder
from cbcl.vision import decoding, extraction
from cbcl.vision.backbones import list_backbones, restore, try_out
from cbcl.vision.backbones.base import Backbone, fingerprint, short_name, subject_of
from cbcl.vision.backbones.catalogue import CATALOGUE, is_available, is_catalogued
from cbcl.vision.backbones.combined import Combined, Joined, Views, leaves
from cbcl.vision.backbones.network import Network
from cbcl.vision.backbones.resnet import ARCHITECTURES, build_residual
from cbcl.vision.extraction import extract
from cbcl.vision.onnx_graph import Filters, with_size
from cbcl.vision.preprocessing import Preprocessing

LITE0 = "efficientnet-lite0"
INT8 = "efficientnet-lite0-int8"


def load(name: str | Path) -> Combined:
    backbone = load_backbone(name)
    assert isinstance(backbone, Combined)
    return backbone


def pictures() -> list[Image.Image]:
    return [photo(name) for name in NAMES]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return colour_network(tmp_path)


# Crops.


def test_what_describes_todays_networks_has_not_changed() -> None:
    """A change makes every memory and every record that exists unusable."""
    description = CATALOGUE[LITE0].preprocessing.description
    assert description == {
        "size": 224,
        "mean": (127.0, 127.0, 127.0),
        "scale": (128.0, 128.0, 128.0),
        "channels": "RGB",
        "square": 1.0,
        "filter": "bicubic",
        "revision": 1,
    }
    assert fingerprint(description) == "ca268d7a41f0ace88f02e33a762286d7"
    network = load_as_network(LITE0)
    assert network.fingerprint == "227118ea98f9b2bd9db63404ec35dfcb"


def gradient(width: int, height: int) -> Image.Image:
    """A picture whose red grows from left to right, and whose green from top to bottom."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, :, 0] = np.linspace(0, 255, width)
    pixels[:, :, 1] = np.linspace(0, 255, height)[:, np.newaxis]
    return Image.fromarray(pixels)


def edges(how: Preprocessing, picture: Image.Image) -> list[int]:
    """Return the red of the left and right edges, and the green of the upper and lower."""
    crop = how.crop(picture).astype(int)
    middle = how.size // 2
    return [crop[middle, 0, 0], crop[middle, -1, 0], crop[0, middle, 1], crop[-1, middle, 1]]


def test_a_crop_is_the_central_square_or_a_share_of_both_sides_also_mirrored() -> None:
    picture = gradient(300, 150)
    black = (0.0, 0.0, 0.0)
    white = (255.0, 255.0, 255.0)
    for options, wanted in (
        ({}, [64, 191, 0, 255]),
        ({"squashed": True}, [0, 255, 0, 255]),
        ({"squashed": True, "square": 0.8}, [25, 230, 25, 230]),
        ({"squashed": True, "square": 0.8, "mirrored": True}, [230, 25, 25, 230]),
        ({"mirrored": True}, [191, 64, 0, 255]),
    ):
        how = Preprocessing(30, black, white, **options)
        np.testing.assert_allclose(edges(how, picture), wanted, atol=5)
        assert ("squashed" in how.description) == ("squashed" in options)
        assert ("mirrored" in how.description) == ("mirrored" in options)


# Views.


def test_the_two_views_are_the_whole_picture_and_its_mirrored_centre() -> None:
    views_of = load(f"{LITE0}@2views")
    assert isinstance(views_of, Views)
    whole, centre = [cast_network(part) for part in views_of.parts]
    own = CATALOGUE[LITE0].preprocessing
    assert whole.preprocessing == Preprocessing(288, own.mean, own.scale, squashed=True)
    assert centre.preprocessing == Preprocessing(
        224, own.mean, own.scale, square=0.8, squashed=True, mirrored=True
    )
    one = load_as_network(LITE0)
    assert whole.weights == centre.weights == one.weights
    assert views_of.at_least == max(whole.at_least, centre.at_least) == 432
    assert views_of.description == {"views": [whole.description, centre.description]}
    vectors = views_of.vectors(pictures())
    parts = [part.vectors(pictures()) for part in views_of.parts]
    np.testing.assert_array_equal(vectors, (parts[0] + parts[1]) / np.float32(2.0))
    assert vectors.shape == (4, 1280)
    assert vectors.dtype == np.float32


def test_each_of_the_two_views_is_a_backbone_by_its_name(file: Path) -> None:
    for network in (LITE0, str(file)):
        both = load(f"{network}@2views")
        for view, part in zip(("@whole", "@centre"), both.parts, strict=True):
            one = load_as_network(f"{network}{view}")
            assert one.name == f"{network}{view}"
            assert one.fingerprint == part.fingerprint
            np.testing.assert_array_equal(one.vectors(pictures()), part.vectors(pictures()))
    joined = load(f"{LITE0}@whole+{INT8}@centre")
    assert isinstance(joined, Joined)
    assert is_catalogued(joined.name)
    assert joined.vectors(pictures()).shape == (4, 2560)


def cast_network(backbone: Any) -> Network:
    assert isinstance(backbone, Network)
    return backbone


def sizes_of(backbone: Backbone) -> list[int]:
    return [cast_network(leaf).preprocessing.size for leaf in leaves(backbone)]


def test_two_views_of_a_photo_point_the_way_that_one_does_but_not_exactly() -> None:
    one = load_as_network(LITE0)
    two = load(f"{LITE0}@2views")
    for a, b in zip(one.vectors(pictures()), two.vectors(pictures()), strict=True):
        assert 0.5 < a @ b / np.linalg.norm(a) / np.linalg.norm(b) < 0.99


def test_a_network_of_fixed_padding_is_the_one_that_is_built_for_the_size() -> None:
    def layer(_: Any, shape: tuple[int, int, int, int]) -> Filters:
        return Filters(np.zeros(shape), np.zeros(shape[0]))

    at_224, at_288 = (build_residual(ARCHITECTURES[18], layer, size) for size in (224, 288))
    assert at_224 != at_288
    assert with_size(at_224, 288) == at_288


def test_an_imported_network_has_views_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path))
    how = Preprocessing(28, (0.0, 0.0, 0.0), (255.0, 255.0, 255.0), square=0.875)
    entry = CATALOGUE["resnet18"]._replace(preprocessing=how)
    monkeypatch.setitem(CATALOGUE, "resnet18", entry)
    assert not is_available("resnet18@2views")
    stored = Network("resnet18", with_size(colour_model(), 28), how, "0")
    stored.write(backbones_folder() / "resnet18.onnx")
    assert is_available("resnet18@2views")
    assert sizes_of(load("resnet18@2views")) == [36, 28]
    vectors = load("resnet18@2views").vectors([gradient(300, 150)])
    np.testing.assert_allclose(vectors, [[0.5, 0.5, 0.0]], atol=0.01)


def test_a_file_of_fixed_size_keeps_it(file: Path) -> None:
    backbone = load(f"{file}@2views")
    assert sizes_of(backbone) == [32, 32]
    np.testing.assert_allclose(backbone.vectors([gradient(300, 150)]), [[0.5, 0.5, 0.0]], atol=0.01)
    assert restore(f"{file}@2views", b"").fingerprint == backbone.fingerprint


# Networks side by side.


def test_parts_are_of_unit_length_and_in_the_order_of_their_names() -> None:
    lite0 = load_as_network(LITE0)
    int8 = load_as_network(INT8)
    both = load(f"{LITE0}+{INT8}")
    turned = load(f"{INT8}+{LITE0}")
    assert isinstance(both, Joined)
    vectors = both.vectors(pictures())
    assert vectors.shape == (4, 2560)
    assert vectors.dtype == np.float32
    for part, some in ((lite0, vectors[:, :1280]), (int8, vectors[:, 1280:])):
        own = part.vectors(pictures())
        unit = own / np.linalg.norm(own, axis=1, keepdims=True)
        np.testing.assert_allclose(some, unit, rtol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(some, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(turned.vectors(pictures()), np.roll(vectors, 1280, axis=1))
    assert both.name == f"{LITE0}+{INT8}"
    assert both.description == {"parts": [lite0.description, int8.description]}
    assert (both.at_least, both.batch, both.threads, both.state) == (336, 1, True, b"")


def test_a_vector_of_zeros_stays_one(file: Path) -> None:
    joined = load(f"{file}+{file}@2views")
    black = Image.new("RGB", (50, 40))
    red = Image.new("RGB", (50, 40), (255, 0, 0))
    np.testing.assert_allclose(
        joined.vectors([black, red]), [[0.0] * 6, [1.0, 0.0, 0.0] * 2], atol=1e-6
    )


def test_views_and_joins_go_together() -> None:
    backbone = load(f"{LITE0}@2views+{INT8}")
    assert [type(part) for part in backbone.parts] == [Views, Network]
    assert sizes_of(backbone) == [288, 224, 224]
    assert backbone.at_least == 432
    assert try_out(backbone.name)[:3] == (backbone.name, "2560", backbone.fingerprint)
    assert restore(backbone.name, b"").fingerprint == backbone.fingerprint


def test_every_combination_has_a_fingerprint_of_its_own_and_always_the_same() -> None:
    names = [
        LITE0,
        f"{LITE0}@2views",
        f"{INT8}@2views",
        f"{LITE0}+{INT8}",
        f"{INT8}+{LITE0}",
        f"{LITE0}+{LITE0}@2views",
        f"{LITE0}@2views+{INT8}",
        f"{LITE0}+{INT8}@2views",
    ]
    found = [restore(name, b"").fingerprint for name in names]
    assert len(set(found)) == len(names)
    assert found == [restore(name, b"").fingerprint for name in names]
    assert found[1] == "27d13df28b134d7596142d5f487787f1"
    assert {len(one) for one in found} == {32}


def test_a_fingerprint_changes_with_that_of_a_part(file: Path) -> None:
    first = [load(f"{LITE0}+{file}").fingerprint, load(f"{file}@2views").fingerprint]
    file.write_bytes(colour_model(2.0))
    other = [load(f"{LITE0}+{file}").fingerprint, load(f"{file}@2views").fingerprint]
    assert not set(first) & set(other)


# Names.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{LITE0}+", "has an empty part: write A.B, or A alone"),
        (f"+{LITE0}", "has an empty part"),
        (f"{LITE0}++{INT8}", "has an empty part"),
        ("@2views", "has no views: those that have are efficientnet-lite0, "),
        (f"{LITE0}@3views", "'efficientnet-lite0@3views' is unknown: there are .*lite0@2views, "),
        (f"{LITE0}+{INT8}@views", "'efficientnet-lite0-int8@views' is unknown: there are .*@whole"),
        (f"{LITE0}@2views@2views", "'efficientnet-lite0@2views' has no views"),
        (f"{LITE0}+lite7", "backbone 'lite7' is unknown: there are efficientnet-lite0, .*A.B"),
        (f"{LITE0}+{LITE0}", "efficientnet-lite0 is given twice in .*: give it once"),
        (f"{LITE0}@2views+{INT8}+{LITE0}@2views", "efficientnet-lite0@2views is given twice"),
        (f"visual-words+{LITE0}", "visual-words cannot be joined .* those that can are .*timm/"),
        (f"{LITE0}+identity", "identity cannot be joined"),
        ("visual-words@2views", "'visual-words' has no views"),
        ("pixels@whole", "'pixels' has no views"),
        (f"{LITE0}@whole+{LITE0}@whole", "efficientnet-lite0@whole is given twice"),
        ("timm/resnet18@2views", "'timm/resnet18' has no views"),
        (f"{LITE0}+none.onnx", r"none\.onnx cannot be read"),
        (f"{LITE0}+none.onnx@2views", r"none\.onnx cannot be read"),
    ],
)
def test_a_name_that_cannot_be_is_told_with_the_way_out(name: str, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        load_backbone(name)


def test_the_same_file_by_two_paths_is_given_twice(file: Path) -> None:
    again = file.parent / "." / ".." / file.parent.name / "net.onnx"
    with pytest.raises(WeightsError, match="is given twice"):
        load_backbone(f"{file}+{again}")


def test_a_file_may_have_signs_of_names_in_its_path(file: Path) -> None:
    odd = file.parent / "c++ @2views" / "a+b@3views.onnx"
    odd.parent.mkdir()
    for suffix in (".onnx", ".json"):
        odd.with_suffix(suffix).write_bytes(file.with_suffix(suffix).read_bytes())
    backbone = load_as_network(odd)
    assert backbone.name == str(odd)
    assert subject_of(str(odd)) == odd


def test_whether_a_name_is_known_and_can_be_loaded_is_told_of_all_its_parts(file: Path) -> None:
    assert is_catalogued(f"{LITE0}@2views+resnet18")
    for name in (f"{LITE0}+{file}", f"{LITE0}+", f"{LITE0}@3views", "visual-words", "a+b", ""):
        assert not is_catalogued(name)
    for name in (LITE0, f"{LITE0}@2views+{INT8}", str(file), f"{file}@2views+{LITE0}"):
        assert is_available(name)
    for name in ("resnet18", f"{LITE0}+resnet18@2views", f"{file}x.onnx", "visual-words", "timm/x"):
        assert not is_available(name)
    listed = {row[0] for row in list_backbones()}
    assert listed > {"NAME@2views", "NAME@whole", "NAME@centre", "A+B"}


def test_a_short_name_shows_no_folder(file: Path) -> None:
    name = f"{LITE0}+{file}@2views+timm/resnet18"
    assert short_name(name) == f"{LITE0}+net.onnx@2views+timm/resnet18"
    assert subject_of(name) == short_name(name)
    assert subject_of(str(file)) == file
    with pytest.raises(WeightsError) as caught:
        load_backbone(f"{file}+{file}")
    assert str(file.parent) not in caught.value.public


# Extraction.


def test_one_picture_is_embedded_on_all_cores_by_every_part() -> None:
    fast = load(f"{LITE0}@2views+{INT8}").on_all_cores
    assert [cast_network(leaf).cores for leaf in leaves(fast)] == [0, 0, 0]
    backbone = load(f"{LITE0}@2views")
    assert extraction._Pipeline(backbone, [b""], None, None).backbone is backbone.on_all_cores
    assert extraction._Pipeline(backbone, [b""] * 2, None, None).backbone is backbone


def test_a_picture_is_decoded_once_for_all_views_and_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def count(source: Any, name: Any, at_least: int) -> Image.Image:
        asked.append(at_least)
        return decoding.load(source, name, at_least)

    monkeypatch.setattr(extraction, "load", count)
    backbone = load(f"{LITE0}@2views+{INT8}")
    large = encoded(photo("coffee").resize((2400, 1600)))
    (vector,) = extract(backbone, [large])
    assert asked == [432]
    assert isinstance(vector, np.ndarray)
    (full,) = backbone.vectors([photo("coffee").resize((2400, 1600))])
    assert vector @ full / np.linalg.norm(vector) / np.linalg.norm(full) > 0.98
