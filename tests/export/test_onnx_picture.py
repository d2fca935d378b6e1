"""Cropping and resizing in the graph: Pillow's pixels, and Python's answers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from PIL import Image
from support.cli import said
from support.photos import NAMES, encoded, views

from cbcl import Recognizer
from cbcl.export.onnx_picture import add_crop
from cbcl.heads.answer_nodes import AnswerGraph
from cbcl.vision.decoding import Floats, Pixels
from cbcl.vision.preprocessing import Filter, Preprocessing

EXAMPLE = Path(__file__).parents[2] / "examples" / "portable.py"
SQUARE = Preprocessing(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
SIZES = [(32, 32), (33, 32), (20, 31), (31, 20), (90, 51), (51, 90), (70, 71), (1, 5), (300, 40)]


def cropped(pixels: Pixels, how: Preprocessing) -> Floats:
    """The crop that the graph makes: (s, s, 3)."""
    graph = AnswerGraph()
    planes = add_crop(graph, "pictures", how)
    pictures = helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["b", "h", "w", 3])
    output = helper.make_tensor_value_info(planes, TensorProto.FLOAT, None)
    tensors = [*graph.tensors.values()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "crop", [pictures], [output], tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    crop: Floats = session.run(None, {"pictures": pixels[np.newaxis]})[0][0].transpose(1, 2, 0)
    return crop


def noise(width: int, height: int) -> Pixels:
    return np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def mean_difference(pixels: Pixels, how: Preprocessing) -> float:
    """The mean difference between the graph's crop and Pillow's."""
    expected = how.crop(Image.fromarray(pixels)).astype(np.float32)
    return float(np.abs(cropped(pixels, how) - expected).mean())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", [SQUARE, replace(SQUARE, square=0.875)])
def test_it_gives_the_pixels_of_pillow_for_any_size(
    size: tuple[int, int], how: Preprocessing
) -> None:
    # Before version 13, Pillow resized tall pictures in another order.
    assert mean_difference(noise(*size), how) < (0.01 if size[0] >= size[1] else 0.4)


@pytest.mark.parametrize("name", ["bilinear", "lanczos", "box", "nearest"])
def test_it_knows_all_filters(name: Filter) -> None:
    for size in (90, 51), (31, 20):
        assert mean_difference(noise(*size), replace(SQUARE, filter=name)) < 0.01


def test_pictures_can_be_squashed_and_mirrored() -> None:
    how = replace(SQUARE, squashed=True, mirrored=True, square=0.9)
    assert mean_difference(noise(61, 40), how) < 0.01


@pytest.mark.parametrize(
    ("backbone", "tolerance"),
    [
        ("efficientnet-lite0", 0.01),
        ("efficientnet-lite0@2views", 0.01),
        ("efficientnet-lite0-int8", 0.1),  # which makes much of a rounded pixel
    ],
)
def test_a_graph_for_any_size_answers_as_python_does(
    backbone: str, tolerance: float, tmp_path: Path
) -> None:
    file = tmp_path / "things.onnx"
    with Recognizer(tmp_path / "things.cbcl", backbone) as recognizer:
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:3]})
        recognizer.snapshot().export_onnx(file, any_size=True)
        asked = [views(name, 1, 9)[0][: 200 + n] for n, name in enumerate(NAMES)]
        answers = recognizer.recognize_many(asked)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert given.shape == ["batch", "height", "width", 3]
    for pixels, answer in zip(asked, answers, strict=True):
        pictures = {"pictures": pixels[np.newaxis]}
        (label,), (confidence,) = session.run(["label", "confidence"], pictures)
        assert label == (answer.label or "unknown")
        assert confidence == pytest.approx(answer.confidence, abs=tolerance)


def test_the_command_writes_it_and_the_example_reads_it(tmp_path: Path) -> None:
    memory, file, picture = (tmp_path / name for name in ("things.cbcl", "things.onnx", "new.png"))
    picture.write_bytes(encoded(views(NAMES[0], 1, 9)[0], "PNG"))
    with Recognizer(memory) as recognizer:
        recognizer.learn_many({name: views(name, 3) for name in NAMES[:2]})
        answer = recognizer.recognize(picture)
    said("export", memory, "--onnx", file, "--any-size")
    command = [sys.executable, str(EXAMPLE), str(file), str(picture)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, label, confidence = told.split("\t")
    assert label == (answer.label or "unknown")
    assert float(confidence) == pytest.approx(answer.confidence, abs=0.01)
