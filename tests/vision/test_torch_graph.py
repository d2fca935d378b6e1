"""Networks on a GPU: the same vectors as on a processor, by the same graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from PIL import Image
from support.photos import NAMES, views

from cbcl import WeightsError, load_backbone
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.combined import leaves
from cbcl.vision.backbones.network import Network
from cbcl.vision.onnx_graph import FeatureMaps, Filters, NetworkGraph

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
from cbcl.vision.torch_graph import TorchGraph, _fuse, _last_used  # noqa: E402 (it needs torch)

BATCH = 4
PHOTOS = [Image.fromarray(one) for name in NAMES for one in views(name, 2)]


def networks() -> list[Network]:
    backbone = cast(Backbone, load_backbone("efficientnet-lite0@2views"))
    return [cast(Network, one) for one in leaves(backbone)]


def crops_of(network: Network, photos: list[Image.Image]) -> np.ndarray:
    return np.stack([network.preprocessing.crop(photo) for photo in photos])


@pytest.mark.parametrize("network", networks(), ids=lambda one: str(one.preprocessing.size))
def test_vectors_agree_with_the_processors(network: Network) -> None:
    wanted = network.vectors(PHOTOS)
    graph = TorchGraph(network.model, network.preprocessing, "cpu", BATCH, network.name)
    given = graph(crops_of(network, PHOTOS))
    lengths = np.linalg.norm(wanted, axis=1)
    assert (np.linalg.norm(given - wanted, axis=1) / lengths).max() < 1e-5


def test_channels_in_the_other_order_are_turned() -> None:
    network = networks()[1]
    how = replace(network.preprocessing, channels="BGR", mean=(100.0, 110.0, 120.0))
    turned = replace(network, preprocessing=how)
    graph = TorchGraph(turned.model, how, "cpu", BATCH, "turned")
    wanted = turned.vectors(PHOTOS[:2])
    given = graph(crops_of(turned, PHOTOS[:2]))
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)


def test_a_vector_does_not_depend_on_what_is_beside_it() -> None:
    network = networks()[1]
    graph = TorchGraph(network.model, network.preprocessing, "cpu", BATCH, network.name)
    crops = crops_of(network, PHOTOS[:3])
    many = np.tile(crops, (BATCH // 3 + 2, 1, 1, 1))[: BATCH + 2]
    assert (graph(many)[:3] == graph(crops)).all()
    assert (graph(many)[-2:] == graph(crops[[BATCH % 3, (BATCH + 1) % 3]])).all()


def residual_network() -> bytes:
    """A ResNet block with a shortcut, and a ReLU whose input is used elsewhere, too."""
    rng = np.random.default_rng(0)
    graph = NetworkGraph("small", 16)

    def conv(x: FeatureMaps, out: int, stride: int = 1) -> FeatureMaps:
        weight = rng.normal(size=(out, x.channels, 3, 3)) / 6.0
        padding = (1, 1) if stride == 1 else (0, 1)  # one side is longer
        return graph.conv(x, Filters(weight, rng.normal(size=out)), stride=stride, padding=padding)

    first = graph.relu(conv(graph.pictures, 8, stride=2))
    pooled = graph.max_pool(first, 3, stride=2, padding=(0, 1))
    inner = graph.relu(conv(pooled, 8))
    both = graph.relu(graph.add(conv(inner, 8), conv(pooled, 8)))
    last = conv(both, 8)
    return graph.finish(graph.add(graph.relu(last), last))


def test_operations_that_are_joined_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def conv_relu(x: Any, weight: Any, bias: Any, *how: Any) -> Any:
        return torch.relu(torch.conv2d(x, weight, bias, *how))

    def conv_add_relu(x: Any, weight: Any, other: Any, _: float, bias: Any, *how: Any) -> Any:
        return torch.relu(torch.conv2d(x, weight, bias, *how) + other)

    monkeypatch.setattr(torch, "cudnn_convolution_relu", conv_relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", conv_add_relu)
    model = residual_network()
    how = replace(networks()[1].preprocessing, size=16)
    crops = np.random.default_rng(1).integers(0, 256, (3, 16, 16, 3), np.uint8)
    wanted = Network("small", model, how, "x")._run(crops)
    plain = TorchGraph(model, how, "cpu", BATCH, "small")
    nodes = [node for node, _ in plain._nodes]
    fused = _fuse(nodes, plain._output)
    assert [node.compute.__name__ for node in fused].count("_conv_relu") == 2
    assert [node.compute.__name__ for node in fused].count("_conv_add_relu") == 1
    assert len(fused) == len(nodes) - 4  # two ReLUs after a convolution, and a sum with its own
    joined = TorchGraph(model, how, "cpu", BATCH, "small")
    kept = {*joined._constants, joined._output}
    joined._nodes = [*zip(fused, _last_used(fused, kept), strict=True)]
    np.testing.assert_allclose(plain(crops), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(joined(crops), wanted, rtol=1e-4, atol=1e-5)


def test_an_operation_that_is_not_known_is_told() -> None:
    network = networks()[1]
    model = onnx.load_from_string(network.model)
    model.graph.node[-1].op_type = "Erf"
    with pytest.raises(WeightsError, match="has the operation Erf"):
        TorchGraph(
            model.SerializeToString(), network.preprocessing, "cpu", BATCH, Path("mine.onnx")
        )


def test_the_precision_of_others_is_left_as_it_was() -> None:
    network = networks()[1]
    graph = TorchGraph(network.model, network.preprocessing, "cpu", BATCH, network.name)
    before = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
    graph(crops_of(network, PHOTOS[:1]))
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == before
