"""Keras' ResNet-50 and VGG-16: the graphs do what the original networks do, on photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import Tensors, assert_same, photographs, run, seen_by, torch_resnet

from cbcl.errors import WeightsError
from cbcl.vision.weights.torch_checkpoint import read_state_dict
from cbcl_study.backbones import keras, vgg


def test_the_weights_of_another_network_are_refused() -> None:
    with pytest.raises(WeightsError, match="the weights are not those of torchvision's VGG-16"):
        vgg.build({"_conv_stem.weight": np.ones((32, 3, 3, 3))})
    with pytest.raises(WeightsError, match="the weights are not those of Keras' ResNet-50"):
        keras.build({"_conv_stem.weight": np.ones((32, 3, 3, 3))})


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
