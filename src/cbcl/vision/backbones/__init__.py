"""Backbones by name, file or function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from cbcl.device import choose_device
from cbcl.errors import WeightsError
from cbcl.plugins import plugin_names
from cbcl.vision.backbones.base import (
    IDENTITY,
    VIEWS,
    Backbone,
    Fittable,
    Function,
    is_file,
    short_name,
    split_name,
    split_views,
    subject_of,
)
from cbcl.vision.backbones.catalogue import (
    CATALOGUE,
    GROUP,
    ListedBackbone,
    check_installed,
    find_installed,
    find_network,
    is_available,
    load_installed,
    load_network,
    network_catalogue,
)
from cbcl.vision.backbones.combined import Joined, Views, on_device, two_views
from cbcl.vision.backbones.network import read_network

DEFAULT = "efficientnet-lite0@2views"


def load_backbone(
    source: str
    | os.PathLike[str]
    | Callable[[Sequence[Any]], ArrayLike]
    | Backbone
    | Fittable = DEFAULT,
    *,
    name: str | None = None,
    at_least: int | None = None,
    device: str | None = None,
) -> Backbone | Fittable:
    """Load what turns pictures, or anything else, into vectors.

    `source` is a name (`cbcl backbones list` prints them; "timm/NAME" needs the extra `torch`), an
    ONNX file with a description of its preprocessing beside it (docs/backbones.md), one of these
    with two views of each picture ("NAME@2views") or one of them ("NAME@whole", "NAME@centre"),
    several side by side ("A+B"), or a function of your own that returns one vector for each of the
    things it is given. A function needs a `name`, which identifies it in the memory. With
    `at_least`, it is given pictures (PIL, RGB, upright) of no fewer pixels a side, else whatever
    you learn: text, sound, anything.

    `device` is "cpu", or "cuda" to run networks on a GPU, which needs the extra `torch`; if it is
    not given, that of the environment variable CBCL_DEVICE, else "cpu".

    >>> letters = load_backbone(lambda words: [[len(word)] for word in words], name="letters")
    >>> letters.vectors(["tree", "forest"])
    array([[4.],
           [6.]], dtype=float32)
    """
    if isinstance(source, str | os.PathLike):
        return _by_name(os.fspath(source), device)
    if hasattr(source, "vectors") or hasattr(source, "fit"):
        return cast("Backbone | Fittable", source)
    if not callable(source):
        raise ValueError(f"{source!r} is not a backbone: give a name, an ONNX file or a function.")
    if not name:
        raise ValueError(
            "a function needs a name, which identifies it in the memory: name='my-encoder-1'."
        )
    return Function(source, name, at_least)


def restore(name: str, state: bytes) -> Backbone:
    """Load the backbone that a memory was learned through."""
    backbone = _by_name(name)
    return backbone.restore(state) if isinstance(backbone, Fittable) else backbone


def _by_name(name: str, device: str | None = None) -> Backbone | Fittable:
    backbone = _load(name)
    if isinstance(backbone, Fittable):
        return backbone
    return on_device(backbone, choose_device(device))


def _load(name: str) -> Backbone | Fittable:
    part_names = split_name(name)
    if len(part_names) == 1:
        return _load_part(name)
    if "" in part_names:
        raise WeightsError(f"backbone {name!r}", "has an empty part", "write A+B, or A alone")
    parts: dict[str, Backbone] = {}  # by fingerprint
    for part_name in part_names:
        part = _load_part(part_name)
        if isinstance(part, Fittable) or part.at_least is None:
            names = ", ".join(network_catalogue())
            advice = f"those that can are {names}, timm/NAME, and any file .onnx"
            raise WeightsError(part_name, "cannot be joined with others", advice)
        if part.fingerprint in parts:
            problem = f"is given twice in {short_name(name)}"
            raise WeightsError(subject_of(part_name), problem, "give it once")
        parts[part.fingerprint] = part
    return Joined(name, tuple(parts.values()))


def _load_part(name: str) -> Backbone | Fittable:
    network, views = split_views(name)
    check_installed(network)
    if views:
        return _load_views(name, network, views)
    if find_network(name) is not None:
        return load_network(name)
    if name == IDENTITY.name:
        return IDENTITY
    if name.startswith("timm/"):
        from cbcl.vision.backbones.pytorch import load_timm

        return load_timm(name)
    if is_file(name):
        return read_network(Path(name), name)
    installed = find_installed(name)
    if isinstance(installed, ListedBackbone):
        return installed.load()
    network = name.partition("@")[0]
    if find_network(network) is not None:
        every = ", ".join(network + views for views in VIEWS)
        raise WeightsError(f"backbone {name!r}", "is unknown", f"there are {every}")
    names = ", ".join([*dict.fromkeys([*CATALOGUE, *plugin_names(GROUP), IDENTITY.name])])
    advice = f"there are {names}, timm/NAME, and any file .onnx; also NAME{VIEWS[0]} and A+B"
    raise WeightsError(f"backbone {name!r}", "is unknown", advice)


def _load_views(name: str, network: str, views: str) -> Backbone:
    """Load a network that is shown both views of each picture, or one of them."""
    chosen = {"@2views": slice(2), "@whole": slice(1), "@centre": slice(1, 2)}[views]
    entry = find_network(network)
    if entry is not None:
        ways = [*two_views(entry.preprocessing, enlarged=True)]
        parts = tuple(load_network(network, how) for how in ways[chosen])
    elif is_file(network):
        read = read_network(Path(network), network)
        ways = [*two_views(read.preprocessing, enlarged=False)]
        parts = tuple(replace(read, preprocessing=how) for how in ways[chosen])
    else:
        advice = f"those that have are {', '.join(network_catalogue())}, and any file .onnx"
        raise WeightsError(f"backbone {network!r}", "has no views", advice)
    return Views(name, parts) if len(parts) > 1 else replace(parts[0], name=name)


def list_backbones() -> list[tuple[str, str, str, str]]:
    """Return name, numbers in a vector, availability and source of weights of each backbone."""
    networks = [
        (name, str(entry.dimension), "yes" if is_available(name) else "no", entry.weights)
        for name, entry in network_catalogue().items()
    ]
    others = [
        (name, backbone.dimension, "yes", backbone.weights)
        for name, backbone in load_installed().items()
        if isinstance(backbone, ListedBackbone)
    ]
    return [
        *networks,
        *others,
        (IDENTITY.name, "any", "yes", "none: for vectors"),
        ("timm/NAME", "any", "", "downloaded by timm"),
        ("NAME@2views", "NAME's", "", "NAME's: the mean over two views of each picture"),
        ("NAME@whole", "NAME's", "", "NAME's: the first of these views, of the whole picture"),
        ("NAME@centre", "NAME's", "", "NAME's: the second, of the mirrored centre"),
        ("A+B", "A's and B's", "", "A's and B's: two networks side by side, or more"),
    ]


def try_out(name: str) -> tuple[str, str, str, str]:
    """Run a backbone on noise: name, numbers in a vector, fingerprint, pictures a second."""
    backbone = load_backbone(name)
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (480, 640, 3), dtype=np.uint8))
    ready = backbone.fit([picture]) if isinstance(backbone, Fittable) else backbone
    if ready.at_least is None:
        raise WeightsError(subject_of(name), "takes no pictures")
    first = ready.vectors([picture])
    start = perf_counter()
    again = [ready.vectors([picture]), ready.vectors([picture])]
    if not all((vectors == first).all() for vectors in again):
        problem = "gives another vector for the same picture, so it cannot be relied on"
        raise WeightsError(subject_of(name), problem)
    return name, str(first.shape[1]), ready.fingerprint, f"{2 / (perf_counter() - start):.0f}"
