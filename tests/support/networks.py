"""Networks run on photographs, ours beside PyTorch's; and a small one in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image
from skimage import data as skimage_data

from cbcl import load_backbone
from cbcl.vision.backbones.network import Network
from cbcl.vision.onnx_graph import Filters, NetworkGraph

Tensors = dict[str, NDArray[Any]]
PLAIN = {"size": 32, "mean": [0, 0, 0], "scale": [255, 255, 255]}
data: Any = skimage_data  # it has no type hints


def load_as_network(source: str | Path) -> Network:
    backbone = load_backbone(source)
    assert isinstance(backbone, Network)
    return backbone


def colour_model(scale: float = 1.0) -> bytes:
    """One convolution that passes the three colours on."""
    graph = NetworkGraph("small", 32)
    colours = scale * np.eye(3)[:, :, np.newaxis, np.newaxis]
    return graph.finish(graph.conv(graph.pictures, Filters(colours, np.zeros(3))))


def colour_network(folder: Path) -> Path:
    """Write a network whose vector is the mean colour, and its description."""
    (folder / "net.onnx").write_bytes(colour_model())
    (folder / "net.json").write_text(json.dumps(PLAIN))
    return folder / "net.onnx"


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
