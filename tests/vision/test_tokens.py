"""Networks whose output is tokens, as a vision transformer's: described, pooled, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from support.photos import NAMES, photo
from support.transformers import TOKENS, WIDTH, transformer

from cbcl import WeightsError, load_backbone
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Floats

HOW = {"size": 32, "mean": [127, 127, 127], "scale": [128, 128, 128]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "vit.onnx").write_bytes(transformer())
    return tmp_path / "vit.onnx"


def load(file: Path, **more: Any) -> Network:
    file.with_suffix(".json").write_text(json.dumps({**HOW, **more}))
    backbone = load_backbone(file)
    assert isinstance(backbone, Network)
    return backbone


def tokens_of(network: Network) -> Floats:
    """Return the tokens of all photographs, by ONNX Runtime alone."""
    how = network.preprocessing
    pictures = np.stack([how.normalize(how.crop(photo(name))) for name in NAMES])
    session = onnxruntime.InferenceSession(network.model, providers=["CPUExecutionProvider"])
    tokens: Floats = session.run(["last_hidden_state"], {"pixel_values": pictures})[0]
    assert tokens.shape == (len(NAMES), TOKENS, WIDTH)
    return tokens


def test_the_vector_is_the_class_token_or_the_mean_of_the_others(file: Path) -> None:
    shown = [photo(name) for name in NAMES]
    by_class = load(file, tokens="class")
    by_mean = load(file, tokens="mean")
    tokens = tokens_of(by_class)
    np.testing.assert_array_equal(by_class.vectors(shown), tokens[:, 0])
    np.testing.assert_allclose(by_mean.vectors(shown), tokens[:, 1:].mean(axis=1), rtol=1e-6)
    for network in (by_class, by_mean):
        one_by_one = np.concatenate([network.vectors([picture]) for picture in shown])
        assert network.vectors(shown).tobytes() == one_by_one.tobytes()
        assert network.vectors(shown).base is None  # the tokens are not kept with it


def test_it_is_part_of_the_description_and_of_the_fingerprint(file: Path) -> None:
    by_class = load(file, tokens="class")
    by_mean = load(file, tokens="mean")
    neither = load(file)
    assert by_class.description == {**by_class.preprocessing.description, "tokens": "class"}
    assert "tokens" not in neither.description
    assert len({network.fingerprint for network in (by_class, by_mean, neither)}) == 3


def test_without_it_the_error_says_what_to_write(file: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        load(file).vectors([photo("coffee")])
    message = str(caught.value)
    assert f"gives (1, {TOKENS}, {WIDTH}) for 1 pictures, not one vector each" in message
    assert 'write "tokens": "class"' in message
    assert '"tokens": "mean"' in message


@pytest.mark.parametrize("value", ["first", "", 1, ["class"], True])
def test_what_it_cannot_be_is_told(file: Path, value: Any) -> None:
    with pytest.raises(WeightsError, match=r'vit\.json has "tokens": .*: give "class" or "mean"'):
        load(file, tokens=value)


def reduced(outputs: list[str]) -> bytes:
    """Return the transformer with other outputs of its own."""
    model = onnx.load_from_string(transformer())
    of = {value.name: value for value in model.graph.output}
    del model.graph.output[:]
    model.graph.output.extend(of[name] for name in outputs)
    return bytes(model.SerializeToString())


def test_a_network_without_tokens_must_not_be_described_with_them(file: Path) -> None:
    file.write_bytes(reduced(["pooler_output"]))
    with pytest.raises(WeightsError, match='not the tokens of its description: leave "tokens" out'):
        load(file, tokens="class").vectors([photo("coffee")])
    assert load(file).vectors([photo("coffee")]).shape == (1, WIDTH)


def test_of_several_outputs_the_first_is_used(file: Path) -> None:
    both = load(file, tokens="class").vectors([photo("coffee")])
    file.write_bytes(reduced(["pooler_output", "last_hidden_state"]))
    np.testing.assert_array_equal(load(file).vectors([photo("coffee")]), both)


def test_one_token_is_a_vector_as_it_always_was(file: Path) -> None:
    model = onnx.load_from_string(reduced(["pooler_output"]))
    model.graph.node[-1].input[1] = "one"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "one"))
    model.graph.output[0].type.tensor_type.shape.ClearField("dim")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    file.write_bytes(model.SerializeToString())
    network = load(file)
    np.testing.assert_array_equal(network.vectors([photo("coffee")]), tokens_of_one(network))
    for value in ("class", "mean"):
        with pytest.raises(WeightsError, match=r"gives \(1, 1, 6\), which are not the tokens"):
            load(file, tokens=value).vectors([photo("coffee")])


def tokens_of_one(network: Network) -> Floats:
    file_tokens = tokens_of(Network("vit", transformer(), network.preprocessing, "0"))
    return file_tokens[NAMES.index("coffee"), :1]


def test_tokens_have_views_and_can_be_joined(file: Path) -> None:
    load(file, tokens="mean")
    name = f"{file}@2views+efficientnet-lite0-int8"
    joined = load_backbone(name)
    vectors = joined.vectors([photo("coffee")])  # type: ignore[union-attr]
    assert vectors.shape == (1, WIDTH + 1280)
    assert joined.description["parts"][0]["views"][0]["tokens"] == "mean"  # type: ignore[union-attr]
