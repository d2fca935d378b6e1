"""Memories learned through views and joined networks: taught, opened again, exported."""

from __future__ import annotations

import json
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import version_converter
from PIL import Image
from support.measuring import backbone_of, network
from support.photos import NAMES, encoded, photo, views
from support.transformers import transformer

from cbcl import BackboneError, Recognizer
from cbcl.export import onnx_backbone
from cbcl.export.onnx_backbone import crops_of, networks_of
from cbcl.recognition.cosines import INITIAL_LIMIT, initial_limit_of
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.decoding import Pixels, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "portable.py"
LITE0, INT8 = "efficientnet-lite0", "efficientnet-lite0-int8"
COMBINED = [
    f"{LITE0}@2views",
    f"{LITE0}+{INT8}",
    f"{LITE0}@2views+{INT8}",
    f"{LITE0}@whole+{INT8}@centre",
]


def taught(path: Path, backbone: Any) -> Recognizer:
    recognizer = Recognizer(path, backbone, cache=False)
    recognizer.learn_many({name: views(name, 3) for name in NAMES[:3]})
    return recognizer


def asked() -> list[Pixels]:
    return [view for name in NAMES for view in views(name, 2, seed=1)]


def run_graph(model: bytes, backbone: Backbone, pictures: list[Pixels]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    images = [Image.fromarray(pixels) for pixels in pictures]
    crops = {
        name: np.stack([how.crop(image) for image in images])
        for name, how in crops_of(backbone).items()
    }
    assert [value.name for value in session.get_inputs()] == [*crops]
    names = ["label", "guess", "confidence", "vector"]
    return dict(zip(names, session.run(names, crops), strict=True))


@pytest.mark.parametrize("backbone", COMBINED)
def test_it_learns_recognizes_and_is_opened_again_by_its_name(
    backbone: str, tmp_path: Path
) -> None:
    taught(tmp_path / "things.cbcl", backbone).close()
    with Recognizer(tmp_path / "things.cbcl", cache=False) as recognizer:
        assert recognizer.backbone.name == backbone
        guesses = [answer.ranking[0].label for answer in recognizer.recognize_many(asked())]
        assert guesses[:6] == [name for name in NAMES[:3] for _ in range(2)]
        assert recognizer.recognize(views("coffee", 1)[0]).label == "coffee"
    with (
        Recognizer(tmp_path / "things.cbcl", LITE0) as other,
        pytest.raises(BackboneError, match="was learned through"),
    ):
        other.recognize(views("coffee", 1)[0])


def test_the_first_limit_holds_for_networks_known_by_name_only() -> None:
    assert {initial_limit_of(name) for name in (LITE0, *COMBINED)} == {INITIAL_LIMIT}
    for other in (f"{LITE0}+net.onnx", "net.onnx@2views", "my+encoder", "timm/a+resnet18"):
        assert initial_limit_of(other) == math.inf


@pytest.mark.parametrize(
    "name", ["{}@2views", "efficientnet-lite0-int8+{}", "{}+efficientnet-lite0"]
)
def test_a_memory_does_not_decide_which_files_are_opened(name: str, tmp_path: Path) -> None:
    backbone = name.format(network(tmp_path))
    taught(tmp_path / "things.cbcl", backbone).close()
    with (
        Recognizer(tmp_path / "things.cbcl") as recognizer,
        pytest.raises(BackboneError, match="give that backbone") as caught,
    ):
        recognizer.recognize(views("coffee", 1)[0])
    assert str(tmp_path) not in caught.value.public
    with Recognizer(tmp_path / "things.cbcl", backbone) as recognizer:
        assert recognizer.recognize(views("coffee", 1)[0]).ranking[0].label == "coffee"


WHOLE = {"size": 288, "square": 1.0, "filter": "bicubic", "squashed": True, "at_least": 432}
CENTRE = {**WHOLE, "size": 224, "square": 0.8, "mirrored": True}
SQUARE = {"size": 224, "square": 1.0, "filter": "bicubic", "at_least": 336}
INPUTS: list[dict[str, Any]] = [
    {"pictures": WHOLE, "pictures2": CENTRE},
    SQUARE,  # for both networks
    {"pictures": WHOLE, "pictures2": CENTRE, "pictures3": {**SQUARE, "at_least": 432}},
    {"pictures": WHOLE, "pictures2": CENTRE},
]


@pytest.mark.parametrize(("backbone", "inputs"), [*zip(COMBINED, INPUTS, strict=True)])
def test_the_graph_answers_as_python_does_and_tells_how_to_crop(
    backbone: str, inputs: dict[str, Any], tmp_path: Path
) -> None:
    with taught(tmp_path / "things.cbcl", backbone) as recognizer:
        recognizer.snapshot().export_onnx(tmp_path / "things.onnx")
        wanted, vectors = recognizer.recognize_many(asked()), recognizer.embed(asked())
    model = (tmp_path / "things.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    said = run_graph(model, backbone_of(backbone), asked())
    assert said["label"].tolist() == [answer.label or "unknown" for answer in wanted]
    assert said["guess"].tolist() == [answer.ranking[0].label for answer in wanted]
    np.testing.assert_allclose(
        said["confidence"], [answer.confidence for answer in wanted], atol=1e-5
    )
    np.testing.assert_allclose(said["vector"], vectors, rtol=1e-5, atol=1e-6)
    assert json.loads(metadata(model)["preprocessing"]) == inputs
    # The weights of a network are stored once, whatever the number of its views.
    networks = {one.weights: one.model for one in networks_of(backbone_of(backbone))}
    assert len(model) < 1.03 * sum(map(len, networks.values()))


def metadata(model: bytes) -> dict[str, str]:
    return {one.key: one.value for one in onnx.load_from_string(model).metadata_props}


def test_files_of_any_opset_tokens_included_are_exported_with_others(tmp_path: Path) -> None:
    (tmp_path / "vit.onnx").write_bytes(transformer(opset=21))
    how = {"size": 32, "mean": [127, 127, 127], "scale": [128, 128, 128], "filter": "bilinear"}
    for tokens in ("class", "mean"):
        (tmp_path / "vit.json").write_text(json.dumps({**how, "tokens": tokens}))
        name = f"{tmp_path / 'vit.onnx'}@2views+{INT8}+{network(tmp_path)}"
        with taught(tmp_path / f"{tokens}.cbcl", name) as recognizer:
            recognizer.snapshot().export_onnx(tmp_path / f"{tokens}.onnx")
            vectors = recognizer.embed(asked())
        model = (tmp_path / f"{tokens}.onnx").read_bytes()
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
        said = run_graph(model, backbone_of(name), asked())
        np.testing.assert_allclose(said["vector"], vectors, rtol=1e-4, atol=1e-5)
        assert metadata(model)["backbone"] == f"vit.onnx@2views+{INT8}+net.onnx"


def test_an_old_network_that_does_not_fit_a_newer_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(version_converter, "convert_version", fail)
    (tmp_path / "vit.onnx").write_bytes(transformer(opset=21))
    how = {"size": 32, "mean": [0, 0, 0], "scale": [1, 1, 1], "tokens": "class"}
    (tmp_path / "vit.json").write_text(json.dumps(how))
    with (
        taught(tmp_path / "things.cbcl", f"{tmp_path / 'vit.onnx'}+{INT8}") as recognizer,
        pytest.raises(BackboneError, match=f"{INT8} is of ONNX's opset 17, .* converted to 21"),
    ):
        recognizer.snapshot().export_onnx(tmp_path / "things.onnx")


def test_the_answer_of_the_graph_is_checked_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taught(tmp_path / "things.cbcl", f"{LITE0}+{INT8}") as recognizer:
        monkeypatch.setattr(onnx_backbone, "SHORTEST_LENGTH", 1e9)  # parts are not of unit length
        with pytest.raises(BackboneError, match="gives other answers as part of a larger graph"):
            recognizer.snapshot().export_onnx(tmp_path / "things.onnx")
    assert not (tmp_path / "things.onnx").exists()


def test_the_example_without_cbcl_prepares_every_input_as_we_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = backbone_of(f"{LITE0}@2views")
    with taught(tmp_path / "things.cbcl", backbone) as recognizer:
        recognizer.snapshot().export_onnx(tmp_path / "things.onnx")
    (tmp_path / "large.jpg").write_bytes(encoded(photo("coffee").resize((2400, 1600))))
    words = ["portable.py", str(tmp_path / "things.onnx"), str(tmp_path / "large.jpg")]
    monkeypatch.setattr(sys, "argv", words)
    example = runpy.run_path(str(EXAMPLE))
    assert [*example["inputs"]] == [*crops_of(backbone)]
    for name, how in crops_of(backbone).items():
        picture = load(tmp_path / "large.jpg", "large", backbone.at_least or 0)
        np.testing.assert_array_equal(
            example["pixels"](tmp_path / "large.jpg", example["inputs"][name]), how.crop(picture)
        )
